//! The commands that look after an installation: setup, doctor, logs, tools, keys, fallbacks, profiles, backups.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use assert_cmd::Command;
use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::Value;

use super::support::{hermes, run_in};

fn empty_home() -> TempHome {
    TempHome::builder().build().unwrap()
}

/// Runs a command with a user's home of its own.
fn run_as_user(home: &Path, user: &Path, arguments: &[&str]) -> String {
    let output = Command::cargo_bin("hermes")
        .unwrap()
        .args(arguments)
        .current_dir("/")
        .env_clear()
        .env("HERMES_HOME", home)
        .env("HOME", user)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("exit {}\n{}{}", output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Breaks a home in one way.
type Fault = fn(&TempHome);

/// What breaks a home, and what the doctor says about it.
const FAULTS: [(Fault, &str, bool); 12] = [
    (|home| fs::remove_file(home.config_yaml()).unwrap_or_default(), "config.yaml is missing", true),
    (|home| fs::write(home.config_yaml(), "a: [b\n").unwrap(), "config.yaml", false),
    (|home| fs::write(home.config_yaml(), "agent: {max_turns: many}\n").unwrap(), "max_turns", false),
    (|home| fs::write(home.config_yaml(), "agnet: {max_turns: 3}\n").unwrap(), "agnet", false),
    (|home| fs::write(home.env_file(), "no assignment here\n").unwrap(), ".env has lines", false),
    (
        |home| {
            fs::write(home.env_file(), "A_KEY=1\n").unwrap();
            fs::set_permissions(home.env_file(), fs::Permissions::from_mode(0o644)).unwrap();
        },
        "others may read .env",
        true,
    ),
    (|home| fs::write(home.state_db(), "this is no database, whatever it says").unwrap(), "state.db", false),
    (|home| fs::write(home.join("auth.json"), "{broken").unwrap(), "auth.json cannot be read", false),
    (
        |home| {
            fs::create_dir_all(home.join("cron")).unwrap();
            fs::write(home.join("cron/jobs.json"), "[1,").unwrap();
        },
        "cron/jobs.json cannot be read",
        false,
    ),
    (|home| fs::write(home.join("cron"), "a file").unwrap_or_default(), "cron is no folder", false),
    (|home| fs::write(home.join("skills"), "a file").unwrap(), "skills is no folder", false),
    (
        |home| {
            fs::create_dir_all(home.join("memories")).unwrap();
            fs::write(home.join("memories/MEMORY.md"), "x".repeat(9_000)).unwrap();
        },
        "MEMORY.md has 9000 characters",
        false,
    ),
];

#[test]
fn the_doctor_names_what_is_wrong_and_mends_what_can_be_mended() {
    for (break_home, words, is_mended) in FAULTS {
        let home = TempHome::builder().config_yaml("agent: {max_turns: 20}\n").build().unwrap();
        break_home(&home);
        let before = snapshot(home.path());
        let seen = hermes(&home, &["doctor", "--offline"]);
        assert!(seen.starts_with("exit 0") && seen.contains(words), "{words}: {seen}");
        let seen = hermes(&home, &["doctor", "--offline", "--fix"]);
        assert!(seen.contains("Fixed"), "{words}: {seen}");
        let after = snapshot(home.path());
        for (name, content) in &before {
            let is_pid = name == "gateway.pid";
            assert!(
                is_pid || after.iter().any(|(n, c)| n == name && c == content),
                "{words}: {name} was changed"
            );
        }
        let again = hermes(&home, &["doctor", "--offline"]);
        assert_eq!(!again.contains(words), is_mended, "{words}: {again}");
    }
}

/// Returns the files with their content.
fn snapshot(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else if !entry.path().to_string_lossy().contains("state.db-") {
                let name = entry.path().strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read(entry.path()).unwrap()));
            }
        }
    }
    found
}

#[test]
fn the_doctor_speaks_json() {
    let home = empty_home();
    let seen = hermes(&home, &["doctor", "--offline", "--json"]);
    let text = seen.lines().find(|line| line.starts_with('{')).unwrap();
    let report: Value = serde_json::from_str(text).unwrap();
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["result"] == "warning" && check["fixable"] == true), "{report}");
}

