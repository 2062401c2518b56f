//! Suggests names in the same folder that a model may have meant.

use std::collections::HashSet;
use std::path::Path;

use crate::file::extension::extension;
use crate::file::file_system::FileSystem;

const MOST: usize = 5;
const MOST_ENTRIES: usize = 50;

/// Returns the most similar names next to a path that does not exist, best first.
pub(crate) fn similar_files(disk: &dyn FileSystem, path: &Path) -> Vec<String> {
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    let Some(folder) = path.parent() else { return Vec::new() };
    let mut scored: Vec<(u32, String)> = disk
        .names(folder, MOST_ENTRIES)
        .into_iter()
        .map(|name| (score(&wanted, &name.to_lowercase()), name))
        .filter(|(score, _)| *score > 0)
        .collect();
    scored.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
    scored.truncate(MOST);
    scored.into_iter().map(|(_, name)| name).collect()
}

fn score(wanted: &str, name: &str) -> u32 {
    if wanted.is_empty() {
        return 0;
    }
    let stem = |name: &str| Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if name == wanted {
        100
    } else if stem(name) == stem(wanted) {
        90
    } else if name.starts_with(wanted) || wanted.starts_with(name) {
        70
    } else if name.contains(wanted) {
        60
    } else if wanted.contains(name) && name.len() > 2 {
        40
    } else if !extension(Path::new(name)).is_empty()
        && extension(Path::new(name)) == extension(Path::new(wanted))
        && share(&stem(wanted), &stem(name)) >= 40
    {
        30
    } else {
        0
    }
}

/// Returns the percentage of distinct characters that two names share.
fn share(a: &str, b: &str) -> usize {
    let (a, b): (HashSet<char>, HashSet<char>) = (a.chars().collect(), b.chars().collect());
    let all = a.union(&b).count();
    (a.intersection(&b).count() * 100).checked_div(all).unwrap_or(0)
}
