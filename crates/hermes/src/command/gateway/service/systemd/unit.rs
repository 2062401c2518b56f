//! The text of a systemd unit. Pure.

use std::path::Path;

use anyhow::{Result, bail};

use crate::command::gateway::service::account::UserAccount;

/// The manager that runs the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceScope {
    /// The manager of one user; it ends with the session unless lingering is on.
    User,
    /// The system's manager.
    System,
}

impl ServiceScope {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::System => "System",
        }
    }
}

/// The inputs of a unit.
#[derive(Debug)]
pub(crate) struct SystemdUnit<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) search_path: &'a str,
    /// The account the system's manager runs it as; `None` in the user's manager.
    pub(crate) account: Option<&'a UserAccount>,
}

impl SystemdUnit<'_> {
    pub(crate) fn text(&self) -> Result<String> {
        let (binary, home) = (require_plain_text(self.binary)?, require_plain_text(self.home)?);
        if binary.contains(['"', '\'', '\\']) {
            bail!("systemd starts no program with quotes or backslashes in its path: {binary}");
        }
        let mut lines = vec![
            "[Unit]".to_owned(),
            "Description=Hermes Agent Gateway - Messaging Platform Integration".to_owned(),
        ];
        let mut say = |text: &[&str]| lines.extend(text.iter().map(|line| (*line).to_owned()));
        match self.account {
            None => say(&["After=network.target"]),
            Some(_) => say(&["After=network-online.target", "Wants=network-online.target"]),
        }
        say(&[
            "StartLimitIntervalSec=600",
            "StartLimitBurst=5",
            "",
            "[Service]",
            "Type=simple",
            "NotifyAccess=main",
        ]);
        if let Some(account) = self.account {
            say(&[&format!("User={}", account.name), &format!("Group={}", account.group)]);
        }
        say(&[
            &format!("ExecStart={} gateway run --replace", word(binary)),
            // This value is not split into words, and quotes would become part of it.
            &format!("WorkingDirectory={}", escape_percent(home)),
        ]);
        if let Some(account) = self.account {
            say(&[
                &variable("HOME", require_plain_text(&account.folder)?),
                &variable("USER", &account.name),
                &variable("LOGNAME", &account.name),
            ]);
        }
        say(&[
            &variable("PATH", self.search_path),
            &variable("HERMES_HOME", home),
            "Restart=on-failure",
            "RestartSec=30",
            "RestartPreventExitStatus=78",
            "KillMode=mixed",
            "KillSignal=SIGTERM",
            "TimeoutStopSec=60",
            "StandardOutput=journal",
            "StandardError=journal",
            "",
            "[Install]",
            if self.account.is_none() { "WantedBy=default.target" } else { "WantedBy=multi-user.target" },
        ]);
        Ok(lines.join("\n") + "\n")
    }
}

/// Tells whether two definitions are equivalent.
pub(crate) fn is_equivalent(one: &str, other: &str) -> bool {
    let lines =
        |text: &str| -> Vec<String> { text.trim().lines().map(|line| line.trim().to_owned()).collect() };
    lines(one) == lines(other)
}

/// Returns the value of a setting in a definition.
pub(crate) fn setting<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Returns the `PATH` of a definition.
pub(crate) fn path_in(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim().strip_prefix("Environment=\"PATH=")?.strip_suffix('"'))
}

/// Returns the path as text that a line of a unit can hold.
fn require_plain_text(path: &Path) -> Result<&str> {
    match path.to_str() {
        Some(text) if !text.contains(char::is_control) => Ok(text),
        _ => bail!("{} has characters in its name that a service definition cannot hold", path.display()),
    }
}

fn escape_percent(text: &str) -> String {
    text.replace('%', "%%")
}

fn quote(text: &str) -> String {
    format!("\"{}\"", escape_percent(text).replace('\\', "\\\\").replace('"', "\\\""))
}

fn word(text: &str) -> String {
    let harmless = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(harmless) { text.to_owned() } else { quote(text) }
}

