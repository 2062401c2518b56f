# Completion of hermes for fish. In ~/.config/fish/completions/hermes.fish
function __hermes_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] complete-words -- $words[2..-1] 2>/dev/null)
    if test "$found[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $found
    end
end
complete -c hermes -f -a '(__hermes_complete)'
