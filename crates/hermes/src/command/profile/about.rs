//! `profile.yaml`: what a profile is for, and where it came from. Other releases read and write the same file.

use std::fs;

use anyhow::Result;
use hermes_config::yaml::{YamlValue, emit_block, parse};
use hermes_config::{Home, write};

const FILE: &str = "profile.yaml";
/// Where earlier releases of this program kept the description.
const OLD_FILE: &str = "DESCRIPTION";

/// The file of a profile. Keys that are not known here are kept.
pub(super) struct ProfileAbout {
    tree: YamlValue,
}

impl ProfileAbout {
    pub(super) fn read(home: &Home) -> Self {
        let text = fs::read_to_string(home.join(FILE)).unwrap_or_default();
        let tree = parse(&text).ok().filter(|tree| tree.as_map().is_some());
        let mut about =
            Self { tree: tree.unwrap_or_else(|| YamlValue::Map(hermes_config::yaml::YamlMap::new())) };
        if about.description().is_none()
            && let Ok(text) = fs::read_to_string(home.join(OLD_FILE))
        {
            about.describe(text.trim());
        }
        about
    }

    pub(super) fn description(&self) -> Option<&str> {
        self.tree.get("description").and_then(YamlValue::as_str).filter(|text| !text.trim().is_empty())
    }

    pub(super) fn describe(&mut self, text: &str) {
        self.set("description", YamlValue::from(text));
        self.set("description_auto", YamlValue::Bool(false));
    }

    /// Returns where the distribution of the profile came from.
    pub(super) fn source(&self) -> Option<&str> {
        self.tree.lookup("distribution.source").and_then(YamlValue::as_str)
    }

    /// Returns when the distribution was installed or updated.
    pub(super) fn installed_at(&self) -> Option<&str> {
        self.tree.lookup("distribution.installed_at").and_then(YamlValue::as_str)
    }

    pub(super) fn set_distribution(&mut self, source: &str, installed_at: &str) {
        self.tree.set_path(&["distribution".to_owned(), "source".to_owned()], YamlValue::from(source));
        self.tree
            .set_path(&["distribution".to_owned(), "installed_at".to_owned()], YamlValue::from(installed_at));
    }

    pub(super) fn write(&self, home: &Home) -> Result<()> {
        Ok(write::replace(&home.join(FILE), emit_block(&self.tree).as_bytes())?)
    }

    fn set(&mut self, name: &str, value: YamlValue) {
        self.tree.set_path(&[name.to_owned()], value);
    }
}
