use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use hermes_tools::FileOptions;
use serde_json::json;

use super::support::FileFixture;

#[test]
fn a_file_appears_whole_and_keeps_its_form() {
    let folder = FileFixture::with(&[("crlf.txt", "\u{feff}a\r\nb\r\n"), ("run.sh", "#!/bin/sh\n")]);
    let mode = std::fs::Permissions::from_mode(0o750);
    std::fs::set_permissions(folder.path().join("run.sh"), mode).unwrap();
    let written = folder.json("write_file", json!({"path": "new/deep/x.txt", "content": "hé $HOME 'q'\n"}));
    assert_eq!(written, json!({"bytes_written": 14, "dirs_created": true}));
    assert_eq!(folder.text("new/deep/x.txt"), "hé $HOME 'q'\n");
    folder.json("write_file", json!({"path": "crlf.txt", "content": "c\nd\n"}));
    assert_eq!(folder.text("crlf.txt"), "\u{feff}c\r\nd\r\n");
    folder.json("write_file", json!({"path": "run.sh", "content": "#!/bin/sh\necho\n"}));
    assert_eq!(folder.path().join("run.sh").metadata().unwrap().mode() & 0o777, 0o750);
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    assert!(
        left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().starts_with(".hermes-tmp"))
    );
}

fn check_denied(path: &str, words: &str) {
    let folder = FileFixture::with(&[
        (".ssh/id_rsa", "key"),
        (".ssh-backup/x", "x"),
        ("sub/x", "x"),
        ("home/.env", "A=b"),
    ]);
    symlink(folder.path().join(".ssh/id_rsa"), folder.path().join("link")).unwrap();
    symlink(folder.path().join(".ssh/not_yet"), folder.path().join("dangling")).unwrap();
    symlink(folder.path().join(".ssh"), folder.path().join("folder-link")).unwrap();
    let written = folder.json("write_file", json!({"path": path, "content": "x"}));
    assert!(written["error"].as_str().unwrap_or_default().contains(words), "{path}: {written}");
    assert_eq!((&written["bytes_written"], &written["dirs_created"]), (&json!(0), &json!(false)));
    assert_eq!(folder.text(".ssh/id_rsa"), "key");
    assert!(!folder.exists(".ssh/not_yet"));
}

#[test]
fn keys_and_system_files_are_out_of_reach_by_every_way() {
    for path in [
        "~/.ssh/id_rsa",
        ".ssh/new",
        "link",
        "dangling",
        "folder-link/config",
        "sub/../.ssh/x",
        "~/.bashrc",
        ".aws/credentials",
        "home/.env",
        "home/auth.json",
        "home/state.db",
        "home/sessions/x",
        "/etc/passwd",
        "/etc/systemd/x",
    ] {
        check_denied(path, "Write denied");
    }
    check_denied("home/config.yaml", "hermes config set");
    let folder = FileFixture::with(&[(".ssh-backup/x", "x")]);
    assert_eq!(
        folder.json("write_file", json!({"path": ".ssh-backup/x", "content": "y"}))["bytes_written"],
        1
    );
}

#[test]
fn writing_can_be_kept_to_some_folders() {
    let folder = FileFixture::with(&[("safe/a", "x")]);
    let options = FileOptions { write_roots: vec![folder.path().join("safe")], ..FileOptions::default() };
    let other = FileFixture::with_options(&[("b", "x")], options);
    let inside = folder.path().join("safe/new").display().to_string();
    assert_eq!(other.json("write_file", json!({"path": inside, "content": "x"}))["bytes_written"], 1);
    let outside = other.json("write_file", json!({"path": "b", "content": "y"}));
    assert!(outside["error"].as_str().unwrap().contains("outside"), "{outside}");
    assert_eq!(other.text("b"), "x");
}

#[test]
fn what_the_tools_show_is_not_what_a_file_holds() {
    let folder = FileFixture::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let shown = folder.json("read_file", json!({"path": "a.txt"}))["content"].clone();
    let stub = folder.json("read_file", json!({"path": "a.txt"}))["message"].clone();
    for content in [shown, stub, json!("1|a\n2|b\n\n3|c")] {
        let refused = folder.json("write_file", json!({"path": "a.txt", "content": content}));
        assert!(refused["error"].as_str().unwrap().contains("read_file shows"), "{refused}");
    }
    for fine in ["1|a\n5|b\n", "a|1\nb|2\n", "1|only\n", "x\ny\nz\n1|a\n2|b\n"] {
        assert!(
            folder.json("write_file", json!({"path": "b.txt", "content": fine})).get("error").is_none(),
            "{fine}"
        );
    }
}

