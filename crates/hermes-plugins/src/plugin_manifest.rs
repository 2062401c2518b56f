//! `plugin.yaml`: what a plugin says about itself.

use std::fs;
use std::path::Path;

use hermes_config::yaml::{self, YamlValue};

const NAMES: [&str; 2] = ["plugin.yaml", "plugin.yml"];
/// The latest form of the file that is understood.
const NEWEST_VERSION: i128 = 1;

/// A variable that a plugin needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginVariable {
    pub name: String,
    pub description: Option<String>,
    pub url: Option<String>,
}

/// The manifest of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PluginManifest {
    pub name: String,
    pub version: String,
    pub description: String,
    pub author: String,
    pub requires_env: Vec<PluginVariable>,
    /// Set if the manifest has a form that this release does not know.
    pub too_new: bool,
}

impl PluginManifest {
    /// Reads the manifest of a folder. Returns `None` if there is none, and the reason if it cannot be read.
    pub fn read(folder: &Path) -> Option<Result<Self, String>> {
        let file = NAMES.into_iter().map(|name| folder.join(name)).find(|file| file.is_file())?;
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => return Some(Err(format!("{}: {error}", file.display()))),
        };
        let usual = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Some(Self::parse(&text, &usual).map_err(|reason| format!("{}: {reason}", file.display())))
    }

    /// Reads the text of a manifest. `usual` is the name of a plugin that does not say its own.
    pub fn parse(text_of_file: &str, usual: &str) -> Result<Self, String> {
        let data = yaml::parse(text_of_file).map_err(|error| error.to_string())?;
        if !matches!(data, YamlValue::Map(_) | YamlValue::Null) {
            return Err("it is not a mapping".to_owned());
        }
        let text = |key: &str| {
            let found = data.get(key).and_then(YamlValue::scalar_text).map(|text| text.trim().to_owned());
            found.unwrap_or_default()
        };
        let name = Some(text("name")).filter(|name| !name.is_empty()).unwrap_or_else(|| usual.to_owned());
        let version = data.get("manifest_version").and_then(YamlValue::as_int).unwrap_or(NEWEST_VERSION);
        let variables = data.get("requires_env").and_then(YamlValue::as_seq).unwrap_or_default();
        Ok(Self {
            name,
            version: plain_text(text_of_file, "version").unwrap_or_else(|| text("version")),
            description: text("description"),
            author: text("author"),
            requires_env: variables.iter().filter_map(variable).collect(),
            too_new: version > NEWEST_VERSION,
        })
    }
}

/// Returns the value of a key as it is written, because `1.10` is not the number 1.1.
fn plain_text(yaml: &str, key: &str) -> Option<String> {
    let mut lines = yaml.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let value = value.split(" #").next().unwrap_or(value).trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    (!value.is_empty() && value.chars().all(is_number)).then(|| value.to_owned())
}

fn variable(entry: &YamlValue) -> Option<PluginVariable> {
    let text = |key: &str| entry.get(key).and_then(YamlValue::scalar_text);
    let name = entry.scalar_text().or_else(|| text("name"))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(is_name)).then(|| PluginVariable {
        name,
        description: text("description"),
        url: text("url"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_leniently() {
        let text = "version: 1.10\nrequires_env:\n- A_KEY\n- {name: B_KEY, url: 'https://b.example'}\n- 'not a name'\n";
        let manifest = PluginManifest::parse(text, "folder").unwrap();
        assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("folder", "1.10"));
        let names: Vec<&str> = manifest.requires_env.iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names, ["A_KEY", "B_KEY"]);
        assert!(!manifest.too_new && PluginManifest::parse("manifest_version: 2", "x").unwrap().too_new);
        assert!(PluginManifest::parse("- a\n", "x").is_err());
        assert_eq!(PluginManifest::parse("", "x").unwrap().name, "x");
    }
}
