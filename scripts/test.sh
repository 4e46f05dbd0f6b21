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
part=
# Runs a part of the set-up that a signal ends at once, with all that it has started.
set_up() {
    set -m
    "$@" </dev/null &
    part=$!
    set +m
    wait "$part"
    part=
}
stop() {
    [ -z "$part" ] || kill -- "-$part" 2>/dev/null || true
    exit "$1"
}
trap 'printf "\nfailed: nothing was tested, the set-up ended before\n"' EXIT
trap 'stop 130' INT
trap 'stop 143' TERM
set_up bash scripts/setup.sh train server openai mlx graph ray shell otel mcp docs dev
set_up .venv/bin/python -m selfsurf.scripts.cli models pull smollm2
exec .venv/bin/python tests/suite.py "$@"
