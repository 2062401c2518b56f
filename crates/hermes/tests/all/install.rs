//! `scripts/install.sh` with releases from servers on loopback.
#![expect(clippy::disallowed_methods, reason = "the installer is a program of its own")]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

/// Answers requests for files, or redirects them to another address.
struct ReleaseServer {
    address: String,
    files: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    asked: Arc<AtomicUsize>,
}

impl ReleaseServer {
    fn start(redirect: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let files: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
        let asked = Arc::new(AtomicUsize::new(0));
        let (known, count) = (Arc::clone(&files), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let mut line = String::new();
                let mut reader = BufReader::new(&stream);
                let _ = reader.read_line(&mut line);
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|count| count > 2) {
                    head.clear();
                }
                let found = known.lock().unwrap().get(&path).cloned();
                let mut stream = &stream;
                let _ = match (&redirect, found) {
                    (Some(to), _) => write!(
                        stream,
                        "HTTP/1.1 302 Found\r\nLocation: {to}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    ),
                    (None, Some(bytes)) => write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                        bytes.len()
                    )
                    .and_then(|()| stream.write_all(&bytes)),
                    (None, None) => {
                        write!(stream, "HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    }
                };
            }
        });
        Self { address, files, asked }
    }

    /// Publishes a program that prints this version.
    fn offer(&self, version: &str) {
        let program = format!("#!/bin/sh\necho {version}\n").into_bytes();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p");
        fs::write(&file, &program).unwrap();
        let sum = Command::new("sha256sum").arg(&file).output().unwrap().stdout;
        let machine = Command::new("uname").arg("-m").output().unwrap().stdout;
        let name = format!("/main/hermes-linux-{}", String::from_utf8(machine).unwrap().trim());
        let mut files = self.files.lock().unwrap();
        files.insert(format!("{name}.sha256"), sum);
        files.insert(name, program);
    }
}

struct Machine {
    top: TempDir,
    path: String,
}

impl Machine {
    fn new() -> Self {
        Self { top: tempfile::tempdir().unwrap(), path: "/usr/bin:/bin".to_owned() }
    }

    /// Creates an environment without this program.
    fn lacking(program: &str) -> Self {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("programs");
        fs::create_dir(&folder).unwrap();
        for entry in ["/usr/bin", "/bin"].into_iter().flat_map(|at| fs::read_dir(at).unwrap().flatten()) {
            if entry.file_name() != *program {
                let _ = symlink(entry.path(), folder.join(entry.file_name()));
            }
        }
        let path = folder.to_str().unwrap().to_owned();
        Self { top, path }
    }

    fn folder(&self) -> PathBuf {
        self.top.path().join("agent")
    }

    fn install(&self, release: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install.sh");
        Command::new("/bin/bash")
            .arg(script)
            .args(["--skip-setup", "--hermes-home"])
            .arg(self.top.path().join("home"))
            .arg("--dir")
            .arg(self.folder())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.top.path())
            .env("HERMES_RELEASE_URL", release)
            .output()
            .unwrap()
    }

    fn version(&self, name: &str) -> String {
        let output = Command::new(self.folder().join("bin").join(name)).output();
        output.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned()).unwrap_or_default()
    }
}

#[test]
fn a_redirect_to_plain_http_is_refused() {
    let target = ReleaseServer::start(None);
    target.offer("planted");
    let front = ReleaseServer::start(Some(target.address.clone()));
    let mut machines = vec![Machine::new()];
    if Path::new("/usr/bin/wget").exists() {
        machines.push(Machine::lacking("curl"));
    }
    for machine in machines {
        let before = front.asked.load(Ordering::Relaxed);
        let output = machine.install(&front.address);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("https://"), "{said}");
        assert!(front.asked.load(Ordering::Relaxed) > before, "the server was not asked: {said}");
        assert!(!machine.folder().join("bin/hermes").exists());
    }
    assert_eq!(target.asked.load(Ordering::Relaxed), 0, "nobody asks the other server");
}

#[test]
fn the_program_before_stays_beside_the_new_one() {
    let server = ReleaseServer::start(None);
    let machine = Machine::new();
    for (version, previous) in [("one", ""), ("two", "one"), ("two", "one"), ("three", "two")] {
        server.offer(version);
        let output = machine.install(&server.address);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(
            (machine.version("hermes").as_str(), machine.version("hermes.previous").as_str()),
            (version, previous)
        );
    }
    // The rollback that the documentation describes.
    let back = Command::new("/bin/sh")
        .args(["-c", "cp hermes.previous hermes.back && mv hermes.back hermes"])
        .current_dir(machine.folder().join("bin"))
        .status()
        .unwrap();
    assert!(back.success());
    assert_eq!(machine.version("hermes"), "two");
}
