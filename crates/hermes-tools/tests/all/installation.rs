//! Tests of the installation of the command scanner from a local release server.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hermes_exec::{ProgramRunner, Variables};
use hermes_task::SystemClock;
use hermes_tools::{
    CommandApprovalMode, CommandScanner, ScanFailurePolicy, ScanOptions, ScannerInstaller,
    ScannerInstallerOptions,
};
use hermes_types::{ApprovalDecision, Cancel, UserAnswer};
use sha2::{Digest, Sha256};

use super::approval::{ApprovalFixture, ApprovingUser, put_program};

/// A scanner that reports its version and flags every command.
const PROGRAM: &str = "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho '{}'; exit 1\n";
const NOTHING: &str = "HTTP/1.1 404 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A release server on the loopback interface that records requests.
struct Release {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Release {
    fn of(files: HashMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/download", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let first = lines.next().unwrap_or_default();
                lines.by_ref().find(String::is_empty);
                let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                let answer = files.get(path.trim_start_matches("/download/")).map(|body| {
                    let head = format!(
                        "HTTP/1.1 200 X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    [head.as_bytes(), body].concat()
                });
                heard.lock().unwrap().push(path);
                let _ = stream.write_all(&answer.unwrap_or_else(|| NOTHING.as_bytes().to_vec()));
            }
        });
        Self { address, asked }
    }

    /// Creates a server with valid checksums.
    fn holding(archive: Vec<u8>) -> Self {
        Self::of(with_sum(archive))
    }
}

fn with_sum(archive: Vec<u8>) -> HashMap<String, Vec<u8>> {
    let mut sums = String::new();
    for byte in Sha256::digest(&archive) {
        write!(sums, "{byte:02x}").unwrap();
    }
    writeln!(sums, "  {}", archive_name()).unwrap();
    HashMap::from([("checksums.txt".to_owned(), sums.into_bytes()), (archive_name(), archive)])
}

fn archive_name() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-gnu" };
    format!("tirith-{}-{system}.tar.gz", std::env::consts::ARCH)
}

/// A member of an archive: its path, its type and its content.
type Member<'a> = (&'a str, u8, &'a str);

fn packed(members: &[Member<'_>]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (path, kind, content) in members {
        let mut header = [0u8; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = *kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        tar.extend_from_slice(&header);
        tar.extend_from_slice(content.as_bytes());
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    compressed(&tar)
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn good() -> Vec<u8> {
    packed(&[
        ("completions/", b'5', ""),
        ("completions/tirith.bash", b'0', "complete"),
        ("tirith", b'0', PROGRAM),
    ])
}

/// Creates a terminal whose commands are scanned by the program of this release.
fn fixture(address: &str) -> ApprovalFixture {
    let address = address.to_owned();
    ApprovalFixture::new(
        CommandApprovalMode::Manual,
        move |approvals, root| {
            let (clock, hermes_home) = (Arc::new(SystemClock::new()), root.join("home"));
            let path = format!("{}:/usr/bin:/bin", root.join("tools").display());
            let variables = Variables::for_commands([("PATH", path.as_str())], &[], &[]);
            let programs = ProgramRunner::new(variables, clock.clone());
            let scan = ScanOptions {
                path: "tirith".to_owned(),
                hermes_home: hermes_home.clone(),
                limit: Duration::from_secs(20),
                failure: ScanFailurePolicy::Blocks,
            };
            let net = hermes_net::Config::new(clock.clone());
            let options = ScannerInstallerOptions { net, address, hermes_home, owner: Cancel::new() };
            let installer = ScannerInstaller::new(options, programs.clone(), clock);
            approvals.with_scanner(Some(CommandScanner::new(programs, scan).with_installer(installer)))
        },
        None,
    )
}

struct Homed(PathBuf);

impl Homed {
    fn of(fixture: &ApprovalFixture) -> Self {
        Self(fixture.root.join("home"))
    }

    fn program(&self) -> PathBuf {
        self.0.join("bin/tirith")
    }

    fn marker(&self) -> PathBuf {
        self.0.join(".tirith-install-failed")
    }

    /// Waits for the end of an installation. Returns the recorded error if it failed.
    async fn outcome(&self) -> Option<String> {
        let is_over = || {
            let mut left = fs::read_dir(self.0.join("bin")).into_iter().flatten().flatten();
            let at_work = left.any(|entry| entry.file_name().to_string_lossy().starts_with(".tirith-"));
            !at_work && (self.program().exists() || self.marker().exists())
        };
        while !is_over() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::read_to_string(self.marker()).ok()
    }
}

/// Checks that a command runs although a failed scan would block it, because the scanner is not installed yet.
async fn runs_unseen(fixture: &ApprovalFixture) {
    let result = fixture.run("echo hi", &ApprovingUser::who(UserAnswer::Unavailable)).await;
    assert_eq!(result["output"], "hi", "{result:#}");
}

#[tokio::test]
async fn it_is_fetched_once_and_looks_at_commands_from_then_on() {
    let release = Release::holding(good());
    let fixture = fixture(&release.address);
    let home = Homed::of(&fixture);
    runs_unseen(&fixture).await;
    assert_eq!(home.outcome().await, None);
    let mode = fs::metadata(home.program()).unwrap().permissions().mode();
    assert_eq!((mode & 0o777, fs::read_to_string(home.program()).unwrap().as_str()), (0o755, PROGRAM));
    let person = ApprovingUser::who(UserAnswer::Approval(ApprovalDecision::Once));
    fixture.run("echo hi", &person).await;
    assert_eq!(person.count(), 1, "no new start is needed");
    assert_eq!(
        *release.asked.lock().unwrap(),
        ["/download/checksums.txt".to_owned(), format!("/download/{}", archive_name())]
    );
}

#[tokio::test]
async fn what_is_wrong_is_not_installed_and_is_written_down() {
    let short = {
        let whole = good();
        whole[..whole.len() / 2].to_vec()
    };
    let unended = compressed(&{
        let mut tar = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(good().as_slice()), &mut tar).unwrap();
        tar.truncate(tar.len() - 1024);
        tar
    });
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("truncated", short, "cut off"),
        ("without its end", unended, "cut off"),
        ("no archive", "<html>nothing to see</html>".repeat(9).into_bytes(), "cannot be unpacked"),
        ("no tar", compressed(&[b'x'; 1024]), "no tar archive"),
        ("upwards", packed(&[("../tirith", b'0', PROGRAM)]), "leads out"),
        ("absolute", packed(&[("/tirith", b'0', PROGRAM), ("tirith", b'0', PROGRAM)]), "leads out"),
        ("a link", packed(&[("tirith", b'2', "")]), "neither a file nor a folder"),
        ("elsewhere", packed(&[("deep/tirith", b'0', PROGRAM)]), "no file `tirith`"),
        ("twice", packed(&[("tirith", b'0', PROGRAM), ("./tirith", b'0', PROGRAM)]), "twice"),
        ("does not run", packed(&[("tirith", b'0', "#!/bin/sh\nexit 3\n")]), "does not run here"),
    ];
    for (what, archive, said) in cases {
        let release = Release::holding(archive);
        let fixture = fixture(&release.address);
        runs_unseen(&fixture).await;
        let home = Homed::of(&fixture);
        let reason = home.outcome().await.unwrap_or_default();
        assert!(reason.contains(said), "{what}: {reason}");
        assert!(!home.program().exists(), "{what}");
        let left = fs::read_dir(fixture.root.join("home/bin")).unwrap().count();
        assert_eq!(left, 0, "{what}: nothing is left beside");
    }
}

#[tokio::test]
async fn a_server_that_does_not_deliver_is_written_down() {
    let wrong_sum = HashMap::from([
        ("checksums.txt".to_owned(), format!("{}  {}\n", "0".repeat(64), archive_name()).into_bytes()),
        (archive_name(), good()),
    ]);
    let unnamed = HashMap::from([("checksums.txt".to_owned(), b"nothing\n".to_vec())]);
    let offline = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", free.local_addr().unwrap())
    };
    let cases = [
        (Release::of(wrong_sum).address, "SHA-256"),
        (Release::of(unnamed).address, "does not name"),
        (Release::of(HashMap::new()).address, "404"),
        (offline, "checksums.txt: "),
    ];
    for (address, said) in cases {
        let fixture = fixture(&address);
        runs_unseen(&fixture).await;
        let home = Homed::of(&fixture);
        let reason = home.outcome().await.unwrap_or_default();
        assert!(reason.contains(said), "{reason}");
        assert!(!home.program().exists());
    }
}

