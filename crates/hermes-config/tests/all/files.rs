//! Modes, links, read-only homes and failed writes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::{Error, Home, set, write};

use crate::support::{ConfigFixture, env, leftovers};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

/// Shows that files and folders are private, without a login shell, terminal or `$USER`.
#[test]
fn t41_18_modes_are_private() {
    let temp = ConfigFixture::new();
    for folder in ["", "cron", "sessions", "logs", "memories"] {
        assert_eq!(mode(&temp.home.join(folder)), 0o700, "{folder}");
    }
    let made = temp.home.folder("cache/models").expect("folder");
    assert_eq!(
        (made.clone(), mode(&made), mode(&temp.home.join("cache"))),
        (temp.home.join("cache/models"), 0o700, 0o700)
    );
    set::set(&temp.home, &env(&[]), "terminal.timeout", "5").expect("set");
    assert_eq!((mode(&temp.home.config()), mode(&temp.home.dotenv())), (0o600, 0o600));
    fs::set_permissions(temp.home.config(), fs::Permissions::from_mode(0o644)).expect("chmod");
    set::set(&temp.home, &env(&[]), "terminal.timeout", "6").expect("set");
    assert_eq!(mode(&temp.home.config()), 0o600);
    assert!(leftovers(temp.home.path()).is_empty());
}

#[test]
fn links_are_written_through() {
    let temp = ConfigFixture::new();
    let elsewhere = tempfile::tempdir().expect("folder");
    let target = elsewhere.path().join("real.yaml");
    for present in [true, false] {
        if present {
            fs::write(&target, "a: 1\n").expect("write");
        } else {
            fs::remove_file(&target).expect("remove");
            fs::remove_file(temp.home.config()).expect("remove");
        }
        symlink(&target, temp.home.config()).expect("link");
        set::set(&temp.home, &env(&[]), "b.c", "2").expect("set");
        assert!(temp.home.config().is_symlink());
        assert!(fs::read_to_string(&target).expect("read").ends_with("b:\n  c: 2\n"));
    }
    assert!(leftovers(elsewhere.path()).is_empty());
    let circle = temp.home.join("circle");
    symlink(&circle, &circle).expect("link");
    assert!(matches!(write::replace(&circle, b"x"), Err(Error::Unwritable { .. })));
}

#[test]
fn failed_writes_name_the_file_and_leave_it_alone() {
    let temp = ConfigFixture::with_config("a: 1\n");
    // A folder is in the place of the file.
    fs::remove_file(temp.home.config()).expect("remove");
    fs::create_dir(temp.home.config()).expect("folder");
    let error = set::set(&temp.home, &env(&[]), "a", "2").expect_err("a folder").to_string();
    assert!(error.contains("config.yaml") && error.contains("move it away"), "{error}");
    assert!(leftovers(temp.home.path()).is_empty());
    let missing = temp.home.join("no/such/folder/x");
    let error = write::replace(&missing, b"x").expect_err("no folder").to_string();
    assert!(error.contains("no/such/folder/x"), "{error}");
    // A file is in the place of the home.
    let file = temp.home.join("file");
    fs::write(&file, "").expect("write");
    let error = Home::new(&file).ensure().expect_err("a file").to_string();
    assert!(error.contains("A file stands where a folder should be"), "{error}");
}

#[test]
fn a_home_that_cannot_be_made_still_loads_defaults() {
    let temp = ConfigFixture::new();
    let file = temp.home.join("file");
    fs::write(&file, "").expect("write");
    let home = Home::new(file.join("home"));
    let loaded = hermes_config::Config::load(&home, &env(&[]));
    assert_eq!(loaded.count("agent.max_turns"), 60);
    assert!(loaded.warnings()[0].text.contains(&home.path().display().to_string()));
}

#[test]
fn older_folders_are_kept() {
    let temp = ConfigFixture::new();
    assert_eq!(temp.home.images_cache(), temp.home.join("cache/images"));
    assert_eq!(temp.home.pairing(), temp.home.join("pairing"));
    for older in ["image_cache", "audio_cache", "document_cache", "browser_screenshots", "platforms/pairing"]
    {
        fs::create_dir_all(temp.home.join(older)).expect("folder");
    }
    let home = &temp.home;
    let found = [
        home.images_cache(),
        home.audio_cache(),
        home.documents_cache(),
        home.screenshots_cache(),
        home.pairing(),
    ];
    let wanted = ["image_cache", "audio_cache", "document_cache", "browser_screenshots", "platforms/pairing"];
    assert_eq!(found.to_vec(), wanted.map(|name| home.join(name)).to_vec());
    assert_eq!(home.sandboxes(&env(&[("TERMINAL_SANDBOX_DIR", "/s")])), Path::new("/s"));
}

#[test]
fn locks_exclude_others_and_let_their_holder_in_again() {
    let temp = ConfigFixture::new();
    let path = temp.home.join("x.lock");
    let held = FileLock::acquire(&path, LockTimeout::SETTINGS).expect("free");
    let again = FileLock::acquire(&path, LockTimeout::SETTINGS).expect("re-entrant");
    drop(again);
    let other = std::thread::scope(|scope| {
        let path = &path;
        scope
            .spawn(move || {
                let patience = LockTimeout {
                    timeout: Duration::from_millis(20),
                    poll_interval: Duration::from_millis(1),
                };
                FileLock::acquire(path, patience).map(drop).expect_err("held elsewhere").to_string()
            })
            .join()
            .expect("no panic")
    });
    assert!(other.contains("x.lock"), "{other}");
    drop(held);
    assert!(FileLock::acquire(&path, LockTimeout::SETTINGS).is_ok());
}
