//! Formats tool calls, one line each.

use std::fmt::Write as _;

use hermes_text::{head, tail};
use hermes_types::{PreviewKind, ToolDisplay};

const MAX_TEXT_CHARS: usize = 42;
const MAX_PATH_CHARS: usize = 35;

/// The width of the column of verbs.
const VERB_CHARS: usize = 9;

/// Formats a call, for example `  ┊ 📖 read      src/main.rs  0.1s`.
pub(crate) fn tool_line(display: &ToolDisplay, preview: &str, seconds: f64, suffix: &str) -> String {
    let ToolDisplay { icon, verb, preview_kind } = display;
    let detail = match preview_kind {
        PreviewKind::Text if preview.chars().count() > MAX_TEXT_CHARS => {
            format!("{}...", head(preview, MAX_TEXT_CHARS - 3))
        }
        PreviewKind::Path if preview.chars().count() > MAX_PATH_CHARS => {
            format!("...{}", tail(preview, MAX_PATH_CHARS - 3))
        }
        _ => preview.to_owned(),
    };
    let verb = head(verb, VERB_CHARS);
    format!("  ┊ {icon} {verb:<VERB_CHARS$} {detail}  {seconds:.1}s{suffix}")
}

pub(crate) const REASONING_BEGINS: &str = "┌─ Reasoning";
pub(crate) const REASONING_ENDS: &str = "└─";
const MAX_REASONING_LINES: usize = 10;
const MAX_VERBOSE_CHARS: usize = 2000;

/// Formats reasoning that was not streamed: its first lines in a box.
pub(crate) fn reasoning(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let mut shown = format!("{REASONING_BEGINS}\n");
    for line in lines.iter().take(MAX_REASONING_LINES) {
        let _ = writeln!(shown, "{line}");
    }
    if let Some(more) = lines.len().checked_sub(MAX_REASONING_LINES).filter(|more| *more > 0) {
        let _ = writeln!(shown, "... ({more} more lines)");
    }
    shown + REASONING_ENDS + "\n"
}

/// Formats the beginning of a call with all its arguments.
pub(crate) fn verbose_start(number: usize, name: &str, arguments: &str) -> String {
    let keys = match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(arguments) {
        Ok(map) => map.keys().cloned().collect::<Vec<_>>().join(", "),
        Err(_) => String::new(),
    };
    format!("  📞 Tool {number}: {name}({keys})\n     Args: {}", bounded(arguments))
}

/// Formats the end of a call with its result.
pub(crate) fn verbose_end(number: usize, seconds: f64, suffix: &str, result: &str) -> String {
    let mark = if suffix.is_empty() { "✅" } else { "❌" };
    format!("  {mark} Tool {number} completed in {seconds:.2}s{suffix}\n     Result: {}", bounded(result))
}

fn bounded(text: &str) -> String {
    let left_out = text.chars().count().saturating_sub(MAX_VERBOSE_CHARS);
    let shown = head(text.trim_end(), MAX_VERBOSE_CHARS);
    if left_out == 0 { shown.to_owned() } else { format!("{shown}... ({left_out} more characters)") }
}

#[cfg(test)]
mod tests {
    use hermes_tools::BUILT_IN_TOOLS;
    use hermes_types::ToolDescriptor;

    use super::tool_line;

    fn line(name: &str, preview: &str, seconds: f64, suffix: &str) -> String {
        let known = BUILT_IN_TOOLS.iter().copied().find(|tool| tool.name == name);
        let tool = known.unwrap_or_else(|| ToolDescriptor::unknown(name));
        tool_line(&tool.display(), preview, seconds, suffix)
    }

    #[test]
    fn lines_are_short_and_tell_what_happened() {
        assert_eq!(line("read_file", "a.rs", 0.12, ""), "  ┊ 📖 read      a.rs  0.1s");
        let long = format!("/very/long{}/end.rs", "/x".repeat(40));
        assert!(line("patch", &long, 0.0, " [error]").ends_with("x/end.rs  0.0s [error]"));
        assert_eq!(line("something_new", "y", 1.0, ""), "  ┊ ⚡ something y  1.0s");
    }
}
