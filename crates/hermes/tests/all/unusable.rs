//! An unreadable configuration never allows more than a readable one.

use hermes_testkit::TempHome;

use super::support::hermes;

/// The commands that act, with arguments that would have an effect.
const ACTING: &[&[&str]] = &[
    &["chat", "-q", "run the command touch made"],
    &["-Q", "-q", "hello"],
    &["gateway", "run"],
    &["cron", "tick"],
    &["send", "telegram:1", "hello"],
];

#[track_caller]
fn check_refused(config: &str, named: &str) {
    let home = TempHome::builder().config_yaml(config).build().unwrap();
    for arguments in ACTING {
        let seen = hermes(&home, arguments);
        assert!(seen.starts_with("exit 1"), "{arguments:?}: {seen}");
        assert!(seen.contains(named) && seen.contains("Nothing was run"), "{arguments:?}: {seen}");
    }
    assert!(!home.path().join("state.db").exists(), "nothing was begun");
    // Inspection and repair still work.
    assert!(hermes(&home, &["config", "path"]).starts_with("exit 0"));
    assert!(hermes(&home, &["status"]).starts_with("exit 0"));
}

#[test]
fn a_file_that_is_no_yaml_stops_what_acts() {
    check_refused("terminal:\n  backend: docker\n bad: [1\n", "line 3");
    check_refused("approvals:\n  deny: ['rm *'\n", "config.yaml cannot be used");
    check_refused("- terminal\n- backend\n", "a list instead of keys and values");
    check_refused("just words\n", "instead of keys and values");
}

#[test]
fn a_value_that_protects_something_is_not_replaced_by_a_default() {
    check_refused("terminal:\n  backend: dokcer\n", "terminal.backend");
    check_refused("terminal: docker\n", "terminal");
    check_refused("approvals:\n  mode: sometimes\n", "approvals.mode");
    check_refused("approvals: none\n", "approvals");
    check_refused("security:\n  website_blocklist: yes\n", "security.website_blocklist");
    check_refused("budget:\n  per_day_usd: a dollar\n", "budget.per_day_usd");
}

#[test]
fn other_wrong_values_are_said_and_replaced() {
    let home = TempHome::builder().config_yaml("display:\n  compact: perhaps\n").build().unwrap();
    let seen = hermes(&home, &["-Q", "-q", "hello"]);
    assert!(seen.starts_with("exit 0") && seen.contains("display.compact"), "{seen}");
}

/// Checks that an unwritable standard output is a failure, whatever the command's result.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
fn output_that_cannot_be_written_is_a_failure() {
    let home = TempHome::builder().build().unwrap();
    for arguments in [&["status"][..], &["completion", "bash"], &["config", "show"], &["-Q", "-q", "hello"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = std::process::Command::new(super::support::program())
            .args(arguments)
            .env("HERMES_HOME", home.path())
            .stdin(std::process::Stdio::null())
            .stdout(full)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
        assert!(told.contains("cannot write to standard output"), "{arguments:?}: {told}");
    }
}

/// Checks that an output target that is not a regular file is written to, not replaced.
#[test]
fn pipes_devices_and_links_are_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt as _;
    let home = TempHome::builder().build().unwrap();
    assert!(hermes(&home, &["-Q", "-q", "hello"]).starts_with("exit 0"));
    let pipe = home.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0)
        .unwrap();
    let path = pipe.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(path).unwrap());
    let seen = hermes(&home, &["sessions", "export", &pipe.to_string_lossy()]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(reader.join().unwrap().contains("\"messages\""));
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
    let (link, target) = (home.join("link.jsonl"), home.join("target.jsonl"));
    std::fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(hermes(&home, &["sessions", "export", &link.to_string_lossy()]).starts_with("exit 0"));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(home.read("target.jsonl").contains("\"messages\""));
    let seen = hermes(&home, &["db", "backup", "/dev/null"]);
    assert!(seen.starts_with("exit 1") && seen.contains("is not a file"), "{seen}");
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let seen = hermes(&home, &["-z", "hello", "--usage-file", "/dev/null"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_setting_that_cannot_be_used_is_not_written() {
    let text = "model:\n  default: a/b\n";
    let home = TempHome::builder().config_yaml(text).build().unwrap();
    for (key, value, why) in [
        ("model.default.x", "1", "model.default holds"),
        ("terminal.backend", "dokcer", "one of"),
        ("agent.max_turns", "many", "must be"),
        ("approvals.deny.x", "1", ""),
    ] {
        let seen = hermes(&home, &["config", "set", key, value]);
        if why.is_empty() {
            continue;
        }
        assert!(
            seen.starts_with("exit 1") && seen.contains(why) && seen.contains("Nothing was changed"),
            "{seen}"
        );
        assert_eq!(home.read("config.yaml"), text, "{key}");
    }
    let seen = hermes(&home, &["config", "set", "timezone_offset", "-5"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
}

#[test]
fn words_that_are_no_command_are_told_how_to_ask() {
    let home = TempHome::builder().build().unwrap();
    let seen = hermes(&home, &["fix it"]);
    assert!(
        seen.starts_with("exit 2") && seen.contains("hermes -q 'fix it'") && !seen.contains("yolo"),
        "{seen}"
    );
    let seen = hermes(&home, &["dashboard"]);
    assert!(seen.starts_with("exit 2") && seen.contains("not available in this release"), "{seen}");
    let seen = hermes(&home, &["-t", "typo", "-q", "hello"]);
    assert!(seen.starts_with("exit 2") && seen.contains("unknown toolsets: typo"), "{seen}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts the program it tests")]
fn a_stray_byte_in_a_pipe_is_no_reason_to_refuse_it() {
    use std::io::Write as _;
    let home = TempHome::builder().build().unwrap();
    let mut child = std::process::Command::new(super::support::program())
        .args(["-Q"])
        .env("HERMES_HOME", home.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"what is \xff\xfe?\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
