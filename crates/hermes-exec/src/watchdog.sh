# Reads `+ GROUP MARK`, `- GROUP`, `* PREFIX` and `t TERMINAL BEFORE DURING SEQUENCE`, where `t` alone takes the last one back; a
# group of which only the mark is known yet is called `mMARK`. At the end of its input, which is the end of Hermes, kills what is
# left with everything in its cgroup or with its mark, and removes the files whose paths begin with a prefix. A terminal that still
# has the settings DURING gets those from BEFORE, and the sequence: with others, the shell has taken it over. Other cgroups are
# released: their processes were started to keep running.
# $1: the prefix of our cgroups, $2: the folder they are in, both empty without cgroups; $3: our own cgroup: a process that
# was moved to another one is managed by somebody else. The shell that starts this script exits at once, so that the watchdog
# is not a child that Hermes has to reap.
exec 3<&0
{
    # TTOU: a process in the background may not change its terminal otherwise.
    trap '' HUP INT TERM QUIT TTOU
    live= terminal=
    while read -r sign rest <&3; do
        if [ "$sign" = '*' ]; then
            set -- "$@" "$rest"
            continue
        fi
        if [ "$sign" = t ]; then
            terminal=$rest
            continue
        fi
        left=
        for one in $live; do [ "${one%:*}" = "${rest% *}" ] || left="$left $one"; done
        live=$left
        [ "$sign" = + ] && live="$live ${rest% *}:${rest#* }"
    done
    if [ -n "$terminal" ]; then
        device=${terminal%% *} terminal=${terminal#* }
        before=${terminal%% *} terminal=${terminal#* }
        [ "$(stty -g < "$device")" = "${terminal%% *}" ] && stty "$before" < "$device" && printf %s "${terminal#* }" > "$device"
    fi
    groups= marks=0
    for one in $live; do
        groups="$groups ${one%:*}" marks="$marks|${one#*:}"
        kill -9 "-${one%:*}"
    done
    prefix=$1 folder=$2 own=${3%/}
    shift 3
    with_us() {
        while IFS= read -r line; do
            case $line in
                0::"$own"|0::"$own"/|0::"$own"/hermes-*) return 0 ;;
                0::*) return 1 ;;
            esac
        done < "/proc/$1/cgroup"
    }
    # Killed processes take a moment to be gone, and may have started somebody just before.
    [ -n "$live" ] && for round in 1 2 3 4 5 6 7 8 9; do
        found=
        for file in $(grep -lsE "^Max realtime timeout +($marks) " /proc/[0-9]*/limits); do
            pid=${file#/proc/} pid=${pid%/limits}
            with_us "$pid" && kill -9 "$pid" && found=$pid
        done
        [ -n "$found" ] || break
        sleep 0.1
    done
    for beginning in "$@"; do rm -rf -- "$beginning"-*; done
    [ -n "$prefix" ] || exit
    for one in $groups; do
        cell=$prefix-$one
        [ -d "$cell" ] || continue
        echo 1 > "$cell/cgroup.kill"
        # Linux before 5.14 has no such word.
        for round in 1 2 3 4 5 6 7 8 9; do
            while read -r pid; do kill -9 "$pid"; done < "$cell/cgroup.procs"
            rmdir "$cell" && break
            sleep 0.1
        done
    done
    for cell in "$prefix"-*; do
        while read -r pid; do echo "$pid" > "$folder/cgroup.procs"; done < "$cell/cgroup.procs"
        rmdir "$cell"
    done
} 2>/dev/null &
