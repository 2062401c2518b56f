//! The full save of setup, model and tools: the complete tree, defaults included.
//!
//! It works on the file's own tree, never on the expanded one, so `${VAR}` stays `${VAR}` and no secret reaches
//! the disk. Comments are not kept; the single-key writes of `set` keep them.

use crate::keys::{self, DefaultsScope};
use crate::lock::{FileLock, LockTimeout};
use crate::set::{read_text, write_text};
use crate::tree::merge;
use crate::yaml::{KeyPath, YamlMap, YamlValue, emit_block, parse};
use crate::{Error, Home, ManagedMode, Result};

/// One change of a full save.
#[derive(Debug, Clone)]
pub enum SaveChange {
    Set(KeyPath, YamlValue),
    Remove(KeyPath),
}

const SECURITY_HELP: &str = "
# Safety settings. Remove the leading marks to change one.
# security:
#   redact_secrets: true        # mask keys in tool output and logs
#   tirith_enabled: true        # have tirith look at commands, fetching it when needed
#   website_blocklist:
#     enabled: false
#     domains: []
";

const FALLBACK_HELP: &str = "
# A second model for when the first one fails. Remove the leading marks to use it.
# fallback_model:
#   provider: openrouter
#   model: anthropic/claude-sonnet-4.5
";

/// Writes the whole tree. Keys the user set keep their value; the layout version is never lowered.
pub fn full_save(home: &Home, management: ManagedMode, changes: &[SaveChange]) -> Result<()> {
    management.check_allowed("save configuration")?;
    home.ensure()?;
    let _lock = FileLock::acquire(&home.config_lock(), LockTimeout::SETTINGS)?;
    let before = read_text(home)?;
    let raw = match parse(&before) {
        Ok(YamlValue::Map(map)) => map,
        Ok(YamlValue::Null) => YamlMap::new(),
        Ok(_) => {
            return Err(Error::BrokenFile {
                path: home.config(),
                problem: "the top level is not a mapping".to_owned(),
            });
        }
        Err(error) => return Err(Error::BrokenFile { path: home.config(), problem: error.to_string() }),
    };
    write_text(home, &before, &render(raw, changes))
}

/// Returns the text a full save writes for a file's tree.
pub(crate) fn render(mut raw: YamlMap, changes: &[SaveChange]) -> String {
    // A root `max_turns` moves to its section and is removed from the root.
    if let Some(turns) = raw.remove("max_turns").filter(|value| !value.is_null()) {
        let mut whole = YamlValue::Map(raw);
        if whole.lookup("agent.max_turns").is_none() {
            whole.set_path(&["agent".to_owned(), "max_turns".to_owned()], turns);
        }
        raw = match whole {
            YamlValue::Map(map) => map,
            _ => YamlMap::new(),
        };
    }
    let version = raw.get("_config_version").and_then(YamlValue::as_int);
    let mut tree = keys::default_tree(DefaultsScope::Saved).clone();
    merge(&mut tree, &YamlValue::Map(raw));
    for change in changes {
        match change {
            SaveChange::Set(path, value) => {
                tree.set_path(path.segments(), value.clone());
            }
            SaveChange::Remove(path) => {
                tree.remove_path(path.segments());
            }
        }
    }
    let wanted = tree.get("_config_version").and_then(YamlValue::as_int);
    if let Some(highest) = version.max(wanted)
        && wanted != Some(highest)
    {
        tree.set_path(&["_config_version".to_owned()], YamlValue::Int(highest));
    }
    let mut text = emit_block(&tree);
    for (section, help) in [("security", SECURITY_HELP), ("fallback_model", FALLBACK_HELP)] {
        if tree.get(section).is_none_or(YamlValue::is_null) {
            text.push_str(help);
        }
    }
    text
}
