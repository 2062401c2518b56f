//! Usage errors, help, version and shell completions.

use hermes_testkit::TempHome;

use super::support::hermes;

#[test]
fn wrong_usage_is_exit_code_2_on_standard_error() {
    let home = TempHome::new().unwrap();
    for arguments in [&["nonsense"][..], &["sessions", "list", "--bogus"], &["config", "frobnicate"]] {
        let seen = hermes(&home, arguments);
        assert!(seen.starts_with("exit 2\n--- stderr\n"), "{arguments:?}: {seen}");
        assert!(seen.contains("Usage: hermes"), "{arguments:?}: {seen}");
    }
}

#[test]
fn help_and_version_work_at_every_level() {
    let home = TempHome::new().unwrap();
    for arguments in
        [&["--help"][..], &["config", "--help"], &["sessions", "export", "--help"], &["db", "--help"]]
    {
        let seen = hermes(&home, arguments);
        assert!(
            seen.starts_with("exit 0\n--- stdout\n") && !seen.contains("--- stderr"),
            "{arguments:?}: {seen}"
        );
    }
    assert_eq!(
        hermes(&home, &["version"]),
        format!("exit 0\n--- stdout\nHermes Agent v{}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn completions_name_the_commands() {
    let home = TempHome::new().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let seen = hermes(&home, &["completion", shell]);
        assert!(seen.contains("sessions") && seen.contains("config"), "{shell}");
    }
}
