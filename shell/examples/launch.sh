#!/bin/sh
# Launches the server of app.py in a venv of its own: PORT=8000 ./launch.sh [UVICORN_OPTION]...
set -eu
cd "$(dirname "$0")"
venv=${VENV:-.venv}

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt

exec gym-stamp --venv "$venv" -- uvicorn app:app --host 127.0.0.1 --port "${PORT:-8000}" "$@"
