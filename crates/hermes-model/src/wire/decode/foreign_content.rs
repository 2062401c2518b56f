//! Content that is not a string: objects, lists and numbers, as some servers send them.

use hermes_types::{JsonFields, RawJson};
use serde_json::Value;

use crate::wire::fields::{JsonFieldsExt as _, read_text};

/// The text of a content, and the reasoning that a list may contain beside it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ForeignContent {
    pub(super) text: String,
    pub(super) thinking: String,
}

/// Reads a content: of an object its `text`, else its `content`, else its JSON; of a list its text parts joined by
/// newlines; of anything else its string form.
pub(super) fn read(raw: &RawJson) -> ForeignContent {
    if let Some(text) = read_text(raw) {
        return ForeignContent { text, ..ForeignContent::default() };
    }
    match raw.to_value() {
        Value::Null => ForeignContent::default(),
        Value::Object(_) => {
            let fields: JsonFields = raw.read().unwrap_or_default();
            let inner = fields.text("text").or_else(|| fields.text("content"));
            ForeignContent {
                text: inner.unwrap_or_else(|| raw.as_str().to_owned()),
                ..ForeignContent::default()
            }
        }
        Value::Array(_) => list(&raw.read::<Vec<RawJson>>().unwrap_or_default()),
        other => ForeignContent { text: other.to_string(), ..ForeignContent::default() },
    }
}

fn list(parts: &[RawJson]) -> ForeignContent {
    let (mut texts, mut thoughts) = (Vec::new(), Vec::new());
    for part in parts {
        if let Some(text) = read_text(part) {
            texts.push(text);
            continue;
        }
        let Ok(fields) = part.read::<JsonFields>() else { continue };
        if fields.text("type").as_deref() == Some("thinking") {
            thoughts.extend(fields.non_null("thinking").map(|inner| read(inner).text));
        } else {
            texts.extend(fields.text("text").or_else(|| fields.text("content")));
        }
    }
    ForeignContent { text: texts.join("\n"), thinking: thoughts.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, text: &str, thinking: &str) {
        let said = read(&RawJson::parse(json.to_owned()).unwrap());
        assert_eq!((said.text.as_str(), said.thinking.as_str()), (text, thinking), "{json}");
    }

    #[test]
    fn every_shape_has_a_text() {
        check(r#""a""#, "a", "");
        check("null", "", "");
        check("7", "7", "");
        check("true", "true", "");
        check(r#"{"text":"a","content":"b"}"#, "a", "");
        check(r#"{"content":"b"}"#, "b", "");
        check(r#"{"z": 1}"#, r#"{"z": 1}"#, "");
        check(r#"["a",{"type":"text","text":"b","annotations":[]},3,{"type":"image"}]"#, "a\nb", "");
        check(
            r#"[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"x"}]"#,
            "x",
            "t",
        );
        check("[]", "", "");
    }
}
