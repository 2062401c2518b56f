//! `config set`, `get`, `unset` and the full save.

use std::fs;

use hermes_config::save::{SaveChange, full_save};
use hermes_config::set::{self, MASK, SetDestination, set_value, update_value};
use hermes_config::yaml::{KeyPath, YamlValue, parse};
use hermes_config::{Error, ManagedMode};

use crate::support::{ConfigFixture, env};

fn check_set(before: &str, key: &str, value: &str, after: &str) -> Vec<String> {
    let temp = ConfigFixture::with_config(before);
    let outcome =
        set::set(&temp.home, &env(&[]), key, value).unwrap_or_else(|error| panic!("{key}: {error}"));
    assert_eq!(temp.config_text(), after, "set {key} {value}");
    let folder = temp.home.path().display().to_string();
    outcome.lines.into_iter().map(|line| line.replace(&folder, "HOME")).collect()
}

#[test]
fn values_are_coerced() {
    for (key, value, written) in [
        ("a.b", "true", "true"),
        ("a.b", "Yes", "true"),
        ("a.b", "OFF", "false"),
        ("a.b", "60", "60"),
        ("a.b", "0123", "123"),
        ("a.b", "1.5", "1.5"),
        ("a.b", "1.2.3", "'1.2.3'"),
        // These stay text, and numeric readers parse them.
        ("a.b", "-5", "'-5'"),
        ("a.b", "1e5", "'1e5'"),
        ("a.b", "null", "'null'"),
        ("a.b", "[1, 2]", "'[1, 2]'"),
        ("a.b", "1234567890123456789", "1234567890123456789"),
        ("a.b", "text with: colon", "'text with: colon'"),
        // Keys that hold words keep them.
        ("approvals.mode", "off", "'off'"),
        ("terminal.ssh_user", "007", "'007'"),
        // Lists and maps may be given as JSON for keys of these types.
        ("skills.disabled", "[\"a\", \"b\"]", ""),
    ] {
        let temp = ConfigFixture::with_config("# mine\n");
        set::set(&temp.home, &env(&[]), key, value).expect(key);
        let text = temp.config_text();
        if written.is_empty() {
            assert_eq!(text, "# mine\nskills:\n  disabled:\n  - a\n  - b\n");
        } else {
            assert!(
                text.starts_with("# mine\n") && text.ends_with(&format!(": {written}\n")),
                "{value}: {text}"
            );
        }
    }
}

#[test]
fn only_the_key_changes_and_the_line_says_so() {
    let lines = check_set(
        "# c\nagent:\n  max_turns: 5 # why\n\nother: [1]\n",
        "agent.max_turns",
        "90",
        "# c\nagent:\n  max_turns: 90 # why\n\nother: [1]\n",
    );
    assert_eq!(lines, ["✓ Set agent.max_turns = 90 in HOME/config.yaml"]);
    let lines = check_set("", "nope.such", "x", "nope:\n  such: x\n");
    assert_eq!(
        lines[1],
        "⚠ 'nope.such' is not a recognized config key — it was saved anyway, but Hermes may not read it."
    );
    let lines = check_set("", "model.api_key", "sk-secret", "model:\n  api_key: sk-secret\n");
    assert_eq!(lines, [format!("✓ Set model.api_key = {MASK} in HOME/config.yaml")]);
    check_set("agent: 5 # old\n", "agent.max_turns", "9", "agent: # old\n  max_turns: 9\n");
}

/// Shows that a model mapping keeps its provider and endpoint.
#[test]
fn t41_3_setting_model_keeps_the_mapping() {
    let lines = check_set(
        "model:\n  provider: zai # p\n  default: a\n",
        "model",
        "b",
        "model:\n  provider: zai # p\n  default: b\n",
    );
    assert_eq!(lines[0], "✓ Set model.default = b in HOME/config.yaml");
    assert!(lines[1].contains("model is a mapping"));
    assert_eq!(check_set("model: a\n", "model", "b", "model: b\n"), ["✓ Set model = b in HOME/config.yaml"]);
}

/// Shows that an empty value is a usage error.
#[test]
fn t41_4_empty_values_are_refused() {
    let temp = ConfigFixture::new();
    for (key, value) in [("model", ""), ("", "x"), ("OPENAI_API_KEY", "")] {
        let error = set::set(&temp.home, &env(&[]), key, value).expect_err("usage");
        assert!(
            matches!(error, Error::Usage { .. })
                && error.to_string().contains("Usage: hermes config set KEY VALUE")
        );
    }
    assert!(matches!(set::set(&temp.home, &env(&[]), "a..b", "x"), Err(Error::InvalidKey { .. })));
    assert!(!temp.home.config().exists() && !temp.home.dotenv().exists());
}

