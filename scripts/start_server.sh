#!/usr/bin/env bash
# Set up a fresh checkout as far as necessary, create a token, and start the training service.
#
#   bash scripts/start_server.sh [FOLDER] [options of selfsurf serve]    # FOLDER is ~/selfsurf-service by default
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1-} in "" | -*) folder=$HOME/selfsurf-service ;; *) folder=$1 && shift ;; esac

bash "$root/scripts/setup.sh" train server >&2
mkdir -p "$folder"
if [ ! -s "$folder/token" ]; then
  (umask 077 && "$root/.venv/bin/python" -c 'import secrets; print(secrets.token_urlsafe())' >"$folder/token")
fi
echo "Token for clients (SELFSURF_SERVER_TOKEN): $folder/token" >&2
exec "$root/.venv/bin/selfsurf" serve "$folder/data" --token-file "$folder/token" "$@"
