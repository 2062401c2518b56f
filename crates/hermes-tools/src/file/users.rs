//! The users of this machine and their homes, read from `/etc/passwd`.

use std::fs;
use std::path::PathBuf;

/// Returns the home of a user.
pub(super) fn home_of(name: &str) -> Option<PathBuf> {
    entries().into_iter().find_map(|(user, home)| (user == name).then_some(home))
}

/// Lists every home. A shared folder such as `/` is not counted.
pub(super) fn homes() -> Vec<PathBuf> {
    let own = |home: &PathBuf| home.components().count() > 1 && home.is_dir();
    entries().into_iter().map(|(_, home)| home).filter(own).collect()
}

fn entries() -> Vec<(String, PathBuf)> {
    let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
    list.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((name, PathBuf::from(fields.nth(4)?)))
        })
        .collect()
}
