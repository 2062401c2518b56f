use serde_json::{Value, json};

use super::support::FileFixture;

fn replace(folder: &FileFixture, old: &str, new: &str) -> Value {
    folder.json("patch", json!({"mode": "replace", "path": "a.rs", "old_string": old, "new_string": new}))
}

#[test]
fn a_passage_is_replaced_and_shown() {
    let folder = FileFixture::with(&[("a.rs", "fn main() {\n    old();\n}\n")]);
    let patched = replace(&folder, "old();", "new();");
    assert_eq!(folder.text("a.rs"), "fn main() {\n    new();\n}\n");
    assert_eq!(
        patched,
        json!({
            "success": true,
            "diff": "--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,3 @@\n fn main() {\n-    old();\n+    new();\n }\n",
            "files_modified": ["a.rs"],
            "lint": {"status": "skipped", "message": "no check for .rs files"},
        })
    );
}

#[test]
fn line_endings_stay_as_they_were() {
    let folder = FileFixture::with(&[("a.rs", "\u{feff}a\r\nb\r\nc\r\n")]);
    assert_eq!(replace(&folder, "a\nb", "x\ny")["success"], true);
    assert_eq!(folder.text("a.rs"), "\u{feff}x\r\ny\r\nc\r\n");
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let folder = FileFixture::with(&[("a.rs", "let value = compute(1);\nx\nx\n")]);
    let missing = replace(&folder, "completely different text here", "y");
    assert!(missing["error"].as_str().unwrap().starts_with("Could not find a match"), "{missing}");
    assert!(missing["_hint"].as_str().unwrap().contains("read_file"));
    let alike = replace(&folder, "value = computed_elsewhere(2, 3)", "y");
    assert!(alike["error"].as_str().unwrap().contains("   1| let value = compute(1);"), "{alike}");
    let third = replace(&folder, "nothing like that at all", "y");
    assert!(third["_hint"].as_str().unwrap().contains("Stop retrying"), "{third}");
    assert!(replace(&folder, "x", "y")["error"].as_str().unwrap().starts_with("Found 2 matches"));
    assert_eq!(folder.text("a.rs"), "let value = compute(1);\nx\nx\n");
    let all =
        json!({"mode": "replace", "path": "a.rs", "old_string": "x", "new_string": "y", "replace_all": true});
    assert_eq!(folder.json("patch", all)["success"], true);
    assert_eq!(folder.text("a.rs"), "let value = compute(1);\ny\ny\n");
}

#[test]
fn mistakes_in_a_call_are_named() {
    let folder = FileFixture::with(&[("home/.env", "A=b\n"), ("a.bin2", "x"), (".env", "SECRET=1\n")]);
    let check = |arguments: Value, words: &str| {
        let answer = folder.json("patch", arguments);
        assert_eq!(answer["success"], false);
        assert!(answer["error"].as_str().unwrap().contains(words), "{answer}");
    };
    check(json!({"mode": "replace"}), "path required");
    check(json!({"mode": "replace", "path": "x"}), "old_string and new_string required");
    check(json!({"mode": "patch"}), "patch content required");
    check(json!({"mode": "sideways"}), "Unknown mode: sideways");
    check(json!({"path": "gone", "old_string": "a", "new_string": "b"}), "Failed to read file: gone");
    check(json!({"path": "home/.env", "old_string": "a", "new_string": "b"}), "Write denied");
    check(json!({"path": ".env", "old_string": "SECRET", "new_string": "b"}), "Access denied");
    check(json!({"path": "a.bin2", "old_string": "", "new_string": "b"}), "old_string cannot be empty");
    check(json!({"path": "a.bin2", "old_string": "x", "new_string": "x"}), "identical");
}

#[test]
fn the_result_is_checked_where_its_format_is_known() {
    let folder = FileFixture::with(&[("a.json", "{\"a\": 1}\n"), ("b.yaml", "a: 1\n")]);
    let patch = |path: &str, old: &str, new: &str| {
        folder.json("patch", json!({"path": path, "old_string": old, "new_string": new}))["lint"].clone()
    };
    assert_eq!(patch("a.json", "1", "2")["status"], "ok");
    assert_eq!(patch("a.json", "2", "2,")["status"], "error");
    assert_eq!(patch("b.yaml", "a: 1", "a: [1")["status"], "error");
}

#[test]
fn keys_do_not_show_up_in_a_diff() {
    let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";
    let folder = FileFixture::with(&[("a.rs", &format!("let key = \"{key}\";\nlet x = 1;\n"))]);
    let patched = replace(&folder, "x = 1", "x = 2");
    assert!(patched["success"] == true && !patched.to_string().contains(key), "{patched}");
    assert!(folder.text("a.rs").contains(key));
}

