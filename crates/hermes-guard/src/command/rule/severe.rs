//! The dangers that count even where it is only a guess that something is run.

/// The commands that every list of dangerous commands names. Guessing more would flag words that are not commands.
const SEVERE: &[&str] = &[
    "delete in root path",
    "recursive delete",
    "recursive delete (long flag)",
    "delete the system or a home folder",
    "destroy file contents",
    "world-writable permissions",
    "recursive world-writable (long flag)",
    "recursive chown to root",
    "recursive chown to root (long flag)",
    "format filesystem",
    "disk copy",
    "write to block device",
    "overwrite system config",
    "overwrite system file via tee",
    "stop/disable system service",
    "kill all processes",
    "force kill processes",
    "fork bomb",
    "shell command via -c/-lc flag",
    "script execution via -e/-c flag",
    "pipe remote content to shell",
    "execute remote script via process substitution",
    "decoded content piped to shell",
    "xargs with rm",
    "find -exec rm",
    "find -delete",
    "SQL DROP",
    "SQL DELETE without WHERE",
    "SQL TRUNCATE",
];

pub(in crate::command) fn is_severe(key: &str) -> bool {
    SEVERE.contains(&key)
}