#[test]
fn secrets_go_to_the_environment_file() {
    for (key, name) in [
        ("OPENROUTER_API_KEY", "OPENROUTER_API_KEY"),
        ("openai_api_key", "OPENAI_API_KEY"),
        ("my_new_token", "MY_NEW_TOKEN"),
        ("TERMINAL_SSH_ANYTHING", "TERMINAL_SSH_ANYTHING"),
        ("FAL_KEY", "FAL_KEY"),
        ("API_SERVER_PORT", "API_SERVER_PORT"),
    ] {
        let temp = ConfigFixture::new();
        let outcome = set::set(&temp.home, &env(&[]), key, "s3cret-value").expect(key);
        assert_eq!(outcome.destination, SetDestination::Environment(name.to_owned()));
        assert_eq!(temp.dotenv_text(), format!("{name}=s3cret-value\n"));
        assert_eq!(outcome.lines, [format!("✓ Set {name} in {}", temp.home.dotenv().display())]);
        assert!(!temp.home.config().exists());
    }
    let temp = ConfigFixture::new();
    set::set(&temp.home, &env(&[]), "timezone", "UTC").expect("a plain key");
    assert_eq!(temp.config_text(), "timezone: UTC\n");
}

#[test]
fn terminal_keys_are_mirrored() {
    for (key, value, line) in [
        ("terminal.backend", "docker", "TERMINAL_ENV=docker\n"),
        ("terminal.timeout", "60", "TERMINAL_TIMEOUT=60\n"),
        ("terminal.persistent_shell", "off", "TERMINAL_PERSISTENT_SHELL=False\n"),
        ("terminal.lifetime_seconds", "9", ""),
    ] {
        let temp = ConfigFixture::new();
        set::set(&temp.home, &env(&[]), key, value).expect(key);
        assert_eq!(temp.dotenv_text(), line, "{key}");
    }
}

#[test]
fn get_shows_what_is_in_force_and_masks_secrets() {
    let temp = ConfigFixture::with_config(
        "model: {provider: zai, api_key: sk-x}\nmcp_servers: {a: {command: c, env: {K: v-secret}}}\n",
    );
    let shell = env(&[("OPENAI_API_KEY", "sk-y")]);
    let loaded = temp.load(&shell);
    let get = |key: &str| set::get(&loaded, &shell, key);
    assert_eq!(get("agent.max_turns").expect("default"), "60");
    assert_eq!(get("model").expect("map"), format!("provider: zai\napi_key: '{MASK}'"));
    assert_eq!(get("OPENAI_API_KEY").expect("set"), MASK);
    assert!(!get("mcp_servers").expect("map").contains("v-secret"));
    assert!(matches!(get("no.such"), Err(Error::NotSet { .. })));
    assert!(matches!(get("ANTHROPIC_API_KEY"), Err(Error::NotSet { .. })));
}

#[test]
fn unset_removes_from_the_raw_file() {
    let temp = ConfigFixture::with_config("# c\na: 1\nagent:\n  max_turns: 5\n  verbose: true\n");
    set::unset(&temp.home, &env(&[]), "agent.max_turns").expect("there");
    assert_eq!(temp.config_text(), "# c\na: 1\nagent:\n  verbose: true\n");
    assert!(matches!(set::unset(&temp.home, &env(&[]), "agent.max_turns"), Err(Error::NotSet { .. })));
    fs::write(temp.home.dotenv(), "FAL_KEY=x\n").expect("write");
    set::unset(&temp.home, &env(&[]), "FAL_KEY").expect("there");
    assert_eq!(temp.dotenv_text(), "FAL_KEY=\n");
}

#[test]
fn broken_files_are_never_overwritten() {
    for text in ["a: [\n", "- list\n", "\u{0}\n"] {
        let temp = ConfigFixture::with_config(text);
        let error = set::set(&temp.home, &env(&[]), "x", "1").expect_err("broken");
        assert!(
            error.to_string().contains("config.yaml") && error.to_string().contains("nothing was written"),
            "{error}"
        );
        assert!(full_save(&temp.home, ManagedMode::Unmanaged, &[]).is_err());
        assert_eq!(temp.config_text(), text);
    }
}

#[test]
fn lists_can_grow_by_one_entry() {
    let temp = ConfigFixture::with_config("command_allowlist: # ok\n  - ls\n");
    let path = KeyPath::from_segments(["command_allowlist"]);
    update_value(&temp.home, ManagedMode::Unmanaged, &path, |current| {
        let mut items = current.and_then(YamlValue::as_seq).unwrap_or_default().to_vec();
        items.push(YamlValue::from("rm -rf"));
        Some(YamlValue::Seq(items))
    })
    .expect("updated");
    assert_eq!(temp.config_text(), "command_allowlist: # ok\n  - ls\n  - rm -rf\n");
    set_value(
        &temp.home,
        ManagedMode::Unmanaged,
        &KeyPath::from_segments(["display", "skin"]),
        &YamlValue::from("x"),
    )
    .expect("set");
    assert!(temp.config_text().ends_with("display:\n  skin: x\n"));
}