#[test]
fn a_sound_file_is_not_broken() {
    let folder = FileFixture::with(&[("a.json", "{}"), ("lax.json", "// note\n{}")]);
    let write =
        |path: &str, content: &str| folder.json("write_file", json!({"path": path, "content": content}));
    assert!(write("a.json", "{\"a\": }")["error"].as_str().unwrap().contains("not valid JSON"));
    assert_eq!(folder.text("a.json"), "{}");
    assert!(write("b.yaml", "a: [1\nb: 2")["error"].as_str().unwrap().contains("not valid YAML"));
    assert!(!folder.exists("b.yaml"));
    assert!(write("c.yml", "a: !custom 1\n---\nb: 2\n").get("error").is_none());
    assert!(write("lax.json", "// other\n{}").get("error").is_none());
}

#[test]
fn a_change_by_others_is_told() {
    let folder = FileFixture::with(&[("a.txt", "one\n")]);
    folder.json("read_file", json!({"path": "a.txt"}));
    folder.change("a.txt", "two\n");
    let written = folder.json("write_file", json!({"path": "a.txt", "content": "three\n"}));
    assert!(written["_warning"].as_str().unwrap().contains("changed on disk"), "{written}");
    assert_eq!(folder.text("a.txt"), "three\n");
    let again = folder.json("write_file", json!({"path": "a.txt", "content": "four\n"}));
    assert!(again.get("_warning").is_none(), "its own write is known: {again}");
    folder.json_as("sibling", "write_file", json!({"path": "a.txt", "content": "longer than before\n"}));
    let warned = folder.json("write_file", json!({"path": "a.txt", "content": "five\n"}));
    assert!(warned["_warning"].as_str().unwrap().contains("task sibling"), "{warned}");
}

#[test]
fn arguments_that_are_missing_are_named() {
    let folder = FileFixture::with(&[]);
    let error = |arguments| folder.json("write_file", arguments)["error"].as_str().unwrap().to_owned();
    assert!(error(json!({"content": "x"})).contains("`path`"));
    assert!(error(json!({"path": "x"})).contains("`content`"));
    assert!(error(json!({"path": "x", "content": {"a": 1}})).contains("one string"));
    assert!(!folder.exists("x"));
}

#[test]
fn the_mask_of_a_secret_does_not_replace_the_secret() {
    let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";
    let text = format!("name = 1\napi_key = \"{key}\"\nother = 2\n");
    let folder = FileFixture::with(&[("conf.py", &text)]);
    let shown = folder.json("read_file", json!({"path": "conf.py"}))["content"].as_str().unwrap().to_owned();
    let plain: String = shown.lines().map(|line| line.split_once('|').unwrap().1.to_owned() + "\n").collect();
    assert!(!plain.contains(key));
    let refused = folder.json("write_file", json!({"path": "conf.py", "content": plain.replace('2', "3")}));
    assert!(refused["error"].as_str().unwrap().contains("shown masked"), "{refused}");
    let refused = folder.json(
        "patch",
        json!({"path": "conf.py", "old_string": plain, "new_string": plain.replace('2', "3")}),
    );
    assert_eq!(refused["success"], false, "{refused}");
    assert_eq!(folder.text("conf.py"), text);
    let patched = folder
        .json("patch", json!({"path": "conf.py", "old_string": "other = 2", "new_string": "other = 3"}));
    assert_eq!(patched["success"], true, "{patched}");
    assert!(folder.text("conf.py").contains(key));
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let folder = FileFixture::with(&[("sub/x", "x")]);
    for path in ["sub", "/dev/null"] {
        let refused = folder.json("write_file", json!({"path": path, "content": "x"}));
        assert!(refused["error"].as_str().unwrap().contains("not a regular file"), "{refused}");
    }
    assert!(!std::path::Path::new("/dev/null").metadata().unwrap().is_file());
}

#[test]
fn what_the_fence_keeps_from_commands_is_kept_from_this_tool_too() {
    use hermes_exec::{Sandbox, SandboxActivation, SandboxPaths};
    if !Sandbox::is_possible() {
        hermes_testkit::peer_is_missing("Landlock");
        return;
    }
    let folder = FileFixture::with(&[("proj/.git/HEAD", "ref\n")]);
    let home = folder.path().to_owned();
    let places = SandboxPaths {
        user_home: home.clone(),
        hermes_home: home.join(".hermes"),
        ..SandboxPaths::default()
    };
    let folder = folder.with_sandbox(Sandbox::new(SandboxActivation::Auto, places));
    for kept in ["proj/.git/hooks/pre-commit", ".local/bin/ls", ".hermes/bin/tirith"] {
        let answer = folder.call("write_file", json!({"path": kept, "content": "x"})).content;
        assert!(answer.contains("Write denied"), "{kept}: {answer}");
        assert!(!home.join(kept).exists(), "{kept}");
    }
    folder.call("write_file", json!({"path": "proj/a.txt", "content": "x"}));
    assert!(home.join("proj/a.txt").exists());
}
