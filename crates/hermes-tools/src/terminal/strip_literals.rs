//! Removes the parts of a command that a shell does not run: quoted texts, comments and here-documents.

/// The context of a character in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LexContext {
    Code,
    Quote(char),
    Comment,
}

/// Replaces quoted texts, comments and here-documents with blanks. The result has the length of the command, so
/// that positions are the same in both.
pub(super) fn strip_literals(command: &str) -> String {
    blank(command, |within| within != LexContext::Code)
}

/// Returns the command without its comments.
pub(super) fn without_comments(command: &str) -> String {
    let blanked = blank(command, |within| within == LexContext::Comment);
    blanked.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn blank(command: &str, goes: impl Fn(LexContext) -> bool) -> String {
    let mut out = String::with_capacity(command.len());
    let mut within = LexContext::Code;
    let mut before = '\n';
    let mut escaped = false;
    let mut documents: Vec<String> = Vec::new();
    let mut lines = command.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let start = out.len();
        for c in line.chars() {
            let mut now = within;
            match within {
                LexContext::Code if escaped => escaped = false,
                LexContext::Code => match c {
                    '\\' => escaped = true,
                    '\'' | '"' => {
                        within = LexContext::Quote(c);
                        now = within;
                    }
                    '#' if before.is_whitespace() || ";&|(".contains(before) => {
                        within = LexContext::Comment;
                        now = within;
                    }
                    _ => {}
                },
                LexContext::Quote(quote) => match c {
                    _ if escaped => escaped = false,
                    '\\' if quote == '"' => escaped = true,
                    c if c == quote => within = LexContext::Code,
                    _ => {}
                },
                LexContext::Comment if c == '\n' => {
                    within = LexContext::Code;
                    now = within;
                }
                LexContext::Comment => {}
            }
            before = c;
            push(&mut out, c, goes(now));
        }
        documents.extend(heredoc_delimiters(out.get(start..).unwrap_or_default(), line));
        for end in documents.drain(..) {
            for text in lines.by_ref() {
                text.chars().for_each(|c| push(&mut out, c, goes(LexContext::Quote('<'))));
                if text.trim() == end {
                    break;
                }
            }
        }
    }
    out
}

fn push(out: &mut String, c: char, blank: bool) {
    if blank && c != '\n' {
        out.extend(std::iter::repeat_n(' ', c.len_utf8()));
    } else {
        out.push(c);
    }
}

/// Returns the delimiters of the here-documents that a line begins.
fn heredoc_delimiters(bare: &str, line: &str) -> Vec<String> {
    let starts = bare.match_indices("<<").filter(|(at, _)| {
        !bare.get(at + 2..).is_some_and(|rest| rest.starts_with('<'))
            && !bare.get(..*at).is_some_and(|rest| rest.ends_with('<'))
    });
    starts
        .filter_map(|(at, _)| {
            let rest = line.get(at + 2..)?.trim_start_matches('-').trim_start();
            let word: String = rest
                .trim_start_matches(['\'', '"', '\\'])
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            (!word.is_empty()).then_some(word)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_is_left() {
        for (command, left) in [
            ("echo 'a & b' && x", "echo         && x"),
            ("echo \"sudo \\\" x\" # & y", "echo               "),
            ("a#b & c", "a#b & c"),
            ("cat <<'EOF'\nnohup x &\nEOF\nls", "cat <<     \n         \n   \nls"),
            ("x <<< 'y &'", "x <<<      "),
            ("é 'é' &", "é      &"),
        ] {
            assert_eq!(strip_literals(command).trim_end(), left.trim_end(), "{command}");
            assert_eq!(strip_literals(command).len(), command.len(), "{command}");
        }
        assert_eq!(without_comments("ls # safe\n'# no' x"), "ls\n'# no' x");
    }
}
