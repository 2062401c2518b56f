//! The tools that are not in the prompt, and the search among them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use hermes_types::Tool;

/// The longest list of names in the prompt, in bytes.
const LONGEST_LIST: usize = 6_000;
/// A word of the question in the name of a tool counts this many times as much as in its description.
const NAME_WEIGHT: usize = 3;

/// The deferred tools, by name.
pub(super) struct DeferredTools {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl DeferredTools {
    pub(super) fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { tools: tools.into_iter().map(|tool| (tool.spec().name.clone(), tool)).collect() }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name.trim())
    }

    /// Lists the names for the prompt, by server.
    pub(super) fn names(&self) -> String {
        let mut servers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, tool) in &self.tools {
            servers.entry(tool.descriptor().toolset).or_default().push(name);
        }
        let mut list = String::new();
        let mut left_out = 0;
        for (server, names) in servers {
            let mut line = format!("\n{}:", server.trim_start_matches("mcp-"));
            for name in names {
                if list.len() + line.len() + name.len() > LONGEST_LIST {
                    left_out += 1;
                } else {
                    line.push(' ');
                    line.push_str(name);
                }
            }
            list.push_str(&line);
        }
        if left_out > 0 {
            // Writing to a `String` cannot fail.
            let _ = write!(list, "\nand {left_out} more, which only a search finds");
        }
        list
    }

    /// Returns the tools that fit a question, best first. A question without words finds the first ones.
    pub(super) fn search(&self, question: &str, most: usize) -> Vec<&Arc<dyn Tool>> {
        let question = question.to_lowercase();
        let words: Vec<&str> =
            question.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let mut scored: Vec<(usize, &Arc<dyn Tool>)> = self
            .tools
            .values()
            .map(|tool| (score(tool, &words), tool))
            .filter(|(score, _)| *score > 0 || words.is_empty())
            .collect();
        // Stable, so that equal ones stay sorted by name.
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        scored.into_iter().take(most).map(|(_, tool)| tool).collect()
    }
}

fn score(tool: &Arc<dyn Tool>, words: &[&str]) -> usize {
    let name = tool.spec().name.to_lowercase();
    let description = tool.spec().description.to_lowercase();
    words
        .iter()
        .map(|word| NAME_WEIGHT * usize::from(name.contains(word)) + usize::from(description.contains(word)))
        .sum()
}
