//! Finds plugins: folders with a manifest in the home, and in the project where that is enabled.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_config::{Config, Env, Home};

use crate::plugin_manifest::PluginManifest;

/// Where a plugin was found. Later ones replace earlier ones of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginOrigin {
    /// `plugins/` in the home.
    Home,
    /// `.hermes/plugins/` in the working folder.
    Project,
    /// A Python package that is enabled by its name.
    Package,
}

/// Says whether a plugin is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginActivation {
    Enabled,
    /// It is not in `plugins.enabled`, or it is in `plugins.disabled`.
    Disabled,
    /// It cannot be used, for this reason.
    Unusable(String),
}

/// A plugin that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPlugin {
    pub manifest: PluginManifest,
    pub folder: PathBuf,
    pub origin: PluginOrigin,
    pub activation: PluginActivation,
    /// The required variables that are not set.
    pub missing_variables: Vec<String>,
}

impl FoundPlugin {
    pub fn is_enabled(&self) -> bool {
        self.activation == PluginActivation::Enabled
    }

    /// Tells whether the folder is a checkout that can be updated.
    pub fn is_checkout(&self) -> bool {
        self.folder.join(".git").exists()
    }
}

/// Finds the plugins of a home and of a working folder, sorted by name. Reads manifests only.
pub fn find_plugins(home: &Home, folder: &Path, config: &Config, env: &Env) -> Vec<FoundPlugin> {
    if env.bool("HERMES_SAFE_MODE") == Some(true) {
        return Vec::new();
    }
    let mut roots = vec![(home.plugins(), PluginOrigin::Home)];
    if env.bool("HERMES_ENABLE_PROJECT_PLUGINS") == Some(true) {
        roots.push((folder.join(".hermes/plugins"), PluginOrigin::Project));
    }
    let mut found: Vec<FoundPlugin> = Vec::new();
    for (root, origin) in roots {
        for folder in folders(&root) {
            let Some(plugin) = read(folder, origin, env) else { continue };
            found.retain(|known| known.manifest.name != plugin.manifest.name);
            found.push(plugin);
        }
    }
    let enabled = config.list("plugins.enabled");
    let disabled = config.list("plugins.disabled");
    for name in &enabled {
        if !found.iter().any(|plugin| is_named(plugin, name)) {
            let manifest = PluginManifest { name: name.clone(), ..PluginManifest::default() };
            found.push(FoundPlugin {
                manifest,
                folder: PathBuf::new(),
                origin: PluginOrigin::Package,
                activation: PluginActivation::Enabled,
                missing_variables: Vec::new(),
            });
        }
    }
    for plugin in &mut found {
        let is_in = |names: &[String]| names.iter().any(|name| is_named(plugin, name));
        if plugin.is_enabled() && (!is_in(&enabled) || is_in(&disabled)) {
            plugin.activation = PluginActivation::Disabled;
        }
    }
    found.sort_by(|a, b| a.manifest.name.cmp(&b.manifest.name));
    found
}

fn is_named(plugin: &FoundPlugin, name: &str) -> bool {
    plugin.manifest.name == name || plugin.folder.file_name().is_some_and(|folder| folder == name)
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir() && !is_hidden(path)).collect();
    folders.sort();
    folders
}

fn read(folder: PathBuf, origin: PluginOrigin, env: &Env) -> Option<FoundPlugin> {
    let (manifest, mut activation) = match PluginManifest::read(&folder)? {
        Ok(manifest) => (manifest, PluginActivation::Enabled),
        Err(reason) => {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (PluginManifest { name, ..PluginManifest::default() }, PluginActivation::Unusable(reason))
        }
    };
    if manifest.too_new {
        activation = PluginActivation::Unusable("its manifest_version is newer than this release".to_owned());
    } else if activation == PluginActivation::Enabled && !folder.join("__init__.py").is_file() {
        activation = PluginActivation::Unusable("it has no __init__.py".to_owned());
    }
    let names = manifest.requires_env.iter().map(|variable| variable.name.clone());
    let missing_variables = names.filter(|name| env.get(name).is_none()).collect();
    Some(FoundPlugin { manifest, folder, origin, activation, missing_variables })
}
