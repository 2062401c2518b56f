//! A home on a disk that is full or read-only.

use std::path::Path;
use std::process::Command;

use super::support::run;

/// A file system of two megabytes, created and removed by the test. Only root can create one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"]).arg(folder.path()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        hermes_testkit::peer_is_missing("mounting a small file system needs root");
        None
    }

    fn fill(&self) {
        // Writes until the disk is full; the error is intended.
        let _ = std::fs::write(self.0.path().join("ballast"), vec![0; 4_000_000]);
    }

    fn make_read_only(&self) {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(self.0.path()).status().unwrap();
        assert!(status.success());
    }

    fn home(&self) -> std::path::PathBuf {
        self.0.path().join("home")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn config(home: &Path) -> String {
    std::fs::read_to_string(home.join("config.yaml")).unwrap()
}

#[test]
fn a_full_disk_is_said_and_costs_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    let home = disk.home();
    run(&home, &["config", "set", "model.default", "before"]);
    run(&home, &["sessions", "list"]);
    disk.fill();
    for arguments in
        [&["config", "set", "model.default", "after"][..], &["config", "set", "FAL_KEY", "abcdef"]]
    {
        let seen = run(&home, arguments);
        assert!(seen.starts_with("exit 1") && seen.contains("free some space"), "{arguments:?}: {seen}");
        assert_eq!(seen.matches("No space left").count(), 1, "said once: {seen}");
    }
    assert_eq!(config(&home), "model:\n  default: before\n");
    let left: Vec<_> = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("tmp")), "{left:?}");
    let seen = run(&home, &["sessions", "list"]);
    assert!(seen.contains("No sessions found."), "reading goes on: {seen}");
}

#[test]
fn a_read_only_home_can_be_read() {
    let Some(disk) = SmallDisk::mount() else { return };
    let home = disk.home();
    run(&home, &["config", "set", "model.default", "kept"]);
    run(&home, &["sessions", "list"]);
    disk.make_read_only();
    let seen = run(&home, &["config", "set", "model.default", "changed"]);
    assert!(
        seen.starts_with("exit 1") && seen.contains("read-only") && seen.contains("HERMES_HOME"),
        "{seen}"
    );
    assert!(run(&home, &["config", "get", "model.default"]).contains("kept"));
    assert!(run(&home, &["sessions", "list"]).contains("No sessions found."));
}
