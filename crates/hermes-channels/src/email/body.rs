//! The text of a mail without what its author did not write: earlier mails below it, and signatures. Pure.

/// The lines with which phones sign.
const PHONES: [&str; 6] =
    ["sent from my ", "get outlook for ", "von meinem ", "gesendet von ", "envoyé de ", "enviado desde "];
/// Words that end the line above a quoted mail: "On …, Ann wrote:".
const WROTE: [&str; 6] = ["wrote:", "schrieb:", "a écrit :", "escribió:", "ha scritto:", "writes:"];
/// Words that begin it.
const STARTS: [&str; 6] = ["on ", "am ", "le ", "el ", "il ", "at "];
/// The line above a quoted mail may be folded into this many.
const LONGEST_ATTRIBUTION: usize = 3;

/// Returns a plain text with line ends of one kind and without control characters.
pub(super) fn normal(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

/// Removes the mail that is quoted at the end, and the line that introduces it. Quotes between which the author wrote
/// are kept.
pub(super) fn without_quote(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let is_quoted = |line: &&str| line.trim_start().starts_with('>');
    let is_blank = |line: &&str| line.trim().is_empty();
    let mut end = lines.len();
    let mut quoted = 0;
    while let Some(line) = end.checked_sub(1).and_then(|at| lines.get(at)) {
        if is_quoted(line) {
            quoted += 1;
        } else if !is_blank(line) {
            break;
        }
        end -= 1;
    }
    if quoted == 0 {
        return cut_at_divider(&lines);
    }
    // Without the introducing line, it may be a quote that belongs to the text.
    let attribution = |count: usize| {
        let folded = lines.get(end - count..end).unwrap_or_default();
        let text = folded.join(" ").trim().to_lowercase();
        let is_one = !folded.iter().any(is_blank) && WROTE.iter().any(|word| text.ends_with(word));
        is_one.then_some(text)
    };
    let longest = LONGEST_ATTRIBUTION.min(end);
    let begins = |text: String| STARTS.iter().any(|start| text.starts_with(start));
    let names = |text: String| text.contains('@') || text.contains('<');
    let found = (1..=longest)
        .find(|count| attribution(*count).is_some_and(begins))
        .or_else(|| (1..=longest).find(|count| attribution(*count).is_some_and(names)));
    let end = found.map_or(lines.len(), |count| end - count);
    lines.get(..end).unwrap_or_default().join("\n").trim_end().to_owned()
}

/// Cuts at the line that Outlook puts above an earlier mail.
fn cut_at_divider(lines: &[&str]) -> String {
    let is_divider = |line: &&str| {
        let line = line.trim().trim_matches(['-', '_', '*', ' ']).to_lowercase();
        line == "original message" || line == "ursprüngliche nachricht"
    };
    let end = lines.iter().position(is_divider).unwrap_or(lines.len());
    lines.get(..end).unwrap_or_default().join("\n").trim_end().to_owned()
}

/// Removes the signature: what follows a line of two dashes, and what a phone adds.
pub(super) fn without_signature(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().position(|line| *line == "-- " || *line == "--").unwrap_or(lines.len());
    let mut kept = lines.get(..end).unwrap_or_default().to_vec();
    while kept.last().is_some_and(|line| line.trim().is_empty()) {
        kept.pop();
    }
    let is_of_phone = |line: &&str| {
        let line = line.trim().to_lowercase();
        line.len() < 80 && PHONES.iter().any(|start| line.starts_with(start))
    };
    let stands_alone = kept.len() > 1 && kept.get(kept.len() - 2).is_some_and(|line| line.trim().is_empty());
    if stands_alone && kept.last().is_some_and(is_of_phone) {
        kept.pop();
    }
    kept.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_mail_at_the_end_is_cut() {
        for (text, expected) in [
            ("yes\n\nOn Tue, Bot <bot@x.org> wrote:\n> shall I?\n>\n> Bot\n", "yes"),
            ("yes\n\nOn Tue, 4 Nov 2025 at 10:00, Bot\n<bot@x.org> wrote:\n\n> shall I?\n", "yes"),
            ("ja\n\nAm 4.11. schrieb:\n> soll ich?", "ja"),
            ("> shall I?\n\nyes, do\n", "> shall I?\n\nyes, do"),
            ("as Kant said:\n> dare to know", "as Kant said:\n> dare to know"),
            ("no\n\n-----Original Message-----\nFrom: Bot\nshall I?", "no"),
            ("> only a quote", "> only a quote"),
            ("", ""),
        ] {
            assert_eq!(without_quote(text), expected, "{text:?}");
        }
    }

    #[test]
    fn signatures_are_cut() {
        for (text, expected) in [
            ("hi\n\n-- \nAnn\nCEO", "hi"),
            ("/approve\n\nSent from my iPhone", "/approve"),
            ("Sent from my iPhone", "Sent from my iPhone"),
            ("a\n--- b", "a\n--- b"),
        ] {
            assert_eq!(without_signature(text), expected, "{text:?}");
        }
    }
}
