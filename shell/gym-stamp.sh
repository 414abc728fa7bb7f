# shellcheck shell=sh
# gym-stamp.sh: the stamp for launch scripts where gym-stamp may be missing, or be the wrong binary.
#
# To be sourced by any POSIX shell: bash 3.2 and later, dash, zsh, BusyBox ash, ksh, mksh.
#
#     . ./gym-stamp.sh
#     gym_stamp_exec .venv/bin/python app.py
#
# or, in a script that cannot put anything before its server command:
#
#     gym_stamp_activate .venv
#     python app.py
#
# Both set NEMO_GYM_STARTUP_SETUP_DONE_NS to the wall clock in ns and export it. The time is the
# shell's own where it has a clock, else what `gym-stamp --now`, GNU date, python3 or perl says.
# Where none of them has a time to give, the variable is unset: a server without the stamp says
# less, one with the stamp of an outer launch would say something wrong.
#
# Nothing else is exported, no option of the shell stays changed, and all names begin with
# gym_stamp_. There are no local variables, since not every shell has `local`: a function's
# positional parameters are its variables.

# gym_stamp_exec [--] COMMAND [ARG]...
#
# Stamps and becomes COMMAND, as the shell's own `exec` would: a COMMAND that cannot be run ends a
# script with 126 or 127. It takes none of gym-stamp's options: there may be nobody to honour them.
gym_stamp_exec() {
    if [ "${1-}" = -- ]; then
        shift
    fi
    case "$#:${1-}" in
        0:*)
            echo 'gym_stamp_exec: no COMMAND to run' >&2
            return 125
            ;;
        *:-*)
            echo "gym_stamp_exec: '$1' is not a COMMAND, and options are for gym-stamp itself;" \
                'instead of --venv DIR, call gym_stamp_activate DIR first' >&2
            return 125
            ;;
    esac
    gym_stamp_set
    exec "$@"
}

# gym_stamp_activate DIR
#
# Sources DIR/bin/activate and stamps: the last step of a launch before its server. The status is
# that of the activation, and 125 where there is none.
gym_stamp_activate() {
    if [ -z "${1-}" ] || [ ! -r "$1/bin/activate" ]; then
        echo "gym_stamp_activate: '${1-}' is not a venv, there is no '${1-}/bin/activate';" \
            'python3 -m venv DIR makes one' >&2
        return 125
    fi
    # `.` looks a name without a slash up in PATH, and takes a leading dash for an option.
    case $1 in
        /*) ;;
        *) set -- "./$1" ;;
    esac
    # The scripts of older venvs read variables that may not be set.
    case $- in
        *u*)
            set +u
            # shellcheck source=/dev/null
            . "$1/bin/activate" || set -- "$1" "$?"
            set -u
            ;;
        *)
            # shellcheck source=/dev/null
            . "$1/bin/activate" || set -- "$1" "$?"
            ;;
    esac
    if [ "$#" -eq 2 ]; then
        return "$2"
    fi
    gym_stamp_set
}

# Stamps with the first clock that answers. Fails only where the variable is readonly.
gym_stamp_set() {
    if gym_stamp_from_shell ||
        gym_stamp_from_binary ||
        gym_stamp_take "$(command date +%s%N 2>/dev/null)" ||
        gym_stamp_take "$(command python3 -IS -c 'import time; print(time.time_ns())' 2>/dev/null)" ||
        gym_stamp_take "$(command perl -MTime::HiRes=gettimeofday \
            -e 'printf "%d%06d000", gettimeofday' 2>/dev/null)"; then
        return 0
    fi
    unset NEMO_GYM_STARTUP_SETUP_DONE_NS
}

# Exports $1 if it is a time in ns, and fails if it is anything else: BusyBox's date has no %N,
# that of macOS prints an N, and what is called gym-stamp may be something else altogether.
# 19 digits are the years 2001 to 2286.
gym_stamp_take() {
    case $1 in
        *[!0123456789]* | 0*) return 1 ;;
        ???????????????????) export NEMO_GYM_STARTUP_SETUP_DONE_NS="$1" ;;
        *) return 1 ;;
    esac
}

# The shell's own clock, EPOCHREALTIME: bash 5, zsh, mksh and BusyBox 1.34. No fork, so it costs
# tens of µs where everything else costs a thousand.
gym_stamp_from_shell() {
    if [ -n "${ZSH_VERSION-}" ] && [ -z "${EPOCHREALTIME-}" ]; then
        zmodload -F zsh/datetime p:EPOCHREALTIME 2>/dev/null || return 1
        set -- "${EPOCHREALTIME-}"
        zmodload -F zsh/datetime -p:EPOCHREALTIME 2>/dev/null
    else
        # A variable that a bash exported into another shell, or that a script assigned, is a time
        # long past. The clock is what changes while one looks; the dots bound the looking.
        set -- "${EPOCHREALTIME-}" ....................
        while [ "$1" = "${EPOCHREALTIME-}" ]; do
            set -- "$1" "${2%.}"
            if [ -z "$1" ] || [ -z "$2" ]; then
                return 1
            fi
        done
        set -- "${EPOCHREALTIME-}"
    fi
    # Seconds, the locale's decimal separator, and six digits or more.
    case $1 in
        *[0123456789][!0123456789]*[0123456789]) ;;
        *) return 1 ;;
    esac
    set -- "${1%%[!0123456789]*}" "${1##*[!0123456789]}000000000"
    gym_stamp_take "$1${2%"${2#?????????}"}"
}

# `gym-stamp --now`, if that binary runs on this machine. For one that does not, many shells (and
# `env`, and all of execvp's) start /bin/sh, which takes its bytes for a script: so it gets no
# command to find, no folder to write to or drop a core in, and no words of it are passed on.
gym_stamp_from_binary() {
    set -- "$(command -v gym-stamp)"
    case $1 in
        '') return 1 ;;
        /*) ;;
        *) set -- "$PWD/$1" ;;
    esac
    {
        set -- "$(
            cd /proc || cd /
            PATH=/dev/null exec "$1" --now </dev/null
        )"
    } 2>/dev/null
    gym_stamp_take "$1"
}
