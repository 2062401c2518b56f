//! Skin files: `skins/NAME.yaml` in the home, and the built-in skins.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hermes_config::Home;
use hermes_config::yaml::{self, YamlValue};
use hermes_tui::Skin;

/// The largest skin file that is read.
const MAX_BYTES: u64 = 256 * 1024;

/// Loads a skin by name: the user's, else a built-in one, else the default.
pub(crate) fn load(name: &str, home: &Home) -> Skin {
    find(name, home).or_else(|| Skin::built_in("default")).unwrap_or_default()
}

/// Finds a skin by name. A file that is no skin is logged and ignored.
pub(crate) fn find(name: &str, home: &Home) -> Option<Skin> {
    let is_name = !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
    let path = home.skins().join(format!("{name}.yaml"));
    let own = is_name.then(|| read(&path)).flatten();
    own.or_else(|| Skin::built_in(name))
}

/// Lists the skins with what they look like: the user's own last.
pub(crate) fn list(home: &Home) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        Skin::built_in_names().map(|(name, about)| (name.to_owned(), about.to_owned())).collect();
    let files = fs::read_dir(home.skins()).into_iter().flatten().flatten();
    let mut own: Vec<Skin> = files
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .filter_map(|path| read(&path))
        .collect();
    own.sort_by(|a, b| a.name.cmp(&b.name));
    for skin in own {
        all.retain(|(name, _)| *name != skin.name);
        all.push((skin.name, skin.description));
    }
    all
}

fn read(path: &Path) -> Option<Skin> {
    if fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    let skin = yaml::parse(&fs::read_to_string(path).ok()?).ok().and_then(|value| parse(&value));
    if skin.is_none() {
        tracing::warn!("{} is no skin: it needs at least a `name`", path.display());
    }
    skin
}

/// Reads a skin. What it lacks, a built-in skin of its name gives.
fn parse(value: &YamlValue) -> Option<Skin> {
    let name = value.get("name").and_then(YamlValue::scalar_text).filter(|name| !name.is_empty())?;
    let text = |dotted: &str| value.lookup(dotted).and_then(YamlValue::scalar_text);
    let texts = |dotted: &str| -> BTreeMap<String, String> {
        let map = value.lookup(dotted).and_then(YamlValue::as_map);
        let entries = map.into_iter().flat_map(yaml::YamlMap::iter);
        entries.filter_map(|(key, value)| Some((key.to_owned(), value.scalar_text()?))).collect()
    };
    let mut skin = Skin::built_in(&name).unwrap_or_default();
    skin.name = name;
    skin.colors.extend(texts("colors"));
    skin.colors_light.extend(texts("colors_light"));
    skin.tool_emojis.extend(texts("tool_emojis"));
    for (dotted, word) in [
        ("description", &mut skin.description),
        ("branding.agent_name", &mut skin.agent_name),
        ("branding.welcome", &mut skin.welcome),
        ("branding.goodbye", &mut skin.goodbye),
        ("branding.response_label", &mut skin.response_label),
        ("branding.prompt_symbol", &mut skin.prompt_symbol),
        ("tool_prefix", &mut skin.tool_prefix),
        ("banner_logo", &mut skin.banner_logo),
        ("banner_hero", &mut skin.banner_hero),
    ] {
        if let Some(own) = text(dotted) {
            *word = own;
        }
    }
    let verbs = value.lookup("spinner.thinking_verbs").and_then(YamlValue::as_seq);
    skin.thinking_verbs = verbs.into_iter().flatten().filter_map(YamlValue::scalar_text).collect();
    Some(skin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names_and_keeps_the_rest() {
        let value = yaml::parse(
            "name: ares\ncolors: {ui_ok: '#010203'}\nbranding: {prompt_symbol: '> ', welcome: Hi}\nspinner: {thinking_verbs: [brewing]}\n",
        );
        let skin = parse(&value.unwrap()).unwrap();
        assert_eq!((skin.colors["ui_ok"].as_str(), skin.welcome.as_str()), ("#010203", "Hi"));
        assert_eq!((skin.prompt_symbol.as_str(), skin.tool_prefix.as_str()), ("> ", "╎"));
        assert_eq!(skin.thinking_verbs, ["brewing"]);
        assert!(parse(&yaml::parse("colors: {}").unwrap()).is_none());
    }
}
