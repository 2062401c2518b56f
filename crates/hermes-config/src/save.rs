//! The full save of setup, model and tools: the complete tree, defaults included.
//!
//! Works on the file's own tree, never on the expanded one, so `${VAR}` stays `${VAR}` and no secret reaches the disk.
//! Comments are not kept; the single-key writes of `set` keep them.

use crate::keys::{self, Defaults};
use crate::lock::{Lock, Patience};
use crate::set::{read_text, write_text};
use crate::tree::merge;
use crate::yaml::{Map, Path, Value, emit_block, parse};
use crate::{Error, Home, Management, Result};

/// One change of a full save.
#[derive(Debug, Clone)]
pub enum Change {
    Set(Path, Value),
    Remove(Path),
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

/// Writes the whole tree. Keys the user chose keep their value; the layout version never goes down.
pub fn full_save(home: &Home, management: Management, changes: &[Change]) -> Result<()> {
    management.allow("save configuration")?;
    home.ensure()?;
    let _lock = Lock::take(&home.config_lock(), Patience::SETTINGS)?;
    let before = read_text(home)?;
    let raw = match parse(&before) {
        Ok(Value::Map(map)) => map,
        Ok(Value::Null) => Map::new(),
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

/// The text a full save writes for a file's tree.
pub(crate) fn render(mut raw: Map, changes: &[Change]) -> String {
    // A root `max_turns` moves to its section and is then dropped.
    if let Some(turns) = raw.remove("max_turns").filter(|value| !value.is_null()) {
        let mut whole = Value::Map(raw);
        if whole.lookup("agent.max_turns").is_none() {
            whole.set_at(&["agent".to_owned(), "max_turns".to_owned()], turns);
        }
        raw = match whole {
            Value::Map(map) => map,
            _ => Map::new(),
        };
    }
    let version = raw.get("_config_version").and_then(Value::as_int);
    let mut tree = keys::default_tree(Defaults::Saved).clone();
    merge(&mut tree, &Value::Map(raw));
    for change in changes {
        match change {
            Change::Set(path, value) => {
                tree.set_at(path.segments(), value.clone());
            }
            Change::Remove(path) => {
                tree.remove_at(path.segments());
            }
        }
    }
    let wanted = tree.get("_config_version").and_then(Value::as_int);
    if let Some(highest) = version.max(wanted)
        && wanted != Some(highest)
    {
        tree.set_at(&["_config_version".to_owned()], Value::Int(highest));
    }
    let mut text = emit_block(&tree);
    for (section, help) in [("security", SECURITY_HELP), ("fallback_model", FALLBACK_HELP)] {
        if tree.get(section).is_none_or(Value::is_null) {
            text.push_str(help);
        }
    }
    text
}
