#!/bin/sh
# Launches the server of app.py in a venv of its own: PORT=8000 ./launch.sh [UVICORN_OPTION]...
set -eu
cd "$(dirname "$0")"
venv=${VENV:-.venv}

# pip is the last thing to come into a venv: one without it was left half made.
if [ ! -x "$venv/bin/pip" ]; then
    python3 -m venv --clear "$venv"
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt

exec gym-stamp --venv "$venv" -- uvicorn app:app --host 127.0.0.1 --port "${PORT:-8000}" "$@"
