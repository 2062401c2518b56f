//! The records of the last walk, so that starts and lists need not read every skill again: `cache/skills_index.json`.
//!
//! The file is only a copy of what the folders hold; whoever deletes it loses nothing. A record counts while the times of
//! its folder and its files are the same.

use std::fs;
use std::path::Path;

use hermes_config::{Home, write};
use hermes_types::WallClock;
use serde::{Deserialize, Serialize};

use super::walk::{self, FolderRecord};

const FILE: &str = "cache/skills_index.json";
const VERSION: u32 = 1;

#[derive(Debug, Default, Serialize, Deserialize)]
struct CachedIndex {
    version: u32,
    /// The second at which the file was written.
    at: i64,
    roots: Vec<CachedRoot>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CachedRoot {
    root: String,
    folders: Vec<FolderRecord>,
}

/// Walks the roots with the help of the last walk. The records of each root are returned in its order.
pub(super) fn index(home: &Home, roots: &[impl AsRef<Path>]) -> Vec<Vec<FolderRecord>> {
    let path = home.join(FILE);
    let cached = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<CachedIndex>(&bytes).ok());
    let cached = cached.filter(|cached| cached.version == VERSION).unwrap_or_default();
    let mut fresh = CachedIndex { version: VERSION, at: now(), roots: Vec::new() };
    let mut changed = cached.roots.len() != roots.len();
    for root in roots {
        let root = root.as_ref();
        let name = root.to_string_lossy().into_owned();
        let known = cached.roots.iter().find(|known| known.root == name);
        changed |= known.is_none();
        let known = known.map(|known| known.folders.as_slice()).unwrap_or_default();
        // The clock of a file system may be behind by a moment.
        let (folders, differs) = walk::index(root, known, cached.at - 1);
        changed |= differs;
        fresh.roots.push(CachedRoot { root: name, folders });
    }
    // A home without skills needs no file. One that cannot be written is walked again the next time.
    if changed
        && fresh.roots.iter().any(|root| root.folders.len() > 1)
        && home.folder("cache").is_ok()
        && let Ok(bytes) = serde_json::to_vec(&fresh)
        && let Err(error) = write::replace(&path, &bytes)
    {
        tracing::debug!(%error, "the index of skills was not kept");
    }
    fresh.roots.into_iter().map(|root| root.folders).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
fn now() -> i64 {
    WallClock::default().now().seconds() as i64
}
