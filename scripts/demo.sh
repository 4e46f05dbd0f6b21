#!/usr/bin/env bash
# From a fresh checkout to a finished demonstration: sets up what is missing, then runs `selfsurf demo`.
#
#   bash scripts/demo.sh [options of selfsurf demo]
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE # or every start compiles the libraries again

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/scripts/setup.sh" train
"$root/.venv/bin/selfsurf" models pull smollm2
exec "$root/.venv/bin/selfsurf" demo --out "$root/runs/demo" "$@"
