//! `.env`, its precedence and repair, and the variables for child processes.

use std::fs;
use std::path::Path;

use hermes_config::env::bridge::exported_variables;
use hermes_config::env::dotenv::{decode, encode, parse, save, set};
use hermes_config::env::{VariableOrigin, is_true, repair, variables};
use hermes_config::{Error, Home, ManagedMode, ProgramSurface, canonical_provider};

use crate::support::{ConfigFixture, config, env};

fn check_line(line: &str, expected: Option<(&str, &str)>) {
    let read = parse(line);
    assert_eq!(read.first().map(|(name, value)| (name.as_str(), value.as_str())), expected, "{line:?}");
}

#[test]
fn lines_are_read_leniently() {
    for (line, expected) in [
        ("A=b", Some(("A", "b"))),
        ("export A=b", Some(("A", "b"))),
        ("\u{feff}A=b", Some(("A", "b"))),
        ("  A = b c  ", Some(("A", "b c"))),
        ("A=b # note", Some(("A", "b"))),
        ("A=b#c", Some(("A", "b#c"))),
        ("A=#c", Some(("A", "#c"))),
        ("A='b # c' # d", Some(("A", "b # c"))),
        ("A=\"b\\nc \\\" d\"", Some(("A", "b\nc \" d"))),
        ("A='b\\nc'", Some(("A", "b\\nc"))),
        ("A=\"open", Some(("A", "\"open"))),
        ("A='x'y", Some(("A", "'x'y"))),
        ("A=", Some(("A", ""))),
        ("A=a=b", Some(("A", "a=b"))),
        ("# A=b", None),
        ("1A=b", None),
        ("A B=c", None),
        ("novalue", None),
        ("A=b\r", Some(("A", "b"))),
    ] {
        check_line(line, expected);
    }
}

#[test]
fn saving_changes_one_line() {
    for (before, name, value, after) in [
        ("", "A", "b", "A=b\n"),
        ("# c\nA=1\nB=2", "B", "3", "# c\nA=1\nB=3"),
        ("# c\nA=1", "B", "3", "# c\nA=1\nB=3\n"),
        ("A=1 # old\nB=2\n", "A", "x", "A=x\nB=2\n"),
        ("export A=1\r\nB=2\r\n", "A", "x", "export A=x\r\nB=2\r\n"),
        ("A=1\nB=2\nA=3\n", "A", "x", "A=x\nB=2\n"),
        ("A=1\n", "A", "two\nlines", "A=twolines\n"),
        ("A=1\n", "A", "", "A=\n"),
        ("AA=1\nA=2\n", "A", "x", "AA=1\nA=x\n"),
        ("#A=1\n", "A", "x", "#A=1\nA=x\n"),
    ] {
        assert_eq!(set(before, name, value).expect("valid"), after, "{before:?} {name}={value:?}");
    }
    for value in
        ["a # b", " lead", "'q'", "\"q\"", "it's # x", "back\\slash # \"", "plain=x", "#", "a\\nb # '"]
    {
        let text = set("", "A", value).expect("valid");
        assert_eq!(parse(&text), [("A".to_owned(), value.to_owned())], "{text:?}");
    }
    let error = set("", "1A", "x").expect_err("bad name").to_string();
    assert_eq!(error, "Invalid environment variable name: 1A");
}

#[test]
fn latin1_files_survive_a_save() {
    let temp = ConfigFixture::new();
    fs::write(temp.home.dotenv(), b"A=caf\xe9\nB=1\n").expect("write");
    save(&temp.home, ManagedMode::Unmanaged, &[("B", "2")]).expect("saved");
    assert_eq!(fs::read(temp.home.dotenv()).expect("read"), b"A=caf\xe9\nB=2\n");
    assert_eq!(env(&[]).with_files(&temp.home, None).get("A"), Some("café"));
    let (text, encoding) = decode(b"A=caf\xe9\n");
    assert_eq!(encode(&format!("{text}B=\u{20ac}\n"), encoding), "A=café\nB=€\n".as_bytes());
}

