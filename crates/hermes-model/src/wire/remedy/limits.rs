//! Numbers in the text of a refusal: the size of a context, the output limit.
//!
//! A number counts only near the words that give it a meaning and only in a plausible range; in doubt there is
//! none, because a misread limit would shrink a conversation permanently.

/// A number in a text, and its byte range.
struct Number {
    value: u64,
    start: usize,
    end: usize,
}

/// Finds numbers with or without separators: `128000`, `128,000`, `128_000`, `32k`.
fn numbers(text: &str) -> Vec<Number> {
    let mut found: Vec<Number> = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, first)) = chars.next() {
        let Some(digit) = first.to_digit(10) else { continue };
        let (mut value, mut end) = (u64::from(digit), start + 1);
        while let Some((at, c)) = chars.peek().copied() {
            if let Some(digit) = c.to_digit(10) {
                value = value.saturating_mul(10).saturating_add(u64::from(digit));
                end = at + 1;
            } else if !matches!(c, ',' | '_') || !followed_by_three_digits(text, at + 1) {
                break;
            }
            chars.next();
        }
        if let Some((at, 'k')) = chars.peek().copied()
            && !text.get(at + 1..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
        {
            value = value.saturating_mul(1_000);
            end = at + 1;
        }
        found.push(Number { value, start, end });
    }
    found
}

fn followed_by_three_digits(text: &str, at: usize) -> bool {
    let mut rest = text.get(at..).unwrap_or_default().chars();
    (0..3).all(|_| rest.next().is_some_and(|c| c.is_ascii_digit()))
        && !rest.next().is_some_and(|c| c.is_ascii_digit())
}

/// Returns the first number that begins within `reach` bytes after a phrase.
fn number_behind(text: &str, numbers: &[Number], phrase: &str, reach: usize) -> Option<u64> {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(phrase)) {
        let end = from + at + phrase.len();
        let near = numbers.iter().find(|number| number.start >= end && number.start <= end + reach);
        if let Some(number) = near {
            return Some(number.value);
        }
        from = end;
    }
    None
}

/// Returns the number that ends right before a phrase.
fn number_before(text: &str, numbers: &[Number], phrase: &str) -> Option<u64> {
    let at = text.find(phrase)?;
    numbers.iter().rev().find(|number| number.end <= at && at - number.end <= 12).map(|number| number.value)
}

/// Returns the context window that an overflow message names.
pub fn limit_in_text(text: &str) -> Option<u64> {
    const PHRASES: [(&str, usize); 16] = [
        ("maximum context length", 30),
        ("max_model_len", 20),
        ("context limit:", 60),
        ("maximum context size", 30),
        ("available context size", 30),
        ("context window", 40),
        ("context length", 40),
        ("context size", 40),
        ("token limit", 30),
        ("maximum input length", 30),
        ("limit of", 12),
        ("limit is", 12),
        ("maximum of", 12),
        ("at most", 12),
        ("> ", 2),
        ("limit:", 12),
    ];
    let text = text.to_lowercase();
    let numbers = numbers(&text);
    // "210000 tokens > 200000 maximum", "150000 + 64000 > 200000": the number after the sign is the limit.
    let compared = number_behind(&text, &numbers, "> ", 2)
        .filter(|_| text.contains("context") || text.contains("maximum"));
    let named = || {
        PHRASES.iter().find_map(|(phrase, reach)| {
            number_behind(&text, &numbers, phrase, *reach).filter(|n| is_window(*n))
        })
    };
    compared.filter(|number| is_window(*number)).or_else(named)
}

fn is_window(number: u64) -> bool {
    (1_024..=10_000_000).contains(&number)
}

/// The smallest output limit worth requesting; below it the conversation has to shrink instead.
const MIN_OUTPUT: u64 = 1_024;

/// Returns an output limit that would have been accepted, when only the limit was wrong.
pub(super) fn output_limit(text: &str) -> Option<u64> {
    let numbers = numbers(text);
    // "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000"
    if let Some(at) = text.find("exceed context limit") {
        let behind: Vec<u64> =
            numbers.iter().filter(|number| number.start > at).map(|number| number.value).collect();
        if let [input, _, window, ..] = behind.as_slice() {
            return window.checked_sub(*input).filter(|room| *room >= MIN_OUTPUT);
        }
    }
    // "maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the messages, 8000 in the completion)"
    let input =
        ["in the messages", "in your prompt", "of text input", "in the prompt", "from the input messages"]
            .into_iter()
            .find_map(|phrase| number_before(text, &numbers, phrase));
    let output = ["in the completion", "for the completion", "in the output"]
        .into_iter()
        .find_map(|phrase| number_before(text, &numbers, phrase));
    if let (Some(input), Some(output), Some(window)) = (input, output, limit_in_text(text)) {
        let room = window.checked_sub(input)?;
        return (output > room && room >= MIN_OUTPUT).then_some(room);
    }
    if !["max_tokens", "max_completion_tokens", "max_output_tokens", "maxtokens", "max tokens"]
        .into_iter()
        .any(|name| text.contains(name))
    {
        return None;
    }
    // "max_tokens: 64000 > 8192, which is the maximum allowed", "supports at most 16384 completion tokens"
    let phrases = [
        ("> ", 2),
        ("at most", 4),
        ("less than or equal to", 4),
        ("maximum allowed", 30),
        ("limit of", 4),
        ("must be <=", 4),
        ("between 1 and", 4),
    ];
    phrases
        .into_iter()
        .find_map(|(phrase, reach)| number_behind(text, &numbers, phrase, reach))
        .filter(|limit| *limit >= 16)
}

/// Parses "… but can only afford 3519".
pub(super) fn affordable(text: &str) -> Option<u64> {
    number_behind(text, &numbers(text), "can only afford", 4).filter(|limit| *limit >= 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(limit_in_text(text), expected, "{text}");
        check(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens.",
            Some(128_000),
        );
        check("prompt is too long: 210,000 tokens > 200,000 maximum", Some(200_000));
        check(
            "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
            Some(8_192),
        );
        check("Input exceeds the context window of 32k tokens", Some(32_000));
        check("the token limit of 1048576 was exceeded", Some(1_048_576));
        check("context length exceeded", None);
        check("context window of 5 tokens", None);
        check("größer als context length 4_096 日本", Some(4_096));
    }

    #[test]
    fn outputs() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(output_limit(text), expected, "{text}");
        check(
            "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3",
            Some(8_192),
        );
        check(
            "max_tokens is too large: 100000. this model supports at most 16384 completion tokens",
            Some(16_384),
        );
        check(
            "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000, decrease",
            Some(50_000),
        );
        check("input length and `max_tokens` exceed context limit: 199900 + 64000 > 200000, decrease", None);
        check(
            "this model's maximum context length is 8192 tokens. however, you requested 9000 tokens (1000 in the messages, 8000 in the completion).",
            Some(7_192),
        );
        check(
            "this model's maximum context length is 8192 tokens. however, you requested 9000 tokens (8500 in the messages, 500 in the completion).",
            None,
        );
        check("prompt is too long: 210000 tokens > 200000 maximum", None);
        assert_eq!(affordable("you requested up to 64000 tokens, but can only afford 3519."), Some(3_519));
    }
}
