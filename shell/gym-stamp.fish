# gym-stamp.fish: the stamp for fish launch scripts where gym-stamp may be missing, or be the wrong
# binary. What gym-stamp.sh is to POSIX shells; the reasons are told there.
#
#     source gym-stamp.fish
#     gym_stamp_exec .venv/bin/python app.py
#
# or, in a script that cannot put anything before its server command:
#
#     gym_stamp_activate .venv
#     python app.py
#
# Both set NEMO_GYM_STARTUP_SETUP_DONE_NS to the wall clock in ns and export it; where nothing has
# a time to give, they erase it. Nothing else is exported; all names begin with gym_stamp_.

function gym_stamp_exec --description 'stamp and become COMMAND: gym_stamp_exec [--] COMMAND [ARG]...'
    if test "$argv[1]" = --
        set --erase argv[1]
    end
    if not set --query argv[1]
        echo 'gym_stamp_exec: no COMMAND to run' >&2
        return 125
    end
    if string match --quiet -- '-*' $argv[1]
        echo "gym_stamp_exec: '$argv[1]' is not a COMMAND, and options are for gym-stamp itself;" \
            'instead of --venv DIR, call gym_stamp_activate DIR first' >&2
        return 125
    end
    gym_stamp_set
    exec $argv
end

function gym_stamp_activate --description 'source DIR/bin/activate.fish and stamp: gym_stamp_activate DIR'
    if not test -r "$argv[1]/bin/activate.fish"
        echo "gym_stamp_activate: '$argv[1]' is not a venv, there is no '$argv[1]/bin/activate.fish';" \
            'python3 -m venv DIR makes one' >&2
        return 125
    end
    # `source` takes a leading dash for an option.
    source (string replace --regex '^(?!/)' ./ -- $argv[1])/bin/activate.fish
    or return
    gym_stamp_set
end

# Stamps with the first clock that answers; fish has none of its own. Never fails.
function gym_stamp_set
    gym_stamp_ask_binary
    or gym_stamp_ask date +%s%N
    or gym_stamp_ask python3 -IS -c 'import time; print(time.time_ns())'
    or gym_stamp_ask perl -MTime::HiRes=gettimeofday -e 'printf "%d%06d000", gettimeofday'
    or set --erase --global NEMO_GYM_STARTUP_SETUP_DONE_NS
    return 0
end

# `gym-stamp --now`, by way of sh: about a binary for another machine, fish itself tells the
# terminal whatever stderr is. Why sh gets no command to find and no folder to write to is told in
# gym-stamp.sh.
function gym_stamp_ask_binary
    set --local path (command --search gym-stamp)
    and gym_stamp_ask /bin/sh -c 'cd /proc || cd /; PATH=/dev/null exec "$0" --now' $path
end

# Exports what the command $argv says if that is a time in ns. It is looked for first: fish tells
# the terminal about a missing one, too.
function gym_stamp_ask
    command --query $argv[1]
    or return
    set --local now (command $argv 2>/dev/null </dev/null)
    string match --quiet --regex '^[1-9][0-9]{18}$' -- "$now"
    and set --global --export NEMO_GYM_STARTUP_SETUP_DONE_NS $now
end
