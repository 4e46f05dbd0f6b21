#!/usr/bin/env bash
# From a fresh checkout to a checked one: sets up what is missing, then runs ruff, mypy and pytest.
#
#   bash scripts/test.sh [options of pytest]      # --slow takes the slow tests along
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE # or every start compiles the libraries again

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
bash scripts/setup.sh train server openai mlx graph ray shell otel mcp docs dev
.venv/bin/python -m selfsurf.scripts.cli models pull smollm2

failed=
.venv/bin/python -m ruff check . || failed="$failed ruff-check"
.venv/bin/python -m ruff format --check . || failed="$failed ruff-format"
.venv/bin/python -m mypy || failed="$failed mypy"
.venv/bin/python -m pytest -n 2 --dist loadgroup "$@" || failed="$failed pytest"
[ -z "$failed" ] || { echo "failed:$failed" >&2 && exit 1; }
