# Completes gym-stamp in bash: its options, then the command that it runs.

_gym_stamp() {
    local current=${COMP_WORDS[COMP_CWORD]} index=1
    while [ "$index" -lt "$COMP_CWORD" ]; do
        case ${COMP_WORDS[index]} in
            @VALUED@)
                # bash makes three words of --option=value.
                [ "${COMP_WORDS[index + 1]}" = = ] && index=$((index + 1))
                [ $((index + 1)) -lt "$COMP_CWORD" ] || {
                    [ "$current" = = ] && current=
                    compopt -o filenames
                    mapfile -t COMPREPLY < <(compgen -d -- "$current")
                    return
                }
                index=$((index + 2))
                ;;
            --)
                index=$((index + 1))
                break
                ;;
            -*) index=$((index + 1)) ;;
            *) break ;;
        esac
    done
    if [ "$index" -lt "$COMP_CWORD" ]; then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$index"
        else
            compopt -o default
        fi
    elif [[ $current == -* && ${COMP_WORDS[index - 1]} != -- ]]; then
        mapfile -t COMPREPLY < <(compgen -W '@OPTIONS@' -- "$current")
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
    fi
}

complete -F _gym_stamp gym-stamp
