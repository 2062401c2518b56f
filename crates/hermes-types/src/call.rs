//! A tool call as the model wrote it and as the transcript stores it.

use std::fmt::Write as _;

use serde::de::Deserializer;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use crate::id::CallId;
use crate::raw_json::{JsonFields, RawJson};

/// A tool call: `{id, call_id, response_item_id, type: "function", function: {name, arguments}}`, and any other
/// fields that came with it.
///
/// `arguments` is always a JSON *string*, never an object, whatever the provider sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub id: CallId,
    pub call_id: Option<String>,
    pub response_item_id: Option<String>,
    pub name: String,
    pub arguments: String,
    /// Provider data that must be sent back unchanged, such as a thought signature.
    pub extra_content: Option<RawJson>,
    /// The fields of the call that this version does not know.
    pub extra: JsonFields,
    /// The fields of `function` that this version does not know.
    pub function_extra: JsonFields,
}

impl ToolCall {
    /// Builds a call and derives every id from the one the provider gave, if it gave any.
    pub fn new(given_id: Option<&str>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        let ids = CallIds::derive(given_id, None);
        Self {
            id: CallId::new(ids.call_id.clone()),
            call_id: Some(ids.call_id),
            response_item_id: Some(ids.response_item_id),
            name: name.into(),
            arguments: arguments.into(),
            extra_content: None,
            extra: JsonFields::default(),
            function_extra: JsonFields::default(),
        }
    }
}

/// The two ids by which the Responses API identifies a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallIds {
    pub call_id: String,
    pub response_item_id: String,
}

impl CallIds {
    /// Splits a combined `call_x|fc_y`, distinguishes the two kinds of bare id, and generates the missing ones.
    pub fn derive(given_id: Option<&str>, given_item_id: Option<&str>) -> Self {
        let given = given_id.map(str::trim).filter(|id| !id.is_empty());
        let (call, item) = match given {
            Some(id) => match id.split_once('|') {
                Some((call, item)) => (Some(call), Some(item)),
                None if id.starts_with("fc_") => (None, Some(id)),
                None => (Some(id), None),
            },
            None => (None, None),
        };
        let call_id = match call.filter(|id| !id.is_empty()) {
            Some(call) => call.to_owned(),
            None => CallId::generate().as_str().to_owned(),
        };
        let item = given_item_id.or(item).filter(|id| !id.is_empty());
        let response_item_id = response_item_id(item.unwrap_or(&call_id));
        Self { call_id, response_item_id }
    }
}

fn response_item_id(source: &str) -> String {
    if source.starts_with("fc_") {
        return source.to_owned();
    }
    if let Some(rest) = source.strip_prefix("call_") {
        return format!("fc_{rest}");
    }
    let kept: String =
        source.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(48).collect();
    if !kept.is_empty() {
        return format!("fc_{kept}");
    }
    let mut id = "fc_".to_owned();
    for byte in Sha1::digest(source.as_bytes()).iter().take(12) {
        // Writing to a `String` cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            arguments: &'a str,
            #[serde(flatten)]
            extra: std::collections::BTreeMap<&'a str, &'a RawJson>,
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        if let Some(call_id) = &self.call_id {
            map.serialize_entry("call_id", call_id)?;
        }
        if let Some(item_id) = &self.response_item_id {
            map.serialize_entry("response_item_id", item_id)?;
        }
        map.serialize_entry("type", "function")?;
        let extra = self.function_extra.iter().collect();
        map.serialize_entry("function", &Function { name: &self.name, arguments: &self.arguments, extra })?;
        if let Some(extra_content) = &self.extra_content {
            map.serialize_entry("extra_content", extra_content)?;
        }
        for (key, raw) in self.extra.iter() {
            map.serialize_entry(key, raw)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = JsonFields::deserialize(deserializer)?;
        let mut function: JsonFields = fields.take_as("function")?.unwrap_or_default();
        let given_id: Option<String> = fields.take_as("id")?;
        fields.take("type");
        Ok(Self {
            id: given_id.filter(|id| !id.is_empty()).map_or_else(CallId::generate, CallId::new),
            call_id: fields.take_as("call_id")?,
            response_item_id: fields.take_as("response_item_id")?,
            name: function.take_as("name")?.unwrap_or_default(),
            arguments: arguments_text(function.take("arguments")),
            extra_content: fields.take("extra_content"),
            extra: fields,
            function_extra: function,
        })
    }
}

/// Returns the arguments as text. Some servers send them already parsed; these are kept as they were written.
/// Absent arguments become an empty object.
fn arguments_text(raw: Option<RawJson>) -> String {
    let Some(raw) = raw else { return "{}".to_owned() };
    raw.read::<String>().unwrap_or_else(|_| raw.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_ids(given: Option<&str>, call: &str, item: &str) {
        let ids = CallIds::derive(given, None);
        assert_eq!((ids.call_id.as_str(), ids.response_item_id.as_str()), (call, item), "given {given:?}");
    }

    #[test]
    fn ids_are_split_and_derived() {
        check_ids(Some("call_x|fc_y"), "call_x", "fc_y");
        check_ids(Some("call_abc"), "call_abc", "fc_abc");
        check_ids(Some("toolu_01!é"), "toolu_01!é", "fc_toolu_01");
    }

    #[test]
    fn missing_ids_are_made_up() {
        let none = CallIds::derive(None, None);
        assert!(none.call_id.starts_with("call_") && none.call_id.len() == 17, "{none:?}");
        assert_eq!(none.response_item_id, none.call_id.replace("call_", "fc_"));

        let item_only = CallIds::derive(Some("fc_only"), None);
        assert_eq!(item_only.response_item_id, "fc_only");
        assert!(item_only.call_id.starts_with("call_"));

        let unusable = CallIds::derive(Some("çé"), None);
        assert_eq!(unusable.response_item_id.len(), "fc_".len() + 24);
        assert_eq!(unusable, CallIds::derive(Some("çé"), None), "derived from the source alone");
    }

    fn check_arguments(json: &str, arguments: &str) {
        let call: ToolCall = serde_json::from_str(json).unwrap();
        assert_eq!(call.arguments, arguments, "{json}");
    }

    #[test]
    fn arguments_are_always_text() {
        check_arguments(r#"{"id":"a","function":{"name":"t","arguments":"{\"x\": 1}"}}"#, r#"{"x": 1}"#);
        check_arguments(r#"{"id":"a","function":{"name":"t","arguments":{"x": 1}}}"#, r#"{"x": 1}"#);
        check_arguments(r#"{"id":"a","function":{"name":"t","arguments":null}}"#, "{}");
        check_arguments(r#"{"id":"a","function":{"name":"t"}}"#, "{}");
    }

    #[test]
    fn what_it_does_not_know_survives() {
        let text = r#"{"id":"a","type":"function","function":{"name":"t","arguments":"{}","strict":1.50},"extra_content":{"s": "q=="},"index":0}"#;
        let call: ToolCall = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&call).unwrap(), text);
    }
}