fn variable(name: &str, value: &str) -> String {
    format!("Environment={}", quote(&format!("{name}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit<'a>(binary: &'a str, home: &'a str, account: Option<&'a UserAccount>) -> SystemdUnit<'a> {
        SystemdUnit {
            binary: Path::new(binary),
            home: Path::new(home),
            search_path: "/opt/hermes/bin:/usr/bin:/bin",
            account,
        }
    }

    #[test]
    fn a_user_unit() {
        let text = unit("/opt/hermes/bin/hermes", "/home/u/.hermes", None).text().unwrap();
        insta::assert_snapshot!(text, @r#"
        [Unit]
        Description=Hermes Agent Gateway - Messaging Platform Integration
        After=network.target
        StartLimitIntervalSec=600
        StartLimitBurst=5

        [Service]
        Type=simple
        NotifyAccess=main
        ExecStart=/opt/hermes/bin/hermes gateway run --replace
        WorkingDirectory=/home/u/.hermes
        Environment="PATH=/opt/hermes/bin:/usr/bin:/bin"
        Environment="HERMES_HOME=/home/u/.hermes"
        Restart=on-failure
        RestartSec=30
        RestartPreventExitStatus=78
        KillMode=mixed
        KillSignal=SIGTERM
        TimeoutStopSec=60
        StandardOutput=journal
        StandardError=journal

        [Install]
        WantedBy=default.target
        "#);
    }

    #[test]
    fn a_system_unit() {
        let account = UserAccount {
            name: "agent".to_owned(),
            uid: 7,
            group: "agents".to_owned(),
            folder: "/home/agent".into(),
        };
        let text = unit("/opt/hermes/bin/hermes", "/home/agent/.hermes", Some(&account)).text().unwrap();
        insta::assert_snapshot!(text, @r#"
        [Unit]
        Description=Hermes Agent Gateway - Messaging Platform Integration
        After=network-online.target
        Wants=network-online.target
        StartLimitIntervalSec=600
        StartLimitBurst=5

        [Service]
        Type=simple
        NotifyAccess=main
        User=agent
        Group=agents
        ExecStart=/opt/hermes/bin/hermes gateway run --replace
        WorkingDirectory=/home/agent/.hermes
        Environment="HOME=/home/agent"
        Environment="USER=agent"
        Environment="LOGNAME=agent"
        Environment="PATH=/opt/hermes/bin:/usr/bin:/bin"
        Environment="HERMES_HOME=/home/agent/.hermes"
        Restart=on-failure
        RestartSec=30
        RestartPreventExitStatus=78
        KillMode=mixed
        KillSignal=SIGTERM
        TimeoutStopSec=60
        StandardOutput=journal
        StandardError=journal

        [Install]
        WantedBy=multi-user.target
        "#);
    }

    #[test]
    fn odd_names_are_written_so_that_systemd_reads_them_back() {
        let text = unit("/opt/my own 100%/hermes", "/home/u/a \"b\"%h\\c", None).text().unwrap();
        let telling =
            |name: &str| text.lines().filter(|line| line.contains(name)).collect::<Vec<_>>().join("\n");
        assert_eq!(telling("ExecStart"), r#"ExecStart="/opt/my own 100%%/hermes" gateway run --replace"#);
        assert_eq!(telling("WorkingDirectory"), r#"WorkingDirectory=/home/u/a "b"%%h\c"#);
        assert_eq!(telling("HERMES_HOME"), r#"Environment="HERMES_HOME=/home/u/a \"b\"%%h\\c""#);
        let broken = unit("/opt/hermes", "/home/u/a\nExecStartPre=/bin/evil", None).text();
        assert!(broken.unwrap_err().to_string().contains("cannot hold"));
        let quoted = unit("/opt/my \"own\"/hermes", "/home/u", None).text();
        assert!(quoted.unwrap_err().to_string().contains("quotes"));
    }

    #[test]
    fn definitions_are_compared_by_their_lines() {
        assert!(is_equivalent("[Unit]\nA=1\n", "  [Unit]  \n A=1"));
        assert!(!is_equivalent("[Unit]\nA=1\n", "[Unit]\nA=2\n"));
        assert_eq!(setting("[Service]\nUser=u\n", "User"), Some("u"));
        assert_eq!(path_in("Environment=\"PATH=/a:/b\"\n"), Some("/a:/b"));
    }
}
