//! Reads untrusted JSON objects: a field of the wrong type counts as absent, never as an error.

use hermes_types::{JsonFields, RawJson};
use serde_json::Value;

pub(crate) trait JsonFieldsExt {
    fn text(&self, name: &str) -> Option<String>;
    fn number(&self, name: &str) -> Option<u64>;
    fn object(&self, name: &str) -> Option<JsonFields>;
    fn list(&self, name: &str) -> Option<Vec<RawJson>>;
    /// Returns a string or number as text.
    fn scalar(&self, name: &str) -> Option<String>;
    /// Returns a field that is present and not null.
    fn non_null(&self, name: &str) -> Option<&RawJson>;
}

impl JsonFieldsExt for JsonFields {
    fn text(&self, name: &str) -> Option<String> {
        read_text(self.get(name)?)
    }

    fn number(&self, name: &str) -> Option<u64> {
        whole_number(&self.get(name)?.to_value())
    }

    fn object(&self, name: &str) -> Option<JsonFields> {
        self.get(name)?.read().ok()
    }

    fn list(&self, name: &str) -> Option<Vec<RawJson>> {
        self.get(name)?.read().ok()
    }

    fn scalar(&self, name: &str) -> Option<String> {
        match self.get(name)?.to_value() {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn non_null(&self, name: &str) -> Option<&RawJson> {
        self.get(name).filter(|raw| !raw.is_null())
    }
}

/// Reads a string; an unpaired surrogate, which some servers send, becomes U+FFFD instead of invalidating the whole
/// text.
pub(crate) fn read_text(raw: &RawJson) -> Option<String> {
    if let Ok(text) = raw.read::<String>() {
        return Some(text);
    }
    if !raw.as_str().starts_with('"') {
        return None;
    }
    serde_json::from_str(&repair_surrogates(raw.as_str())).ok()
}

fn repair_surrogates(json: &str) -> String {
    let unit =
        |rest: &str| -> Option<u16> { u16::from_str_radix(rest.strip_prefix("\\u")?.get(..4)?, 16).ok() };
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, _)) = rest.split_once('\\') {
        out.push_str(before);
        let escape = rest.get(before.len()..).unwrap_or_default();
        let take = match unit(escape) {
            Some(0xd800..=0xdbff) if matches!(escape.get(6..).and_then(unit), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                out.push('\u{fffd}');
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            Some(_) => 6,
            None => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at_checked(take).unwrap_or((escape, ""));
        out.push_str(kept);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Reads a count, which servers write as integers, floats and strings.
pub(crate) fn whole_number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(floor)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
fn floor(number: f64) -> Option<u64> {
    (number.is_finite() && (0.0..9.0e15).contains(&number)).then_some(number as u64)
}

/// Joins raw values to a list without changing their bytes.
pub(crate) fn raw_list<'a>(items: impl IntoIterator<Item = &'a RawJson>) -> Option<RawJson> {
    let items: Vec<&str> = items.into_iter().map(RawJson::as_str).collect();
    if items.is_empty() {
        return None;
    }
    RawJson::parse(format!("[{}]", items.join(","))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_pairs_do_not_cost_the_text() {
        let check = |json: &str, expected: &str| {
            let raw = RawJson::parse(json.to_owned()).unwrap();
            assert_eq!(read_text(&raw).as_deref(), Some(expected), "{json}");
        };
        check(r#""a\ud83d""#, "a\u{fffd}");
        check(r#""\ude00b\\ud83d \n""#, "\u{fffd}b\\ud83d \n");
        check(r#""\ud83d\ude00 \ud83d\u0041é""#, "😀 \u{fffd}Aé");
        assert_eq!(read_text(&RawJson::parse("7".into()).unwrap()), None);
    }

    #[test]
    fn a_wrong_type_is_an_absent_field() {
        let fields: JsonFields =
            serde_json::from_str(r#"{"a":"1","b":2.0,"c":[1, 2],"d":null,"e":-1,"f":1e99}"#).unwrap();
        assert_eq!((fields.number("a"), fields.number("b"), fields.number("e")), (Some(1), Some(2), None));
        assert_eq!((fields.number("f"), fields.text("b"), fields.object("c").is_some()), (None, None, false));
        assert_eq!(fields.scalar("b").as_deref(), Some("2.0"));
        assert!(fields.non_null("d").is_none() && fields.non_null("c").is_some());
        assert_eq!(raw_list(&fields.list("c").unwrap()).unwrap().as_str(), "[1,2]");
    }
}
