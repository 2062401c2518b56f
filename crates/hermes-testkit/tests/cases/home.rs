use std::os::unix::fs::PermissionsExt as _;

use hermes_testkit::{DatabaseFixture, TempHome};

#[test]
fn a_home_holds_what_was_asked_and_is_private() {
    let home = TempHome::builder()
        .config_yaml("model: x\n")
        .env_file("KEY=1\n")
        .file("memories/deep/MEMORY.md", "note")
        .state_db(DatabaseFixture::V6)
        .build()
        .unwrap();
    assert_eq!(home.read("config.yaml"), "model: x\n");
    assert_eq!(home.read(".env"), "KEY=1\n");
    assert_eq!(home.read("memories/deep/MEMORY.md"), "note");
    assert!(home.state_db().is_file());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.path()), 0o700);
    assert_eq!(mode(&home.join("memories/deep")), 0o700);
    assert_eq!(mode(&home.env_file()), 0o600);
    let path = home.path().to_path_buf();
    drop(home);
    assert!(!path.exists());
}
