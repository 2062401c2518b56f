//! `hermes update` with releases in a folder: who made them, whether they work, and the way back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hermes_testkit::{TempHome, peer_is_missing};
use rustix::process::{Pid, Signal, kill_process};

use super::support::{program, until, until_found};

/// An installation in a home, with a folder of releases.
struct Installation {
    home: TempHome,
    release: PathBuf,
    place: PathBuf,
}

impl Installation {
    fn new(config: &str) -> Self {
        let home = TempHome::builder().config_yaml(config).build().unwrap();
        let (folder, releases) = (home.join("code"), home.join("releases/main"));
        for made in [folder.join("bin"), folder.join("venv/bin"), releases.clone(), home.join("user")] {
            fs::create_dir_all(made).unwrap();
        }
        std::os::unix::fs::symlink("../../bin/hermes", folder.join("venv/bin/hermes")).unwrap();
        let release = releases.join(format!("hermes-{}-{}", std::env::consts::OS, std::env::consts::ARCH));
        let place = folder.join("bin/hermes");
        fs::copy(program(), &place).unwrap();
        let made = Self { home, release, place };
        made.record("");
        made
    }

    /// Writes what the installer records, with the key of the releases.
    fn record(&self, key: &str) {
        let (home, releases) = (self.home.path().display(), self.home.join("releases"));
        let record = format!("home={home}\nrelease=file://{}\nkey={key}\n", releases.display());
        fs::write(self.home.join("code/.hermes-install"), record).unwrap();
    }

    /// Publishes this program itself.
    fn offer_same(&self) {
        let _ = fs::remove_file(&self.release);
        std::os::unix::fs::symlink(program(), &self.release).unwrap();
        self.sum();
    }

    /// Publishes a program that does this before it acts like the present one.
    fn offer(&self, first: &str) {
        let _ = fs::remove_file(&self.release);
        fs::write(&self.release, format!("#!/bin/sh\n{first}\nexec {} \"$@\"\n", program())).unwrap();
        fs::set_permissions(&self.release, fs::Permissions::from_mode(0o755)).unwrap();
        self.sum();
    }

    fn sum(&self) {
        let sum = Command::new("sha256sum").arg(&self.release).output().unwrap().stdout;
        fs::write(self.beside("sha256"), sum).unwrap();
    }

    fn beside(&self, ending: &str) -> PathBuf {
        PathBuf::from(format!("{}.{ending}", self.release.display()))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.place);
        command
            .args(arguments)
            .env_clear()
            .env("HERMES_HOME", self.home.path())
            .env("HOME", self.home.join("user"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
    }

    fn update(&self, arguments: &[&str]) -> String {
        let output = self.command(&[&["update"], arguments].concat()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("exit {}\n{}{}", output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn is_original(&self) -> bool {
        fs::read(&self.place).unwrap() == fs::read(program()).unwrap()
    }

    fn left_over(&self) -> Vec<String> {
        let names = |folder: &Path| -> Vec<String> {
            fs::read_dir(folder)
                .unwrap()
                .flatten()
                .map(|entry| entry.file_name().into_string().unwrap())
                .collect()
        };
        let all = [names(&self.home.join("code")), names(&self.home.join("code/bin"))].concat();
        all.into_iter().filter(|name| name.starts_with('.') && name != ".hermes-install").collect()
    }
}

/// The gateway of an installation, which is ended with the test, whichever process it is by then.
struct RunningGateway<'a>(&'a Installation, std::process::Child);

impl<'a> RunningGateway<'a> {
    fn start(place: &'a Installation) -> Self {
        let child = place.command(&["gateway", "run", "--quiet"]).spawn().unwrap();
        let running = Self(place, child);
        until("the gateway runs", || running.instance().is_some());
        running
    }

    /// Returns the id of the instance that is running.
    fn instance(&self) -> Option<String> {
        let text = fs::read_to_string(self.0.home.join("gateway_state.json")).ok()?;
        let state: serde_json::Value = serde_json::from_str(&text).ok()?;
        (state["gateway_state"] == "running").then(|| state["instance"].as_str().unwrap().to_owned())
    }

    fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.0.home.join("gateway.pid")).ok()?;
        let record: serde_json::Value = serde_json::from_str(&text).ok()?;
        Pid::from_raw(record["pid"].as_i64()?.try_into().ok()?)
    }
}

impl Drop for RunningGateway<'_> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.1.wait();
        let lock = self.0.home.join("gateway.pid");
        until("the gateway has ended", || !lock.exists());
    }
}