/// Shows that `.env` overrides the shell, and that the installation's file only fills gaps while the home has one.
#[test]
fn t41_6_layers_in_order() {
    let temp = ConfigFixture::new();
    let install = tempfile::tempdir().expect("folder");
    fs::write(install.path().join(".env"), "A=install\nC=install\nD=install\n").expect("write");
    let shell = env(&[("A", "shell"), ("B", "shell"), ("D", "shell")]);
    let no_user = shell.with_files(&temp.home, Some(install.path()));
    assert_eq!(
        (no_user.get("A"), no_user.get("B"), no_user.get("C")),
        (Some("install"), Some("shell"), Some("install"))
    );
    fs::write(temp.home.dotenv(), "A=user\nD=\n").expect("write");
    let layered = shell.with_files(&temp.home, Some(install.path()));
    assert_eq!(layered.get("A"), Some("user"));
    assert_eq!(layered.origin("A"), Some(VariableOrigin::UserFile));
    assert_eq!((layered.get("B"), layered.get("C")), (Some("shell"), Some("install")));
    assert_eq!(layered.get("D"), None, "a blanked variable is unset, whatever the shell says");
}

/// Shows which texts count as true.
#[test]
fn t41_15_t41_17_booleans_and_lists() {
    for (text, expected) in [
        ("1", true),
        ("True", true),
        ("YES", true),
        ("on", true),
        ("False", false),
        ("0", false),
        ("2", false),
    ] {
        assert_eq!(is_true(text), expected, "{text}");
    }
    let shell = env(&[("L", " a, ,b ,"), ("E", "")]);
    assert_eq!(shell.list("L"), ["a", "b"]);
    assert_eq!((shell.bool("E"), shell.bool("NOPE")), (None, None));
    assert!(!format!("{:?}", env(&[("OPENAI_API_KEY", "sk-x")])).contains("sk-x"));
}

#[test]
fn glued_lines_are_split_and_fillers_dropped() {
    for (before, after, fixed) in [
        ("OPENAI_API_KEY=sk-1OPENROUTER_API_KEY=sk-2\n", "OPENAI_API_KEY=sk-1\nOPENROUTER_API_KEY=sk-2\n", 1),
        ("A=xHF_TOKEN=hf_abcFAL_KEY=k", "A=x\nHF_TOKEN=hf_abc\nFAL_KEY=k", 2),
        ("OPENAI_API_KEY=changeme\nOPENAI_API_KEY=sk-real\n", "OPENAI_API_KEY=sk-real\n", 1),
        ("OPENAI_API_KEY=***\n", "OPENAI_API_KEY=***\n", 0),
        ("X=COPILOT_GITHUB_TOKEN=gho_x\n", "X=\nCOPILOT_GITHUB_TOKEN=gho_x\n", 1),
        (
            "ARGS=--env FAL_KEY=x\n# FAL_KEY=1HF_TOKEN=2\nQ='aFAL_KEY=b'\n",
            "ARGS=--env FAL_KEY=x\n# FAL_KEY=1HF_TOKEN=2\nQ='aFAL_KEY=b'\n",
            0,
        ),
    ] {
        let repaired = repair(before);
        assert_eq!((repaired.text.as_str(), repaired.fixed), (after, fixed), "{before:?}");
    }
    assert_eq!(
        repair("A=xHF_TOKEN=y").report().as_deref(),
        Some("✓ Repaired .env file (1 corrupted entries fixed)")
    );
    assert_eq!(repair("A=x").report(), None);
}

#[test]
fn the_bridge_exports_what_children_read() {
    let cwd = Path::new("/work");
    let text = "terminal: {backend: docker, timeout: 60, docker_volumes: ['a:b'], container_persistent: false, sudo_password: pw}\n\
                auxiliary: {vision: {provider: auto, model: v}}\nsecurity: {redact_secrets: off}\ntimezone: UTC\nMESSAGING_CWD: /m\n\
                discord: {free_response_channels: [12345678901234567, b]}\nagent: {max_turns: 9}\nworktree: true\n";
    let loaded = config(text, &[]);
    let shell = env(&[
        ("TERMINAL_ENV", "ssh"),
        ("TERMINAL_TIMEOUT", "1"),
        ("HERMES_TIMEZONE", "Asia/Tokyo"),
        ("HERMES_MAX_ITERATIONS", "5"),
    ]);
    let cli = exported_variables(&loaded, &shell, ProgramSurface::Cli, cwd);
    let has = |name: &str| cli.get(name).map(String::as_str);
    assert_eq!(has("TERMINAL_ENV"), Some("docker"));
    assert_eq!(has("TERMINAL_TIMEOUT"), Some("60"));
    assert_eq!(
        has("TERMINAL_LIFETIME_SECONDS"),
        Some("300"),
        "T41-12: defaults too, once there is a section"
    );
    assert_eq!(has("TERMINAL_DOCKER_VOLUMES"), Some("[\"a:b\"]"));
    assert_eq!(has("TERMINAL_CONTAINER_PERSISTENT"), Some("False"), "T41-15");
    assert_eq!(has("TERMINAL_CWD"), None, "a container has its own folder");
    assert_eq!(has("SUDO_PASSWORD"), Some("pw"));
    assert_eq!(has("AUXILIARY_VISION_MODEL"), Some("v"));
    assert_eq!(has("AUXILIARY_VISION_PROVIDER"), None);
    assert_eq!(has("HERMES_REDACT_SECRETS"), Some("False"));
    // Top-level scalars and gateway variables are not exported for the CLI.
    for name in ["MESSAGING_CWD", "worktree", "HERMES_QUIET", "HERMES_MAX_ITERATIONS"] {
        assert_eq!(has(name), None, "{name}");
    }
    let gateway = exported_variables(&loaded, &shell, ProgramSurface::Gateway, cwd);
    let has = |name: &str| gateway.get(name).map(String::as_str);
    assert_eq!(has("MESSAGING_CWD"), Some("/m"));
    assert_eq!(has("worktree"), Some("True"));
    assert_eq!((has("HERMES_QUIET"), has("HERMES_EXEC_ASK")), (Some("1"), Some("1")));
    assert_eq!(has("HERMES_MAX_ITERATIONS"), Some("9"));
    assert_eq!(has("HERMES_TIMEZONE"), None, "already set");
    assert_eq!(has("DISCORD_FREE_RESPONSE_CHANNELS"), Some("12345678901234567,b"));
}

