//! A mapping that keeps the order its keys were written in.

use super::YamlValue;

/// One key with its value.
#[derive(Clone, Debug)]
pub struct YamlEntry {
    pub key: String,
    pub value: YamlValue,
    /// Tells whether the key was written unquoted and YAML 1.1 reads it as something other than text (`123:`,
    /// `on:`). The map looks it up by its spelling; a save must not quote it, or other readers would see a
    /// different key.
    pub typed_key: bool,
}

impl PartialEq for YamlEntry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.value == other.value
    }
}

/// A mapping with keys in file order, looked up by their text. Configuration maps are short, so a lookup is a
/// scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct YamlMap {
    entries: Vec<YamlEntry>,
}

impl YamlMap {
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a map from entries whose keys the caller knows to be distinct.
    pub(super) fn from_distinct(entries: Vec<YamlEntry>) -> Self {
        Self { entries }
    }

    /// Appends an entry whose key the caller knows to be new.
    pub(crate) fn push_new(&mut self, entry: YamlEntry) {
        self.entries.push(entry);
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&YamlValue> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut YamlValue> {
        self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Replaces the value in place, or appends an entry.
    pub fn insert(&mut self, key: impl Into<String>, value: YamlValue) {
        let key = key.into();
        match self.get_mut(&key) {
            Some(slot) => *slot = value,
            None => self.entries.push(YamlEntry { key, value, typed_key: false }),
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<YamlValue> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index).value)
    }

    /// Returns the value under `key`, created as null when absent.
    pub fn slot(&mut self, key: &str) -> &mut YamlValue {
        let index = self.entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            self.entries.push(YamlEntry { key: key.to_owned(), value: YamlValue::Null, typed_key: false });
            self.entries.len() - 1
        });
        &mut self.entries[index].value
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &YamlValue)> {
        self.entries.iter().map(|entry| (entry.key.as_str(), &entry.value))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut YamlValue)> {
        self.entries.iter_mut().map(|entry| (entry.key.as_str(), &mut entry.value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    pub fn entries(&self) -> &[YamlEntry] {
        &self.entries
    }
}

impl FromIterator<(String, YamlValue)> for YamlMap {
    fn from_iter<I: IntoIterator<Item = (String, YamlValue)>>(pairs: I) -> Self {
        let mut map = Self::new();
        for (key, value) in pairs {
            map.insert(key, value);
        }
        map
    }
}
