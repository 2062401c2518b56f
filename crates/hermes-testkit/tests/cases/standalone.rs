//! The binary, from outside.
#![expect(clippy::disallowed_methods, reason = "the binary under test is a process")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use hermes_testkit::http_post;

use super::{CHAT, ask};

const BINARY: &str = env!("CARGO_BIN_EXE_hermes-testkit");

#[test]
fn serve_prints_its_address_and_every_request() {
    let mut child = Command::new(BINARY).args(["serve", "--echo"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.next().unwrap().unwrap();
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/v1")).expect(&url);
    let answer = http_post(address.parse().unwrap(), CHAT, &ask("parrot")).unwrap().json();
    let line = lines.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "parrot");
    assert_eq!(line, "request #0 POST /v1/chat/completions model=m user=\"parrot\"");
}

#[test]
fn bad_scripts_and_missing_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken.yaml");
    std::fs::write(&path, "replies:\n  - text: hi\n    reepeat: 2\n").unwrap();
    for (command, file) in
        [("serve", path.clone()), ("check", path), ("check", directory.path().join("none.yaml"))]
    {
        let output = Command::new(BINARY).arg(command).arg(&file).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(file.to_str().unwrap()), "{said}");
        if file.exists() {
            assert!(said.contains("line 3") && said.contains("reepeat"), "{said}");
        }
    }
}

#[test]
fn help_explains_every_command() {
    let output = Command::new(BINARY).args(["serve", "--help"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for part in ["--port", "--echo", "--quiet", "SCRIPT", "SCRIPT.md"] {
        assert!(said.contains(part), "{part} in {said}");
    }
}
