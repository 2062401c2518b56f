//! Flags of commands that other test files do not cover: model, update, gateway, chat.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use hermes_testkit::{ModelScript, ModelServer, TempHome};

use super::support::{hermes, program, run_in};

fn echoing_home() -> (ModelServer, TempHome) {
    let server = ModelServer::start_blocking(ModelScript::new().echo()).unwrap();
    let config = format!(
        "model: {{provider: custom, base_url: '{}', default: test-model}}\nagent: {{max_turns: 7}}\n",
        server.base_url()
    );
    let home = TempHome::builder().config_yaml(&config).build().unwrap();
    (server, home)
}

#[test]
fn the_models_of_a_provider_are_listed() {
    let script = "models: [{id: test-model}]\ndefault: echo\n";
    let server = ModelServer::start_blocking(ModelScript::from_yaml("models", script).unwrap()).unwrap();
    let config = format!("model: {{provider: custom, base_url: '{}', default: m}}\n", server.base_url());
    let home = TempHome::builder().config_yaml(&config).build().unwrap();
    let seen = hermes(&home, &["model", "--list"]);
    assert!(seen.starts_with("exit 0") && seen.contains("test-model"), "{seen}");
    assert!(hermes(&home, &["model", "--refresh"]).contains("test-model"));
    let home = TempHome::new().unwrap();
    let seen = hermes(&home, &["model", "--list"]);
    assert!(seen.starts_with("exit 1") && seen.contains("hermes setup model"), "{seen}");
    let seen = hermes(&home, &["model", "--list", "nobody:"]);
    assert!(seen.starts_with("exit 1"), "{seen}");
}

