//! Chooses tools from a numbered list.

use std::collections::BTreeSet;

use hermes_mcp::ProbedTool;
use hermes_text::{ellipsize, single_line};

use crate::output::Console;

/// Lets the user choose tools by their numbers. `None` where they leave or cannot be asked.
pub(super) fn choose_tools(
    tools: &[ProbedTool],
    is_chosen: impl Fn(&str) -> bool,
    output: &Console,
) -> Option<Vec<String>> {
    for (at, tool) in tools.iter().enumerate() {
        let mark = if is_chosen(&tool.name) { "x" } else { " " };
        let description = single_line(&tool.description);
        output.line(&format!("  {:>3}. [{mark}] {:<28} {}", at + 1, tool.name, ellipsize(&description, 60)));
    }
    loop {
        let answer = output
            .ask("Numbers of the tools to offer, such as 1,3-5 (Enter keeps the marked ones, `all`): ")?;
        let answer = answer.trim();
        let names = |chosen: &dyn Fn(usize, &str) -> bool| {
            let chosen = tools.iter().enumerate().filter(|(at, tool)| chosen(at + 1, &tool.name));
            chosen.map(|(_, tool)| tool.name.clone()).collect::<Vec<_>>()
        };
        if answer.is_empty() {
            return Some(names(&|_, name| is_chosen(name)));
        }
        if answer.eq_ignore_ascii_case("all") {
            return Some(names(&|_, _| true));
        }
        if let Some(numbers) = numbers(answer, tools.len()) {
            return Some(names(&|number, _| numbers.contains(&number)));
        }
        output.notice(&format!("Write numbers from 1 to {}, with commas between them.", tools.len()));
    }
}

/// Parses numbers and ranges of them.
fn numbers(text: &str, most: usize) -> Option<BTreeSet<usize>> {
    let mut numbers = BTreeSet::new();
    for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first == 0 || last > most || first > last {
            return None;
        }
        numbers.extend(first..=last);
    }
    (!numbers.is_empty()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_read() {
        for (text, wanted) in [
            ("1", Some(vec![1])),
            ("3, 1-2", Some(vec![1, 2, 3])),
            ("2 4", Some(vec![2, 4])),
            ("0", None),
            ("6", None),
            ("3-2", None),
            ("x", None),
            (",", None),
        ] {
            assert_eq!(numbers(text, 5), wanted.map(BTreeSet::from_iter), "{text}");
        }
    }
}
