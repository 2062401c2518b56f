//! Tests of the bundled skills and their copies in a home.

use std::fs;
use std::path::Path;

use hermes_config::Home;
use hermes_knowledge::{
    BundleSource, SkillRestore, SkillSyncReport, modified_bundled_skills, opt_in_to_bundled_skills,
    opt_out_of_bundled_skills, reset_bundled_skill, sync_bundled_skills,
};

/// A home, and a folder of bundled skills.
struct Setup {
    root: tempfile::TempDir,
    home: Home,
}

impl Setup {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = Home::new(root.path().join("home"));
        Self { root, home }
    }

    fn bundle(&self, path: &str, text: &str) {
        write(&self.root.path().join("bundle").join(path), text);
    }

    fn own(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.home.join("skills").join(path)).ok()
    }

    fn write_own(&self, path: &str, text: &str) {
        write(&self.home.join("skills").join(path), text);
    }

    fn source(&self) -> BundleSource {
        BundleSource::Folder(self.root.path().join("bundle"))
    }

    fn sync(&self) -> SkillSyncReport {
        sync_bundled_skills(&self.home, &self.source()).unwrap().unwrap()
    }

    fn manifest(&self) -> String {
        self.own(".bundled_manifest").unwrap_or_default()
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn new_skills_are_copied_with_their_sums() {
    let setup = Setup::new();
    setup.bundle("media/video/SKILL.md", "cut\n");
    setup.bundle("media/video/scripts/a.sh", "echo\n");
    setup.bundle("media/DESCRIPTION.md", "---\ndescription: Sound\n---\n");
    let report = setup.sync();
    assert_eq!((report.copied, report.total), (vec!["video".to_owned()], 1));
    assert_eq!(setup.own("media/video/scripts/a.sh").as_deref(), Some("echo\n"));
    assert!(setup.own("media/DESCRIPTION.md").is_some());
    // printf 'SKILL.mdcut\nscripts/a.shecho\n' | md5sum
    assert_eq!(setup.manifest(), "video:4863a92da1eba8d0044b21b71c1054ed\n");
    let again = setup.sync();
    assert_eq!((again.copied.len(), again.updated.len(), again.skipped), (0, 0, 1));
}

#[test]
fn sums_follow_the_order_of_path_components() {
    let setup = Setup::new();
    setup.bundle("x/SKILL.md", "");
    setup.bundle("x/a/b.txt", "1");
    setup.bundle("x/a-b.txt", "2");
    setup.sync();
    // printf 'SKILL.mda/b.txt1a-b.txt2' | md5sum
    assert_eq!(setup.manifest(), "x:9ab802ecc1d02542f2508b681452481b\n");
}

#[test]
fn an_update_replaces_an_untouched_copy_and_keeps_a_changed_one() {
    let setup = Setup::new();
    setup.bundle("a/SKILL.md", "one");
    setup.bundle("b/SKILL.md", "one");
    setup.sync();
    setup.write_own("b/SKILL.md", "mine");
    setup.bundle("a/SKILL.md", "two");
    setup.bundle("b/SKILL.md", "two");
    let report = setup.sync();
    assert_eq!((report.updated, report.user_modified), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert_eq!(setup.own("a/SKILL.md").as_deref(), Some("two"));
    assert_eq!(setup.own("b/SKILL.md").as_deref(), Some("mine"));
    assert!(!setup.home.join("skills/a.bak").exists());
    let modified = modified_bundled_skills(&setup.home, &setup.source()).unwrap();
    assert_eq!(modified.len(), 1);
    assert_eq!(modified[0].files[0].own.as_deref(), Some("mine"));
}

#[test]
fn a_deleted_skill_stays_deleted_until_it_is_restored() {
    let setup = Setup::new();
    setup.bundle("a/SKILL.md", "one");
    setup.sync();
    fs::remove_dir_all(setup.home.join("skills/a")).unwrap();
    setup.bundle("a/SKILL.md", "two");
    assert_eq!(setup.sync().copied.len(), 0);
    assert_eq!(setup.own("a/SKILL.md"), None);
    reset_bundled_skill(&setup.home, &setup.source(), "a", SkillRestore::Replace).unwrap();
    assert_eq!(setup.own("a/SKILL.md").as_deref(), Some("two"));
    assert_eq!(setup.sync().skipped, 1);
}

#[test]
fn what_was_there_before_is_the_users() {
    let setup = Setup::new();
    setup.bundle("a/SKILL.md", "one");
    setup.bundle("b/SKILL.md", "one");
    setup.write_own("a/SKILL.md", "mine");
    setup.write_own("b/SKILL.md", "old");
    // A manifest of an older release, without sums, and a skill that is no longer bundled.
    setup.write_own(".bundled_manifest", "b\ngone\n");
    let report = setup.sync();
    assert_eq!((report.copied.len(), report.updated.len()), (0, 0));
    assert_eq!(report.cleaned, ["gone"]);
    assert_eq!(setup.own("a/SKILL.md").as_deref(), Some("mine"));
    let lines: Vec<String> = setup.manifest().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.len() == "a:".len() + 32), "{lines:?}");
    // The sum of `b` is that of the user's copy, so the bundled one replaces it now.
    assert_eq!(setup.sync().updated, ["b"]);
}

#[test]
fn an_interrupted_update_is_finished() {
    let setup = Setup::new();
    setup.bundle("a/SKILL.md", "one");
    setup.sync();
    // Stopped after the old copy was moved away.
    fs::rename(setup.home.join("skills/a"), setup.home.join("skills/a.bak")).unwrap();
    setup.bundle("a/SKILL.md", "two");
    assert_eq!(setup.sync().updated, ["a"]);
    assert_eq!(setup.own("a/SKILL.md").as_deref(), Some("two"));
    // Stopped after the new copy was in place.
    setup.write_own("a.bak/SKILL.md", "two");
    setup.write_own("a/SKILL.md", "three");
    setup.bundle("a/SKILL.md", "three");
    assert_eq!(setup.sync().user_modified.len(), 0);
    assert!(!setup.home.join("skills/a.bak").exists());
}

#[test]
fn a_home_can_opt_out() {
    let setup = Setup::new();
    setup.bundle("a/SKILL.md", "one");
    opt_out_of_bundled_skills(&setup.home).unwrap();
    assert_eq!(sync_bundled_skills(&setup.home, &setup.source()).unwrap(), None);
    assert_eq!(setup.own("a/SKILL.md"), None);
    opt_in_to_bundled_skills(&setup.home).unwrap();
    assert_eq!(setup.sync().copied, ["a"]);
}
