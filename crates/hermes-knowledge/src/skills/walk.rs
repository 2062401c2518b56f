//! Finds the folders with a `SKILL.md` below a root, and the descriptions of categories.
//!
//! The walk goes on below a skill. Invariant: it ends whatever links a tree contains, because no folder is
//! entered below itself and the depth and number of folders are limited.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_config::{Config, Env, Home, expand_tilde};

/// Folders that hold no skills: data of version control and of package managers, and what the program keeps
/// beside the skills.
const IGNORED: [&str; 9] =
    [".git", ".github", ".hub", ".archive", "venv", ".venv", "node_modules", "site-packages", "__pycache__"];
/// Folders of a skill that hold its own files.
pub(crate) const SUPPORT_FOLDERS: [&str; 4] = ["references", "templates", "assets", "scripts"];
const MAX_DEPTH: usize = 8;
const MAX_FOLDERS: usize = 5_000;

/// A folder below a root that has a `SKILL.md` or a `DESCRIPTION.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundFolder {
    pub(super) folder: PathBuf,
    /// The names of the folders from the root to this one.
    pub(super) path: Vec<String>,
    pub(super) has_skill: bool,
}

/// Returns the folder of the home's skills and the existing external ones, each once.
pub(super) fn roots(home: &Home, config: &Config, env: &Env) -> Vec<PathBuf> {
    let own = home.join("skills");
    let mut known: Vec<PathBuf> = own.canonicalize().into_iter().collect();
    let mut roots = vec![own];
    for given in config.list("skills.external_dirs") {
        let Ok(folder) = expand_tilde(&expand_variables(&given, env), env) else { continue };
        let Ok(real) = folder.canonicalize() else { continue };
        if real.is_dir() && !known.contains(&real) {
            known.push(real);
            roots.push(folder);
        }
    }
    roots
}

/// Walks a root in the order of names, links after folders.
pub(super) fn find(root: &Path) -> Vec<FoundFolder> {
    let mut walk = Walk { found: Vec::new(), visited: 0 };
    walk.enter(root, &mut Vec::new(), &mut Vec::new());
    walk.found
}

struct Walk {
    found: Vec<FoundFolder>,
    visited: usize,
}

impl Walk {
    fn enter(&mut self, folder: &Path, path: &mut Vec<String>, above: &mut Vec<PathBuf>) {
        self.visited += 1;
        let Ok(real) = folder.canonicalize() else { return };
        if self.visited > MAX_FOLDERS || above.contains(&real) {
            return;
        }
        let has_skill = folder.join("SKILL.md").is_file();
        if has_skill || folder.join("DESCRIPTION.md").is_file() {
            self.found.push(FoundFolder { folder: folder.to_owned(), path: path.clone(), has_skill });
        }
        if path.len() >= MAX_DEPTH {
            return;
        }
        above.push(real);
        for name in folders_in(folder) {
            if IGNORED.contains(&name.as_str()) || (has_skill && SUPPORT_FOLDERS.contains(&name.as_str())) {
                continue;
            }
            let below = folder.join(&name);
            path.push(name);
            self.enter(&below, path, above);
            path.pop();
        }
        above.pop();
    }
}

fn folders_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut named: Vec<(bool, String)> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            Some((is_link, entry.file_name().into_string().ok()?))
        })
        .collect();
    named.sort();
    named.into_iter().map(|(_, name)| name).collect()
}

/// Replaces `$NAME` and `${NAME}` by the values of variables. An unset name stays as written.
fn expand_variables(text: &str, env: &Env) -> String {
    let text = hermes_config::expand_text(text, env);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, tail) = after.split_at(end);
        match env.get(name) {
            Some(value) if !name.is_empty() => out.push_str(value),
            _ => out.extend(["$", name]),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}