#[test]
fn an_update_can_be_asked_about() {
    let place = Installation::new("agent: {max_turns: 20}\n");
    place.offer_same();
    let seen = place.update(&["--check"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Up to date."), "{seen}");
    place.offer("");
    let seen = place.update(&["--check"]);
    assert!(seen.starts_with("exit 0") && seen.contains("An update is available"), "{seen}");
    assert!(!place.home.join("backups").exists() && place.is_original());
}

#[test]
fn an_update_backs_up_first_and_migrates_if_asked() {
    let place = Installation::new("_config_version: 3\nagent: {max_turns: 20}\n");
    place.offer_same();
    let backups = || {
        let entries = fs::read_dir(place.home.join("backups")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("pre-update-")).count()
    };
    let seen = place.update(&["--no-backup", "--allow-unsigned"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Update complete!"), "{seen}");
    assert!(seen.contains("hermes config migrate"), "{seen}");
    assert_eq!(backups(), 0);
    let seen = place.update(&["--backup", "--yes", "--allow-unsigned"]);
    assert!(seen.starts_with("exit 0") && seen.contains("files backed up in"), "{seen}");
    assert_eq!(backups(), 1);
    let config = place.home.read("config.yaml");
    assert!(!config.contains("_config_version: 3\n"), "{config}");
    let seen = place.update(&["--branch", "v9"]);
    assert!(seen.starts_with("exit 1") && seen.contains("releases/v9/"), "{seen}");
    assert_eq!(place.left_over(), Vec::<String>::new());
}

#[test]
fn a_release_that_nobody_can_be_asked_about_is_refused() {
    let place = Installation::new("{}\n");
    place.offer("");
    let seen = place.update(&["--no-backup"]);
    assert!(seen.starts_with("exit 1") && seen.contains("HERMES_RELEASE_KEY"), "{seen}");
    assert!(place.is_original() && place.left_over().is_empty());
    let seen = place.update(&["--no-backup", "--allow-unsigned"]);
    assert!(seen.starts_with("exit 0") && !place.is_original(), "{seen}");
    assert_eq!(fs::read(place.place.with_extension("previous")).unwrap(), fs::read(program()).unwrap());
    // It was allowed for later updates as well.
    let record = place.home.read("code/.hermes-install");
    assert!(record.contains("unsigned=--allow-unsigned\n"), "{record}");
}

#[test]
fn a_program_that_does_not_work_here_is_not_installed() {
    let place = Installation::new("{}\n");
    for (first, words) in [
        ("exit 3", "failed with 3"),
        ("case $1 in --version) echo 'Hermes Agent 0.0.1'; exit 0;; esac", "older than this program"),
        ("case $1 in status) echo torn >&2; exit 4;; esac", "torn"),
    ] {
        place.offer(first);
        let seen = place.update(&["--no-backup", "--allow-unsigned"]);
        assert!(seen.starts_with("exit 1") && seen.contains(words), "{first}: {seen}");
        assert!(seen.contains("nothing was installed") && place.is_original(), "{first}: {seen}");
        assert_eq!(place.left_over(), Vec::<String>::new(), "{first}");
    }
}

#[test]
fn a_gateway_is_restarted_with_the_new_program() {
    let place = Installation::new("{}\n");
    let gateway = RunningGateway::start(&place);
    let before = gateway.instance();
    place.offer("echo began >>\"$HERMES_HOME/began\"");
    let seen = place.update(&["--no-backup", "--allow-unsigned"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Update complete!"), "{seen}");
    assert!(gateway.instance().is_some_and(|now| Some(now) != before), "{seen}");
    assert!(place.home.join("began").exists() && !place.is_original());
}

#[test]
fn a_gateway_that_does_not_start_with_the_new_program_gets_the_previous_one_back() {
    let place = Installation::new("agent: {restart_drain_timeout: 0}\n");
    let gateway = RunningGateway::start(&place);
    let before = gateway.instance();
    place.offer("case $1 in gateway) exit 1;; esac");
    let seen = place.update(&["--no-backup", "--allow-unsigned"]);
    assert!(seen.starts_with("exit 1") && seen.contains("the gateway has ended"), "{seen}");
    assert!(seen.contains("The gateway runs again with the previous program."), "{seen}");
    assert!(place.is_original() && place.left_over().is_empty(), "{seen}");
    let now = until_found(|| "the gateway runs again".to_owned(), || gateway.instance());
    assert_ne!(Some(now), before);
}

#[test]
fn peer_only_releases_signed_with_the_known_key_are_installed() {
    if !Path::new("/usr/bin/minisign").exists() {
        return peer_is_missing("minisign");
    }
    let place = Installation::new("{}\n");
    let keys = tempfile::tempdir().unwrap();
    let key = |name: &str| -> String {
        let file = |ending: &str| keys.path().join(format!("{name}.{ending}")).display().to_string();
        let made = Command::new("minisign").args(["-GfW", "-p", &file("pub"), "-s", &file("sec")]).output();
        assert!(made.unwrap().status.success());
        fs::read_to_string(file("pub")).unwrap().lines().nth(1).unwrap().to_owned()
    };
    let sign = |name: &str| {
        let secret = keys.path().join(format!("{name}.sec"));
        let signed = Command::new("minisign")
            .args(["-S", "-s"])
            .arg(secret)
            .arg("-m")
            .arg(&place.release)
            .output()
            .unwrap();
        assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    };
    let (own, _other) = (key("own"), key("other"));
    place.record(&own);
    let refused = |what: &str, words: &str| {
        let seen = place.update(&["--no-backup"]);
        assert!(seen.starts_with("exit 1") && seen.contains(words) && place.is_original(), "{what}: {seen}");
        assert!(place.left_over().is_empty(), "{what}");
    };
    place.offer("");
    refused("without a signature", "minisig");
    sign("other");
    refused("signed with another key", "another key");
    sign("own");
    place.offer("echo changed");
    refused("changed after it was signed", "does not belong to it");
    fs::write(place.beside("minisig"), "nonsense").unwrap();
    refused("with a damaged signature", "damaged");
    place.offer("");
    sign("own");
    let seen = place.update(&["--no-backup"]);
    assert!(seen.starts_with("exit 0") && !place.is_original(), "{seen}");
    assert!(fs::read_to_string(place.home.join("code/.hermes-install")).unwrap().contains(&own));

    // The installer checks the first installation, with either of two programs.
    let install = |path: &str, key: &str| {
        let folder = tempfile::tempdir_in(place.home.path()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install.sh");
        let output = Command::new("/bin/bash")
            .arg(script)
            .args(["--skip-setup", "--dir"])
            .arg(folder.path().join("code"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", folder.path())
            .env("HERMES_HOME", folder.path().join("home"))
            .env("HERMES_RELEASE_URL", format!("file://{}", place.home.join("releases").display()))
            .env("HERMES_RELEASE_KEY", key)
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let without_minisign = keys.path().join("programs");
    fs::create_dir(&without_minisign).unwrap();
    for entry in ["/usr/bin", "/bin"].into_iter().flat_map(|at| fs::read_dir(at).unwrap().flatten()) {
        if entry.file_name() != "minisign" {
            let _ = std::os::unix::fs::symlink(entry.path(), without_minisign.join(entry.file_name()));
        }
    }
    let other = fs::read_to_string(keys.path().join("other.pub")).unwrap().lines().nth(1).unwrap().to_owned();
    for path in ["/usr/bin:/bin", without_minisign.to_str().unwrap()] {
        let (done, said) = install(path, &own);
        assert!(done, "{path}: {said}");
        let (done, said) = install(path, &other);
        assert!(!done && said.contains("another key"), "{path}: {said}");
    }
}
