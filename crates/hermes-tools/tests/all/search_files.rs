use serde_json::{Value, json};

use super::support::Folder;

fn project() -> Folder {
    Folder::with(&[
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
