# Completes gym-stamp in fish: its options, then the command that it runs.

function __gym_stamp_has_no_command
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case --
                return 1
            case @VALUED@
                set -e words[1]
            case '-*'
            case '*'
                return 1
        end
        set -e words[1]
    end
    return 0
end

@OPTIONS@
# The empty word keeps fish from taking what follows for options of its own function.
complete -c gym-stamp -x -a '(__fish_complete_subcommand "" @VALUED@)'