#[tokio::test]
async fn a_failure_is_honoured_for_a_day() {
    let release = Release::holding(good());
    let fixture = fixture(&release.address);
    let home = Homed::of(&fixture);
    fs::write(home.marker(), "because\n").unwrap();
    runs_unseen(&fixture).await;
    runs_unseen(&fixture).await;
    assert!(release.asked.lock().unwrap().is_empty());
    let yesterday = SystemTime::UNIX_EPOCH + yesterday();
    fs::File::options().write(true).open(home.marker()).unwrap().set_modified(yesterday).unwrap();
    runs_unseen(&fixture).await;
    while home.marker().exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(home.program().exists());
}

fn yesterday() -> Duration {
    let now = hermes_types::Clock::now(&SystemClock::new()).seconds();
    Duration::from_secs_f64(now).saturating_sub(Duration::from_hours(25))
}

#[tokio::test]
async fn a_signature_counts_where_it_can_be_checked() {
    let signed = |signature: bool| {
        let mut files = with_sum(good());
        if signature {
            files.insert("checksums.txt.sig".to_owned(), b"signature".to_vec());
            files.insert("checksums.txt.pem".to_owned(), b"certificate".to_vec());
        }
        Release::of(files)
    };
    let checks = "[ \"$1 $2 $4 $6 $8\" = 'verify-blob --signature --certificate --certificate-identity-regexp \
        --certificate-oidc-issuer' ] && grep -q ^signature \"$3\" && grep -q ^certificate \"$5\" && grep -q tirith \"${10}\"";
    for (cosign, signature, said) in [
        (checks, true, None),
        ("echo no; exit 1", true, Some("cosign does not accept checksums.txt: exit code 1: no")),
        ("exit 0", false, Some("checksums.txt.sig: the server answered 404 Not Found")),
    ] {
        let release = signed(signature);
        let fixture = fixture(&release.address);
        fs::create_dir(fixture.root.join("tools")).unwrap();
        put_program(&fixture.root.join("tools/cosign"), cosign);
        runs_unseen(&fixture).await;
        let reason = Homed::of(&fixture).outcome().await;
        assert_eq!(reason.as_deref().map(str::trim), said);
    }
}
