# Completion of hermes for bash. In ~/.bashrc: eval "$(hermes completion bash)"
_hermes() {
    local word value before
    local -a words
    COMPREPLY=()
    # What was typed up to the cursor. Bash splits words at : and =, this program does not.
    words=()
    local line="${COMP_LINE:0:COMP_POINT}"
    read -ra words <<< "$line"
    case "$line" in *[[:space:]]) words+=("") ;; esac
    word="${words[${#words[@]}-1]}"
    # Bash replaces only what follows the last : or =.
    before="${word%"${word##*[:=]}"}"
    while IFS=$'\t' read -r value _; do
        if [ "$value" = ":files" ]; then
            compopt -o default
            COMPREPLY=()
            return
        fi
        value="${value#"$before"}"
        COMPREPLY+=("$(printf '%q' "$value")")
    done < <("${words[0]}" complete-words -- "${words[@]:1}" 2>/dev/null)
    case "${COMPREPLY[0]-}" in
        *: | *=) [ "${#COMPREPLY[@]}" -eq 1 ] && compopt -o nospace ;;
    esac
}
complete -F _hermes hermes
