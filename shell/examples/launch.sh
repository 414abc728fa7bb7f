#!/bin/sh
# Launches the server of app.py in a venv of its own: PORT=8000 ./launch.sh [UVICORN_OPTION]...
set -eu
cd "$(dirname "$0")"
venv=${VENV:-.venv}

./set-up-venv "$venv"

exec gym-stamp --venv "$venv" -- uvicorn app:app --host 127.0.0.1 --port "${PORT:-8000}" "$@"
