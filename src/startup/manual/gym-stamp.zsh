#compdef gym-stamp
# Completes gym-stamp in zsh: its options, then the command that it runs.

_gym-stamp() {
    _arguments -S \
@OPTIONS@
        '(-):command: _command_names -e' \
        '(-)*::argument: _normal'
}

# Found through fpath this is the function itself; it may be sourced as well.
if [ "$funcstack[1]" = _gym-stamp ]; then
    _gym-stamp "$@"
else
    compdef _gym-stamp gym-stamp
fi
