//! JSON kept exactly as it arrived, because signatures and encrypted data must go back to a provider byte for
//! byte.

use std::fmt;

use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One JSON value as text. Two values are equal when their bytes are.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Wraps a JSON text without changing it; the text must be one valid JSON value.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text).map(Self)
    }

    /// Returns the compact text of a value this program built.
    pub fn from_value(value: &serde_json::Value) -> Self {
        // `Value`'s `Display` cannot produce anything but valid JSON.
        Self(RawValue::from_string(value.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Deserialises the text as a typed value.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    pub fn to_value(&self) -> serde_json::Value {
        self.read().unwrap_or(serde_json::Value::Null)
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

/// The fields of a JSON object in order, each still raw. A typed reader uses it to keep the fields it does not
/// know.
///
/// `#[serde(flatten)]` would parse and re-render numbers and spacing, so typed objects are read through this
/// instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonFields(Vec<(String, RawJson)>);

impl JsonFields {
    /// Removes and returns a field; `null` counts as absent.
    pub fn take(&mut self, name: &str) -> Option<RawJson> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        let (_, raw) = self.0.remove(at);
        (!raw.is_null()).then_some(raw)
    }

    /// Removes a field and reads it as a typed value; the error names the field when it does not fit.
    pub fn take_as<T, E>(&mut self, name: &str) -> Result<Option<T>, E>
    where
        T: serde::de::DeserializeOwned,
        E: de::Error,
    {
        self.take(name)
            .map(|raw| raw.read().map_err(|error| E::custom(format!("{name}: {error}"))))
            .transpose()
    }

    pub fn get(&self, name: &str) -> Option<&RawJson> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, raw)| raw)
    }

    /// Sets a field, replacing one of the same name in place.
    pub fn set(&mut self, name: &str, raw: RawJson) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, slot)) => *slot = raw,
            None => self.0.push((name.to_owned(), raw)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter().map(|(key, raw)| (key.as_str(), raw))
    }
}

impl<'de> Deserialize<'de> for JsonFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = JsonFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<JsonFields, A::Error> {
                let mut fields = JsonFields::default();
                while let Some((key, raw)) = map.next_entry::<String, RawJson>()? {
                    fields.set(&key, raw);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl Serialize for JsonFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}
