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
fn an_unknown_command_names_the_nearest() {
    let home = TempHome::new().unwrap();
    for (arguments, words) in [
        (&["sesions"][..], "did you mean 'hermes sessions'?"),
        (&["profiles"], "did you mean 'hermes profile'?"),
        (&["sessions", "lst"], "did you mean 'hermes sessions list'?"),
        (&["skills", "instal"], "did you mean 'hermes skills install'?"),
        (&["gateway", "--nonsense"], "unexpected argument '--nonsense'"),
        (&["dashboard"], "is not available in this release"),
    ] {
        let seen = hermes(&home, arguments);
        assert!(seen.starts_with("exit 2") && seen.contains(words), "{arguments:?}: {seen}");
    }
}

/// Completes a line in a real bash that has read the script, and returns what it offers.
fn complete_in_bash(home: &TempHome, line: &str) -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_hermes")).parent().unwrap();
    let script = r#"
        eval "$(hermes completion bash)"
        compopt() { echo "compopt $*" >&2; }
        COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _hermes hermes
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = assert_cmd::Command::new("bash")
        .args(["-c", script, "bash", line])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HERMES_HOME", home.path())
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = text(&output.stdout) + &text(&output.stderr);
    lines.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let home = TempHome::builder()
        .config_yaml("mcp_servers: {git: {command: x}}\n")
        .file("skills/media/cut-video/SKILL.md", "---\nname: cut-video\ndescription: Cuts\n---\nx\n")
        .build()
        .unwrap();
    std::fs::create_dir_all(home.join("profiles/work")).unwrap();
    hermes(&home, &["-q", "hello"]);
    hermes(&home, &["config", "set", "model.provider", "anthropic"]);
    hermes(&home, &["cron", "create", "every 2h", "work", "--name", "daily"]);
    let ids = hermes(&home, &["sessions", "list"]);
    let id = ids.lines().rev().find_map(|line| line.split(' ').next_back()).unwrap();
    for (line, expected) in [
        ("hermes gatew", &["gateway"][..]),
        ("hermes gateway res", &["restart"]),
        ("hermes sessions export --form", &["--format"]),
        ("hermes sessions export --format ", &["jsonl", "sharegpt", "md", "qmd", "html"]),
        ("hermes sessions delete 2", &[id]),
        ("hermes -p ", &["default", "work"]),
        ("hermes profile use wo", &["work"]),
        ("hermes mcp test ", &["git"]),
        ("hermes -s cut", &["cut-video"]),
        ("hermes config set model.def", &["model.default"]),
        ("hermes model openrou", &["openrouter:", "compopt -o nospace"]),
        ("hermes import ", &["compopt -o default"]),
        ("hermes nonsense ", &[]),
    ] {
        assert_eq!(complete_in_bash(&home, line), expected, "{line}");
    }
    assert_eq!(complete_in_bash(&home, "hermes cron pause ").len(), 1);
    assert!(complete_in_bash(&home, "hermes -m claude").iter().all(|model| model.starts_with("claude")));
    // A word with a colon is replaced from the colon on.
    assert!(complete_in_bash(&home, "hermes sessions export --format=m") == ["md"]);
}

#[test]
fn every_shell_has_a_script() {
    let home = TempHome::new().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let seen = hermes(&home, &["completion", shell]);
        assert!(seen.starts_with("exit 0") && seen.contains("hermes"), "{shell}: {seen}");
    }
}
