//! Parses a patch.

use super::{Hunk, HunkLine, PatchOp};

/// The reason why a text is not a patch that can be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("the patch names no file; begin a part with `*** Update File: PATH`, `*** Add File: PATH`, …")]
    Empty,
    #[error("Update File {0}: no hunks found")]
    NoHunks(String),
    #[error("`{0}` names no path")]
    NoPath(String),
    #[error("Move File needs `OLD -> NEW`, not `{0}`")]
    BadMove(String),
    #[error("{0}: paths must not contain `..`")]
    ParentPath(String),
}

/// Parses the operations of a patch, in order.
pub fn parse_patch(text: &str) -> Result<Vec<PatchOp>, PatchError> {
    let mut ops: Vec<PatchOp> = Vec::new();
    for line in body(text) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some(header) = header(line) {
            ops.push(header?);
            continue;
        }
        match ops.last_mut() {
            Some(PatchOp::Update { hunks, .. }) => take_hunk_line(hunks, line),
            Some(PatchOp::Add { content, .. }) => {
                if let Some(added) = line.strip_prefix('+') {
                    content.push_str(added);
                    content.push('\n');
                }
            }
            Some(PatchOp::Delete { .. } | PatchOp::Move { .. }) | None => {}
        }
    }
    if ops.is_empty() {
        return Err(PatchError::Empty);
    }
    for op in &mut ops {
        if let Some(path) = op.paths().find(|path| path.split(['/', '\\']).any(|part| part == "..")) {
            return Err(PatchError::ParentPath(path.to_owned()));
        }
        match op {
            // Lines are joined, not terminated: the last one has no line break.
            PatchOp::Add { content, .. } => {
                content.pop();
            }
            PatchOp::Update { path, hunks } => {
                hunks.retain(|hunk| !hunk.lines.is_empty());
                if hunks.is_empty() {
                    return Err(PatchError::NoHunks(path.clone()));
                }
            }
            PatchOp::Delete { .. } | PatchOp::Move { .. } => {}
        }
    }
    Ok(ops)
}

/// Returns the lines between the envelope's marks; the marks may be missing, and a line of a file is not one.
fn body(text: &str) -> impl Iterator<Item = &str> {
    let is_mark = |line: &str, word: &str| {
        !line.starts_with(['+', '-'])
            && (line.contains(&format!("*** {word} Patch")) || line.contains(&format!("***{word} Patch")))
    };
    let begin = text.split('\n').position(|line| is_mark(line, "Begin")).map_or(0, |at| at + 1);
    text.split('\n').skip(begin).take_while(move |line| !is_mark(line, "End"))
}

/// Parses an operation's first line.
fn header(line: &str) -> Option<Result<PatchOp, PatchError>> {
    let rest = line.strip_prefix("***")?.trim_start();
    let (word, kind) = ["Update", "Add", "Delete", "Move"]
        .into_iter()
        .find_map(|kind| Some((rest.strip_prefix(kind)?.trim_start().strip_prefix("File:")?, kind)))?;
    let path = word.trim();
    if path.is_empty() {
        return Some(Err(PatchError::NoPath(line.to_owned())));
    }
    let path = path.to_owned();
    Some(match kind {
        "Update" => Ok(PatchOp::Update { path, hunks: Vec::new() }),
        "Add" => Ok(PatchOp::Add { path, content: String::new() }),
        "Delete" => Ok(PatchOp::Delete { path }),
        _ => match path.split_once("->").map(|(from, to)| (from.trim(), to.trim())) {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                Ok(PatchOp::Move { from: from.to_owned(), to: to.to_owned() })
            }
            _ => Err(PatchError::BadMove(path)),
        },
    })
}

fn take_hunk_line(hunks: &mut Vec<Hunk>, line: &str) {
    if let Some(rest) = line.strip_prefix("@@") {
        let hint = rest.trim().trim_end_matches("@@").trim();
        hunks.push(Hunk { hint: (!hint.is_empty()).then(|| hint.to_owned()), lines: Vec::new() });
        return;
    }
    if line.is_empty() || line.starts_with('\\') || line == "*** End of File" {
        return;
    }
    let line = if let Some(added) = line.strip_prefix('+') {
        HunkLine::Added(added.to_owned())
    } else if let Some(removed) = line.strip_prefix('-') {
        HunkLine::Removed(removed.to_owned())
    } else {
        HunkLine::Context(line.strip_prefix(' ').unwrap_or(line).to_owned())
    };
    match hunks.last_mut() {
        Some(hunk) => hunk.lines.push(line),
        None => hunks.push(Hunk { hint: None, lines: vec![line] }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_line_of_the_grammar_is_understood() {
        let text = "talk\n*** Begin Patch\n***Update File: a.rs\n@@ fn main @@\n keep\n-old | x\n+new\n\nbare\n\\ No newline\n@@\n+tail\n*** Add File: b.txt\n+one\n+\n+three\n*** Delete File: c\n*** Move File: d -> e/f\n*** End Patch\n+ignored";
        let context = |text: &str| HunkLine::Context(text.to_owned());
        assert_eq!(
            parse_patch(text).unwrap(),
            [
                PatchOp::Update {
                    path: "a.rs".to_owned(),
                    hunks: vec![
                        Hunk {
                            hint: Some("fn main".to_owned()),
                            lines: vec![
                                context("keep"),
                                HunkLine::Removed("old | x".to_owned()),
                                HunkLine::Added("new".to_owned()),
                                context("bare"),
                            ],
                        },
                        Hunk { hint: None, lines: vec![HunkLine::Added("tail".to_owned())] },
                    ],
                },
                PatchOp::Add { path: "b.txt".to_owned(), content: "one\n\nthree".to_owned() },
                PatchOp::Delete { path: "c".to_owned() },
                PatchOp::Move { from: "d".to_owned(), to: "e/f".to_owned() },
            ]
        );
    }

    #[test]
    fn what_is_no_patch_is_said() {
        let error = |text| parse_patch(text).unwrap_err().to_string();
        assert!(error("hello").contains("names no file"));
        assert!(error("*** Update File: a\n*** End Patch").contains("no hunks found"));
        assert!(error("*** Add File: ../a\n+x").contains("`..`"));
        assert!(error("*** Move File: a\n").contains("OLD -> NEW"));
        assert!(error("*** Delete File:\n").contains("names no path"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(\\*\\*\\* (Update|Add|Move|Delete) File: ?|[@+\\-> \\\\a\\n.é])*") {
            let _ = parse_patch(&text);
        }
    }
}
