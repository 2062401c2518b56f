//! `hermes config` on real files.

use hermes_testkit::TempHome;
use insta::assert_snapshot;

use super::support::{hermes, run_in};

#[test]
fn setting_a_key_changes_only_that_key() {
    let text = "# my settings\nmodel:\n  default: a/b   # the good one\n  provider: openrouter\n\nmystery: {keep: [me, too]}\n";
    let home = TempHome::builder().config_yaml(text).build().unwrap();
    assert_snapshot!(hermes(&home, &["config", "set", "model.default", "c/d"]), @r"
    exit 0
    --- stdout
    ✓ Set model.default = c/d in [HOME]/config.yaml
    ");
    assert_eq!(home.read("config.yaml"), text.replace("a/b", "c/d"));
}

#[test]
fn secrets_go_to_the_environment_file_and_are_never_shown() {
    let home = TempHome::builder().env_file("# keys\nOTHER=1\n").build().unwrap();
    let seen = hermes(&home, &["config", "set", "OPENROUTER_API_KEY", "sk-or-v1-0123456789abcdef"]);
    assert_snapshot!(seen, @r"
    exit 0
    --- stdout
    ✓ Set OPENROUTER_API_KEY in [HOME]/.env
    ");
    assert_eq!(home.read(".env"), "# keys\nOTHER=1\nOPENROUTER_API_KEY=sk-or-v1-0123456789abcdef\n");
    let shown = hermes(&home, &["config", "show"]);
    assert!(shown.contains("sk-o...cdef") && !shown.contains("0123456789"), "{shown}");
}

#[test]
fn a_syntax_error_is_said_and_the_file_left_alone() {
    let text = "model:\n  default: x\n bad: [1\n";
    let home = TempHome::builder().config_yaml(text).build().unwrap();
    let seen = hermes(&home, &["config", "get", "model.default"]);
    assert!(
        seen.contains("Warning: Failed to load config: [HOME]/config.yaml") && seen.contains("line 3"),
        "{seen}"
    );
    assert!(seen.contains("anthropic/claude-opus-4.6"), "the defaults apply: {seen}");
    let seen = hermes(&home, &["config", "set", "model.default", "y"]);
    assert!(seen.starts_with("exit 1") && seen.contains("nothing was written"), "{seen}");
    assert_eq!(home.read("config.yaml"), text);
}

#[test]
fn a_minimal_deployment_is_loaded_and_not_rewritten() {
    let config = "model:\n  provider: custom\n  base_url: http://127.0.0.1:11434/v1\n  default: qwen3:8b\n";
    let env = "HERMES_INFERENCE_PROVIDER=custom\nAPI_SERVER_ENABLED=1\nAPI_SERVER_HOST=127.0.0.1\nAPI_SERVER_PORT=8642\nAPI_SERVER_KEY=abc\n";
    let home = TempHome::builder().config_yaml(config).env_file(env).build().unwrap();
    for arguments in [&["config", "show"][..], &["config", "check"], &["sessions", "list"]] {
        assert!(hermes(&home, arguments).starts_with("exit 0"), "{arguments:?}");
    }
    assert_eq!((home.read("config.yaml").as_str(), home.read(".env").as_str()), (config, env));
}

#[test]
fn an_environment_file_with_a_byte_order_mark_is_read() {
    let home =
        TempHome::builder().env_file("\u{feff}OPENROUTER_API_KEY=sk-or-v1-aaaabbbbcccc\n").build().unwrap();
    assert!(hermes(&home, &["config", "show"]).contains("OpenRouter     sk-o...cccc"));
}

#[test]
fn a_managed_home_refuses_changes_and_says_why() {
    let home = TempHome::builder().file(".managed", "").build().unwrap();
    let seen = hermes(&home, &["config", "set", "timezone", "UTC"]);
    assert!(seen.starts_with("exit 1") && seen.contains("configuration is managed by NixOS"), "{seen}");
    assert!(!home.join("config.yaml").exists());
}

#[test]
fn mistakes_are_pointed_out() {
    let home = TempHome::builder()
        .config_yaml("_config_version: 10\nagnet:\n  max_turns: 5\napprovals:\n  mode: sometimes\nmodel:\n  api_key: ${NOT_SET}\n")
        .build()
        .unwrap();
    let seen = hermes(&home, &["config", "check"]);
    for words in ["agnet", "approvals.mode: must be one of", "model.api_key: still contains"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
}

#[test]
fn migrating_keeps_comments_and_never_lowers_the_version() {
    let home =
        TempHome::builder().config_yaml("# mine\n_config_version: 33\nmodel: a/b # here\n").build().unwrap();
    let seen = hermes(&home, &["config", "migrate"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(home.read("config.yaml"), "# mine\n_config_version: 33\nmodel: a/b # here\n");
    let home =
        TempHome::builder().config_yaml("# mine\n_config_version: 3\nmodel: a/b # here\n").build().unwrap();
    hermes(&home, &["config", "migrate"]);
    let text = home.read("config.yaml");
    assert!(
        text.contains("# mine") && text.contains("model: a/b # here") && text.contains("_config_version: 10"),
        "{text}"
    );
    assert!(hermes(&home, &["config", "migrate"]).contains("✓ Configuration is up to date!"));
    assert_eq!(home.read("config.yaml"), text);
}

#[test]
fn secrets_of_the_home_are_masked_in_what_tools_show() {
    let home = TempHome::builder()
        .env_file("SHOP_DB_PASS=zebra-Quartz-77\nPLAIN_NAME=visible-Value-12\n")
        .config_yaml(
            "custom_providers:\n- name: x\n  base_url: http://127.0.0.1:1/v1\n  api_key: otter-Basalt-31\n",
        )
        .file("auth.json", r#"{"providers": {"nous": {"refresh_token": "heron-Gneiss-58"}}}"#)
        .build()
        .unwrap();
    let project = tempfile::tempdir().unwrap();
    let notes = "one zebra-Quartz-77 two otter-Basalt-31 three heron-Gneiss-58 four visible-Value-12\n";
    std::fs::write(project.path().join("notes.txt"), notes).unwrap();
    let seen = run_in(project.path(), home.path(), &["-q", "read notes.txt"]);
    assert!(seen.contains("one *** two *** three *** four visible-Value-12"), "{seen}");
    let log = std::fs::read_dir(home.path().join("logs")).unwrap().flatten();
    for file in log {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        assert!(!text.contains("Quartz") && !text.contains("Basalt") && !text.contains("Gneiss"), "{text}");
    }
}

#[test]
fn a_model_of_a_local_server_keeps_its_tag() {
    let home =
        TempHome::builder().config_yaml("model:\n  base_url: http://127.0.0.1:9/v1\n").build().unwrap();
    let seen = hermes(&home, &["model", "custom:qwen3:8b"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Current model:   qwen3:8b"), "{seen}");
    let config = home.read("config.yaml");
    assert!(config.contains("provider: custom\n") && config.contains("default: qwen3:8b\n"), "{config}");
    // Invalid values change nothing.
    for wrong in ["custom:nowhere:model", "not a model", "  "] {
        let seen = hermes(&home, &["model", wrong]);
        assert!(seen.starts_with("exit 1") && seen.contains("Nothing was changed"), "{wrong}: {seen}");
        assert_eq!(home.read("config.yaml"), config);
    }
    let bare = TempHome::builder().config_yaml("").build().unwrap();
    let seen = hermes(&bare, &["model", "custom:qwen3:8b"]);
    assert!(seen.starts_with("exit 1") && seen.contains("model.base_url"), "{seen}");
    assert_eq!(bare.read("config.yaml"), "");
}

/// Checks that signing in shows a code and waits for its confirmation; signing out deletes the credential.
#[test]
fn signing_in_shows_a_code_and_signing_out_forgets_it() {
    let script = r#"
replies:
  - when: {path: /api/oauth/device/code}
    http: {status: 200, body: {device_code: d, user_code: ABCD-1234, verification_uri: "http://127.0.0.1:9/device", expires_in: 600, interval: 1}}
  - when: {path: /api/oauth/token}
    http: {status: 200, body: {access_token: at-Secret-1234567890, refresh_token: rt-Secret-1234567890, expires_in: 3600}}
"#;
    let server = hermes_testkit::ModelServer::start_blocking(
        hermes_testkit::ModelScript::from_yaml("portal", script).unwrap(),
    )
    .unwrap();
    let home = TempHome::builder().build().unwrap();
    assert!(hermes(&home, &["logout"]).contains("No provider is currently logged in."));
    let seen = hermes(&home, &["login", "--portal-url", &server.url()]);
    assert!(seen.contains("ABCD-1234"), "{seen}");
    assert!(
        seen.starts_with("exit 0") && seen.contains("Signed in to nous."),
        "{seen} {:?}",
        server.requests()
    );
    assert!(home.read("auth.json").contains("at-Secret-1234567890") && !seen.contains("at-Secret"), "{seen}");
    let seen = hermes(&home, &["logout"]);
    assert!(seen.contains("Logged out of nous."), "{seen}");
    assert!(!home.read("auth.json").contains("at-Secret"));
    let seen = hermes(&home, &["login", "--provider", "deepseek"]);
    assert!(seen.starts_with("exit 1") && seen.contains("Login failed"), "{seen}");
}

#[test]
fn a_fallback_that_cannot_be_used_is_said() {
    let server =
        hermes_testkit::ModelServer::start_blocking(hermes_testkit::ModelScript::new().echo()).unwrap();
    let config = format!(
        "model:\n  provider: custom\n  base_url: {}\n  default: m\nfallback_model:\n  provider: deepseek\n  model: deepseek-chat\n",
        server.base_url()
    );
    let home = TempHome::builder().config_yaml(&config).build().unwrap();
    let seen = hermes(&home, &["-Q", "-q", "hello"]);
    assert!(
        seen.starts_with("exit 0") && seen.contains("The fallback model deepseek-chat cannot be used"),
        "{seen}"
    );
    assert!(seen.contains("DEEPSEEK_API_KEY"), "{seen}");
}

/// Checks that the URL is opened where there is a display, and only printed with `--no-browser` or over SSH.
#[test]
fn signing_in_opens_a_browser_where_there_is_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let script = r#"
replies:
  - when: {path: /api/oauth/device/code}
    http: {status: 200, body: {device_code: d, user_code: ABCD-1234, verification_uri: "http://127.0.0.1:9/device", expires_in: 600, interval: 1}}
  - when: {path: /api/oauth/token}
    http: {status: 200, body: {access_token: at-Secret-1234567890, refresh_token: rt-Secret-1234567890, expires_in: 3600}}
"#;
    for (more, ssh, opened) in [(None, "", true), (Some("--no-browser"), "", false), (None, "1 2 3 4", false)]
    {
        let server = hermes_testkit::ModelServer::start_blocking(
            hermes_testkit::ModelScript::from_yaml("portal", script).unwrap(),
        )
        .unwrap();
        let home = TempHome::new().unwrap();
        let opener = home.join("xdg-open");
        let seen = home.join("opened.txt");
        std::fs::write(&opener, format!("#!/bin/sh\necho \"$1\" > {}\n", seen.display())).unwrap();
        std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
        let done = assert_cmd::Command::cargo_bin("hermes")
            .unwrap()
            .args(["login", "--portal-url", &server.url()])
            .args(more)
            .env_clear()
            .env("HERMES_HOME", home.path())
            .env("HOME", home.path())
            .env("PATH", format!("{}:/usr/bin:/bin", home.path().display()))
            .env("DISPLAY", ":0")
            .env("SSH_CONNECTION", ssh)
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && words.contains("Open http://127.0.0.1:9/device"), "{words}");
        if opened {
            super::support::until("the address is opened", || seen.exists());
            assert_eq!(std::fs::read_to_string(&seen).unwrap().trim(), "http://127.0.0.1:9/device");
        } else {
            assert!(!seen.exists(), "{more:?} {ssh}");
        }
    }
}

#[test]
fn an_edited_file_is_checked() {
    let edit = |text: &str| {
        let home = TempHome::builder().config_yaml("model: a\n").build().unwrap();
        let editor = home.join("editor.sh");
        std::fs::write(&editor, format!("printf '{text}' > \"$1\"\n")).unwrap();
        let done = assert_cmd::Command::cargo_bin("hermes")
            .unwrap()
            .args(["config", "edit"])
            .env_clear()
            .env("HERMES_HOME", home.path())
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .env("EDITOR", format!("sh {}", editor.display()))
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, words) = edit("model: b\\n");
    assert_eq!((code, words.as_str()), (Some(0), ""));
    let (code, words) = edit("model:\\n  default: x\\n bad: [1\\n");
    assert!(code == Some(1) && words.contains("line 3"), "{code:?} {words}");
    let (_, words) = edit("agent: {max_turns: many}\\n");
    assert!(words.contains("agent.max_turns"), "{words}");
}

#[test]
fn lines_of_the_environment_file_that_cannot_be_used_are_told() {
    let home = TempHome::builder().env_file("GOOD=1\nthis is no assignment\n1BAD=x\n").build().unwrap();
    let seen = hermes(&home, &["config", "check"]);
    assert!(seen.contains(".env") && seen.contains("line 2") && seen.contains("line 3"), "{seen}");
}
