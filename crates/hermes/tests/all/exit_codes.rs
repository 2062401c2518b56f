//! Checks the exit codes against the table of the reference, row by row.

use assert_cmd::Command;
use hermes_testkit::TempHome;

const PAGE: &str = include_str!("../../../../docs/reference/exit-codes.md");

/// Returns the rows that name a command, with their exit codes.
fn promised() -> Vec<(Vec<&'static str>, i32)> {
    let row = |line: &'static str| {
        let mut cells = line.strip_prefix("| `hermes ")?.split('|').map(str::trim);
        let command = cells.next()?.trim_end_matches('`');
        Some((command.split(' ').collect(), cells.next()?.parse().ok()?))
    };
    PAGE.lines().filter_map(row).collect()
}

#[test]
fn every_command_of_the_table_exits_as_it_says() {
    let rows = promised();
    assert!(rows.len() > 40, "the table has {} rows", rows.len());
    for (arguments, code) in rows {
        let home = TempHome::new().unwrap();
        let output = Command::cargo_bin("hermes")
            .unwrap()
            .args(&arguments)
            .env_clear()
            .env("HERMES_HOME", home.path())
            .env("HOME", "/nonexistent")
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
        if code != 0
            && !arguments.ends_with(&["status"])
            && !arguments.ends_with(&["drain"])
            && arguments != ["config", "set"]
        {
            assert!(!words.trim().is_empty(), "{arguments:?} says nothing on standard error");
        }
    }
}

#[test]
fn help_says_where_the_table_is() {
    let help = Command::cargo_bin("hermes").unwrap().arg("--help").output().unwrap();
    assert!(String::from_utf8_lossy(&help.stdout).contains("docs/reference/exit-codes.md"));
}
