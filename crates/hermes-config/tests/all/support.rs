//! A home in a temporary folder.

use std::fs;

use hermes_config::{Config, Env, Home};
use tempfile::TempDir;

pub(crate) struct ConfigFixture {
    _folder: TempDir,
    pub(crate) home: Home,
}

impl ConfigFixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = Home::new(folder.path().join("home"));
        home.ensure().expect("folders");
        Self { _folder: folder, home }
    }

    pub(crate) fn with_config(text: &str) -> Self {
        let temp = Self::new();
        fs::write(temp.home.config(), text).expect("config.yaml");
        temp
    }

    pub(crate) fn config_text(&self) -> String {
        fs::read_to_string(self.home.config()).expect("config.yaml")
    }

    pub(crate) fn dotenv_text(&self) -> String {
        fs::read_to_string(self.home.dotenv()).unwrap_or_default()
    }

    pub(crate) fn load(&self, env: &Env) -> Config {
        Config::load(&self.home, env)
    }
}

pub(crate) fn env(pairs: &[(&str, &str)]) -> Env {
    Env::from_pairs(pairs.iter().copied())
}

/// Builds a configuration from text.
pub(crate) fn config(text: &str, pairs: &[(&str, &str)]) -> Config {
    Config::from_text(std::path::Path::new("/home/u/.hermes/config.yaml"), text, &env(pairs))
}

/// Returns the names in a folder that look like temporary files of a write.
pub(crate) fn leftovers(folder: &std::path::Path) -> Vec<String> {
    fs::read_dir(folder)
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.contains(".tmp."))
        .collect()
}
