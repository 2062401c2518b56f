//! Service management on simulated machines: their folders are temporary, and their programs record their
//! arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use hermes_config::Env;

use super::control::ServiceControl;
use super::launchd::Launchd;
use super::machine::{Privilege, ServiceMachine, ServiceManagerKind};
use super::systemd::Systemd;
use super::{ForceInstall, ServiceResult, ServiceScope, Supervisor};
use crate::output::Console;

const SYSTEMCTL: &str = "[ ! -e $ROOT/refuse ] || { echo no bus; exit 1; }";
const LOGINCTL: &str =
    "case $1 in show-user) cat $ROOT/linger;; enable-linger) echo yes > $ROOT/linger;; esac";
const GETENT: &str = "case $2 in agent) echo agent:x:7:8::$ROOT/home/agent:/usr/sbin/nologin;; other) echo other:x:9:8::$ROOT/home/other:/bin/sh;; 8) echo agents:x:8:;; *) exit 2;; esac";
const LAUNCHCTL: &str = "case $1 in load) touch $ROOT/loaded;; unload) rm -f $ROOT/loaded;; start) [ -e $ROOT/loaded ] || exit 3;; esac";

/// A simulated machine.
struct TestMachine {
    root: tempfile::TempDir,
}

impl TestMachine {
    fn new() -> Self {
        let other = Self { root: tempfile::tempdir().unwrap() };
        for folder in ["bin", "root/.hermes", "home/agent/.local/bin", "run"] {
            fs::create_dir_all(other.path(folder)).unwrap();
        }
        fs::write(other.path("linger"), "no\n").unwrap();
        fs::write(other.path("run/bus"), "").unwrap();
        for (name, body) in
            [("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL), ("getent", GETENT), ("launchctl", LAUNCHCTL)]
        {
            let file = other.path("bin").join(name);
            let root = other.path("");
            let text = format!(
                "#!/bin/sh\nPATH=/usr/bin:/bin ROOT={}\necho \"{name} $*\" >> $ROOT/asked\n{body}\n",
                root.display().to_string().trim_end_matches('/')
            );
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        other
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    fn env(&self, pairs: &[(&str, &str)]) -> Env {
        let path = self.path("bin").display().to_string();
        Env::from_pairs([("PATH", path.as_str())].into_iter().chain(pairs.iter().copied()))
    }

    /// Builds the machine for a command of root, whose folder is `root`.
    fn machine(&self, kind: ServiceManagerKind, privilege: Privilege, env: &Env) -> ServiceMachine {
        ServiceMachine {
            kind,
            privilege,
            user_units: self.path("root/.config/systemd/user"),
            system_units: self.path("etc"),
            agents: self.path("root/Library/LaunchAgents"),
            binary: PathBuf::from("/opt/hermes/bin/hermes"),
            folder: self.path("root"),
            home: self.path("root/.hermes"),
            control: ServiceControl::new(env, &self.path("run")).unwrap(),
        }
    }

    /// Returns the recorded calls since the last look, without account lookups.
    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let _ = fs::remove_file(self.path("asked"));
        text.lines().filter(|line| !line.starts_with("getent")).map(str::to_owned).collect()
    }

    fn text(&self, file: &Path) -> String {
        fs::read_to_string(file).unwrap().replace(&*self.path("").to_string_lossy(), "/")
    }
}

#[test]
fn root_installs_a_service_of_the_machine_for_whoever_typed_sudo() {
    let other = TestMachine::new();
    let env = other.env(&[("SUDO_USER", "agent"), ("USER", "root")]);
    let machine = other.machine(ServiceManagerKind::Systemd, Privilege::Root, &env);
    let output = Console::new();
    let systemd = Systemd::to_install(&machine, &env, &output, ServiceScope::System, None);
    systemd.install(ForceInstall::No).unwrap();
    assert_eq!(other.asked(), ["systemctl daemon-reload", "systemctl enable hermes-gateway"]);
    let file = other.path("etc/hermes-gateway.service");
    let text = other.text(&file);
    for line in [
        "User=agent",
        "Group=agents",
        "WorkingDirectory=/home/agent/.hermes",
        "Environment=\"HOME=/home/agent\"",
        "Environment=\"HERMES_HOME=/home/agent/.hermes\"",
        "WantedBy=multi-user.target",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains(":/home/agent/.local/bin:"), "{text}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    // Without a flag the only installed service is used, and its user stays the same.
    let env = other.env(&[("USER", "root")]);
    let installed = Systemd::installed(&machine, &env, &output, ServiceScope::User);
    assert_eq!(installed.home().path(), other.path("home/agent/.hermes"));
    assert_eq!(installed.start().unwrap(), ServiceResult::Done);
    assert_eq!(other.asked(), ["systemctl start hermes-gateway"]);
    installed.uninstall().unwrap();
    assert!(!file.exists());
}

#[test]
fn each_user_has_a_service_of_their_own() {
    let other = TestMachine::new();
    let output = Console::new();
    let act = |user: &str, act: &dyn Fn(&Systemd<'_>)| {
        let env = other.env(&[("SUDO_USER", user), ("USER", "root")]);
        let machine = other.machine(ServiceManagerKind::Systemd, Privilege::Root, &env);
        act(&Systemd::to_install(&machine, &env, &output, ServiceScope::System, None));
    };
    act("agent", &|systemd| systemd.install(ForceInstall::No).unwrap());
    act("other", &|systemd| systemd.install(ForceInstall::No).unwrap());
    let (first, second) =
        (other.path("etc/hermes-gateway.service"), other.path("etc/hermes-gateway-other.service"));
    assert!(other.text(&first).contains("User=agent") && other.text(&second).contains("User=other"));
    // One service keeps its name when the other is removed.
    act("agent", &|systemd| systemd.uninstall().unwrap());
    assert!(!first.exists() && second.exists());
    act("other", &|systemd| assert_eq!(systemd.start().unwrap(), ServiceResult::Done));
    assert!(other.asked().contains(&"systemctl start hermes-gateway-other".to_owned()));
}

#[test]
fn a_program_the_user_cannot_start_is_not_installed() {
    let other = TestMachine::new();
    let env = other.env(&[("SUDO_USER", "agent"), ("USER", "root")]);
    let mut machine = other.machine(ServiceManagerKind::Systemd, Privilege::Root, &env);
    fs::create_dir_all(other.path("private")).unwrap();
    machine.binary = other.path("private/hermes");
    fs::write(&machine.binary, "").unwrap();
    fs::set_permissions(&machine.binary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(other.path("private"), fs::Permissions::from_mode(0o700)).unwrap();
    let output = Console::new();
    let systemd = Systemd::to_install(&machine, &env, &output, ServiceScope::System, None);
    let refused = systemd.install(ForceInstall::No).unwrap_err().to_string();
    assert!(refused.contains("agent cannot start") && refused.contains("private"), "{refused}");
    assert!(!other.path("etc/hermes-gateway.service").exists());
}

#[test]
fn a_service_of_the_machine_needs_root_and_a_user_who_is_not() {
    let other = TestMachine::new();
    let output = Console::new();
    let refused = |privilege, pairs: &[(&str, &str)], run_as: Option<&str>| {
        let env = other.env(pairs);
        let machine = other.machine(ServiceManagerKind::Systemd, privilege, &env);
        let run_as = run_as.map(str::to_owned);
        let systemd = Systemd::to_install(&machine, &env, &output, ServiceScope::System, run_as);
        systemd.install(ForceInstall::No).unwrap_err().to_string()
    };
    assert!(
        refused(Privilege::Ordinary, &[("USER", "agent")], None)
            .contains("sudo hermes gateway install --system")
    );
    assert!(refused(Privilege::Root, &[("USER", "root")], None).contains("--run-as-user"));
    assert!(refused(Privilege::Root, &[("USER", "agent")], Some("root")).contains("--run-as-user"));
    assert!(refused(Privilege::Root, &[], Some("nobody-here")).contains("no user `nobody-here`"));
    assert!(!other.path("etc").exists());
}

#[test]
fn an_outdated_definition_is_brought_up_to_date_before_it_is_used() {
    let other = TestMachine::new();
    let env = other.env(&[("USER", "root")]);
    let machine = other.machine(ServiceManagerKind::Systemd, Privilege::Root, &env);
    let output = Console::new();
    let systemd = Systemd::to_install(&machine, &env, &output, ServiceScope::User, None);
    systemd.install(ForceInstall::No).unwrap();
    assert_eq!(
        other.asked(),
        [
            "systemctl --user daemon-reload",
            "systemctl --user enable hermes-gateway",
            "loginctl show-user root --property=Linger --value",
            "loginctl enable-linger root",
            "loginctl show-user root --property=Linger --value",
        ]
    );
    let file = other.path("root/.config/systemd/user/hermes-gateway.service");
    let current = fs::read_to_string(&file).unwrap();
    systemd.install(ForceInstall::No).unwrap();
    assert_eq!(other.asked(), [""; 0], "one that is current is left alone");
    let acts: [&dyn Fn() -> anyhow::Result<ServiceResult>; 2] = [&|| systemd.start(), &|| systemd.restart()];
    for act in acts {
        fs::write(&file, current.replace("RestartSec=30", "RestartSec=3")).unwrap();
        assert_eq!(act().unwrap(), ServiceResult::Done);
        assert_eq!(fs::read_to_string(&file).unwrap(), current);
        let asked = other.asked();
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[0], "systemctl --user daemon-reload");
    }
    systemd.install(ForceInstall::Yes).unwrap();
    assert_eq!(
        other.asked()[..2],
        ["systemctl --user daemon-reload", "systemctl --user enable hermes-gateway"]
    );
}

#[test]
fn of_two_services_the_users_is_meant_unless_the_machines_is_asked_for() {
    let other = TestMachine::new();
    let env = other.env(&[("SUDO_USER", "agent")]);
    let machine = other.machine(ServiceManagerKind::Systemd, Privilege::Root, &env);
    let output = Console::new();
    for scope in [ServiceScope::User, ServiceScope::System] {
        Systemd::to_install(&machine, &env, &output, scope, None).install(ForceInstall::No).unwrap();
    }
    for (scope, line) in [
        (ServiceScope::User, "systemctl --user stop hermes-gateway"),
        (ServiceScope::System, "systemctl stop hermes-gateway"),
    ] {
        other.asked();
        Systemd::installed(&machine, &env, &output, scope).stop().unwrap();
        assert_eq!(other.asked(), [line]);
    }
}

#[test]
fn a_service_that_cannot_be_enabled_is_not_left_behind() {
    let other = TestMachine::new();
    let env = other.env(&[("USER", "root")]);
    let machine = other.machine(ServiceManagerKind::Systemd, Privilege::Root, &env);
    let output = Console::new();
    fs::write(other.path("refuse"), "").unwrap();
    let systemd = Systemd::to_install(&machine, &env, &output, ServiceScope::User, None);
    let error = format!("{:#}", systemd.install(ForceInstall::No).unwrap_err());
    assert!(error.contains("nothing was changed") && error.contains("no bus"), "{error}");
    assert!(!systemd.is_installed());
}

#[test]
fn programs_are_told_where_the_users_manager_listens() {
    let other = TestMachine::new();
    fs::write(other.path("bin/systemctl"), "#!/bin/sh\necho $XDG_RUNTIME_DIR $DBUS_SESSION_BUS_ADDRESS\n")
        .unwrap();
    let said = |pairs: &[(&str, &str)]| {
        let control = ServiceControl::new(&other.env(pairs), &other.path("run")).unwrap();
        control.run("systemctl", &[]).unwrap().text
    };
    let run = other.path("run").display().to_string();
    assert_eq!(said(&[]), format!("{run} unix:path={run}/bus"));
    assert_eq!(said(&[("XDG_RUNTIME_DIR", "/x"), ("DBUS_SESSION_BUS_ADDRESS", "unix:y")]), "/x unix:y");
}

#[test]
fn a_launch_agent_is_loaded_before_it_is_started() {
    let other = TestMachine::new();
    let env = other.env(&[]);
    let machine = other.machine(ServiceManagerKind::Launchd, Privilege::Ordinary, &env);
    let output = Console::new();
    let launchd = Launchd::new(&machine, &env, &output);
    assert_eq!(launchd.start().unwrap(), ServiceResult::NotInstalled);
    launchd.install(ForceInstall::No).unwrap();
    let file = other.path("root/Library/LaunchAgents/ai.hermes.gateway.plist");
    let text = other.text(&file);
    assert!(text.contains("<string>/opt/hermes/bin:"), "{text}");
    launchd.install(ForceInstall::No).unwrap();
    fs::remove_file(other.path("loaded")).unwrap();
    other.asked();
    assert_eq!(launchd.start().unwrap(), ServiceResult::Done);
    let shown = file.to_string_lossy();
    let label = "ai.hermes.gateway";
    assert_eq!(
        other.asked(),
        [
            format!("launchctl start {label}"),
            format!("launchctl load {shown}"),
            format!("launchctl start {label}")
        ]
    );
    assert_eq!(launchd.restart().unwrap(), ServiceResult::Done);
    assert_eq!(other.asked()[..2], [format!("launchctl stop {label}"), format!("launchctl start {label}")]);
    launchd.uninstall().unwrap();
    assert!(!launchd.is_installed());
}
