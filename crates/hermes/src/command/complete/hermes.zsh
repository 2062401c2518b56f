#compdef hermes
# Completion of hermes for zsh. In ~/.zshrc, after compinit: eval "$(hermes completion zsh)"
_hermes() {
    local line value about
    local -a found
    for line in "${(@f)$("${words[1]}" complete-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n "$line" ]] || continue
        if [[ "$line" == ":files" ]]; then
            _files
            return
        fi
        value="${line%%$'\t'*}"
        about="${line#*$'\t'}"
        [[ "$about" == "$line" ]] && about=""
        found+=("${value//:/\\:}${about:+:$about}")
    done
    _describe 'hermes' found
}
if [ "$funcstack[1]" = "_hermes" ]; then
    _hermes "$@"
else
    compdef _hermes hermes
fi
