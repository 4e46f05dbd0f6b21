#!/usr/bin/env bash
# From a fresh checkout to a checked one: sets up what is missing, then runs ruff, mypy and pytest (tests/suite.py).
#
#   bash scripts/test.sh [options of pytest]      # --slow takes the slow tests along, --quick is a first verdict
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE # or every start compiles the libraries again
# Or two programs with torch slow each other tenfold.
[ -n "${OMP_WAIT_POLICY:-}" ] || export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# A home that can't be written to is none: browsers, caches and the tests' own programs need one.
if ! [ -n "${HOME:-}" ] || ! [ -d "$HOME" ] || ! [ -w "$HOME" ]; then
    export HOME=$root/runs/home
    mkdir -p "$HOME"
fi
trap 'echo "failed: nothing was tested, the set-up ended before"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
bash scripts/setup.sh train server openai mlx graph ray shell otel mcp docs dev
.venv/bin/python -m selfsurf.scripts.cli models pull smollm2
exec .venv/bin/python tests/suite.py "$@"