#[test]
fn without_a_terminal_section_the_bridge_only_fills_gaps() {
    let loaded = config("model: x\n", &[]);
    let shell = env(&[("TERMINAL_ENV", "docker"), ("HOME", "/home/u")]);
    let cli = exported_variables(&loaded, &shell, ProgramSurface::Cli, Path::new("/work"));
    assert!(!cli.contains_key("TERMINAL_ENV"));
    assert_eq!(cli.get("TERMINAL_TIMEOUT").map(String::as_str), Some("180"));
    assert_eq!(cli.get("TERMINAL_CWD").map(String::as_str), Some("/work"));
    let gateway = exported_variables(&loaded, &shell, ProgramSurface::Gateway, Path::new("/work"));
    assert_eq!(gateway.get("TERMINAL_CWD").map(String::as_str), Some("/home/u"));
    let messaging = shell.with_variables([("MESSAGING_CWD".to_owned(), "/m".to_owned())]);
    let gateway = exported_variables(&loaded, &messaging, ProgramSurface::Gateway, Path::new("/work"));
    assert_eq!(gateway.get("TERMINAL_CWD").map(String::as_str), Some("/m"));
}

#[test]
fn variables_are_unique_and_secrets_marked() {
    let mut names: Vec<_> = variables::all().iter().map(|variable| variable.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), variables::all().len());
    for variable in variables::all() {
        let looks_secret =
            ["_API_KEY", "_TOKEN", "_PASSWORD", "_SECRET"].iter().any(|end| variable.name.ends_with(end));
        assert!(variable.secret || !looks_secret, "{}", variable.name);
    }
}

#[test]
fn homes_are_found() {
    let root = |pairs: &[(&str, &str)]| Home::resolve(&env(pairs)).map(|home| home.path().to_owned());
    assert_eq!(root(&[("HOME", "/u")]).expect("home"), Path::new("/u/.hermes"));
    assert_eq!(root(&[("HOME", "/u"), ("HERMES_HOME", "~/x")]).expect("home"), Path::new("/u/x"));
    assert_eq!(root(&[("HOME", "/u"), ("HERMES_HOME", "~")]).expect("home"), Path::new("/u"));
    assert_eq!(root(&[("HOME", "/u"), ("HERMES_HOME", "/abs")]).expect("home"), Path::new("/abs"));
    // Without HOME, USER and a terminal, the password file names the home, or the error says what to set.
    match root(&[]) {
        Ok(path) => assert!(path.ends_with(".hermes")),
        Err(error) => assert!(error.to_string().contains("HERMES_HOME")),
    }
}

#[test]
fn provider_names_are_canonical() {
    for (name, id) in [
        (" OLLAMA ", "custom"),
        ("llama.cpp", "custom"),
        ("GLM", "zai"),
        ("Claude-Code", "anthropic"),
        ("zen", "opencode-zen"),
        ("amazon", "bedrock"),
        ("deep-seek", "deepseek"),
        ("auto", "auto"),
        ("openai", "openai"),
        ("codex", "openai-codex"),
    ] {
        assert_eq!(canonical_provider(name).expect(name), id);
    }
    let error = canonical_provider(" Nope ").expect_err("unknown");
    assert!(matches!(error, Error::UnknownProvider { .. }));
    assert_eq!(error.to_string(), "Unknown provider 'Nope'.");
}

