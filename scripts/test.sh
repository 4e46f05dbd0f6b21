#!/usr/bin/env bash
# Set up a fresh checkout as far as necessary, then run ruff, mypy and pytest (tests/suite.py).
#
#   bash scripts/test.sh [options of pytest]      # --slow includes the slow tests, --quick gives a first verdict
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE # otherwise every start compiles the libraries again
# Otherwise two concurrent torch programs slow each other down tenfold.
[ -n "${OMP_WAIT_POLICY:-}" ] || export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}"

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
# Browsers, caches and the tests' own programs need a writable home.
if ! [ -n "${HOME:-}" ] || ! [ -d "$HOME" ] || ! [ -w "$HOME" ]; then
    export HOME=$root/runs/home
    mkdir -p "$HOME"
fi
part=
# Run a part of the set-up that a signal ends at once, with all its child processes.
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