#[test]
fn setup_takes_every_answer_as_a_flag() {
    let home = empty_home();
    let seen = hermes(
        &home,
        &[
            "setup",
            "--provider",
            "custom",
            "--base-url",
            "http://127.0.0.1:9/v1",
            "--model",
            "m1",
            "--api-key",
            "sk-test-of-some-length",
            "--terminal",
            "docker",
            "--image",
            "debian:12",
            "--max-turns",
            "17",
            "--tool-progress",
            "new",
            "--session-reset",
            "idle",
        ],
    );
    assert!(seen.contains("Setup Complete"), "{seen}");
    for (key, value) in [
        ("model.provider", "custom"),
        ("model.base_url", "http://127.0.0.1:9/v1"),
        ("model.default", "m1"),
        ("terminal.backend", "docker"),
        ("terminal.docker_image", "debian:12"),
        ("agent.max_turns", "17"),
        ("display.tool_progress", "new"),
        ("session_reset.mode", "idle"),
    ] {
        let seen = hermes(&home, &["config", "get", key]);
        assert!(seen.contains(value), "{key}: {seen}");
    }
    assert!(home.read(".env").contains("OPENAI_API_KEY=sk-test-of-some-length"));
    assert!(!seen.contains("sk-test"), "{seen}");
}

#[test]
fn setup_refuses_what_it_does_not_know_and_changes_nothing() {
    for arguments in [
        &["setup", "--provider", "nobody"][..],
        &["setup", "--terminal", "moon"],
        &["setup", "--provider", "custom", "--base-url", "localhost", "--model", "m"],
        &["setup", "--tool-progress", "loud"],
        &["setup", "--max-turns", "0"],
        &["setup", "--provider", "custom", "--base-url", "http://127.0.0.1:9/v1"],
    ] {
        let home = TempHome::builder().config_yaml("agent: {max_turns: 20}\n").build().unwrap();
        let seen = hermes(&home, arguments);
        assert!(seen.starts_with("exit 1"), "{arguments:?}: {seen}");
        let partly = arguments.contains(&"http://127.0.0.1:9/v1");
        assert!(partly || home.read("config.yaml") == "agent: {max_turns: 20}\n", "{arguments:?}");
    }
    let home = empty_home();
    let seen = hermes(&home, &["setup"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Non-interactive mode"), "{seen}");
    assert!(!home.config_yaml().exists());
}

#[test]
fn a_reset_keeps_the_old_settings_aside() {
    let home = TempHome::builder().config_yaml("agent: {max_turns: 20}\n").build().unwrap();
    hermes(&home, &["setup", "agent", "--reset", "--max-turns", "5"]);
    assert_eq!(home.read("config.yaml.bak"), "agent: {max_turns: 20}\n");
    assert!(hermes(&home, &["config", "get", "agent.max_turns"]).contains('5'));
}

#[test]
fn toolsets_are_switched_per_platform() {
    let home = TempHome::builder().config_yaml("mcp_servers: {git: {command: x}}\n").build().unwrap();
    let seen = hermes(&home, &["tools", "disable", "file", "git:push", "--platform", "telegram"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Disabled: file, git:push"), "{seen}");
    assert!(hermes(&home, &["tools", "list", "--platform", "telegram"]).contains("✗ disabled  file"));
    assert!(hermes(&home, &["tools"]).contains("✓ enabled   file"), "other platforms keep it");
    assert!(home.read("config.yaml").contains("push"));
    hermes(&home, &["tools", "enable", "file", "git:push", "--platform", "telegram"]);
    assert!(hermes(&home, &["tools", "list", "--platform", "telegram"]).contains("✓ enabled   file"));
    assert!(!home.read("config.yaml").contains("push"));
    let seen = hermes(&home, &["tools", "enable", "nothing", "nobody:tool"]);
    assert!(seen.starts_with("exit 1") && seen.contains("Unknown toolset 'nothing'"), "{seen}");
    assert!(seen.contains("MCP server 'nobody' not found"), "{seen}");
}

#[test]
fn fallbacks_are_a_list() {
    let home = empty_home();
    hermes(&home, &["fallback", "add", "anthropic:claude-a"]);
    hermes(&home, &["fallback", "add", "custom:b", "--base-url", "http://127.0.0.1:9/v1"]);
    let seen = hermes(&home, &["fallback"]);
    assert!(seen.contains("1. anthropic:claude-a") && seen.contains("2. custom:b at http://127.0.0.1:9/v1"));
    hermes(&home, &["fallback", "remove", "1"]);
    assert!(hermes(&home, &["fallback", "list"]).contains("1. custom:b"));
    assert!(hermes(&home, &["fallback", "remove", "7"]).starts_with("exit 1"));
    hermes(&home, &["fallback", "clear"]);
    assert!(hermes(&home, &["fallback"]).contains("No fallback"));
    assert!(hermes(&home, &["fallback", "add", "model-only"]).starts_with("exit 1"));
}

#[test]
fn keys_are_stored_and_never_shown() {
    let home = empty_home();
    for key in ["sk-or-first-0123456789abcdef", "sk-or-second-0123456789abcdef"] {
        let seen = hermes(&home, &["auth", "add", "openrouter", "--api-key", key]);
        assert!(seen.starts_with("exit 0") && !seen.contains("0123456789"), "{seen}");
    }
    let seen = hermes(&home, &["auth", "add", "openrouter", "--api-key", "sk-or-first-0123456789abcdef"]);
    assert!(seen.contains("has this key already"), "{seen}");
    let seen = hermes(&home, &["auth", "list"]);
    assert!(seen.contains("1. key 1") && seen.contains("2. key 2") && !seen.contains("sk-or"), "{seen}");
    assert_eq!(fs::metadata(home.join("auth.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(hermes(&home, &["auth", "remove", "openrouter", "key 1"]).starts_with("exit 0"));
    assert!(hermes(&home, &["auth", "remove", "openrouter", "key 1"]).starts_with("exit 1"));
    assert!(hermes(&home, &["auth", "reset", "openrouter"]).contains("1 key(s)"));
    assert!(hermes(&home, &["auth", "reset", "anthropic"]).starts_with("exit 1"));
    assert!(
        hermes(&home, &["auth", "add", "nobody-knows-this", "--api-key", "sk-x-0123456789"])
            .starts_with("exit 1")
    );
}

#[test]
fn a_backup_brings_a_home_back() {
    let home = TempHome::builder()
        .config_yaml("agent: {max_turns: 20}\n")
        .env_file("OPENROUTER_API_KEY=sk-or-0123456789abcdef\n")
        .file("memories/MEMORY.md", "what matters")
        .file("logs/errors.log", "old lines")
        .build()
        .unwrap();
    hermes(&home, &["-q", "hello"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("home.zip");
    let name = file.to_str().unwrap();
    let seen = hermes(&home, &["backup", "-o", name]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let other = TempHome::builder().config_yaml("agent: {max_turns: 3}\n").build().unwrap();
    let seen = hermes(&other, &["import", name]);
    assert!(seen.contains("kept config.yaml as it is"), "{seen}");
    assert_eq!(other.read("memories/MEMORY.md"), "what matters");
    assert!(!other.join("logs/errors.log").exists());
    assert!(hermes(&other, &["sessions", "list"]).contains("hello"));
    hermes(&other, &["import", name, "--force"]);
    assert_eq!(other.read("config.yaml"), home.read("config.yaml"));
    assert_eq!(other.read("config.yaml.before-import"), "agent: {max_turns: 3}\n");
    let listed = hermes(&home, &["backup", "--list", "--quick"]);
    assert!(listed.contains("config.yaml") && !listed.contains("state.db"), "{listed}");
}

#[test]
fn what_is_no_backup_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, entries: &[&str]| {
        let path = folder.path().join(name);
        let mut archive = zip::ZipWriter::new(fs::File::create(&path).unwrap());
        for entry in entries {
            archive.start_file(*entry, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(b"text").unwrap();
        }
        archive.finish().unwrap();
        path
    };
    let text = folder.path().join("text.zip");
    fs::write(&text, "no archive").unwrap();
    for path in [
        text,
        folder.path().join("no-such.zip"),
        write("up.zip", &["fine.txt", "../outside.txt"]),
        write("root.zip", &["fine.txt", "/tmp/hermes-test-outside.txt"]),
        write("back.zip", &["fine.txt", "a\\..\\b"]),
    ] {
        let home = empty_home();
        let seen = hermes(&home, &["import", path.to_str().unwrap()]);
        assert!(seen.starts_with("exit 1"), "{path:?}: {seen}");
        assert!(!home.join("fine.txt").exists(), "{path:?}");
    }
}

#[test]
fn profiles_are_homes_of_their_own() {
    let home = TempHome::builder()
        .config_yaml("agent: {max_turns: 20}\n")
        .env_file("OPENROUTER_API_KEY=sk-or-0123456789abcdef\n")
        .build()
        .unwrap();
    let user = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| run_as_user(home.path(), user.path(), arguments);
    let seen = run(&["profile", "create", "work", "--clone"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(run(&["-p", "work", "config", "get", "agent.max_turns"]).contains("20"));
    run(&["-p", "work", "config", "set", "agent.max_turns", "7"]);
    assert!(run(&["config", "get", "agent.max_turns"]).contains("20"));
    assert!(run(&["config", "get", "agent.max_turns", "--profile=work"]).contains('7'));
    // The command of the profile's name runs it.
    let alias = user.path().join(".local/bin/work");
    let output = Command::new(&alias)
        .args(["config", "get", "agent.max_turns"])
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", user.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains('7'));
    run(&["profile", "use", "work"]);
    assert!(run(&["config", "get", "agent.max_turns"]).contains('7'));
    assert!(run(&["-p", "default", "config", "get", "agent.max_turns"]).contains("20"));
    assert!(run(&["profile", "list"]).contains("◆ work"));
    assert!(run(&["profile", "rename", "work", "job"]).starts_with("exit 0"));
    assert!(run(&["config", "get", "agent.max_turns"]).contains('7'), "the one in use follows its name");
    fs::write(home.join("profiles/job/.env.before-import"), "OLD_KEY=1\n").unwrap();
    let file = user.path().join("job.zip");
    run(&["profile", "export", "job", "-o", file.to_str().unwrap()]);
    assert!(run(&["profile", "import", file.to_str().unwrap(), "--name", "copy"]).starts_with("exit 0"));
    assert!(!home.join("profiles/copy/.env").exists(), "keys are not exported");
    assert!(!home.join("profiles/copy/.env.before-import").exists(), "nor are copies of them");
    assert!(run(&["-p", "copy", "config", "get", "agent.max_turns"]).contains('7'));
    assert!(run(&["profile", "delete", "job", "-y"]).starts_with("exit 0"));
    assert!(!home.join("profiles/job").exists());
    assert!(run(&["config", "get", "agent.max_turns"]).contains("20"));
    for arguments in [
        &["profile", "create", "Work"][..],
        &["profile", "create", "default"],
        &["profile", "create", "copy"],
        &["profile", "show", "nobody"],
        &["profile", "delete", "default", "-y"],
        &["-p", "nobody", "status"],
    ] {
        assert!(run(arguments).starts_with("exit 1"), "{arguments:?}");
    }
}

#[test]
fn logs_are_merged_and_filtered() {
    let home = TempHome::builder()
        .file(
            "logs/errors.log",
            "2026-11-18 10:00:00 WARN hermes_agent: careful session=s1\n2026-11-18 10:00:02 ERROR hermes_net: failed\n",
        )
        .file(
            "logs/gateway.log",
            "2026-11-18 10:00:01 INFO hermes_gateway: began\n2026-11-18 10:00:02 ERROR hermes_net: failed\n",
        )
        .build()
        .unwrap();
    let lines = |arguments: &[&str]| {
        let seen = hermes(&home, &[&["logs"], arguments].concat());
        seen.lines().filter(|line| line.starts_with("2026")).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = lines(&[]);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].contains("careful") && all[1].contains("began") && all[2].contains("failed"));
    assert_eq!(lines(&["--level", "error"]).len(), 1);
    assert_eq!(lines(&["--session", "s1"]).len(), 1);
    assert_eq!(lines(&["--component", "gateway"]).len(), 1);
    assert_eq!(lines(&["gateway", "-n", "1"]).len(), 1);
    assert!(lines(&["--since", "1m"]).is_empty());
    assert!(hermes(&home, &["logs", "nothing"]).starts_with("exit 1"));
    assert!(hermes(&home, &["logs", "--since", "soon"]).starts_with("exit 1"));
}

#[test]
fn a_report_for_support_tells_no_secret() {
    let home = TempHome::builder()
        .config_yaml("model: {api_key: sk-in-the-config-0123456789}\nagent: {max_turns: 20}\n")
        .env_file("OPENROUTER_API_KEY=sk-or-0123456789abcdef\n")
        .file("logs/errors.log", "2026-11-18 10:00:00 WARN x: key sk-or-0123456789abcdef\n")
        .file("memories/MEMORY.md", "what only I know")
        .build()
        .unwrap();
    let seen = hermes(&home, &["dump"]);
    assert!(seen.contains("max_turns: 20") && seen.contains("MEMORY.md"), "{seen}");
    for secret in ["0123456789", "what only I know"] {
        assert!(!seen.contains(secret), "{secret}: {seen}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let home = empty_home();
    let folder = tempfile::tempdir().unwrap();
    let seen = hermes(&home, &["man", "--output", folder.path().to_str().unwrap()]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    for name in ["hermes.1", "hermes-chat.1", "hermes-tools-enable.1"] {
        let page = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    assert!(hermes(&home, &["man", "doctor"]).contains("HERMES-DOCTOR"));
    assert!(hermes(&home, &["man", "no-such-command"]).starts_with("exit 1"));
}

#[test]
fn uninstalling_asks_first() {
    let home = empty_home();
    let seen = run_in(Path::new("/"), home.path(), &["uninstall"]);
    assert!(seen.starts_with("exit 1") && seen.contains("no terminal to ask on"), "{seen}");
    // A copy of the program is removed, and the home stays.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("hermes");
    fs::copy(super::support::program(), &copy).unwrap();
    let output = Command::new(&copy)
        .args(["uninstall", "-y"])
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", folder.path())
        .output();
    assert!(output.unwrap().status.success());
    assert!(!copy.exists() && home.path().exists());
}

#[test]
fn a_skill_is_in_force_for_the_whole_session() {
    let script = "replies:\n  - {when: {system_contains: always say ahoy}, repeat: forever, text: ahoy}\ndefault: {reply: {text: nothing}}\n";
    let server = ModelServer::start_blocking(ModelScript::from_yaml("skills", script).unwrap()).unwrap();
    let config =
        format!("model: {{provider: custom, base_url: '{}', default: test-model}}\n", server.base_url());
    let home = TempHome::builder()
        .config_yaml(&config)
        .file(
            "skills/sea/pirate/SKILL.md",
            "---\nname: pirate\ndescription: talks like one\n---\nalways say ahoy\n",
        )
        .build()
        .unwrap();
    for name in ["pirate", "/sea/pirate"] {
        let seen = hermes(&home, &["-s", name, "-q", "hello"]);
        assert!(seen.contains("ahoy"), "{name}: {seen}");
    }
    let seen = hermes(&home, &["-s", "pirate,nobody", "-q", "hello"]);
    assert!(seen.starts_with("exit 1") && seen.contains("Unknown skill(s): nobody"), "{seen}");
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_worktree_is_made_for_a_chat_and_kept_only_with_changes() {
    let write = "replies:\n  - {tool: {name: write_file, arguments: {path: made.txt, content: x}}}\n  - {text: done}\ndefault: {reply: {text: done}}\n";
    for (script, kept) in [("default: {reply: {text: done}}\n", false), (write, true)] {
        let server =
            ModelServer::start_blocking(ModelScript::from_yaml("worktree", script).unwrap()).unwrap();
        let config =
            format!("model: {{provider: custom, base_url: '{}', default: test-model}}\n", server.base_url());
        let home = TempHome::builder().config_yaml(&config).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "-q"]);
        fs::write(folder.path().join("file.txt"), "x").unwrap();
        fs::write(folder.path().join("local.env"), "A=1").unwrap();
        fs::write(folder.path().join(".worktreeinclude"), "# more\nlocal.env\n../outside\n").unwrap();
        git(folder.path(), &["add", "file.txt"]);
        git(folder.path(), &["commit", "-qm", "first"]);
        let output = Command::cargo_bin("hermes")
            .unwrap()
            .args(["-w", "-q", "hello"])
            .current_dir(folder.path())
            .env_clear()
            .env("HERMES_HOME", home.path())
            .env("HOME", home.join("user"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .output()
            .unwrap();
        let seen = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && seen.contains("Worktree created"), "{output:?}");
        assert!(server.request(0).system_text().contains("worktree of your own"));
        assert!(fs::read_to_string(folder.path().join(".gitignore")).unwrap().contains(".worktrees/"));
        let left: Vec<_> = fs::read_dir(folder.path().join(".worktrees")).unwrap().flatten().collect();
        assert_eq!(left.len(), usize::from(kept), "{seen}");
        if kept {
            assert!(seen.contains("keeping") && left[0].path().join("made.txt").exists(), "{seen}");
            assert!(left[0].path().join("local.env").exists());
        }
    }
    let home = empty_home();
    let outside = tempfile::tempdir().unwrap();
    let seen = run_in(outside.path(), home.path(), &["-w", "-q", "hello"]);
    assert!(seen.starts_with("exit 1") && seen.contains("git"), "{seen}");
}
