//! Tests of the results of `skills_list` and `skill_view`.

use std::fs;
use std::path::Path;

use hermes_config::{Config, Env, Home};
use hermes_tools::{SkillSource, SkillViewTool, SkillsListTool};
use serde_json::{Value, json};

use super::support::{UnattendedUser, parse, run};

fn source(home: &Path, config: &str, platform: &str) -> SkillSource {
    SkillSource {
        home: Home::new(home),
        config: Config::from_text(Path::new("config.yaml"), config, &Env::default()),
        env: Env::from_pairs([("GIVEN_KEY", "value-of-it")]),
        platform: platform.to_owned(),
        backend: "local".to_owned(),
    }
}

fn skill(home: &Path, path: &str, head: &str) {
    let folder = home.join("skills").join(path);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("SKILL.md"), format!("---\n{head}\n---\n# Title\nFirst line\n")).unwrap();
}

fn list(source: SkillSource, arguments: Value) -> Value {
    parse(&run(&SkillsListTool::new(source), "t", arguments, &UnattendedUser))
}

fn view(source: SkillSource, arguments: Value) -> Value {
    parse(&run(&SkillViewTool::new(source), "t", arguments, &UnattendedUser))
}

#[test]
fn skills_are_listed_by_their_own_names() {
    let home = tempfile::tempdir().unwrap();
    let empty = list(source(home.path(), "", "cli"), json!({}));
    assert_eq!((&empty["skills"], &empty["categories"]), (&json!([]), &json!([])));
    assert!(empty["message"].is_string() && home.path().join("skills").is_dir());
    skill(home.path(), "mlops/inference/vllm", "name: serving-llms-vllm\ndescription: Serve models");
    skill(home.path(), "solo", "version: 1");
    skill(home.path(), "unwanted", "description: never");
    skill(home.path(), "elsewhere", "platforms: [no-such-system]");
    let config = "skills: {disabled: [unwanted]}";
    assert_eq!(
        list(source(home.path(), config, "cli"), json!({})),
        json!({
            "success": true,
            "skills": [
                {"name": "solo", "description": "First line", "category": null},
                {"name": "serving-llms-vllm", "description": "Serve models", "category": "mlops"},
            ],
            "categories": ["mlops"],
            "count": 2,
            "hint": "Load a skill with skill_view(name).",
        })
    );
    assert_eq!(list(source(home.path(), config, "cli"), json!({"category": "mlops"}))["count"], 1);
    for name in ["vllm", "serving-llms-vllm", "mlops/inference/vllm"] {
        let seen = view(source(home.path(), config, "cli"), json!({"name": name}));
        assert_eq!(seen["path"], "mlops/inference/vllm/SKILL.md", "{name}");
    }
    for (name, words) in [
        ("unwanted", "`hermes skills`"),
        ("elsewhere", "not supported"),
        ("nothing", "Skill 'nothing' not found."),
        ("../solo", "not found"),
    ] {
        let seen = view(source(home.path(), config, "cli"), json!({"name": name}));
        assert_eq!(seen["success"], false);
        assert!(seen["error"].as_str().unwrap().contains(words), "{seen}");
    }
}

#[test]
fn a_missing_variable_is_named_and_no_value_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let head = "description: d\nrequired_environment_variables: [GIVEN_KEY, {name: LACKING_KEY, help: \"see there\"}, 'no name']";
    skill(home.path(), "needs", head);
    for (platform, hint) in [("cli", false), ("telegram", true)] {
        let seen = view(source(home.path(), "", platform), json!({"name": "needs"}));
        assert_eq!(seen["missing_required_environment_variables"], json!(["LACKING_KEY"]));
        assert_eq!(
            seen["required_environment_variables"],
            json!([
                {"name": "GIVEN_KEY", "prompt": "Enter value for GIVEN_KEY"},
                {"name": "LACKING_KEY", "prompt": "Enter value for LACKING_KEY", "help": "see there"},
            ])
        );
        assert_eq!(
            (&seen["setup_needed"], &seen["readiness_status"]),
            (&json!(true), &json!("setup_needed"))
        );
        assert_eq!(seen["gateway_setup_hint"].is_string(), hint, "{platform}");
        assert!(!seen.to_string().contains("value-of-it"));
    }
    fs::write(home.path().join(".env"), "LACKING_KEY=now\n").unwrap();
    let seen = view(source(home.path(), "", "cli"), json!({"name": "needs"}));
    assert_eq!(seen["readiness_status"], "available");
}

#[test]
fn the_files_of_a_skill_are_read_one_by_one() {
    let home = tempfile::tempdir().unwrap();
    skill(home.path(), "x", "description: d");
    let folder = home.path().join("skills/x");
    fs::create_dir_all(folder.join("references")).unwrap();
    fs::write(folder.join("references/api.md"), "the api").unwrap();
    fs::write(folder.join("logo.png"), [0, 159]).unwrap();
    fs::write(home.path().join("skills/old.md"), "---\ndescription: flat\n---\nbody").unwrap();
    let read = |path: &str| view(source(home.path(), "", "cli"), json!({"name": "x", "file_path": path}));
    assert_eq!(
        read("references/api.md"),
        json!({"success": true, "name": "x", "file": "references/api.md", "content": "the api", "file_type": ".md"})
    );
    assert_eq!(read("logo.png")["is_binary"], true);
    assert_eq!(read("../x/SKILL.md")["error"], "Path traversal ('..') is not allowed.");
    assert_eq!(read("/etc/passwd")["error"], "Path escapes skill directory boundary.");
    let expected = json!({"other": ["logo.png"], "references": ["references/api.md"]});
    assert_eq!(read("none.md")["available_files"], expected);
    let seen = view(source(home.path(), "", "cli"), json!({"name": "x"}));
    assert_eq!(seen["linked_files"], json!({"references": ["references/api.md"]}));
    assert_eq!(view(source(home.path(), "", "cli"), json!({"name": "old"}))["path"], "old.md");
}
