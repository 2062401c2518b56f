//! The tree as which a request body is built.
//!
//! A `serde_json::Value` re-renders numbers and spacing, and a provider refuses a signature of which one byte
//! changed. This tree keeps such values as the text they arrived as, and borrows the conversation instead of
//! copying it.

use std::borrow::Cow;

use hermes_types::RawJson;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// One JSON value of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonNode<'a> {
    Value(Value),
    Text(Cow<'a, str>),
    Raw(Cow<'a, RawJson>),
    List(Vec<JsonNode<'a>>),
    Object(JsonObject<'a>),
}

/// A JSON object in the order in which its fields were set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JsonObject<'a>(Vec<(&'static str, JsonNode<'a>)>);

impl<'a> JsonObject<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, node: impl Into<JsonNode<'a>>) -> Self {
        self.set(name, node);
        self
    }

    pub fn set(&mut self, name: &'static str, node: impl Into<JsonNode<'a>>) {
        let node = node.into();
        match self.0.iter_mut().find(|(key, _)| *key == name) {
            Some((_, slot)) => *slot = node,
            None => self.0.push((name, node)),
        }
    }

    pub fn get(&self, name: &str) -> Option<&JsonNode<'a>> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, node)| node)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut JsonNode<'a>> {
        self.0.iter_mut().find(|(key, _)| *key == name).map(|(_, node)| node)
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(key, _)| *key != name);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Returns the body as it is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Every key is a string and every raw value was valid JSON when it was created, so this cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the body as a value, for inspection; it may differ from the bytes in the rendering of numbers.
    pub fn to_value(&self) -> Value {
        serde_json::from_slice(&self.to_bytes()).unwrap_or_default()
    }
}

impl Serialize for JsonObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, node)| (name, node)))
    }
}

impl Serialize for JsonNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Text(text) => text.serialize(serializer),
            Self::Raw(raw) => raw.serialize(serializer),
            Self::List(list) => list.serialize(serializer),
            Self::Object(object) => object.serialize(serializer),
        }
    }
}

impl From<Value> for JsonNode<'_> {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<bool> for JsonNode<'_> {
    fn from(value: bool) -> Self {
        Self::Value(value.into())
    }
}

impl From<u64> for JsonNode<'_> {
    fn from(value: u64) -> Self {
        Self::Value(value.into())
    }
}

impl<'a> From<&'a str> for JsonNode<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for JsonNode<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<Cow<'a, str>> for JsonNode<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a RawJson> for JsonNode<'a> {
    fn from(raw: &'a RawJson) -> Self {
        Self::Raw(Cow::Borrowed(raw))
    }
}

impl From<RawJson> for JsonNode<'_> {
    fn from(raw: RawJson) -> Self {
        Self::Raw(Cow::Owned(raw))
    }
}

impl<'a> From<Vec<JsonNode<'a>>> for JsonNode<'a> {
    fn from(list: Vec<JsonNode<'a>>) -> Self {
        Self::List(list)
    }
}

impl<'a> From<JsonObject<'a>> for JsonNode<'a> {
    fn from(object: JsonObject<'a>) -> Self {
        Self::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_values_keep_every_byte() {
        let raw = RawJson::parse(r#"[ {"n": 1.10e0, "s":"a\/b\u0041"} ]"#.to_owned()).unwrap();
        let object = JsonObject::new().with("a", 1_u64).with("details", &raw).with("a", "x");
        assert_eq!(object.to_bytes(), br#"{"a":"x","details":[ {"n": 1.10e0, "s":"a\/b\u0041"} ]}"#);
    }
}