#[test]
fn sections_of_chat_platforms_are_their_variables() {
    let text = "telegram:\n  require_mention: true\n  mention_patterns: ['^hey\\b', 'a{1,2}']\n  unauthorized_dm_behavior: ignore\n\
                slack:\n  free_response_channels: [C1, C2]\n  reactions: off\nterminal:\n  backend: local\n";
    let loaded = config(text, &[]);
    let shell = env(&[("SLACK_REACTIONS", "true"), ("HOME", "/home/u")]);
    let gateway = exported_variables(&loaded, &shell, ProgramSurface::Gateway, Path::new("/work"));
    let has = |name: &str| gateway.get(name).map(String::as_str);
    assert_eq!(has("TELEGRAM_REQUIRE_MENTION"), Some("True"));
    assert_eq!(has("TELEGRAM_MENTION_PATTERNS"), Some(r#"["^hey\\b","a{1,2}"]"#), "a comma tears nothing");
    assert_eq!(has("TELEGRAM_UNAUTHORIZED_DM_BEHAVIOR"), None);
    assert_eq!(has("SLACK_FREE_RESPONSE_CHANNELS"), Some("C1,C2"));
    assert_eq!(has("SLACK_REACTIONS"), None, "already set");
    let cli = exported_variables(&loaded, &shell, ProgramSurface::Cli, Path::new("/work"));
    assert!(!cli.contains_key("TELEGRAM_REQUIRE_MENTION"));
}

#[test]
fn users_in_the_block_of_a_platform_are_added_to_those_of_its_variable() {
    let text = "platforms:\n  telegram:\n    extra:\n      allowed_users: [42, '43']\n  discord:\n    extra:\n      allowed_users: 'ann, bob'\n  \
                slack:\n    extra:\n      allowed_users: []\n  matrix:\n    extra:\n      allowed_users: ['@ann:x']\nmatrix:\n  allowed_users: ['@bob:x']\n";
    let loaded = config(text, &[]);
    let shell =
        env(&[("TELEGRAM_ALLOWED_USERS", "41, 42"), ("SLACK_ALLOWED_USERS", "U1"), ("HOME", "/home/u")]);
    let gateway = exported_variables(&loaded, &shell, ProgramSurface::Gateway, Path::new("/work"));
    let has = |name: &str| gateway.get(name).map(String::as_str);
    assert_eq!(has("TELEGRAM_ALLOWED_USERS"), Some("41,42,43"));
    assert_eq!(has("DISCORD_ALLOWED_USERS"), Some("ann,bob"));
    assert_eq!(has("SLACK_ALLOWED_USERS"), None, "nothing is added");
    assert_eq!(has("MATRIX_ALLOWED_USERS"), Some("@bob:x,@ann:x"));
}

#[test]
fn programs_we_start_get_no_secret_of_ours() {
    let shell = hermes_config::Env::from_pairs([
        ("NOUS_API_KEY", "n"),
        ("MY_SHELL_TOKEN", "s"),
        ("AWS_SECRET_ACCESS_KEY", "a"),
        ("EDITOR", "vi"),
    ]);
    let file = [("LINEAR_API_KEY", "l"), ("MY_PLACE", "p"), ("AUXILIARY_VISION_API_KEY", "x")];
    let file: Vec<(String, String)> = file.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let secrets = shell.layer(Some(&file), None).withheld_names();
    assert_eq!(secrets, ["AUXILIARY_VISION_API_KEY", "LINEAR_API_KEY", "NOUS_API_KEY"]);
}

#[test]
fn our_own_file_passes_nothing_to_programs_unless_it_is_named() {
    let shell = hermes_config::Env::from_pairs([("EDITOR", "vi"), ("SHARED", "of the shell")]);
    let file = [
        ("DB_PASS", "p"),
        ("AWS_SECRET_ACCESS_KEY", "a"),
        ("MY_PLACE", "x"),
        ("SHARED", "of the file"),
        ("NAMED", "n"),
        ("_HERMES_FORCE_HF_TOKEN", "t"),
    ];
    let file: Vec<(String, String)> = file.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let env = shell.layer(Some(&file), None);
    let named = ["NAMED".to_owned()];
    let passed: Vec<(&str, &str)> = env.child_variables(&named).collect();
    assert_eq!(
        passed,
        [("EDITOR", "vi"), ("NAMED", "n"), ("SHARED", "of the shell"), ("_HERMES_FORCE_HF_TOKEN", "t")]
    );
}
