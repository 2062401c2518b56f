//! The command or script that a shell is told to run.

use super::ShellWord;

const SHELLS: &[&str] = &[
    "sh", "bash", "zsh", "ksh", "dash", "ash", "fish", "mksh", "rbash", "csh", "tcsh", "yash", "nu", "xonsh",
    "osh",
];

pub(crate) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Returns the text after a shell's `-c`, however its options are combined.
pub(crate) fn shell_text(rest: &[ShellWord]) -> Option<&ShellWord> {
    let mut wanted = false;
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let given = word.text.as_str();
        match given {
            "--" => at += 1,
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => at += 2,
            "--command" => {
                wanted = true;
                at += 1;
            }
            _ if given.starts_with("--") => at += 1,
            _ if given.starts_with(['-', '+']) && given.len() > 1 => {
                wanted |= given.contains('c');
                at += 1;
            }
            _ => return wanted.then_some(word),
        }
    }
    None
}

/// Returns the words after the text or the script of a shell.
pub(super) fn script_words(rest: &[ShellWord]) -> &[ShellWord] {
    let script = shell_text(rest).or_else(|| script_file(rest));
    let at = script.and_then(|script| rest.iter().position(|word| std::ptr::eq(word, script)));
    at.and_then(|at| rest.get(at + 1..)).unwrap_or_default()
}

/// Detects `sh -c rm -rf x`: the quotes are missing, and all of it was meant.
pub(super) fn lost_quotes(rest: &[ShellWord]) -> Option<String> {
    let text = shell_text(rest).filter(|word| !word.text.contains(char::is_whitespace))?;
    let words = std::iter::once(text).chain(script_words(rest));
    let texts: Vec<&str> = words.map(|word| word.text.as_str()).collect();
    (texts.len() > 1).then(|| texts.join(" "))
}

/// Returns the script file of a shell, or `None` if it reads its input.
pub(crate) fn script_file(rest: &[ShellWord]) -> Option<&ShellWord> {
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.text.as_str() {
            "-o" | "+o" | "-O" | "--rcfile" | "--init-file" => {
                rest.next();
            }
            "-s" => return None,
            "-" | "--" => {}
            text if text.starts_with('-') && !text.starts_with("--") && text.contains('s') => return None,
            text if text.starts_with(['-', '+']) => {}
            _ => return Some(word),
        }
    }
    None
}
