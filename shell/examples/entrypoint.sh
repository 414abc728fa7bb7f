#!/bin/sh
# The entrypoint of an image: sets up the venv on the volume that it is kept on, then becomes the
# image's command (see Dockerfile). When all this began is stamped before this script starts.
set -eu

if [ ! -x "$VENV/bin/python" ]; then
    python3 -m venv "$VENV"
fi
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt

exec gym-stamp --venv "$VENV" -- "$@"
