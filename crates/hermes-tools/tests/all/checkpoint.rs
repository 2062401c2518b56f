use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Home;
use hermes_tools::{CheckpointError, CheckpointManager, FileGuard, FileOptions, FileTools, ToolRegistry};
use hermes_types::{BoxFuture, Cancel, Clock, Timestamp};
use serde_json::json;
use tempfile::TempDir;

use super::support::{FixedClock, UnattendedUser, parse, run};

/// A project in a user's home, with its checkpoints in the Hermes home.
struct Project {
    folder: TempDir,
    checkpoints: Arc<CheckpointManager>,
}

impl Project {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join(".hermes"));
        let checkpoints = CheckpointManager::new(&home, folder.path().to_owned(), Arc::new(FixedClock), 3);
        let project = Self { folder, checkpoints: Arc::new(checkpoints) };
        project.write("Makefile", "all:\n");
        for (name, content) in files {
            project.write(name, content);
        }
        project
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap()
    }

    fn before(&self, turn: &str, name: &str) {
        self.checkpoints.before_write(&turn.into(), &self.root().join(name), "before write_file");
    }

    fn reasons(&self) -> Vec<String> {
        let list = self.checkpoints.list(&self.root());
        list.map(|found| found.into_iter().map(|found| found.reason).collect()).unwrap_or_default()
    }
}

