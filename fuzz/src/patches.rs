//! Changes a model wants to make to a file.

use hermes_text::{
    DiffLine, MatchStrategy, Occurrences, PatchOp, apply_hunks, diff_lines, fuzzy_replace, parse_patch,
};

/// What is found is replaced and nothing else; a difference tells both sides.
pub fn patches(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, '\u{1}');
    let (content, old, new) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    for occurrences in [Occurrences::One, Occurrences::All] {
        if let Ok(replaced) = fuzzy_replace(content, old, new, occurrences) {
            assert!(replaced.count >= 1);
            if replaced.strategy == MatchStrategy::Exact {
                assert_eq!(replaced.text, content.replace(old, new));
            }
        }
    }
    let lines = diff_lines(content, new);
    let side = |keep: fn(&DiffLine<'_>) -> bool| -> Vec<String> {
        lines.iter().filter(|line| keep(line)).map(|line| words(line).to_owned()).collect()
    };
    assert_eq!(side(|line| !matches!(line, DiffLine::Added(_))).concat(), content.replace('\n', ""));
    assert_eq!(side(|line| !matches!(line, DiffLine::Removed(_))).concat(), new.replace('\n', ""));
    if let Ok(operations) = parse_patch(&text) {
        for operation in operations {
            if let PatchOp::Update { hunks, .. } = operation {
                // Whether it fits is the content's business; that it ends is ours.
                let _ = apply_hunks(content, &hunks);
            }
        }
    }
}

fn words<'a>(line: &DiffLine<'a>) -> &'a str {
    match line {
        DiffLine::Kept(text) | DiffLine::Removed(text) | DiffLine::Added(text) => text.trim_end_matches('\n'),
    }
}
