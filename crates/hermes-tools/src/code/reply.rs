//! Converts the result of a tool to one line for a script.

use serde_json::{Deserializer, Value, json};

/// Writes JSON compactly and adds text after it as `_hint`; any other text becomes a JSON string.
pub(super) fn line(content: &str) -> String {
    let mut values = Deserializer::from_str(content).into_iter::<Value>();
    let value = match values.next() {
        Some(Ok(value)) => {
            let rest = content.get(values.byte_offset()..).unwrap_or_default().trim();
            with_hint(value, rest, content)
        }
        _ => Value::String(content.to_owned()),
    };
    format!("{value}\n")
}

pub(super) fn error(words: &str) -> String {
    format!("{}\n", json!({ "error": words }))
}

fn with_hint(value: Value, rest: &str, content: &str) -> Value {
    match value {
        value if rest.is_empty() => value,
        Value::Object(mut fields) => {
            fields.insert("_hint".to_owned(), json!(rest));
            Value::Object(fields)
        }
        _ => Value::String(content.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_one_line() {
        for (content, expected) in [
            ("{\"a\": \"x\\ny\",\n \"b\": 1.50}", r#"{"a":"x\ny","b":1.5}"#),
            ("{\"a\": 1}\n\n[Hint: more]", r#"{"a":1,"_hint":"[Hint: more]"}"#),
            ("plain\ntext", r#""plain\ntext""#),
            ("12 files\nmore", r#""12 files\nmore""#),
            ("[1]", "[1]"),
            ("", r#""""#),
            ("{broken", r#""{broken""#),
        ] {
            assert_eq!(line(content), format!("{expected}\n"), "{content}");
        }
    }
}
