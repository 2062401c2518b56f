//! Allow lists: keys of this and earlier releases, whole commands, and patterns.

use super::shell::{ShellVariables, read};
use super::unwrap::matches_glob;

/// Keys of earlier releases for dangers that were renamed. One old key may stand for several.
const OLD_KEYS: &[(&str, &[&str])] = &[
    ("delete in root path", &["rm", r"rm\s+(-[^\s]*\s+)*/"]),
    ("recursive delete", &["rm", r"rm\s+-[^\s]*r"]),
    ("recursive delete (long flag)", &["rm", r"rm\s+--recursive"]),
    ("world-writable permissions", &["chmod", r"chmod\s+(-[^\s]*\s+)*777"]),
    ("recursive world-writable (long flag)", &["chmod", r"chmod\s+--recursive"]),
    ("recursive chown to root", &["chown", r"chown\s+(-[^\s]*)?R\s+root"]),
    ("recursive chown to root (long flag)", &["chown", r"chown\s+--recursive"]),
    ("format filesystem", &["mkfs"]),
    ("disk copy", &["dd", r"dd\s+.*if="]),
    ("SQL DROP", &[r"DROP\s+(TABLE|DATABASE)"]),
    ("SQL DELETE without WHERE", &[r"DELETE\s+FROM"]),
    ("SQL TRUNCATE", &[r"TRUNCATE\s+(TABLE)?\s*\w"]),
    ("overwrite system config", &[r">\s*/etc/"]),
    ("stop/disable system service", &["systemctl", r"systemctl\s+(stop|disable|mask)"]),
    ("force kill processes", &["pkill", r"pkill\s+-9"]),
    ("shell command via -c/-lc flag", &[r"(bash|sh|zsh|ksh)\s+-[^\s]*c(\s+|$)"]),
    ("script execution via -e/-c flag", &[r"(python[23]?|perl|ruby|node)\s+-[ec]\s+"]),
    ("pipe remote content to shell", &["(curl|wget)"]),
    ("execute remote script via process substitution", &[r"(bash|sh|zsh|ksh)\s+<\s*<?\s*\(\s*(curl|wget)"]),
    ("overwrite system file via tee", &["tee"]),
    ("xargs with rm", &["xargs", r"xargs\s+.*"]),
    ("find -exec rm", &["find"]),
    ("find -delete", &["find"]),
    (
        "start gateway outside systemd (use 'systemctl --user restart hermes-gateway')",
        &[r"gateway\s+run", "nohup"],
    ),
    ("kill hermes/gateway process (self-termination)", &["(pkill|killall)"]),
];

/// Tells whether an entry of an allow list means this key.
pub fn is_same_key(entry: &str, key: &str) -> bool {
    entry == key || OLD_KEYS.iter().any(|(new, old)| *new == key && old.contains(&entry))
}

/// Tells whether an entry is exactly this command, or a pattern for it. A pattern never covers a command with
/// operators: anything could follow a `;`.
pub fn covers(entry: &str, command: &str) -> bool {
    let (entry, command) = (entry.trim(), command.trim());
    if entry.is_empty() {
        return false;
    }
    if entry == command {
        return true;
    }
    if !entry.contains(['*', '?'])
        || entry.trim_matches(['*', '?', ' ']).is_empty()
        || entry.len() > 500
        || command.len() > 2000
    {
        return false;
    }
    let script = read(command, &ShellVariables::default());
    let [pipeline] = script.pipelines.as_slice() else { return false };
    let [stage] = pipeline.stages.as_slice() else { return false };
    let simple = stage.redirects.is_empty()
        && stage.body.is_none()
        && !command.contains('\n')
        && stage.words.iter().chain(&stage.assignments).all(|word| word.inner.is_empty());
    simple && matches_glob(entry, command)
}

/// Tells whether a command, or one line of it, matches a pattern of commands to be refused.
pub fn matches_pattern(pattern: &str, command: &str) -> bool {
    let pattern = pattern.trim();
    let like = |text: &str| {
        let text = text.trim();
        text == pattern || text.len() <= 10_000 && matches_glob(pattern, text)
    };
    !pattern.is_empty()
        && pattern.len() <= 500
        && (like(command) || command.split([';', '\n', '|', '&']).any(like))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_keys_still_hold() {
        assert!(is_same_key("find", "find -delete") && is_same_key("find", "find -exec rm"));
        assert!(
            is_same_key("rm", "recursive delete") && is_same_key("systemctl", "stop/disable system service")
        );
        assert!(!is_same_key("rm", "find -exec rm") && !is_same_key("", "recursive delete"));
    }

    #[test]
    fn patterns_cover_simple_commands_only() {
        assert!(covers("rm -rf build", "rm -rf build"));
        assert!(covers("rm -rf build*", "rm -rf build-x"));
        assert!(!covers("rm -rf build*", "rm -rf build; rm -rf ~"));
        assert!(!covers("rm -rf build*", "rm -rf build $(curl x)"));
        assert!(!covers("*", "rm -rf x") && !covers("", ""));
    }
}
