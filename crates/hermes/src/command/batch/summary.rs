//! The report at the end of a run.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::time::Duration;

use hermes_research::{BatchOptions, BatchSummary};

use super::progress::{cost, span};
use crate::command::table::table;

/// The most dropped records that are named one by one.
const MAX_DROPPED: usize = 20;

pub(super) fn describe(summary: &BatchSummary, options: &BatchOptions) -> String {
    let BatchSummary { progress, merge, statistics, .. } = summary;
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let mut line = |words: String| {
        let _ = writeln!(text, "{words}");
    };
    for dropped in merge.dropped.iter().take(MAX_DROPPED) {
        line(format!("dropped: {dropped}"));
    }
    if let Some(more) = merge.dropped.len().checked_sub(MAX_DROPPED).filter(|more| *more > 0) {
        line(format!("dropped: {more} more records"));
    }
    let time = Duration::from_secs_f64(summary.seconds.max(0.0));
    line(format!(
        "Processed {} of {} prompts in {} ({}).",
        progress.written + progress.discarded,
        summary.total_prompts,
        span(time),
        cost(progress)
    ));
    line(format!("Merged {} trajectories of {} files.", merge.merged, merge.files));
    if !merge.dropped.is_empty() {
        line(format!("Dropped {} records.", merge.dropped.len()));
    }
    if progress.discarded > 0 {
        line(format!(
            "Discarded {} conversations without reasoning; --keep-without-reasoning keeps such.",
            progress.discarded
        ));
    }
    if progress.failed > 0 {
        line(format!("Failed: {} prompts.", progress.failed));
    }
    let mut tools: Vec<_> = statistics.tools.iter().filter(|(_, counts)| counts.count > 0).collect();
    tools.sort_by_key(|(name, counts)| (Reverse(counts.count), (*name).clone()));
    if !tools.is_empty() {
        let rows = tools.iter().map(|(name, counts)| {
            let (success, _) = counts.rates();
            vec![
                (*name).clone(),
                counts.count.to_string(),
                counts.success.to_string(),
                counts.failure.to_string(),
                format!("{success:.1} %"),
            ]
        });
        let heads = ["tool", "calls", "success", "failure", "success rate"];
        line(format!("\n{}", table(&heads, &[], &rows.collect::<Vec<_>>()).trim_end()));
    }
    let reasoning = statistics.reasoning;
    if reasoning.turns > 0 {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let share = |count: u64| count as f64 / reasoning.turns as f64 * 100.0;
        line(format!(
            "Reasoning: {} of {} turns ({:.1} %); without: {} ({:.1} %).",
            reasoning.with_reasoning,
            reasoning.turns,
            share(reasoning.with_reasoning),
            reasoning.turns - reasoning.with_reasoning,
            share(reasoning.turns - reasoning.with_reasoning)
        ));
    }
    let folder = options.folder.display();
    line(format!("Files: {folder}/trajectories.jsonl, statistics, checkpoint and batch_*.jsonl in {folder}"));
    if let Some(reason) = &summary.stopped {
        line(format!("Stopped: {reason}"));
    }
    if summary.left() > 0 {
        line(format!("{} prompts are left. Run the same command with --resume to continue.", summary.left()));
    }
    text
}
