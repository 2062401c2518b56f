//! Tables, which Discord does not render: code fences at least keep their columns aligned. Pure.

/// Adds a code fence around every table that has none.
pub(super) fn fence_tables(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut out: Vec<&str> = Vec::with_capacity(lines.len());
    let mut fence: Option<&str> = None;
    let mut at = 0;
    while let Some(line) = lines.get(at).copied() {
        if let Some(mark) = fence {
            if line.trim() == mark {
                fence = None;
            }
        } else if let Some(mark) = opening(line) {
            fence = Some(mark);
        } else if begins_table(line, lines.get(at + 1).copied()) {
            let rows = lines.iter().skip(at).take_while(|line| line.contains('|')).count();
            out.push("```");
            out.extend(lines.iter().skip(at).take(rows));
            out.push("```");
            at += rows;
            continue;
        }
        out.push(line);
        at += 1;
    }
    out.join("\n")
}

/// Returns the closing mark of a fenced block, when this line opens one.
fn opening(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["```", "~~~"]
        .into_iter()
        .find(|mark| line.starts_with(mark) && !line.trim_end().trim_start_matches(mark).contains(mark))
}

/// Tells whether the line is a table header, by the line below it.
fn begins_table(line: &str, below: Option<&str>) -> bool {
    let Some(below) = below.map(str::trim) else { return false };
    let rule = below.contains('-')
        && below.contains('|')
        && below.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    rule && line.contains('|') && !line.contains("```")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tables_get_a_fence_and_nothing_else_does() {
        let table = "| a | b |\n|---|:-:|\n| 1 | 2 |";
        assert_eq!(fence_tables(&format!("x\n{table}\n\ny")), format!("x\n```\n{table}\n```\n\ny"));
        assert_eq!(fence_tables(table), format!("```\n{table}\n```"));
        for same in [
            format!("```\n{table}\n```"),
            format!("~~~text\n{table}\n~~~"),
            "a | b\nc | d".into(),
            "- a\n---".into(),
            String::new(),
        ] {
            assert_eq!(fence_tables(&same), same);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_twice_is_as_good_as_once(text in "([a|`~: -]|```|~~~|\\|--\\||\n){0,60}") {
            let fenced = fence_tables(&text);
            let added = |text: &str| text.split('\n').filter(|line| *line == "```").count();
            let rest = |text: &str| text.split('\n').filter(|line| *line != "```").map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(rest(&fenced), rest(&text));
            prop_assert_eq!((added(&fenced) - added(&text)) % 2, 0);
            if text.matches("```").count() == 0 && text.matches("~~~").count() == 0 {
                prop_assert_eq!(fence_tables(&fenced), fenced);
            }
        }
    }
}
