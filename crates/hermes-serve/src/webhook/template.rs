//! Builds texts from an event. Pure.

use serde_json::{Map, Value};

const LONGEST_VALUE: usize = 2000;
const LONGEST_PAYLOAD: usize = 4000;

/// Replaces `{a.b.c}` in a text with values of the payload; unknown names stay as written.
pub(super) fn fill(template: &str, event: &str, payload: &Value) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let name = after.split_once('}').map(|(name, _)| name).filter(|name| is_placeholder(name));
        if let Some((name, value)) = name.and_then(|name| Some((name, value_of(name, event, payload)?))) {
            text.push_str(&value);
            rest = after.get(name.len() + 1..).unwrap_or_default();
        } else {
            text.push('{');
            rest = after;
        }
    }
    text.push_str(rest);
    text
}

/// Fills every text of an object.
pub(super) fn fill_all(values: &Map<String, Value>, event: &str, payload: &Value) -> Map<String, Value> {
    values
        .iter()
        .map(|(key, value)| {
            let value = match value {
                Value::String(text) => Value::String(fill(text, event, payload)),
                other => other.clone(),
            };
            (key.clone(), value)
        })
        .collect()
}

/// Returns the prompt for an event of a route without a template.
pub(super) fn default_prompt(route: &str, event: &str, payload: &Value) -> String {
    let json = serde_json::to_string_pretty(payload).unwrap_or_default();
    let json: String = json.chars().take(LONGEST_PAYLOAD).collect();
    format!("Webhook event '{event}' on route '{route}':\n\n```json\n{json}\n```")
}

fn is_placeholder(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

fn value_of(name: &str, event: &str, payload: &Value) -> Option<String> {
    match name {
        "__raw__" => return Some(pretty(payload)),
        "event_type" if payload.get("event_type").is_none() => return Some(event.to_owned()),
        _ => {}
    }
    let value = name.split('.').try_fold(payload, |value, key| value.get(key))?;
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => pretty(value),
        other => other.to_string(),
    })
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default().chars().take(LONGEST_VALUE).collect()
}

/// Decodes URL escapes: `a%20b+c` becomes `a b c`.
pub(super) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.clone().take(2).collect();
                let value = std::str::from_utf8(&digits).ok().filter(|digits| digits.len() == 2);
                match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(value) => {
                        bytes.push(value);
                        rest.nth(1);
                    }
                    None => bytes.push(byte),
                }
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_walked_to_and_what_is_missing_stays() {
        let payload = json!({"a": {"b": "x", "n": 5, "l": [1]}, "t": true});
        let filled = |text: &str| fill(text, "push", &payload);
        assert_eq!(
            filled("{a.b} {a.n} {t} {nope} {a.nope} {} { a } {event_type}"),
            "x 5 true {nope} {a.nope} {} { a } push"
        );
        assert_eq!(filled("{a.l}"), "[\n  1\n]");
        assert_eq!(filled("{{a.b}}"), "{x}");
        assert_eq!(unescape("a%20b+c%zz%e4%bd%a0"), "a b c%zz你");
    }
}
