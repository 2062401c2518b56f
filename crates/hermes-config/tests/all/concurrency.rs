//! Concurrent writers lose no changes.

use hermes_config::auth::AuthFile;
use hermes_config::set;
use hermes_config::yaml::parse;

use crate::support::{ConfigFixture, env};

const WRITES: usize = 200;

/// Shows that each write reads the file again under the lock. Threads exclude each other by the same kernel locks
/// as processes do, since each opens the lock file separately.
#[test]
fn t41_20_parallel_sets_lose_nothing() {
    let temp = ConfigFixture::with_config("# shared\nkeep: me # always\n");
    std::thread::scope(|scope| {
        for writer in ["left", "right"] {
            let home = &temp.home;
            scope.spawn(move || {
                for index in 0..WRITES {
                    set::set(home, &env(&[]), &format!("{writer}.k{index}"), &index.to_string())
                        .expect("set");
                }
            });
        }
    });
    let text = temp.config_text();
    assert!(text.starts_with("# shared\nkeep: me # always\n"));
    let tree = parse(&text).expect("reads");
    for writer in ["left", "right"] {
        for index in 0..WRITES {
            let found =
                tree.lookup(&format!("{writer}.k{index}")).and_then(hermes_config::yaml::YamlValue::as_int);
            assert_eq!(found, i128::try_from(index).ok(), "{writer}.k{index}");
        }
    }
}

#[test]
fn parallel_environment_and_auth_writes_lose_nothing() {
    let temp = ConfigFixture::new();
    std::thread::scope(|scope| {
        for writer in ["LEFT", "RIGHT"] {
            let home = &temp.home;
            scope.spawn(move || {
                let auth = AuthFile::new(home);
                for index in 0..25 {
                    set::set(home, &env(&[]), &format!("{writer}{index}_API_KEY"), "v").expect("set");
                    auth.update(|state| {
                        state.set_provider(&format!("{writer}{index}"), serde_json::json!({}));
                    })
                    .expect("update");
                }
            });
        }
    });
    assert_eq!(temp.dotenv_text().lines().count(), 50);
    assert_eq!(AuthFile::new(&temp.home).read().providers().len(), 50);
}
