//! `hermes gateway install` and related commands from outside, with fakes of the system's programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hermes_testkit::TempHome;

/// Imitates a manager with one service, which runs after `start` and not after `stop`.
const SYSTEMCTL: &str = r#"
case "$*" in
    *" restart "*) [ ! -e $AT/refuse ] || { echo "no bus" >&2; exit 1; };;
esac
case "$*" in
    *" start "*|*" restart "*) touch $AT/active;;
    *" stop "*) rm -f $AT/active;;
    *" status "*) echo "● a native status";;
    *" is-active "*) [ -e $AT/active ] || { echo inactive; exit 3; };;
esac"#;
const LOGINCTL: &str = r#"case "$1" in show-user) echo no;; *) echo "not for you" >&2; exit 1;; esac"#;

struct ServiceHome {
    home: TempHome,
}

impl ServiceHome {
    fn new() -> Self {
        let home = TempHome::builder().build().unwrap();
        fs::create_dir_all(home.join("user")).unwrap();
        fs::create_dir_all(home.join("bin")).unwrap();
        Self { home }
    }

    fn with_systemd() -> Self {
        let place = Self::new();
        for (name, body) in [("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL)] {
            let file = place.home.join("bin").join(name);
            let at = place.home.join("bin");
            let text = format!(
                "#!/bin/sh\nPATH=/usr/bin:/bin AT={}\necho \"{name} $*\" >> $AT/asked\n{body}\n",
                at.display()
            );
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        place
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermes"));
        command
            .args(arguments)
            .current_dir("/")
            .env_clear()
            .env("HERMES_HOME", self.home.path())
            .env("HOME", self.home.join("user"))
            .env("USER", "somebody")
            // No program of this machine can be found.
            .env("PATH", self.home.join("bin"))
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    /// Returns what a user sees, with values that vary between runs masked.
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let mut seen = format!("exit {}\n", output.status.code().unwrap_or(-1));
        for (mark, bytes) in [("", &output.stdout), ("! ", &output.stderr)] {
            let text = String::from_utf8_lossy(bytes).replace(&*self.home.path().to_string_lossy(), "[HOME]");
            for line in text.lines() {
                seen = format!("{seen}{mark}{line}\n");
            }
        }
        seen.replace(&self.unit_name(), "hermes-gateway-[HASH]")
    }

    fn units(&self) -> PathBuf {
        self.home.join("user/.config/systemd/user")
    }

    fn unit_name(&self) -> String {
        let found = fs::read_dir(self.units()).ok().and_then(|mut files| files.next()).and_then(Result::ok);
        let name = found.map(|file| file.file_name().to_string_lossy().replace(".service", ""));
        name.unwrap_or_else(|| "no unit is there".to_owned())
    }

    fn unit_file(&self) -> PathBuf {
        self.units().join(format!("{}.service", self.unit_name()))
    }

    fn asked(&self) -> String {
        let file = self.home.join("bin/asked");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(file);
        text.replace(&self.unit_name(), "hermes-gateway-[HASH]")
    }
}

#[test]
fn a_service_from_its_installation_to_its_end() {
    let place = ServiceHome::with_systemd();
    let installed = place.run(&["gateway", "install"]);
    insta::assert_snapshot!(installed, @r"
    exit 0
    ✓ User service installed and enabled: [HOME]/user/.config/systemd/user/hermes-gateway-[HASH].service
    ⚠ Linger is off: the service ends when you log out. To change that:
      sudo loginctl enable-linger somebody
      hermes gateway start  starts it now
      journalctl --user -u hermes-gateway-[HASH] -f  follows its log
    ");
    insta::assert_snapshot!(place.asked(), @r"
    systemctl --user daemon-reload
    systemctl --user enable hermes-gateway-[HASH]
    loginctl show-user somebody --property=Linger --value
    loginctl enable-linger somebody
    ");
    insta::assert_snapshot!(place.run(&["gateway", "install"]), @r"
    exit 0
    Service already installed at: [HOME]/user/.config/systemd/user/hermes-gateway-[HASH].service
    Use --force to reinstall
    ");
    insta::assert_snapshot!(place.run(&["gateway", "start"]), @r"
    exit 0
    ✓ User service started
    ");
    place.asked();
    insta::assert_snapshot!(place.run(&["gateway", "status"]), @r"
    exit 0
    ● a native status

    ✓ User gateway service is running
    ⚠ Linger is off: the service ends when you log out. To change that:
      sudo loginctl enable-linger somebody
    ✗ Gateway is not running
    ");
    insta::assert_snapshot!(place.asked(), @r"
    systemctl --user status hermes-gateway-[HASH] --no-pager
    systemctl --user is-active hermes-gateway-[HASH]
    loginctl show-user somebody --property=Linger --value
    ");
    insta::assert_snapshot!(place.run(&["gateway", "restart"]), @r"
    exit 0
    ✓ User service restarted
    ");
    insta::assert_snapshot!(place.run(&["gateway", "stop"]), @r"
    exit 0
    ✓ User service stopped
    ");
    let unit = fs::read_to_string(place.unit_file()).unwrap();
    fs::write(place.unit_file(), unit.replace("Type=simple", "Type=exec")).unwrap();
    insta::assert_snapshot!(place.run(&["gateway", "status"]), @r"
    exit 0
    ⚠ The installed user service definition is outdated; `hermes gateway restart` updates it
    ● a native status

    ✗ User gateway service is stopped
      hermes gateway start  starts it
    ⚠ Linger is off: the service ends when you log out. To change that:
      sudo loginctl enable-linger somebody
    ✗ Gateway is not running
    ");
    insta::assert_snapshot!(place.run(&["gateway", "start"]), @r"
    exit 0
    ✓ Updated the service definition: [HOME]/user/.config/systemd/user/hermes-gateway-[HASH].service
    ✓ User service started
    ");
    assert_eq!(fs::read_to_string(place.unit_file()).unwrap(), unit);
    insta::assert_snapshot!(place.run(&["gateway", "uninstall"]), @r"
    exit 0
    ✓ User service uninstalled
    ");
    assert_eq!(place.unit_name(), "no unit is there");
    insta::assert_snapshot!(place.run(&["gateway", "uninstall"]), @r"
    exit 0
    No user service is installed.
    ");
    insta::assert_snapshot!(place.run(&["gateway", "start"]), @r"
    exit 1
    ! error: no user service is installed; `hermes gateway install` installs it
    ");
}

#[test]
fn a_restart_that_fails_says_why_and_runs_nothing_else() {
    let place = ServiceHome::with_systemd();
    place.run(&["gateway", "install"]);
    fs::write(place.home.join("bin/refuse"), "").unwrap();
    insta::assert_snapshot!(place.run(&["gateway", "restart"]), @r"
    exit 1
    ⚠ Linger is off: the service ends when you log out. To change that:
      sudo loginctl enable-linger somebody
      Then try again, or install the service for the machine: `sudo hermes gateway install --system`
    ! error: `systemctl --user restart hermes-gateway-[HASH]` failed with 1: no bus
    ");
}

#[test]
fn without_systemd_nothing_is_written_and_it_is_said() {
    let place = ServiceHome::new();
    insta::assert_snapshot!(place.run(&["gateway", "install"]), @r"
    exit 1
    ! error: there is no systemd here (`systemctl` was not found). Let the supervisor you have run `hermes gateway run`
    ");
    assert!(!place.units().exists());
    insta::assert_snapshot!(place.run(&["gateway", "stop"]), @r"
    exit 0
    ✗ No gateway processes found
    ");
}

#[test]
fn a_home_that_is_managed_gets_no_service() {
    let place = ServiceHome::with_systemd();
    fs::write(place.home.join(".managed"), "").unwrap();
    for command in ["install", "uninstall", "setup"] {
        let seen = place.run(&["gateway", command]);
        assert!(seen.starts_with("exit 1\n") && seen.contains("managed"), "{seen}");
    }
    assert_eq!(place.asked(), "");
}

#[test]
fn peer_systemd_itself_accepts_the_definition() {
    let analyze = Path::new("/usr/bin/systemd-analyze");
    if !analyze.exists() {
        hermes_testkit::peer_is_missing("systemd-analyze is not installed (`apt-get install systemd`)");
        return;
    }
    let place = ServiceHome::with_systemd();
    place.run(&["gateway", "install"]);
    let folder = place.home.join("runtime");
    fs::create_dir(&folder).unwrap();
    let verified = Command::new(analyze)
        .args(["--user", "--man=no", "--recursive-errors=no", "verify"])
        .arg(place.unit_file())
        .env("XDG_RUNTIME_DIR", &folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains(&place.unit_name()), "{said}");
}

#[test]
fn the_api_server_is_set_up_by_flags() {
    let place = ServiceHome::with_systemd();
    fs::write(place.home.env_file(), "# mine\nOTHER=1\n").unwrap();
    insta::assert_snapshot!(place.run(&["gateway", "setup", "--api-server", "--port", "9123", "--yes"]), @r"
    exit 0
    ✓ Written to [HOME]/.env
      The API is at http://127.0.0.1:9123/v1; callers send the key API_SERVER_KEY.
    `hermes gateway run` runs it in the foreground, `hermes gateway install` installs it as a service.
    ");
    let text = fs::read_to_string(place.home.env_file()).unwrap();
    let key = text.lines().find_map(|line| line.strip_prefix("API_SERVER_KEY=")).unwrap().to_owned();
    assert!(key.len() == 64 && key.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase()));
    insta::assert_snapshot!(text.replace(&key, "[KEY]"), @r"
    # mine
    OTHER=1
    API_SERVER_ENABLED=true
    API_SERVER_PORT=9123
    API_SERVER_KEY=[KEY]
    ");
    let mode = fs::metadata(place.home.env_file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // An existing key stays; a given one replaces it; neither is shown.
    let seen = place.run(&["gateway", "setup", "--api-server", "--yes"]);
    assert!(!seen.contains(&key), "{seen}");
    assert_eq!(fs::read_to_string(place.home.env_file()).unwrap(), text);
    place.run(&["gateway", "setup", "--api-server", "--key", "a-key-of-my-own", "--yes"]);
    let text = fs::read_to_string(place.home.env_file()).unwrap();
    assert!(
        text.contains("API_SERVER_KEY=a-key-of-my-own\n") && text.contains("API_SERVER_PORT=9123\n"),
        "{text}"
    );
    insta::assert_snapshot!(place.run(&["gateway", "setup", "--api-server", "--service"]), @r"
    exit 0
    ✓ Written to [HOME]/.env
      The API is at http://127.0.0.1:9123/v1; callers send the key API_SERVER_KEY.
    ✓ User service installed and enabled: [HOME]/user/.config/systemd/user/hermes-gateway-[HASH].service
    ⚠ Linger is off: the service ends when you log out. To change that:
      sudo loginctl enable-linger somebody
      hermes gateway start  starts it now
      journalctl --user -u hermes-gateway-[HASH] -f  follows its log
    ✓ User service started
    ");
    insta::assert_snapshot!(place.run(&["gateway", "setup"]), @r"
    exit 1
    ! error: no terminal to ask on; use flags, for example `hermes gateway setup --api-server --port 8642 --yes` or `hermes gateway setup telegram --set TELEGRAM_BOT_TOKEN=- --yes`
    ");
    assert!(place.run(&["gateway", "setup", "--api-server", "--port", "0"]).contains("--port"));
}