#[test]
fn values_are_read_as_json_and_forced() {
    let home = TempHome::builder()
        .config_yaml("agent: {max_turns: 20}\nmodel: {api_key: sk-secret-0123456789}\nterminal: local\n")
        .build()
        .unwrap();
    let json = |key: &str| -> serde_json::Value {
        let seen = hermes(&home, &["config", "get", key, "--json"]);
        let text = seen.split_once("--- stdout\n").unwrap().1;
        serde_json::from_str(text.split("--- stderr").next().unwrap()).unwrap()
    };
    assert_eq!(json("agent.max_turns"), 20);
    assert_eq!(json("model")["api_key"], "********");
    let seen = hermes(&home, &["config", "set", "agent.max_turns", "many"]);
    assert!(seen.starts_with("exit 1"), "{seen}");
    let seen = hermes(&home, &["config", "set", "--force", "agent.max_turns", "many"]);
    assert!(seen.starts_with("exit 0") && home.read("config.yaml").contains("max_turns: many"), "{seen}");
    let seen = hermes(&home, &["config", "set", "--force", "agent.max_turns.deep", "1"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(hermes(&home, &["config", "get", "agent.max_turns.deep"]).contains('1'));
}

#[test]
fn a_run_without_the_users_settings_uses_the_defaults() {
    let (server, home) = echoing_home();
    let key = "OPENAI_API_KEY=sk-test-0123456789abcdef\n";
    fs::write(home.env_file(), format!("{key}OPENAI_BASE_URL={}\n", server.base_url())).unwrap();
    fs::write(home.join("SOUL.md"), "speak like a parrot\n").unwrap();
    let system = |flags: &[&str]| {
        let before = server.request_count();
        let seen = hermes(&home, &[flags, &["-m", "test-model", "-Q", "-q", "hello"]].concat());
        assert!(seen.starts_with("exit 0"), "{flags:?}: {seen}");
        server.request(before).system_text().to_owned()
    };
    assert!(system(&[]).contains("parrot"));
    assert!(system(&["--ignore-user-config"]).contains("parrot"));
    assert!(!system(&["--ignore-rules"]).contains("parrot"));
    assert!(!system(&["--safe-mode"]).contains("parrot"));
    fs::write(home.config_yaml(), "model: {provider: custom, base_url: 'http://127.0.0.1:9/v1'}\n").unwrap();
    assert!(hermes(&home, &["-Q", "-m", "test-model", "-q", "hello"]).starts_with("exit 1"));
    system(&["--ignore-user-config"]);
    system(&["--safe-mode"]);
}

#[test]
fn a_resumed_session_goes_on_in_its_folder() {
    let (server, home) = echoing_home();
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().canonicalize().unwrap().join("project");
    fs::create_dir(&project).unwrap();
    run_in(&project, home.path(), &["-q", "hello"]);
    let name = project.to_str().unwrap();
    let resumed = |flags: &[&str]| {
        let seen = run_in(Path::new("/"), home.path(), &[&["-c", "-q", "again"], flags].concat());
        assert!(seen.starts_with("exit 0"), "{seen}");
        seen.contains(&format!("restored workspace dir: {name}"))
    };
    assert!(resumed(&[]));
    assert!(!resumed(&["--no-restore-cwd"]));
    fs::remove_dir(&project).unwrap();
    assert!(!resumed(&[]), "a folder that is gone is no obstacle");
    assert_eq!(server.request_count(), 4);
}

#[test]
fn gateways_of_all_profiles_are_listed() {
    let home = TempHome::new().unwrap();
    fs::create_dir_all(home.join("profiles/work")).unwrap();
    let seen = hermes(&home, &["gateway", "list"]);
    assert!(seen.contains("◆ default") && seen.contains("  work") && seen.contains("stopped"), "{seen}");
    let seen = hermes(&home, &["gateway", "stop", "--all"]);
    assert!(seen.starts_with("exit 0") && seen.contains("work:"), "{seen}");
    let seen = hermes(&home, &["gateway", "restart", "--all"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Gateway is not running"), "{seen}");
    let seen = hermes(&home, &["gateway", "status", "--platform", "telegram"]);
    assert!(seen.starts_with("exit 0") && seen.contains("telegram: the gateway is not running"), "{seen}");
    assert!(hermes(&home, &["gateway", "status", "--platform", "pigeon"]).starts_with("exit 1"));
    assert!(hermes(&home, &["gateway", "run", "-q", "-v"]).starts_with("exit 2"));
}

/// Creates an installation in the home whose releases contain this program, or another one.
fn installation(home: &TempHome, sum: &str) -> String {
    let (folder, release) = (home.join("code"), home.join("releases/main"));
    for made in [folder.join("bin"), folder.join("venv/bin"), release.clone()] {
        fs::create_dir_all(made).unwrap();
    }
    let record =
        format!("home={}\nrelease=file://{}\n", home.path().display(), home.join("releases").display());
    fs::write(folder.join(".hermes-install"), record).unwrap();
    std::os::unix::fs::symlink("../../bin/hermes", folder.join("venv/bin/hermes")).unwrap();
    let named = format!("hermes-{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    std::os::unix::fs::symlink(program(), release.join(&named)).unwrap();
    fs::write(release.join(format!("{named}.sha256")), sum).unwrap();
    let place = folder.join("bin/hermes");
    fs::copy(program(), &place).unwrap();
    place.to_str().unwrap().to_owned()
}

fn update(place: &str, home: &TempHome, arguments: &[&str]) -> String {
    let output = Command::new(place)
        .arg("update")
        .args(arguments)
        .env_clear()
        .env("HERMES_HOME", home.path())
        .env("HOME", home.join("user"))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("exit {}\n{}{}", output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn own_sum() -> String {
    let sum = std::process::Command::new("sha256sum").arg(program()).output().unwrap().stdout;
    String::from_utf8(sum).unwrap()
}

#[test]
fn an_update_can_be_asked_about() {
    for (sum, words) in [(own_sum(), "Up to date."), ("0000  hermes\n".to_owned(), "An update is available")]
    {
        let home = TempHome::builder().config_yaml("agent: {max_turns: 20}\n").build().unwrap();
        fs::create_dir_all(home.join("user")).unwrap();
        let place = installation(&home, &sum);
        let seen = update(&place, &home, &["--check"]);
        assert!(seen.starts_with("exit 0") && seen.contains(words), "{seen}");
        assert!(!home.join("backups").exists() && !Path::new(&format!("{place}.previous")).exists());
    }
}

#[test]
fn an_update_backs_up_first_and_migrates_if_asked() {
    let home =
        TempHome::builder().config_yaml("_config_version: 3\nagent: {max_turns: 20}\n").build().unwrap();
    fs::create_dir_all(home.join("user")).unwrap();
    let place = installation(&home, &own_sum());
    let backups = || {
        fs::read_dir(home.join("backups")).map_or(0, |entries| {
            entries
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("pre-update-"))
                .count()
        })
    };
    let seen = update(&place, &home, &["--no-backup"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Update complete!"), "{seen}");
    assert!(seen.contains("hermes config migrate"), "{seen}");
    assert_eq!(backups(), 0);
    let seen = update(&place, &home, &["--backup", "--yes"]);
    assert!(seen.starts_with("exit 0") && seen.contains("files backed up in"), "{seen}");
    assert_eq!(backups(), 1);
    assert!(!home.read("config.yaml").contains("_config_version: 3\n"), "{}", home.read("config.yaml"));
    let seen = update(&place, &home, &["--branch", "v9"]);
    assert!(seen.starts_with("exit 1") && seen.contains("releases/v9/"), "{seen}");
}
