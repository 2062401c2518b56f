//! Finds the Python interpreters that may have Modal's package.

use std::path::{Path, PathBuf};

use crate::variables::Variables;

/// The interpreters below the Hermes home that an earlier release installed together with its dependencies.
const MANAGED: [&str; 2] = ["venv/bin/python3", "hermes-agent/venv/bin/python3"];

/// The places to search for an interpreter.
#[derive(Debug, Clone, Copy)]
pub struct PythonSearch<'a> {
    /// The interpreter that the user named: a file path, or a name on PATH.
    pub configured: Option<&'a str>,
    pub hermes_home: &'a Path,
}

impl PythonSearch<'_> {
    /// Returns the interpreters that exist, the most likely first.
    pub(super) fn find(self, variables: &Variables) -> Vec<PathBuf> {
        let path = variables.get("PATH").unwrap_or_default();
        let on_path = |name: &str| -> Vec<PathBuf> {
            path.split(':')
                .filter(|folder| folder.starts_with('/'))
                .map(|folder| Path::new(folder).join(name))
                .collect()
        };
        let configured = match self.configured {
            Some(name) if name.contains('/') => vec![expanded(name, variables)],
            Some(name) => on_path(name),
            None => Vec::new(),
        };
        let managed = MANAGED.iter().map(|place| self.hermes_home.join(place));
        let usual = ["python3", "python"].into_iter().flat_map(on_path);
        let mut found: Vec<PathBuf> = Vec::new();
        for candidate in configured.into_iter().chain(managed).chain(usual) {
            if candidate.is_file() && !found.contains(&candidate) {
                found.push(candidate);
            }
        }
        found
    }
}

fn expanded(path: &str, variables: &Variables) -> PathBuf {
    match (path.strip_prefix("~/"), variables.get("HOME")) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_one_comes_first_and_none_twice() {
        let top = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let file = top.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            file
        };
        let (a, b) = (place("a/python3"), place("b/python3"));
        let (bare, mine, own) = (place("b/python"), place("user/py"), place("home/venv/bin/python3"));
        let path =
            format!("{0}:{1}:{0}:relative", a.parent().unwrap().display(), b.parent().unwrap().display());
        let user = top.path().join("user");
        let variables =
            Variables::for_commands([("PATH", path.as_str()), ("HOME", user.to_str().unwrap())], &[], &[]);
        let found = |configured| {
            let mut all = PythonSearch { configured, hermes_home: &top.path().join("home") }.find(&variables);
            all.retain(|python| python.starts_with(top.path()));
            all
        };
        assert_eq!(found(None), [own.clone(), a.clone(), b.clone(), bare.clone()]);
        assert_eq!(found(Some("~/py")), [mine, own.clone(), a.clone(), b.clone(), bare.clone()]);
        assert_eq!(found(Some("python")), [bare, own, a, b]);
        assert_eq!(found(Some("/no/such")).len(), 4);
    }
}
