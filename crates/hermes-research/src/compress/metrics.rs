//! What a compression did, for one trajectory and for all.

use hermes_text::JsonTree;

/// The turns that a summary replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplacedTurns {
    pub start: usize,
    /// One after the last.
    pub end: usize,
}

/// What happened to one trajectory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompressionMetrics {
    pub original_tokens: u64,
    pub compressed_tokens: u64,
    pub original_turns: usize,
    pub compressed_turns: usize,
    pub region: Option<ReplacedTurns>,
    pub still_over_limit: bool,
    pub skipped_under_target: bool,
    pub api_calls: u64,
    pub errors: u64,
}

impl CompressionMetrics {
    fn saved(&self) -> i128 {
        i128::from(self.original_tokens) - i128::from(self.compressed_tokens)
    }

    fn ratio(&self) -> f64 {
        ratio(self.compressed_tokens, self.original_tokens)
    }

    pub fn to_json(&self) -> JsonTree {
        let region = match self.region {
            Some(ReplacedTurns { start, end }) => {
                [start.to_string(), end.to_string(), (end - start).to_string()]
            }
            None => ["-1", "-1", "0"].map(str::to_owned),
        };
        let [start, end, count] = region.map(JsonTree::Number);
        JsonTree::object([
            ("original_tokens", self.original_tokens.into()),
            ("compressed_tokens", self.compressed_tokens.into()),
            ("tokens_saved", JsonTree::Number(self.saved().to_string())),
            ("compression_ratio", JsonTree::float(rounded(self.ratio(), 4))),
            ("original_turns", self.original_turns.into()),
            ("compressed_turns", self.compressed_turns.into()),
            ("turns_removed", (self.original_turns.saturating_sub(self.compressed_turns)).into()),
            (
                "compression_region",
                JsonTree::object([("start_idx", start), ("end_idx", end), ("turns_count", count)]),
            ),
            ("was_compressed", self.region.is_some().into()),
            ("still_over_limit", self.still_over_limit.into()),
            ("skipped_under_target", self.skipped_under_target.into()),
            ("summarization_api_calls", self.api_calls.into()),
            ("summarization_errors", self.errors.into()),
        ])
    }
}

/// The sums over all trajectories.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompressionTotals {
    pub trajectories: u64,
    pub compressed: u64,
    pub skipped: u64,
    pub over_limit: u64,
    pub failed: u64,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub turns_before: usize,
    pub turns_after: usize,
    pub api_calls: u64,
    pub errors: u64,
    turns_removed: usize,
    /// The ratios and the savings of the compressed ones.
    ratios: Vec<f64>,
    savings: Vec<f64>,
}

impl CompressionTotals {
    pub fn add(&mut self, metrics: &CompressionMetrics) {
        self.trajectories += 1;
        self.skipped += u64::from(metrics.skipped_under_target);
        self.over_limit += u64::from(metrics.still_over_limit);
        self.tokens_before += metrics.original_tokens;
        self.tokens_after += metrics.compressed_tokens;
        self.turns_before += metrics.original_turns;
        self.turns_after += metrics.compressed_turns;
        self.api_calls += metrics.api_calls;
        self.errors += metrics.errors;
        if metrics.region.is_some() {
            self.compressed += 1;
            self.turns_removed += metrics.original_turns.saturating_sub(metrics.compressed_turns);
            self.ratios.push(metrics.ratio());
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
            self.savings.push(metrics.saved() as f64);
        }
    }

    /// Returns the least, the most and the middle one of the ratios, and of the savings; `None` where nothing was compressed.
    pub fn spreads(&self) -> Option<([f64; 3], [f64; 3])> {
        Some((spread(&self.ratios)?, spread(&self.savings)?))
    }

    pub(super) fn to_json(&self, started: &str, ended: &str, seconds: f64) -> JsonTree {
        let number = |value: f64, places| JsonTree::float(rounded(value, places));
        let average = |values: &[f64], none: f64| if values.is_empty() { none } else { mean(values) };
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let removed =
            if self.compressed == 0 { 0.0 } else { self.turns_removed as f64 / self.compressed as f64 };
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let success = 1.0 - self.errors as f64 / self.api_calls.max(1) as f64;
        let saved = i128::from(self.tokens_before) - i128::from(self.tokens_after);
        let turns_removed = self.turns_before.saturating_sub(self.turns_after);
        JsonTree::object([
            (
                "summary",
                JsonTree::object([
                    ("total_trajectories", self.trajectories.into()),
                    ("trajectories_compressed", self.compressed.into()),
                    ("trajectories_skipped_under_target", self.skipped.into()),
                    ("trajectories_still_over_limit", self.over_limit.into()),
                    ("trajectories_failed", self.failed.into()),
                    ("compression_rate", number(zero_ratio(self.compressed, self.trajectories), 4)),
                ]),
            ),
            (
                "tokens",
                JsonTree::object([
                    ("total_before", self.tokens_before.into()),
                    ("total_after", self.tokens_after.into()),
                    ("total_saved", JsonTree::Number(saved.to_string())),
                    ("overall_compression_ratio", number(ratio(self.tokens_after, self.tokens_before), 4)),
                ]),
            ),
            (
                "turns",
                JsonTree::object([
                    ("total_before", self.turns_before.into()),
                    ("total_after", self.turns_after.into()),
                    ("total_removed", turns_removed.into()),
                ]),
            ),
            (
                "averages",
                JsonTree::object([
                    ("avg_compression_ratio", number(average(&self.ratios, 1.0), 4)),
                    ("avg_tokens_saved_per_compressed", number(average(&self.savings, 0.0), 1)),
                    ("avg_turns_removed_per_compressed", number(removed, 2)),
                ]),
            ),
            (
                "summarization",
                JsonTree::object([
                    ("total_api_calls", self.api_calls.into()),
                    ("total_errors", self.errors.into()),
                    ("success_rate", number(success, 4)),
                ]),
            ),
            (
                "processing",
                JsonTree::object([
                    ("start_time", started.into()),
                    ("end_time", ended.into()),
                    ("duration_seconds", number(seconds, 2)),
                ]),
            ),
        ])
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

fn zero_ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { ratio(part, whole) }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn spread(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some([*sorted.first()?, *sorted.last()?, f64::midpoint(*lower, *upper)])
}

fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10_f64.powi(places);
    (value * scale).round() / scale
}
