#!/bin/sh
# The entrypoint of an image: sets up the venv on the volume that it is kept on, then becomes the
# image's command (see Dockerfile). When all this began is stamped before this script starts.
set -eu

# A shell as PID 1 ignores the signals that it does not trap, and runs no trap before the command in
# its foreground ends.
trap 'exit 143' TERM
trap 'exit 130' INT
./set-up-venv "$VENV" &
wait "$!"
trap - TERM INT

exec gym-stamp --venv "$VENV" -- "$@"