fn apply(folder: &FileFixture, patch: &str) -> Value {
    folder.json("patch", json!({"mode": "patch", "patch": patch}))
}

#[test]
fn a_patch_changes_adds_moves_and_deletes() {
    let folder = FileFixture::with(&[("a.rs", "one\ntwo\nthree\n"), ("b.rs", "b\n"), ("c.rs", "c\n")]);
    let patched = apply(
        &folder,
        "*** Begin Patch\n*** Update File: a.rs\n@@\n one\n-two\n+2\n three\n*** Add File: new/d.json\n+{\n+}\n*** Delete File: b.rs\n*** Move File: c.rs -> e.rs\n*** End Patch",
    );
    assert_eq!(patched["success"], true, "{patched}");
    assert_eq!(patched["files_modified"], json!(["a.rs", "c.rs -> e.rs"]));
    assert_eq!(
        (&patched["files_created"], &patched["files_deleted"]),
        (&json!(["new/d.json"]), &json!(["b.rs"]))
    );
    assert_eq!(patched["lint"]["new/d.json"]["status"], "ok");
    let diff = patched["diff"].as_str().unwrap();
    assert!(diff.contains("--- a/a.rs\n+++ b/a.rs\n") && diff.contains("--- /dev/null\n+++ b/new/d.json\n"));
    assert_eq!(
        (folder.text("a.rs"), folder.text("new/d.json")),
        ("one\n2\nthree\n".to_owned(), "{\n}".to_owned())
    );
    assert_eq!(folder.text("e.rs"), "c\n");
    assert!(!folder.exists("b.rs") && !folder.exists("c.rs"));
}

#[test]
fn a_patch_fits_as_a_whole_or_not_at_all() {
    let start = [("a.rs", "one\n"), ("b.rs", "b\n"), ("home/.env", "A=b\n")];
    for (bad, words) in [
        ("*** Update File: b.rs\n@@\n-not in there at all\n+x", "Could not find"),
        ("*** Delete File: gone", "no such file"),
        ("*** Move File: b.rs -> a.rs", "does not overwrite"),
        ("*** Move File: b.rs -> home/auth.json", "Write denied"),
        ("*** Update File: home/.env\n@@\n-A=b\n+A=c", "denied"),
        ("*** Add File: ../x\n+x", "`..`"),
        ("*** Update File: b.rs\n@@\n b", "change nothing"),
        ("*** Update File: b.rs", "no hunks found"),
        ("*** Delete File: b.rs\n*** Update File: b.rs\n@@\n-b\n+c", "earlier in this patch"),
    ] {
        let folder = FileFixture::with(&start);
        let patched = apply(&folder, &format!("*** Update File: a.rs\n@@\n-one\n+two\n{bad}"));
        let error = patched["error"].as_str().unwrap();
        assert!(error.starts_with("Patch validation failed (no files were modified)"), "{bad}: {patched}");
        assert!(error.contains(words), "{bad}: {patched}");
        assert_eq!(folder.text("a.rs"), "one\n");
        assert_eq!(folder.text("b.rs"), "b\n");
    }
}

#[test]
fn hunks_see_what_earlier_ones_left() {
    let folder = FileFixture::with(&[("a.rs", "a\nb\n")]);
    let patched =
        apply(&folder, "*** Update File: a.rs\n@@\n-a\n+A\n@@\n-A\n+AA\n*** Update File: a.rs\n@@\n b\n+c");
    assert_eq!(patched["success"], true, "{patched}");
    assert_eq!(folder.text("a.rs"), "AA\nb\nc\n");
    assert_eq!(patched["files_modified"], json!(["a.rs"]));
}

#[test]
fn writers_of_one_file_take_turns() {
    let lines: Vec<String> = (0..16).map(|n| format!("line-{n}-old\n")).collect();
    let folder = FileFixture::with(&[("a.rs", &lines.concat())]);
    let calls = (0..16).map(|n| {
        json!({"path": "a.rs", "old_string": format!("line-{n}-old"), "new_string": format!("line-{n}-new")})
    });
    for answer in folder.together("patch", calls.collect()) {
        assert_eq!(answer["success"], true, "{answer}");
    }
    assert_eq!(folder.text("a.rs"), lines.concat().replace("old", "new"));
}

#[test]
fn a_link_that_is_deleted_is_the_link() {
    let folder = FileFixture::with(&[("a.rs", "a\n")]);
    std::os::unix::fs::symlink("a.rs", folder.path().join("link.rs")).unwrap();
    let patched = apply(&folder, "*** Move File: link.rs -> moved.rs");
    assert_eq!(patched["success"], true, "{patched}");
    assert_eq!(apply(&folder, "*** Delete File: moved.rs")["success"], true);
    assert!(folder.exists("a.rs") && !folder.exists("link.rs") && !folder.exists("moved.rs"));
}
