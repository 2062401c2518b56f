//! Skills as a user of the program sees them.

use std::fs;

use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::{Value, json};

use super::support::hermes;

/// A home whose model answers as scripted.
fn home(server: &ModelServer) -> TempHome {
    let config = json!({
        "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
    });
    TempHome::builder().config_yaml(&config.to_string()).build().unwrap()
}

fn server(script: &str) -> ModelServer {
    ModelServer::start_blocking(ModelScript::from_yaml("skills", script).unwrap()).unwrap()
}

#[test]
fn a_new_home_gets_the_bundled_skills_once() {
    let server = server("replies: [{repeat: forever, text: hello}]");
    let home = home(&server);
    hermes(&home, &["-Q", "-q", "hi"]);
    assert!(!home.join("skills").exists(), "homes of tests do not want them");
    fs::remove_file(home.join(TempHome::NO_BUNDLED_SKILLS)).unwrap();
    hermes(&home, &["-Q", "-q", "hi"]);
    let manifest = home.read("skills/.bundled_manifest");
    assert!(manifest.lines().count() > 60, "{manifest}");
    assert!(manifest.contains("\nplan:"), "{manifest}");
    assert!(server.request(1).system_text().contains("    - plan: "));
    // What the user changes and deletes stays so, also when everything is compared again.
    let plan = "skills/software-development/plan/SKILL.md";
    fs::write(home.join(plan), "mine").unwrap();
    fs::remove_dir_all(home.join("skills/github/github-auth")).unwrap();
    fs::remove_file(home.join("skills/.hub/bundle_stamp")).unwrap();
    hermes(&home, &["-Q", "-q", "hi"]);
    assert_eq!(home.read(plan), "mine");
    assert!(!home.join("skills/github/github-auth").exists());
    let seen = hermes(&home, &["update", "--installed"]);
    assert!(seen.contains("✓ Skills are up to date"), "{seen}");
}

#[test]
fn a_skills_variables_reach_the_commands_of_its_session_alone() {
    let check = "{name: terminal, arguments: {command: \"echo \\\"[${DEMO_VALUE:-unset}]\\\"\"}}";
    let server = server(&format!(
        "replies:\n  - {{tool: {check}}}\n  - {{tool: {{name: skill_view, arguments: {{name: demo}}}}}}\n  - {{tool: {check}}}\n  - {{text: done}}\n  - {{tool: {check}}}\n  - {{text: done}}\n"
    ));
    let config = json!({
        "model": {"provider": "custom", "base_url": server.base_url(), "default": "test-model"},
    });
    let skill =
        "---\ndescription: d\nrequired_environment_variables: [DEMO_VALUE, OPENROUTER_API_KEY]\n---\nbody\n";
    let home = TempHome::builder()
        .config_yaml(&config.to_string())
        .env_file("DEMO_VALUE=given\nOPENROUTER_API_KEY=sk-or-not-for-commands\n")
        .file("skills/demo/SKILL.md", skill)
        .build()
        .unwrap();
    hermes(&home, &["-Q", "-q", "go"]);
    hermes(&home, &["-Q", "-q", "go"]);
    let results: Vec<String> = [1, 3, 5]
        .into_iter()
        .map(|request| server.request(request).tool_results().pop().map(|(_, text)| text).unwrap_or_default())
        .collect();
    assert!(results[0].contains("[unset]"), "before it is loaded: {results:?}");
    assert!(results[1].contains("[given]"), "afterwards: {results:?}");
    assert!(results[2].contains("[unset]"), "in another session: {results:?}");
    let loaded = server.request(2).tool_results().pop().map(|(_, text)| text).unwrap_or_default();
    let loaded: Value = serde_json::from_str(&loaded).unwrap();
    assert_eq!(loaded["missing_required_environment_variables"], json!([]));
}
