//! Detects commands that may destroy data; a snapshot is taken before they run.

use std::sync::LazyLock;

use regex::Regex;

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?:^|\s|&&|\|\||;|`)(?:rm\s|rmdir\s|mv\s|sed\s+-i|truncate\s|dd\s|shred\s|git\s+(?:reset|clean|checkout)\s)",
        r"[^>]>[^>]|^>[^>]",
    ]
    .iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// Tells whether a shell command looks as if it removes, moves or overwrites files.
pub fn is_destructive(command: &str) -> bool {
    PATTERNS.iter().any(|pattern| pattern.is_match(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_destroys_is_told_from_what_does_not() {
        for command in [
            "rm -rf x",
            "ls && rm x",
            "a;mv b c",
            "sed -i s/a/b/ f",
            "git reset --hard",
            "echo x > f",
            "> f",
            "`rm x`",
        ] {
            assert!(is_destructive(command), "{command}");
        }
        for command in ["ls", "echo x >> f", "git status", "confirm x", "sed s/a/b/ f", ""] {
            assert!(!is_destructive(command), "{command}");
        }
    }
}
