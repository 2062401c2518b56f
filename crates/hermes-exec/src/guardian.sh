# Reads `+ GROUP`, `- GROUP` and `* BEGINNING`; at the end of its input, which is our end, kills what is left with all
# that sits in its cell, and removes the files whose paths begin so. Other cells are opened: who sits there was started to
# run on. $1: what the folders of our cells begin with, $2: the folder they are in; both empty where there are none. The
# shell that starts it ends at once, so that it is no child of ours that somebody would have to wait for.
exec 3<&0
{
    trap '' HUP INT TERM QUIT
    live=
    while read -r sign group <&3; do
        if [ "$sign" = '*' ]; then
            set -- "$@" "$group"
            continue
        fi
        left=
        for one in $live; do [ "$one" = "$group" ] || left="$left $one"; done
        live=$left
        [ "$sign" = + ] && live="$live $group"
    done
    for one in $live; do kill -9 "-$one"; done
    prefix=$1 folder=$2
    shift 2
    for beginning in "$@"; do rm -rf -- "$beginning"-*; done
    [ -n "$prefix" ] || exit
    for one in $live; do
        cell=$prefix-$one
        [ -d "$cell" ] || continue
        echo 1 > "$cell/cgroup.kill"
        # Linux before 5.14 has no such word; killed processes take a moment to be gone.
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
