//! Where entries of memory files came from, when the model had read the words of others before it wrote them.
//!
//! Kept in a file beside each memory file, because that file has the format of other programs: a mapping of entries to
//! their origins. Invariant: an origin is on disk before its entry is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hermes_config::write;
use hermes_guard::{TextOrigin, find_injections};
use hermes_text::{ellipsize, single_line};

/// The longest origin, in characters.
const LONGEST: usize = 240;

/// The origins of the entries of one file.
pub(crate) type Origins = BTreeMap<String, String>;

fn path(folder: &Path, file: &str) -> PathBuf {
    folder.join(file).with_extension("origins.json")
}

/// Reads the origins. A file that cannot be read holds none.
pub(crate) fn read(folder: &Path, file: &str) -> Origins {
    let text = fs::read_to_string(path(folder, file)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Replaces the origins; without any, there is no file.
pub(crate) fn write(folder: &Path, file: &str, origins: &Origins) -> hermes_config::Result<()> {
    let path = path(folder, file);
    if origins.is_empty() {
        if path.exists() {
            write::replace(&path, b"{}\n")?;
        }
        return Ok(());
    }
    let mut text = serde_json::to_string_pretty(origins).unwrap_or_default();
    text.push('\n');
    write::replace(&path, text.as_bytes())
}

/// Removes the file. Returns whether there was one.
pub(crate) fn remove(folder: &Path, file: &str) -> bool {
    fs::remove_file(path(folder, file)).is_ok()
}

/// Names where words came from. A name that is suspicious itself is cut to its first word, which is the tool.
pub(crate) fn describe(sources: &[String]) -> Option<String> {
    let harmless = |source: &String| {
        let source = single_line(source).replace('§', " ");
        if find_injections(&source, TextOrigin::Memory).is_empty() {
            source
        } else {
            source.split_whitespace().next().unwrap_or_default().to_owned()
        }
    };
    let named: Vec<String> = sources.iter().map(harmless).filter(|source| !source.is_empty()).collect();
    (!named.is_empty()).then(|| ellipsize(&named.join(", "), LONGEST).into_owned())
}
