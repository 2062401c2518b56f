//! Measures how much of a cluster's shared disk the folders of Hermes use.

use std::path::{Path, PathBuf};

const GIGABYTE: u64 = 1_000_000_000;

/// Logs a warning when `hermes-*` below the folder holds more than `most` GB. Runs on a thread of its own,
/// because there may be many files.
pub(super) fn warn_in_background(scratch: PathBuf, most: u64) {
    let measure = move || {
        let used = used_below(&scratch);
        if used > most.saturating_mul(GIGABYTE) {
            tracing::warn!(
                gigabytes = used / GIGABYTE,
                folder = %scratch.display(),
                "sandboxes take more than TERMINAL_DISK_WARNING_GB; remove overlays that are not needed"
            );
        }
    };
    let started = std::thread::Builder::new().name("scratch size".to_owned()).spawn(measure);
    if let Err(error) = started {
        tracing::debug!(%error, "the scratch folder was not measured");
    }
}

fn used_below(scratch: &Path) -> u64 {
    let entries = std::fs::read_dir(scratch).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("hermes-"))
        .map(|entry| size_of(&entry.path()))
        .sum()
}

fn size_of(path: &Path) -> u64 {
    let Ok(meta) = path.symlink_metadata() else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_of(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_folders_are_counted() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("hermes-overlays/overlay-a")).unwrap();
        std::fs::write(top.path().join("hermes-overlays/overlay-a/x"), vec![0; 1000]).unwrap();
        std::fs::write(top.path().join("other"), vec![0; 5000]).unwrap();
        std::os::unix::fs::symlink("/", top.path().join("hermes-overlays/root")).unwrap();
        assert_eq!(used_below(top.path()), 1001);
        assert_eq!(used_below(Path::new("/no/such")), 0);
    }
}
