//! The properties of Claude models, by name.

/// Output limits; the longest key contained in the name wins.
const OUTPUT_LIMITS: [(&str, u64); 14] = [
    ("opus-4-6", 128_000),
    ("sonnet-4-6", 64_000),
    ("opus-4-5", 64_000),
    ("sonnet-4-5", 64_000),
    ("haiku-4-5", 64_000),
    ("sonnet-4", 64_000),
    ("opus-4", 32_000),
    ("3-7-sonnet", 128_000),
    ("3-5-sonnet", 8_192),
    ("3-5-haiku", 8_192),
    ("3-5-", 8_192),
    ("3-opus", 4_096),
    ("3-sonnet", 4_096),
    ("3-haiku", 4_096),
];
const UNKNOWN_OUTPUT_LIMIT: u64 = 128_000;

pub(crate) fn is_claude(model: &str) -> bool {
    model.to_ascii_lowercase().contains("claude")
}

/// Returns the most tokens that a model writes in one answer.
pub fn output_limit(model: &str) -> u64 {
    let name = model.to_ascii_lowercase().replace('.', "-");
    OUTPUT_LIMITS
        .iter()
        .filter(|(key, _)| name.contains(key))
        .max_by_key(|(key, _)| key.len())
        .map_or(UNKNOWN_OUTPUT_LIMIT, |(_, limit)| *limit)
}

/// The way thinking is configured for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThinkingMode {
    /// The model decides how much, within an effort.
    Adaptive,
    /// The model is given a budget in tokens.
    Budgeted,
    /// The model does not support thinking.
    Absent,
}

pub(crate) fn thinking(model: &str) -> ThinkingMode {
    let name = model.to_ascii_lowercase().replace('.', "-");
    if name.contains("haiku") {
        return ThinkingMode::Absent;
    }
    match version(&name) {
        Some(version) if version >= (4, 6) => ThinkingMode::Adaptive,
        _ => ThinkingMode::Budgeted,
    }
}

/// Returns the major and minor version after the family name; a date there is not a minor version.
fn version(name: &str) -> Option<(u32, u32)> {
    let rest = ["opus-", "sonnet-"].into_iter().find_map(|family| name.split_once(family))?.1;
    let mut numbers = rest.split('-').map(|part| match part.len() {
        1 | 2 => part.parse::<u32>().ok(),
        _ => None,
    });
    let major = numbers.next()??;
    Some((major, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_by_the_longest_key() {
        let check = |model: &str, limit: u64| assert_eq!(output_limit(model), limit, "{model}");
        check("claude-opus-4-6", 128_000);
        check("anthropic/claude-opus-4.5", 64_000);
        check("claude-opus-4-20250514", 32_000);
        check("claude-3-7-sonnet-latest", 128_000);
        check("claude-3-5-haiku-20241022", 8_192);
        check("claude-3-haiku-20240307", 4_096);
        check("MiniMax-M2", 128_000);
    }

    #[test]
    fn thinking_by_version() {
        let check = |model: &str, expected| assert_eq!(thinking(model), expected, "{model}");
        check("claude-sonnet-4-6", ThinkingMode::Adaptive);
        check("us.anthropic.claude-opus-4-7-v1:0", ThinkingMode::Adaptive);
        check("claude-sonnet-4-20250514", ThinkingMode::Budgeted);
        check("claude-3-7-sonnet", ThinkingMode::Budgeted);
        check("claude-haiku-4-6", ThinkingMode::Absent);
    }
}
