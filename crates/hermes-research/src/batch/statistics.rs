//! `statistics.json`: what one invocation did.

use std::collections::BTreeMap;

use hermes_text::JsonTree;

use super::counts::{ItemCounts, ReasoningCounts, ToolCounts};

/// The sums over the conversations of an invocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunStatistics {
    pub tools: BTreeMap<String, ToolCounts>,
    pub reasoning: ReasoningCounts,
}

/// What the file says beside the sums.
pub(super) struct StatisticsHeader<'a> {
    pub(super) run_name: &'a str,
    pub(super) distribution: &'a str,
    pub(super) total_prompts: usize,
    pub(super) total_batches: usize,
    pub(super) batch_size: usize,
    pub(super) model: &'a str,
    pub(super) completed_at: String,
    pub(super) seconds: f64,
}

impl RunStatistics {
    pub fn add(&mut self, item: &ItemCounts) {
        for (name, counts) in &item.tools {
            *self.tools.entry(name.clone()).or_default() += *counts;
        }
        self.reasoning += item.reasoning;
    }

    /// Returns the text of the file for a run whose time is not known.
    pub fn describe_run(
        &self,
        run_name: &str,
        distribution: &str,
        total_prompts: usize,
        batch_size: usize,
        model: &str,
        completed_at: &str,
    ) -> String {
        let header = StatisticsHeader {
            run_name,
            distribution,
            total_prompts,
            total_batches: total_prompts.div_ceil(batch_size.max(1)),
            batch_size,
            model,
            completed_at: completed_at.to_owned(),
            seconds: 0.0,
        };
        self.to_json(&header).pretty()
    }

    pub(super) fn to_json(&self, header: &StatisticsHeader<'_>) -> JsonTree {
        let tools = self.tools.iter().filter(|(_, counts)| counts.count > 0).map(|(name, counts)| {
            let (success, failure) = counts.rates();
            let counts = JsonTree::object([
                ("count", counts.count.into()),
                ("success", counts.success.into()),
                ("failure", counts.failure.into()),
                ("success_rate", JsonTree::float(rounded(success))),
                ("failure_rate", JsonTree::float(rounded(failure))),
            ]);
            (name.clone(), counts)
        });
        let ReasoningCounts { turns, with_reasoning } = self.reasoning;
        JsonTree::object([
            ("run_name", header.run_name.into()),
            ("distribution", header.distribution.into()),
            ("total_prompts", header.total_prompts.into()),
            ("total_batches", header.total_batches.into()),
            ("batch_size", header.batch_size.into()),
            ("model", header.model.into()),
            ("completed_at", header.completed_at.as_str().into()),
            ("duration_seconds", JsonTree::float(rounded(header.seconds))),
            ("tool_statistics", JsonTree::Object(tools.collect())),
            (
                "reasoning_statistics",
                JsonTree::object([
                    ("total_assistant_turns", turns.into()),
                    ("turns_with_reasoning", with_reasoning.into()),
                    ("turns_without_reasoning", (turns - with_reasoning).into()),
                ]),
            ),
        ])
    }
}

impl ToolCounts {
    /// Returns the percentages of successes and failures among the results; zero where there is none.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn rates(self) -> (f64, f64) {
        let results = self.success + self.failure;
        if results == 0 {
            return (0.0, 0.0);
        }
        let percent = |count: u64| count as f64 / results as f64 * 100.0;
        (percent(self.success), percent(self.failure))
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