/// Shows what a full save writes, and what it does not.
#[test]
fn full_saves_keep_what_the_user_wrote() {
    let temp = ConfigFixture::with_config(
        "_config_version: 33\nmodel: {api_key: '${MY_KEY}', provider: zai}\nmax_turns: 7\nmine: {a: [1]}\n123: num\n",
    );
    let changes = [
        SaveChange::Set(KeyPath::from_segments(["model", "default"]), YamlValue::from("glm-5")),
        SaveChange::Set(KeyPath::from_segments(["_config_version"]), YamlValue::Int(10)),
    ];
    full_save(&temp.home, ManagedMode::Unmanaged, &changes).expect("saved");
    let text = temp.config_text();
    let tree = parse(&text).expect("reads");
    assert_eq!(
        tree.lookup("model.api_key"),
        Some(&YamlValue::from("${MY_KEY}")),
        "T41-14: never the expanded secret"
    );
    assert_eq!(tree.lookup("model.default"), Some(&YamlValue::from("glm-5")));
    assert_eq!(tree.lookup("_config_version"), Some(&YamlValue::Int(33)), "T41-9: never lower");
    assert_eq!(tree.lookup("agent.max_turns"), Some(&YamlValue::Int(7)));
    assert!(tree.get("max_turns").is_none(), "moved, then dropped");
    assert_eq!(tree.lookup("mine.a.0"), Some(&YamlValue::Int(1)), "unknown keys survive");
    assert_eq!(
        tree.lookup("compression.threshold"),
        Some(&YamlValue::Float(0.85)),
        "T41-5: defaults are frozen"
    );
    assert!(tree.lookup("display.streaming").is_none() && tree.lookup("stt.provider").is_none(), "T41-2");
    assert!(text.contains("\n# fallback_model:\n") && !text.contains("# security:"));
    assert!(text.contains("\n123: num\n"), "a number as key stays one");
    full_save(&temp.home, ManagedMode::Unmanaged, &[]).expect("again");
    assert_eq!(temp.config_text(), text, "saving again changes nothing");
    let chosen =
        ConfigFixture::with_config("display: {streaming: false}\nfallback_model: {provider: a, model: b}\n");
    full_save(&chosen.home, ManagedMode::Unmanaged, &[]).expect("saved");
    let text = chosen.config_text();
    assert_eq!(parse(&text).expect("reads").lookup("display.streaming"), Some(&YamlValue::Bool(false)));
    assert!(!text.contains("# fallback_model"));
}

#[test]
fn managed_homes_refuse_with_the_documented_words() {
    let marked = ConfigFixture::new();
    fs::write(marked.home.managed_marker(), "").expect("write");
    let plain = ConfigFixture::new();
    for (temp, shell) in [(&marked, env(&[])), (&plain, env(&[("HERMES_MANAGED", "yes")]))] {
        let error = set::set(&temp.home, &shell, "a", "b").expect_err("managed").to_string();
        let first = error.lines().next().unwrap_or_default();
        assert_eq!(
            first,
            "Cannot set configuration values: configuration is managed by NixOS (HERMES_MANAGED=true)."
        );
        assert!(error.contains("services.hermes-agent.settings"));
        let managed = ManagedMode::detect(&temp.home, &shell);
        assert!(full_save(&temp.home, managed, &[]).is_err());
        assert!(hermes_config::env::dotenv::save(&temp.home, managed, &[("A", "b")]).is_err());
        assert!(
            hermes_config::migrate::migrate(&temp.home, &shell, hermes_config::migrate::MigrationMode::Apply)
                .is_err()
        );
        assert!(!temp.home.config().exists() && !temp.home.dotenv().exists());
    }
    assert_eq!(ManagedMode::detect(&plain.home, &env(&[("HERMES_MANAGED", "0")])), ManagedMode::Unmanaged);
}

#[test]
fn a_key_or_variable_this_release_does_not_act_on_is_told() {
    let temp = ConfigFixture::with_config("a: 1\n");
    for (key, value, told) in [
        ("tts.neutts.device", "cpu", true),
        ("browser.headed", "true", false),
        ("browser.record_sessions", "true", false),
        ("BROWSERBASE_PROJECT_ID", "p-x", false),
        ("HERMES_OAUTH_FILE", "x", true),
        ("agent.max_turns", "5", false),
        ("session_reset.by_platform.telegram.mode", "idle", false),
        ("OPENROUTER_API_KEY", "sk-or-x", false),
    ] {
        let outcome = set::set(&temp.home, &env(&[]), key, value).unwrap();
        let notice = outcome.lines.iter().filter(|line| line.contains("does not act on")).count();
        assert_eq!(notice, usize::from(told), "{key}: {:?}", outcome.lines);
    }
}
