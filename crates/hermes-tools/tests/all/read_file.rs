use serde_json::json;

use super::support::Folder;

#[test]
fn lines_come_numbered_and_in_pages() {
    let lines: Vec<String> = (1..=10).map(|number| format!("line {number}")).collect();
    let text = lines.join("\n") + "\n";
    let folder = Folder::with(&[("a.txt", &text)]);
    let read = folder.json("read_file", json!({"path": "a.txt", "offset": 3, "limit": 2}));
    assert_eq!(read["content"], "     3|line 3\n     4|line 4");
    assert_eq!((&read["total_lines"], &read["truncated"]), (&json!(10), &json!(true)));
    assert_eq!(read["hint"], "Lines 3 to 4 of 10. Go on with offset=5.");
    let whole = folder.json("read_file", json!({"path": "a.txt", "offset": "8"}));
    assert_eq!(whole["truncated"], false);
    assert!(whole.get("hint").is_none());
}

#[test]
fn odd_files_are_read_without_trouble() {
    let folder =
        Folder::with(&[("empty", ""), ("bom.txt", "\u{feff}hi\r\nthere"), ("long.txt", &"é".repeat(3000))]);
    assert_eq!(folder.json("read_file", json!({"path": "empty"}))["content"], "");
    assert_eq!(folder.json("read_file", json!({"path": "bom.txt"}))["content"], "     1|hi\n     2|there");
    let long = folder.json("read_file", json!({"path": "long.txt"}))["content"].as_str().unwrap().to_owned();
    assert!(
        long.ends_with("é... [truncated]") && long.chars().count() == 7 + 2000 + 15,
        "{}",
        long.chars().count()
    );
}

fn check_refused(path: &str, words: &str) {
    let folder = Folder::with(&[
        ("home/.env", "OPENROUTER_API_KEY=sk-or-secret"),
        ("home/auth.json", "{}"),
        ("home/skills/.hub/x.md", "x"),
        ("project/.env.local", "A=b"),
        ("picture.png", "x"),
        ("data", "a\0b"),
        ("notes.txt", "x"),
    ]);
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.0.path().join("home/.env"), folder.0.path().join("innocent.txt"))
        .unwrap();
    let read = folder.json("read_file", json!({"path": path}));
    let error = read["error"].as_str().unwrap_or_default();
    assert!(error.contains(words), "{path}: {read}");
    assert!(!read.to_string().contains("sk-or-secret"));
}

#[test]
fn what_must_not_be_read_is_refused_by_every_way_to_it() {
    check_refused("home/.env", "Access denied");
    check_refused("./project/../home/.env", "Access denied");
    check_refused("~/home/auth.json", "Access denied");
    check_refused("innocent.txt", "Access denied");
    check_refused("home/skills/.hub/x.md", "Access denied");
    check_refused("project/.env.local", "holds secrets");
    check_refused("picture.png", "binary file");
    check_refused("data", "not a text file");
    check_refused("/dev/zero", "device");
    check_refused("/proc/self/environ", "device");
    check_refused("project", "is a folder");
    check_refused("", "needs `path`");
}

#[test]
fn a_name_that_is_not_there_brings_those_that_are() {
    let folder = Folder::with(&[("README.md", "x"), ("readme.txt", "x"), ("other", "x")]);
    let read = folder.json("read_file", json!({"path": "readme"}));
    assert_eq!(read["error"], "File not found: readme");
    assert_eq!(read["similar_files"], json!(["README.md", "readme.txt"]));
}

#[test]
fn keys_in_a_file_are_masked() {
    let folder =
        Folder::with(&[("conf.ini", "name = x\nkey = sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789\n")]);
    let read = folder.json("read_file", json!({"path": "conf.ini"})).to_string();
    assert!(!read.contains("abcdefghijklmnopqrstuvwxyz") && read.contains("name = x"), "{read}");
}
