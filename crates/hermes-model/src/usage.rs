//! Token counts of each wire, in buckets that do not overlap.
//!
//! Chat and Responses count cached tokens as part of their input; Messages and Converse do not. This module removes
//! the difference.

use hermes_types::{JsonFields, RawJson, Usage};

use crate::wire::ApiMode;
use crate::wire::fields::JsonFieldsExt as _;

/// Reads a usage object; returns `None` when it is not an object.
pub fn read(mode: ApiMode, raw: &RawJson) -> Option<Usage> {
    let fields: JsonFields = raw.read().ok()?;
    Some(match mode {
        ApiMode::Chat => {
            inclusive(&fields, ["prompt_tokens", "input_tokens"], ["completion_tokens", "output_tokens"])
        }
        ApiMode::Responses => {
            inclusive(&fields, ["input_tokens", "prompt_tokens"], ["output_tokens", "completion_tokens"])
        }
        ApiMode::Anthropic => Usage {
            input: first(&fields, &["input_tokens"]),
            output: first(&fields, &["output_tokens"]),
            cache_read: first(&fields, &["cache_read_input_tokens"]),
            cache_write: first(&fields, &["cache_creation_input_tokens"]),
            reasoning: 0,
        },
        ApiMode::Converse => Usage {
            input: first(&fields, &["inputTokens"]),
            output: first(&fields, &["outputTokens"]),
            cache_read: first(&fields, &["cacheReadInputTokens", "cacheReadInputTokenCount"]),
            cache_write: first(&fields, &["cacheWriteInputTokens", "cacheWriteInputTokenCount"]),
            reasoning: 0,
        },
    })
}

/// Returns the cost that the provider reports, in millionths of a dollar. OpenRouter reports it.
pub fn reported_cost(raw: &RawJson) -> Option<u64> {
    let fields: JsonFields = raw.read().ok()?;
    crate::price::micro_usd(&fields.scalar("cost")?)
}

/// Combines counts that arrive in several events: each is a running total, so the larger one is the later one.
pub(crate) fn combine(earlier: Option<Usage>, later: Usage) -> Usage {
    let earlier = earlier.unwrap_or_default();
    Usage {
        input: earlier.input.max(later.input),
        output: earlier.output.max(later.output),
        cache_read: earlier.cache_read.max(later.cache_read),
        cache_write: earlier.cache_write.max(later.cache_write),
        reasoning: earlier.reasoning.max(later.reasoning),
    }
}

fn inclusive(fields: &JsonFields, input: [&str; 2], output: [&str; 2]) -> Usage {
    let nested = |names: [&str; 2], inner: &[&str]| -> u64 {
        names
            .into_iter()
            .filter_map(|name| fields.object(&format!("{name}_details")))
            .map(|details| first(&details, inner))
            .find(|count| *count > 0)
            .unwrap_or(0)
    };
    let or_top = |count: u64, names: &[&str]| if count > 0 { count } else { first(fields, names) };
    let cache_read = or_top(
        nested(input, &["cached_tokens"]),
        &["cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens"],
    );
    let cache_write = or_top(
        nested(input, &["cache_write_tokens", "cache_creation_tokens"]),
        &["cache_creation_input_tokens"],
    );
    let total = first(fields, &input);
    Usage {
        input: total.saturating_sub(cache_read).saturating_sub(cache_write),
        output: first(fields, &output),
        cache_read,
        cache_write,
        reasoning: nested(output, &["reasoning_tokens"]),
    }
}

fn first(fields: &JsonFields, names: &[&str]) -> u64 {
    names.iter().find_map(|name| fields.number(name)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mode: ApiMode, json: &str, [input, output, cache_read, cache_write, reasoning]: [u64; 5]) {
        let raw = RawJson::parse(json.to_owned()).unwrap();
        let expected = Usage { input, output, cache_read, cache_write, reasoning };
        assert_eq!(read(mode, &raw), Some(expected), "{json}");
    }

    #[test]
    fn buckets_do_not_overlap() {
        check(
            ApiMode::Chat,
            r#"{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":10},"completion_tokens_details":{"reasoning_tokens":5}}"#,
            [30, 20, 60, 10, 5],
        );
        check(
            ApiMode::Chat,
            r#"{"prompt_tokens":100,"completion_tokens":2,"prompt_cache_hit_tokens":90}"#,
            [10, 2, 90, 0, 0],
        );
        check(
            ApiMode::Chat,
            r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":60}}"#,
            [0, 0, 60, 0, 0],
        );
        check(ApiMode::Chat, r#"{"prompt_tokens":null,"prompt_tokens_details":null}"#, [0, 0, 0, 0, 0]);
        check(
            ApiMode::Responses,
            r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}"#,
            [60, 7, 40, 0, 3],
        );
        check(
            ApiMode::Anthropic,
            r#"{"input_tokens":10,"output_tokens":7,"cache_read_input_tokens":90,"cache_creation_input_tokens":5}"#,
            [10, 7, 90, 5, 0],
        );
        check(
            ApiMode::Converse,
            r#"{"inputTokens":10,"outputTokens":7,"totalTokens":17,"cacheReadInputTokens":3,"cacheWriteInputTokens":4}"#,
            [10, 7, 3, 4, 0],
        );
        assert_eq!(read(ApiMode::Chat, &RawJson::parse("[]".into()).unwrap()), None);
    }

    #[test]
    fn reported_costs() {
        let cost = |json: &str| reported_cost(&RawJson::parse(json.to_owned()).unwrap());
        assert_eq!(cost(r#"{"cost":0.0012345}"#), Some(1235));
        assert_eq!(cost(r#"{"cost":1e-3}"#), Some(1000));
        assert_eq!(cost(r#"{"cost":-1}"#), None);
        assert_eq!(cost("{}"), None);
    }
}
