//! How much of the results of tools a model sees. What is longer is written where its commands run, and a preview names the place.

use data_encoding::HEXLOWER;
use hermes_text::head;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::rollout_tools::RolloutTools;
use super::settings::EnvironmentSettings;

/// The limits of a conversation.
#[derive(Debug, Clone)]
pub(crate) struct ResultBudget {
    per_result: usize,
    per_turn: usize,
    preview: usize,
    overrides: Vec<(String, usize)>,
}

/// The tool whose results are never cut: its results would be read through it again.
const UNLIMITED: &str = "read_file";
/// The limits of a small context window, as parts of it and as the least.
const SMALL_RESULT: (f64, usize) = (0.15, 8_000);
const SMALL_TURN: (f64, usize) = (0.30, 16_000);
/// The characters of one token.
const CHARS_PER_TOKEN: f64 = 4.0;

/// A result, and the call it answers.
#[derive(Debug, Clone)]
pub(crate) struct PlacedResult {
    pub(crate) call: String,
    pub(crate) content: String,
    pub(crate) is_stored: bool,
}

impl ResultBudget {
    pub(crate) fn new(settings: &EnvironmentSettings) -> Self {
        let overrides = settings.tool_result_overrides.iter().flatten();
        let overrides = overrides
            .filter_map(|(name, limit)| Some((name.clone(), usize::try_from(limit.as_u64()?).ok()?)));
        let small = |(share, least): (f64, usize), most: usize| match settings.context_window {
            Some(window) => part_of(window, share).max(least).min(most),
            None => most,
        };
        Self {
            per_result: small(SMALL_RESULT, settings.default_result_size_chars),
            per_turn: small(SMALL_TURN, settings.turn_budget_chars),
            preview: settings.preview_size_chars,
            overrides: overrides.collect(),
        }
    }

    /// Limits one result.
    pub(crate) async fn fit(
        &self,
        tools: &RolloutTools,
        tool: &str,
        call: &str,
        content: String,
    ) -> PlacedResult {
        let limit = self.overrides.iter().find(|(name, _)| name == tool).map(|(_, limit)| *limit);
        let limit = if tool == UNLIMITED { usize::MAX } else { limit.unwrap_or(self.per_result) };
        let mut result = PlacedResult { call: call.to_owned(), content, is_stored: false };
        if result.content.chars().count() > limit {
            self.store(tools, &mut result).await;
        }
        result
    }

    /// Limits the results of one turn together: the largest are stored first.
    pub(crate) async fn fit_turn(&self, tools: &RolloutTools, results: &mut [PlacedResult]) {
        loop {
            let lengths = results.iter().map(|result| result.content.chars().count());
            if lengths.sum::<usize>() <= self.per_turn {
                return;
            }
            let open = results.iter_mut().filter(|result| !result.is_stored);
            let Some(largest) = open.max_by_key(|result| result.content.chars().count()) else { return };
            self.store(tools, largest).await;
        }
    }

    async fn store(&self, tools: &RolloutTools, result: &mut PlacedResult) {
        result.is_stored = true;
        let size = result.content.chars().count();
        let preview = preview(&result.content, self.preview);
        let folder = tools.terminal("printf %s \"${TMPDIR:-/tmp}\"", 10).await;
        let written = if folder.succeeded() && !folder.output.is_empty() {
            let path = format!(
                "{}/hermes-results/{}.txt",
                folder.output.trim_end_matches('/'),
                file_name(&result.call)
            );
            tools.write_bytes(&path, result.content.as_bytes()).await.succeeded().then_some(path)
        } else {
            None
        };
        result.content = match written {
            Some(path) => format!(
                "<persisted-output>\nThe result has {size} characters. All of it is in {path}\n\nIt begins:\n{preview}\n</persisted-output>"
            ),
            None => format!("{preview}\n\n[The result has {size} characters; the rest could not be stored]"),
        };
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of characters"
)]
fn part_of(window: usize, share: f64) -> usize {
    (window as f64 * CHARS_PER_TOKEN * share) as usize
}

/// Returns the beginning of a text, up to the end of a line if that is in its second half.
fn preview(text: &str, most: usize) -> &str {
    let beginning = head(text, most);
    match beginning.rfind('\n') {
        Some(end) if end > beginning.len() / 2 => beginning.get(..end).unwrap_or(beginning),
        _ => beginning,
    }
}

/// Returns a name for the file of a call, whose id comes from a model.
fn file_name(id: &str) -> String {
    let safe: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' })
        .collect();
    if safe == id && id.len() <= 120 && !id.is_empty() && !id.starts_with('.') {
        return safe;
    }
    let hash = Sha256::digest(id.as_bytes());
    let hash = HEXLOWER.encode(hash.get(..6).unwrap_or_default());
    format!("{}_{hash}", head(&safe, 120).trim_start_matches('.'))
}

/// Reads what a result says of a failure: an error, and an exit code below zero.
pub(crate) fn failure_of(content: &str) -> Option<String> {
    let result: Value = serde_json::from_str(content).ok()?;
    let error = result.get("error").filter(|error| !error.is_null())?;
    let code = result.get("exit_code").and_then(Value::as_i64)?;
    (code < 0).then(|| error.as_str().map_or_else(|| error.to_string(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_safe() {
        assert_eq!(file_name("call_1.a-b"), "call_1.a-b");
        assert!(file_name("a/b").starts_with("a_b_"));
        assert!(!file_name("../x").contains('/') && !file_name("..").starts_with('.'));
        assert!(file_name(&"x".repeat(300)).len() <= 133);
    }

    #[test]
    fn previews_end_with_a_line() {
        assert_eq!(preview("one\ntwo\nthree", 10), "one\ntwo");
        assert_eq!(preview("a\nlong line", 9), "a\nlong li");
        assert_eq!(preview("short", 9), "short");
    }

    #[test]
    fn small_windows_have_small_limits() {
        let settings = EnvironmentSettings { context_window: Some(32_768), ..EnvironmentSettings::default() };
        let budget = ResultBudget::new(&settings);
        assert_eq!((budget.per_result, budget.per_turn), (19_660, 39_321));
        let settings = EnvironmentSettings { context_window: Some(2_048), ..EnvironmentSettings::default() };
        let budget = ResultBudget::new(&settings);
        assert_eq!((budget.per_result, budget.per_turn), (8_000, 16_000));
    }
}
