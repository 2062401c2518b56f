use hermes_tools::{FileOptions, LineNumberStyle};
use hermes_types::ToolEvent;
use serde_json::json;

use super::support::FileFixture;

#[test]
fn lines_come_numbered_and_in_pages() {
    let lines: Vec<String> = (1..=10).map(|number| format!("line {number}")).collect();
    let text = lines.join("\n") + "\n";
    let folder = FileFixture::with(&[("a.txt", &text)]);
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
    let folder = FileFixture::with(&[
        ("empty", ""),
        ("bom.txt", "\u{feff}hi\r\nthere"),
        ("long.txt", &"é".repeat(3000)),
    ]);
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
    let folder = FileFixture::with(&[
        ("home/.env", "OPENROUTER_API_KEY=sk-or-secret"),
        ("home/auth.json", "{}"),
        ("home/skills/.hub/x.md", "x"),
        ("project/.env.local", "A=b"),
        ("picture.png", "x"),
        ("picture.PNG", "x"),
        ("data", "a\0b"),
        ("notes.txt", "x"),
    ]);
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path().join("home/.env"), folder.path().join("innocent.txt")).unwrap();
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
    check_refused("data", "Binary file");
    check_refused("/dev/zero", "device");
    check_refused("/proc/self/environ", "device");
    check_refused("/proc/1/smaps", "device");
    check_refused("/dev/fd/0", "device");
    check_refused("picture.PNG", "vision_analyze");
    check_refused("project", "is a folder");
    check_refused("", "needs `path`");
}

#[test]
fn a_name_that_is_not_there_brings_those_that_are() {
    let folder = FileFixture::with(&[("README.md", "x"), ("readme.txt", "x"), ("other", "x")]);
    let read = folder.json("read_file", json!({"path": "readme"}));
    assert_eq!(read["error"], "File not found: readme");
    assert_eq!(read["similar_files"], json!(["README.md", "readme.txt"]));
}

#[test]
fn keys_in_a_file_are_masked() {
    let folder = FileFixture::with(&[(
        "conf.ini",
        "name = x\nkey = sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789\n",
    )]);
    let read = folder.json("read_file", json!({"path": "conf.ini"})).to_string();
    assert!(!read.contains("abcdefghijklmnopqrstuvwxyz") && read.contains("name = x"), "{read}");
}

#[test]
fn the_same_page_is_not_sent_twice_while_it_has_not_changed() {
    let folder = FileFixture::with(&[("a.txt", "one\ntwo\n")]);
    let read = || folder.json("read_file", json!({"path": "a.txt"}));
    assert_eq!(read()["total_lines"], 2);
    let again = read();
    assert_eq!((&again["status"], &again["dedup"]), (&json!("unchanged"), &json!(true)));
    let blocked = read();
    assert!(blocked["error"].as_str().unwrap().starts_with("BLOCKED"), "{blocked}");
    assert_eq!(blocked["already_read"], 3);
    folder.notice(ToolEvent::CallStarting("terminal"));
    assert_eq!(read()["status"], "unchanged", "another tool takes the block away, not the knowledge");
    folder.notice(ToolEvent::Compressed);
    assert_eq!(read()["content"], "     1|one\n     2|two");
    assert_eq!(folder.json("read_file", json!({"path": "./a.txt", "limit": 1}))["truncated"], true);
    folder.notice(ToolEvent::Ended);
    assert_eq!(read()["total_lines"], 2);
}

#[test]
fn a_file_that_changes_is_read_again_but_not_forever() {
    let folder = FileFixture::with(&[("a.txt", "")]);
    let read = |text: &str| {
        folder.change("a.txt", text);
        folder.json("read_file", json!({"path": "a.txt"}))
    };
    assert!(read("1\n").get("_warning").is_none());
    assert!(read("12\n").get("_warning").is_none());
    let third = read("123\n");
    assert!(third.get("_warning").is_some() && third["content"] == "     1|123", "{third}");
    assert!(read("1234\n")["error"].as_str().unwrap().starts_with("BLOCKED"));
    folder.json("search_files", json!({"pattern": "1"}));
    assert_eq!(read("12345\n")["content"], "     1|12345");
}

#[test]
fn a_page_is_cut_at_a_whole_line() {
    let options = FileOptions { read_chars: 30, gutter: LineNumberStyle::Compact, ..FileOptions::default() };
    let folder = FileFixture::with_options(&[("a.txt", "aaaaaaaaaa\nbbbbbbbbbb\ncccccccccc\n")], options);
    let read = folder.json("read_file", json!({"path": "a.txt"}));
    assert_eq!(read["content"], "1|aaaaaaaaaa\n2|bbbbbbbbbb");
    assert_eq!((&read["truncated_by"], &read["next_offset"]), (&json!("bytes"), &json!(3)));
}

#[test]
fn relative_paths_follow_the_task() {
    let folder = FileFixture::with(&[("a.txt", "top"), ("sub/a.txt", "below")]);
    folder.files.folders().set_current(&"t".into(), folder.path().join("sub"));
    assert_eq!(folder.json("read_file", json!({"path": "a.txt"}))["content"], "     1|below");
    assert_eq!(folder.json_as("other", "read_file", json!({"path": "a.txt"}))["content"], "     1|top");
    let history = folder.files.state().history(&"t".into());
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].1, [(1, 500)]);
}

#[test]
fn another_users_home_is_found_and_an_odd_name_is_a_file() {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let home =
        users.lines().find_map(|line| line.strip_prefix("daemon:")).unwrap().split(':').nth(4).unwrap();
    let folder = FileFixture::with(&[("~odd!name", "found\n")]);
    let answer = folder.json("read_file", json!({"path": "~daemon/no/such/file"}));
    assert_eq!(answer["error"], "File not found: ~daemon/no/such/file", "looked for below {home}: {answer}");
    let answer = folder.json("read_file", json!({"path": "~odd!name"}));
    assert!(answer["content"].as_str().unwrap().contains("found"), "{answer}");
    let refused =
        folder.json("write_file", json!({"path": "~root/.ssh/never-written-by-a-test", "content": "x"}));
    // A user who may not look into that folder hears of it from the system.
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("denied")), "{refused}");
}
