use serde_json::{Value, json};

use super::support::FileFixture;

fn project() -> FileFixture {
    FileFixture::with(&[
        (".gitignore", "target/\n"),
        ("src/main.rs", "fn main() {\n    // TODO: begin\n}\n"),
        ("src/lib.rs", "// TODO one\n// todo two\npub fn f() {}\n"),
        ("target/out.rs", "// TODO ignored\n"),
        (".hidden/x.rs", "// TODO hidden\n"),
        ("docs/read me.md", "TODO in words\n"),
        ("home/.env", "TODO=secret\n"),
        ("bin.dat", "TODO\0\n"),
    ])
}

fn places(found: &Value) -> Vec<String> {
    let matches = found["matches"].as_array().unwrap();
    matches.iter().map(|hit| format!("{}:{}", hit["path"].as_str().unwrap(), hit["line"])).collect()
}

#[test]
fn contents_are_found_where_a_person_would_look() {
    let found = project().json("search_files", json!({"pattern": "TODO"}));
    assert_eq!(places(&found), ["docs/read me.md:1", "src/lib.rs:1", "src/main.rs:2"]);
    assert_eq!(found["total_count"], 3);
    assert_eq!(found["matches"][2]["content"], "    // TODO: begin");
}

#[test]
fn a_folder_a_glob_and_context_narrow_it() {
    let folder = project();
    let found =
        folder.json("search_files", json!({"pattern": "(?i)todo", "path": "src", "file_glob": "lib.*"}));
    assert_eq!(places(&found), ["src/lib.rs:1", "src/lib.rs:2"]);
    let around = folder.json("search_files", json!({"pattern": "begin", "context": 1}));
    assert_eq!(places(&around), ["src/main.rs:1", "src/main.rs:2", "src/main.rs:3"]);
    let one = folder.json("search_files", json!({"pattern": "TODO", "path": "src/main.rs"}));
    assert_eq!(places(&one), ["src/main.rs:2"]);
}

#[test]
fn pages_and_modes() {
    let folder = project();
    let outcome = folder.call("search_files", json!({"pattern": "TODO", "limit": 1, "offset": 1}));
    assert!(
        outcome.content.contains("\"src/lib.rs\"")
            && outcome.content.contains("[Hint: Results truncated. Use offset=2")
    );
    let names = folder.json("search_files", json!({"pattern": "TODO", "output_mode": "files_only"}));
    assert_eq!(names["files"], json!(["docs/read me.md", "src/lib.rs", "src/main.rs"]));
    let counts = folder.json("search_files", json!({"pattern": "(?i)todo", "output_mode": "count"}));
    assert_eq!(counts["counts"]["src/lib.rs"], 2);
}

#[test]
fn names_are_found_by_glob() {
    let folder = project();
    let mut names: Vec<String> = serde_json::from_value(
        folder.json("search_files", json!({"pattern": "*.rs", "target": "files"}))["files"].clone(),
    )
    .unwrap();
    names.sort();
    assert_eq!(names, ["src/lib.rs", "src/main.rs"]);
    let found = folder.json("search_files", json!({"pattern": "main.rs", "target": "files", "path": "."}));
    assert_eq!(found["files"], json!(["src/main.rs"]));
}

#[test]
fn bad_input_is_said() {
    let folder = project();
    let error = |arguments| folder.json("search_files", arguments)["error"].as_str().unwrap().to_owned();
    assert!(error(json!({"pattern": "("})).contains("not a regular expression"));
    assert!(error(json!({"pattern": "x", "path": "nowhere"})).contains("Path not found: nowhere"));
    assert!(error(json!({})).contains("needs `pattern`"));
    assert!(error(json!({"pattern": "x", "file_glob": "[z"})).contains("not a glob"));
}

#[test]
fn searching_the_same_over_and_over_ends() {
    let folder = project();
    let search = || folder.json("search_files", json!({"pattern": "TODO"}));
    assert!(search().get("_warning").is_none() && search().get("_warning").is_none());
    assert!(search().get("_warning").is_some());
    let blocked = search();
    assert!(blocked["error"].as_str().unwrap().starts_with("BLOCKED"), "{blocked}");
    assert_eq!((&blocked["pattern"], &blocked["already_searched"]), (&json!("TODO"), &json!(4)));
    assert_eq!(folder.json("search_files", json!({"pattern": "TODO", "offset": 1}))["total_count"], 3);
    assert_eq!(search()["total_count"], 3);
}

#[test]
fn what_may_hold_secrets_is_left_out_and_keys_are_masked() {
    let folder = FileFixture::with(&[
        ("conf/.env.local", "KEYWORD=1"),
        ("conf/app.ini", "KEYWORD sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"),
        ("home/skills/.hub/x.md", "KEYWORD catalogue"),
    ]);
    let found = folder.call("search_files", json!({"pattern": "KEYWORD", "path": "home/skills/.hub"}));
    assert!(!found.content.contains("catalogue"), "{}", found.content);
    let direct = folder.json("search_files", json!({"pattern": "KEYWORD", "path": "conf/.env.local"}));
    assert_eq!(direct["total_count"], 0);
    assert!(direct.get("_omitted").is_some());
    let masked = folder.json("search_files", json!({"pattern": "KEYWORD"}));
    assert_eq!(masked["total_count"], 1);
    assert!(!masked.to_string().contains("abcdefghijklmnop"), "{masked}");
}

#[test]
fn other_words_for_the_targets_are_understood() {
    let folder = project();
    assert_eq!(
        folder.json("search_files", json!({"pattern": "*.md", "target": "find"}))["files"],
        json!(["docs/read me.md"])
    );
    let found = folder.json("search_files", json!({"pattern": "a\\nb", "target": "grep"}));
    assert!(found["warning"].as_str().unwrap().contains("one by one"), "{found}");
}

#[test]
fn a_link_to_what_is_hidden_does_not_open_it() {
    let folder = FileFixture::with(&[
        ("home/skills/.hub/x.md", "KEYWORD catalogue"),
        ("conf/.env", "KEYWORD=1"),
        ("a/b", "x"),
    ]);
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(folder.path().join(target), folder.path().join(name)).unwrap();
    };
    link("home/skills/.hub", "innocent");
    link("conf/.env", "plain.txt");
    link("home", "other-home");
    for path in ["innocent", "plain.txt", "other-home/skills/.hub/x.md", "."] {
        let found = folder.json("search_files", json!({"pattern": "KEYWORD", "path": path}));
        assert_eq!(found["total_count"], 0, "{path}: {found}");
    }
    link("a", "folder-link");
    link("a/b", "file-link");
    for path in ["folder-link", "file-link"] {
        let found = folder.json("search_files", json!({"pattern": "x", "path": path}));
        assert_eq!(found["total_count"], 1, "{path}: {found}");
    }
}
