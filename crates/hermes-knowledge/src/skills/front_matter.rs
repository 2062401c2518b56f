//! Reads `SKILL.md` and `DESCRIPTION.md`: the front matter as data, the rest as text.
//!
//! Reading is lenient: whatever is malformed is empty, and no file is refused for what it contains. Reading is
//! bounded: a caller says how many characters it wants.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hermes_config::yaml::{self, YamlMap, YamlValue};
use hermes_text::head;

/// A file of a skill, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SkillDocument {
    /// The front matter, which is always a mapping.
    pub(crate) data: YamlValue,
    pub(crate) body: String,
}

impl SkillDocument {
    /// Takes a text apart. Front matter that is not closed leaves neither data nor body.
    pub(crate) fn parse(text: &str) -> Self {
        let empty = YamlValue::Map(YamlMap::new());
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some(rest) = text.strip_prefix("---") else {
            return Self { data: empty, body: text.to_owned() };
        };
        let Some((block, body)) = split_at_closing_line(rest) else {
            return Self { data: empty, body: String::new() };
        };
        let data = match yaml::parse(block) {
            Ok(value) if value.as_map().is_some() => value,
            Ok(_) => empty,
            Err(_) => YamlValue::Map(plain_lines(block)),
        };
        Self { data, body: body.to_owned() }
    }

    /// Returns the front matter of a text, if it has one that is closed.
    pub(crate) fn front_matter(text: &str) -> Option<&str> {
        split_at_closing_line(text.strip_prefix("---")?).map(|(block, _)| block)
    }

    /// Reads the first `chars` characters of a file.
    pub(crate) fn read(path: &Path, chars: usize) -> Option<Self> {
        bounded_text(&Self::real_path(path)?, chars).map(|text| Self::parse(&text))
    }

    /// Follows links to a file. One to a file of another name is not followed, so that no other file of the user is shown
    /// as a skill.
    pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok()?;
        (real.file_name() == path.file_name()).then_some(real)
    }

    /// Returns a field as one text; missing and blank ones are `None`.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        scalar(&self.data, key)
    }

    /// Returns the first line of the body that is neither blank nor a heading.
    pub(crate) fn first_line(&self) -> Option<String> {
        let mut lines = self.body.lines().map(str::trim);
        lines.find(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
    }
}

/// Returns a field of a mapping as a text; missing and blank ones are `None`.
pub(crate) fn scalar(value: &YamlValue, key: &str) -> Option<String> {
    value.get(key).and_then(YamlValue::scalar_text).filter(|text| !text.trim().is_empty())
}

/// Returns a field that is a list, or a text with commas.
pub(crate) fn list(value: &YamlValue, key: &str) -> Vec<String> {
    let parts: Vec<String> = match value.get(key) {
        Some(YamlValue::Seq(items)) => items.iter().filter_map(YamlValue::scalar_text).collect(),
        Some(YamlValue::Null) | None => Vec::new(),
        Some(other) => {
            other.scalar_text().map(|text| text.split(',').map(str::to_owned).collect()).unwrap_or_default()
        }
    };
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Reads the first `chars` characters of a regular file.
pub(crate) fn bounded_text(path: &Path, chars: usize) -> Option<String> {
    // Opening a pipe would wait for its writer.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // A character takes at most four bytes.
    let most = u64::try_from(chars).unwrap_or(u64::MAX).saturating_mul(4);
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(head(&String::from_utf8_lossy(&bytes), chars).to_owned())
}

/// Splits a text at the first line that is `---` alone.
fn split_at_closing_line(rest: &str) -> Option<(&str, &str)> {
    for (at, _) in rest.match_indices("\n---") {
        let after = rest.get(at + 4..)?;
        let (line, body) = after.split_once('\n').unwrap_or((after, ""));
        if line.trim().is_empty() {
            return Some((rest.get(..at)?, body));
        }
    }
    None
}

/// Reads `key: value` lines, for front matter that is not YAML.
fn plain_lines(block: &str) -> YamlMap {
    let mut map = YamlMap::new();
    for (key, value) in block.lines().filter_map(|line| line.split_once(':')) {
        if !key.trim().is_empty() {
            map.insert(key.trim(), YamlValue::Str(value.trim().to_owned()));
        }
    }
    map
}
