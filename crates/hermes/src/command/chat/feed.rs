//! One line per tool call, as people read it.

use hermes_text::{head, tail};

/// Emoji, verb, and whether the detail is a path, whose end matters more than its beginning.
const KNOWN: [(&str, &str, &str, Detail); 16] = [
    ("read_file", "📖", "read", Detail::Path),
    ("write_file", "✍️", "write", Detail::Path),
    ("patch", "🔧", "patch", Detail::Path),
    ("search_files", "🔎", "grep", Detail::Text),
    ("terminal", "💻", "$", Detail::Text),
    ("process", "⚙️", "proc", Detail::Text),
    ("todo", "📋", "plan", Detail::Text),
    ("memory", "🧠", "memory", Detail::Text),
    ("session_search", "🔍", "recall", Detail::Text),
    ("clarify", "❓", "clarify", Detail::Text),
    ("web_search", "🔍", "search", Detail::Text),
    ("web_extract", "📄", "fetch", Detail::Text),
    ("skill_view", "📚", "skill", Detail::Text),
    ("skill_manage", "📝", "skill", Detail::Text),
    ("execute_code", "🐍", "exec", Detail::Text),
    ("delegate_task", "🔀", "delegate", Detail::Text),
];

const MOST_TEXT: usize = 42;
const MOST_PATH: usize = 35;

#[derive(Clone, Copy)]
enum Detail {
    Text,
    Path,
}

/// `  ┊ 📖 read      src/main.rs  0.1s`
pub(crate) fn line(name: &str, preview: &str, seconds: f64, suffix: &str) -> String {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    let (emoji, verb, detail) = match known {
        Some((_, emoji, verb, detail)) => (*emoji, (*verb).to_owned(), *detail),
        None => ("⚡", head(name, 9).to_owned(), Detail::Text),
    };
    let detail = match detail {
        Detail::Text if preview.chars().count() > MOST_TEXT => format!("{}...", head(preview, MOST_TEXT - 3)),
        Detail::Path if preview.chars().count() > MOST_PATH => format!("...{}", tail(preview, MOST_PATH - 3)),
        _ => preview.to_owned(),
    };
    format!("  ┊ {emoji} {verb:<9} {detail}  {seconds:.1}s{suffix}")
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn lines_are_short_and_tell_what_happened() {
        assert_eq!(line("read_file", "a.rs", 0.12, ""), "  ┊ 📖 read      a.rs  0.1s");
        let long = format!("/very/long{}/end.rs", "/x".repeat(40));
        assert!(line("patch", &long, 0.0, " [error]").ends_with("x/end.rs  0.0s [error]"));
        assert!(line("something_new", "y", 1.0, "").contains("something"));
    }
}