#[test]
fn a_project_goes_back_to_what_it_was() {
    let project = Project::with(&[("src/a.txt", "one\ntwo\n"), ("run.sh", "#!/bin/sh\n")]);
    fs::set_permissions(project.root().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("src/a.txt", project.root().join("link")).unwrap();
    project.before("1", "src/a.txt");
    project.write("src/a.txt", "one\n2\n");
    project.write("new.txt", "kept\n");
    fs::remove_file(project.root().join("run.sh")).unwrap();
    fs::remove_file(project.root().join("link")).unwrap();
    let diff = project.checkpoints.diff(&project.root(), "1").unwrap();
    assert_eq!(diff.stat, " link | +0 -1\n new.txt | +1 -0\n run.sh | +0 -1\n src/a.txt | +1 -1\n");
    assert!(
        diff.diff.contains("--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2"),
        "{}",
        diff.diff
    );
    let restored = project.checkpoints.restore(&project.root(), "1").unwrap();
    assert_eq!(restored.files, [Path::new("link"), Path::new("run.sh"), Path::new("src/a.txt")]);
    assert!(restored.failed.is_empty() && restored.saved.is_some());
    assert_eq!(
        (project.text("src/a.txt"), project.text("new.txt")),
        ("one\ntwo\n".to_owned(), "kept\n".to_owned())
    );
    assert_eq!(fs::read_link(project.root().join("link")).unwrap(), Path::new("src/a.txt"));
    let mode = fs::metadata(project.root().join("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    let list = project.checkpoints.list(&project.root()).unwrap();
    assert_eq!(list[0].reason, format!("pre-rollback snapshot (restoring to {})", list[1].short_hash()));
    let counts = list[0].counts.unwrap();
    assert_eq!((counts.files, counts.insertions, counts.deletions), (4, 2, 3));
    assert_eq!(list[1].counts, None);
    project.checkpoints.restore(&project.root(), "1").unwrap();
    assert_eq!(project.text("src/a.txt"), "one\n2\n", "going back can be taken back");
}

#[test]
fn one_snapshot_per_turn_and_none_without_a_change() {
    let project = Project::with(&[("a", "1"), ("sub/b", "1")]);
    project.before("1", "a");
    project.write("a", "2");
    project.before("1", "sub/b");
    assert_eq!(project.reasons().len(), 1);
    project.before("2", "sub/b");
    assert_eq!(project.reasons().len(), 2);
    project.before("3", "a");
    assert_eq!(project.reasons().len(), 2, "nothing had changed");
    for turn in ["4", "5", "6"] {
        project.write("a", turn);
        project.before(turn, "not/there/yet");
    }
    assert_eq!(project.reasons().len(), 3, "a list shows at most three");
    project.checkpoints.before_command(&"7".into(), &project.root(), "ls", &Cancel::new());
    assert_eq!(project.reasons()[0], "before write_file");
    project.write("a", "7");
    let command = format!("rm {}", "x".repeat(100));
    project.checkpoints.before_command(&"7".into(), &project.root(), &command, &Cancel::new());
    assert_eq!(project.reasons()[0], format!("before terminal: rm {}", "x".repeat(57)));
}

#[test]
fn what_is_private_or_made_anew_is_not_kept() {
    let project = Project::with(&[
        ("a", "1"),
        (".env", "SECRET=1"),
        (".env.local", "SECRET=1"),
        ("node_modules/x/index.js", "x"),
        ("sub/__pycache__/x.pyc", "x"),
        (".git/config", "x"),
        ("debug.log", "x"),
        (".gitignore", "target/\n!.env\n"),
        ("target/out", "x"),
        (".github/ci.yml", "x"),
    ]);
    project.before("1", "a");
    for name in [
        "a",
        ".env",
        ".env.local",
        "node_modules/x/index.js",
        "debug.log",
        "target/out",
        ".git/config",
        ".github/ci.yml",
    ] {
        fs::remove_file(project.root().join(name)).unwrap();
    }
    let mut files = project.checkpoints.restore(&project.root(), "1").unwrap().files;
    files.sort();
    assert_eq!(files, [Path::new(".github/ci.yml"), Path::new("a")]);
}

#[test]
fn what_is_ignored_by_now_is_kept_before_it_is_overwritten() {
    let project = Project::with(&[("a", "1")]);
    project.before("1", "a");
    project.write("a", "precious");
    project.write(".gitignore", "a\n");
    let restored = project.checkpoints.restore(&project.root(), "1").unwrap();
    assert_eq!(restored.files, [Path::new("a")]);
    assert_eq!(project.text("a"), "1");
    project.checkpoints.restore_file(&project.root(), &restored.saved.unwrap(), "a").unwrap();
    assert_eq!(project.text("a"), "precious");
}

#[test]
fn one_file_comes_back_alone() {
    let project = Project::with(&[("a", "1"), ("sub/b", "1")]);
    project.before("1", "a");
    project.write("a", "2");
    project.write("sub/b", "2");
    let hash = project.checkpoints.list(&project.root()).unwrap()[0].hash.clone();
    let start: String = hash.chars().take(7).collect();
    let restored =
        project.checkpoints.restore_file(&project.root(), &start.to_uppercase(), "./sub/b").unwrap();
    assert_eq!(restored.files, [Path::new("sub/b")]);
    assert_eq!((project.text("a"), project.text("sub/b")), ("2".to_owned(), "1".to_owned()));
}

#[test]
fn a_folder_inside_a_project_has_the_projects_snapshots() {
    let project = Project::with(&[("a", "1"), ("sub/b", "1")]);
    project.before("1", "a");
    let sub = project.root().join("sub");
    assert_eq!(project.checkpoints.list(&sub).unwrap().len(), 1);
    project.write("a", "2");
    project.write("sub/b", "2");
    project.checkpoints.restore_file(&sub, "1", "b").unwrap();
    assert_eq!((project.text("a"), project.text("sub/b")), ("2".to_owned(), "1".to_owned()));
    project.checkpoints.restore_file(&sub, "2", "a").unwrap();
    assert_eq!(project.text("a"), "1");
}

#[test]
fn odd_requests_change_nothing() {
    let project = Project::with(&[("a", "1")]);
    let root = project.root();
    assert!(matches!(project.checkpoints.list(&root), Err(CheckpointError::None(_))));
    project.before("1", "a");
    project.write("a", "2");
    for which in ["0", "9", "-1", "--help", "abc", "zzzz", "", "HEAD", "ffff", &"a".repeat(65)] {
        let refused = project.checkpoints.restore(&root, which);
        assert!(matches!(refused, Err(CheckpointError::NoSuch(_))), "{which}");
    }
    for file in ["/etc/passwd", "../x", "a/../../x", "", " "] {
        let refused = project.checkpoints.restore_file(&root, "1", file);
        assert!(matches!(refused, Err(CheckpointError::BadFile(_))), "{file}");
    }
    assert!(matches!(
        project.checkpoints.restore_file(&root, "1", "nope"),
        Err(CheckpointError::NoSuchFile(_))
    ));
    assert_eq!(project.text("a"), "2");
    assert_eq!(project.reasons().len(), 1);
}

#[test]
fn a_link_does_not_lead_a_restore_elsewhere() {
    let project = Project::with(&[("sub/a", "1"), ("b", "1")]);
    project.before("1", "b");
    let outside = project.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::remove_dir_all(project.root().join("sub")).unwrap();
    symlink(&outside, project.root().join("sub")).unwrap();
    fs::remove_file(project.root().join("b")).unwrap();
    fs::create_dir(project.root().join("b")).unwrap();
    let restored = project.checkpoints.restore(&project.root(), "1").unwrap();
    assert_eq!(restored.failed.len(), 2, "{restored:?}");
    assert!(!outside.join("a").exists());
}

#[test]
fn a_home_is_no_project_and_a_dead_store_no_obstacle() {
    let project = Project::with(&[]);
    let home = project.folder.path();
    fs::write(home.join("loose.txt"), "x").unwrap();
    project.checkpoints.before_write(&"1".into(), &home.join("loose.txt"), "before write_file");
    project.checkpoints.before_write(&"1".into(), Path::new("/loose.txt"), "before write_file");
    assert!(!home.join(".hermes/checkpoints").exists());
    fs::create_dir_all(home.join(".hermes")).unwrap();
    fs::write(home.join(".hermes/checkpoints"), "a file in the way").unwrap();
    project.before("2", "a");
    assert!(project.reasons().is_empty());
}

#[test]
fn damaged_objects_are_reported() {
    let project = Project::with(&[("a", "1")]);
    project.before("1", "a");
    let store = fs::read_dir(project.folder.path().join(".hermes/checkpoints"))
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let hash = project.checkpoints.list(&project.root()).unwrap()[0].hash.clone();
    let (front, back) = hash.split_at(2);
    fs::write(store.join("objects").join(front).join(back), "garbage").unwrap();
    let error = project.checkpoints.list(&project.root()).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

#[test]
fn the_file_tools_keep_the_project_first() {
    let project = Project::with(&[("a.txt", "one\n")]);
    let home = Home::new(project.folder.path().join(".hermes"));
    let guard = FileGuard::new(project.root(), project.folder.path().to_owned(), &home);
    let files =
        FileTools::new(guard, FileOptions::default()).with_checkpoints(Some(project.checkpoints.clone()));
    let registry = ToolRegistry::file_tools(&files);
    let call = |tool: &str, arguments| {
        parse(&run(registry.find(tool).unwrap().as_ref(), "t", arguments, &UnattendedUser))
    };
    call("write_file", json!({"path": "a.txt", "content": "two\n"}));
    call("patch", json!({"path": "a.txt", "old_string": "two", "new_string": "three"}));
    assert_eq!(project.reasons(), ["before write_file"], "both calls are of one turn");
    project.checkpoints.restore(&project.root(), "1").unwrap();
    assert_eq!(project.text("a.txt"), "one\n");
}

#[test]
fn the_oldest_are_let_go() {
    let project = Project::with(&[]);
    let clock = Arc::new(LaterClock);
    let home = Home::new(project.folder.path().join(".hermes"));
    let checkpoints = CheckpointManager::new(&home, project.folder.path().to_owned(), clock, 3);
    for turn in 0..40 {
        // The length changes each time, because times may not distinguish two quick writes.
        project.write("a", &"x".repeat(turn + 1));
        checkpoints.before_write(
            &turn.to_string().as_str().into(),
            &project.root().join("a"),
            "before write_file",
        );
    }
    let store = home.path().join("checkpoints");
    let objects = fs::read_dir(store).unwrap().flatten().next().unwrap().path().join("objects");
    let count = fs::read_dir(objects)
        .unwrap()
        .flatten()
        .filter_map(|folder| Some(fs::read_dir(folder.path()).ok()?.count()));
    let count: usize = count.sum();
    assert!(count < 3 * 14 + 3, "a blob, a tree and a commit for each of those kept: {count}");
    assert_eq!(checkpoints.list(&project.root()).unwrap().len(), 3);
    project.write("a", "lost");
    checkpoints.restore(&project.root(), "3").unwrap();
    assert_eq!(project.text("a"), "x".repeat(38));
}

#[test]
fn what_is_no_project_is_not_recorded() {
    let project = Project::with(&[]);
    for folder in ["/", "/tmp", "/usr", "/etc", "/dev", "/proc", "/proc/self", "/sys"] {
        let turn = folder.into();
        let told = project.checkpoints.before_command(&turn, Path::new(folder), "rm x", &Cancel::new());
        assert_eq!(told, None, "{folder}");
    }
    assert!(!project.folder.path().join(".hermes/checkpoints").exists());
}

#[test]
fn large_files_are_left_out() {
    let project = Project::with(&[("small", "1")]);
    let large = fs::File::create(project.root().join("large")).unwrap();
    large.set_len(3 << 30).unwrap();
    project.before("1", "small");
    project.write("small", "2");
    fs::remove_file(project.root().join("large")).unwrap();
    let restored = project.checkpoints.restore(&project.root(), "1").unwrap();
    assert_eq!(restored.files, [Path::new("small")]);
    assert!(!project.root().join("large").exists());
}

#[test]
fn a_project_that_takes_long_goes_without_and_that_is_said_once() {
    let files: Vec<String> = (0..50).map(|number| format!("f{number}")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|name| (name.as_str(), "x")).collect();
    let project = Project::with(&files);
    let home = Home::new(project.folder.path().join(".hermes"));
    let slow =
        CheckpointManager::new(&home, project.folder.path().to_owned(), Arc::new(SlowClock::default()), 3);
    let take = |turn: &str| slow.before_command(&turn.into(), &project.root(), "rm f1", &Cancel::new());
    let told = take("1").unwrap();
    assert!(told.starts_with("No checkpoint of ") && told.contains("longer than 1 s"), "{told}");
    assert_eq!(take("2"), None, "it was said");
    assert_eq!(project.reasons(), Vec::<String>::new());
    let stop = Cancel::new();
    stop.cancel();
    project.checkpoints.before_command(&"3".into(), &project.root(), "rm f1", &stop);
    assert_eq!(project.reasons(), Vec::<String>::new(), "nobody waits for it any more");
    project.checkpoints.before_command(&"4".into(), &project.root(), "rm f1", &Cancel::new());
    assert_eq!(project.reasons(), ["before terminal: rm f1"]);
}

/// A clock that advances by a tenth of a second with every reading.
#[derive(Debug, Default)]
struct SlowClock(std::sync::atomic::AtomicU64);

impl Clock for SlowClock {
    fn now(&self) -> Timestamp {
        Timestamp(4e9)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(100, std::sync::atomic::Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A clock long after all files were written.
#[derive(Debug)]
struct LaterClock;

impl Clock for LaterClock {
    fn now(&self) -> Timestamp {
        Timestamp(4e9)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
