#!/usr/bin/env bash
# Set up a fresh checkout as far as necessary, then run `selfsurf demo`.
#
#   bash scripts/demo.sh [options of selfsurf demo]
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE # otherwise every start compiles the libraries again

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/scripts/setup.sh" train
"$root/.venv/bin/selfsurf" models pull smollm2
exec "$root/.venv/bin/selfsurf" demo --out "$root/runs/demo" "$@"
