//! The plain value tree and dotted paths into it.

use std::fmt;

use super::YamlMap;

/// A YAML value without its source form.
#[derive(Clone, PartialEq, Default)]
pub enum YamlValue {
    #[default]
    Null,
    Bool(bool),
    /// An integer, wide enough for every 64-bit id, signed or not.
    Int(i128),
    Float(f64),
    Str(String),
    Seq(Vec<YamlValue>),
    Map(YamlMap),
}

/// Prints only the structure, because values may be secrets.
impl fmt::Debug for YamlValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Str(text) => write!(f, "<text of {} chars>", text.chars().count()),
            Self::Seq(items) => f.debug_list().entries(items).finish(),
            Self::Map(map) => f.debug_map().entries(map.iter()).finish(),
        }
    }
}

impl YamlValue {
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a setting read as a fraction has no use for 53 bits")]
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Int(value) => Some(*value as f64),
            _ => None,
        }
    }

    pub fn as_seq(&self) -> Option<&[YamlValue]> {
        match self {
            Self::Seq(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&YamlMap> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_map_mut(&mut self) -> Option<&mut YamlMap> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the value under `key` when this is a mapping.
    pub fn get(&self, key: &str) -> Option<&YamlValue> {
        self.as_map()?.get(key)
    }

    /// Follows segments through mappings, and through lists by index.
    pub fn get_path<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Option<&YamlValue> {
        let mut here = self;
        for segment in segments {
            here = match here {
                Self::Map(map) => map.get(segment)?,
                Self::Seq(items) => items.get(segment.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(here)
    }

    /// Does the same as [`YamlValue::get_path`] for a dotted path written in code.
    pub fn lookup(&self, dotted: &str) -> Option<&YamlValue> {
        self.get_path(dotted.split('.'))
    }

    /// Returns the name of this kind of value, for people.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true/false",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Str(_) => "text",
            Self::Seq(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }

    /// Returns a scalar as plain text; `None` for lists and mappings. Ids are compared in this form.
    pub fn scalar_text(&self) -> Option<String> {
        match self {
            Self::Null => Some(String::new()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Int(value) => Some(value.to_string()),
            Self::Float(value) => Some(super::scalar::float_text(*value)),
            Self::Str(text) => Some(text.clone()),
            Self::Seq(_) | Self::Map(_) => None,
        }
    }

    /// Tells whether two values are equal as data: mapping order is ignored and a NaN equals a NaN.
    pub fn same_data(&self, other: &YamlValue) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b).is_eq() || (a.is_nan() && b.is_nan()),
            (Self::Seq(a), Self::Seq(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_data(b))
            }
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|((key, value), (other_key, other_value))| {
                        if key == other_key {
                            value.same_data(other_value)
                        } else {
                            b.get(key).is_some_and(|found| value.same_data(found))
                        }
                    })
            }
            (a, b) => a == b,
        }
    }

    /// Converts to the nearest JSON: numbers JSON cannot hold become text.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(small), _) => Json::from(small),
                (_, Ok(large)) => Json::from(large),
                _ => Json::String(value.to_string()),
            },
            Self::Float(value) => serde_json::Number::from_f64(*value)
                .map_or_else(|| Json::String(super::scalar::float_text(*value)), Json::Number),
            Self::Str(text) => Json::String(text.clone()),
            Self::Seq(items) => Json::Array(items.iter().map(YamlValue::to_json).collect()),
            Self::Map(map) => {
                Json::Object(map.iter().map(|(key, value)| (key.to_owned(), value.to_json())).collect())
            }
        }
    }

    pub fn from_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => number
                .as_i64()
                .map(i128::from)
                .or_else(|| number.as_u64().map(i128::from))
                .map_or_else(|| Self::Float(number.as_f64().unwrap_or_default()), Self::Int),
            Json::String(text) => Self::Str(text.clone()),
            Json::Array(items) => Self::Seq(items.iter().map(Self::from_json).collect()),
            Json::Object(map) => {
                Self::Map(map.iter().map(|(key, value)| (key.clone(), Self::from_json(value))).collect())
            }
        }
    }

    /// Sets the value at `path`: missing parents are created; parents that are neither a mapping nor a list
    /// indexed by number are replaced by a mapping. Returns `false` when a list index is out of range.
    pub fn set_path(&mut self, path: &[String], value: YamlValue) -> bool {
        let Some((head, rest)) = path.split_first() else {
            *self = value;
            return true;
        };
        if let Self::Seq(items) = self
            && let Ok(index) = head.parse::<usize>()
        {
            if index == items.len() && rest.is_empty() {
                items.push(value);
                return true;
            }
            return items.get_mut(index).is_some_and(|item| item.set_path(rest, value));
        }
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(YamlMap::new());
        }
        match self {
            Self::Map(map) => map.slot(head).set_path(rest, value),
            _ => false,
        }
    }

    /// Removes the value at `path`; returns `false` when nothing is there.
    pub fn remove_path(&mut self, path: &[String]) -> bool {
        match (self, path) {
            (Self::Map(map), [last]) => map.remove(last).is_some(),
            (Self::Map(map), [head, rest @ ..]) => {
                map.get_mut(head).is_some_and(|child| child.remove_path(rest))
            }
            (Self::Seq(items), [head, rest @ ..]) => match head.parse::<usize>() {
                Ok(index) if rest.is_empty() && index < items.len() => {
                    items.remove(index);
                    true
                }
                Ok(index) => items.get_mut(index).is_some_and(|child| child.remove_path(rest)),
                Err(_) => false,
            },
            _ => false,
        }
    }
}

impl From<&str> for YamlValue {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<bool> for YamlValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for YamlValue {
    fn from(value: i64) -> Self {
        Self::Int(i128::from(value))
    }
}

/// A path in the tree, one segment per level. Segments may contain dots, which the dotted spelling cannot express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPath(Vec<String>);

impl KeyPath {
    /// Parses a path such as `agent.max_turns`; returns `None` when a segment is empty.
    pub fn parse(dotted: &str) -> Option<Self> {
        let segments: Vec<String> = dotted.split('.').map(str::to_owned).collect();
        (!segments.iter().any(|segment| segment.trim().is_empty())).then_some(Self(segments))
    }

    /// Builds a path whose segments may themselves contain dots.
    pub fn from_segments(segments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(segments.into_iter().map(Into::into).collect())
    }

    pub fn segments(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}
