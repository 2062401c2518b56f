//! Users, packages, and autostart.

use super::RuleFinding::{self, Ask};
use crate::command::argv::Argv;

const RIGHTS: &str = "change users or their rights";

/// Groups whose members have full control of the machine.
const POWERFUL: &[&str] =
    &["sudo", "wheel", "admin", "root", "docker", "lxd", "adm", "disk", "shadow", "libvirt"];

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    if argv.asks_for_help() {
        return None;
    }
    match argv.name.as_str() {
        "userdel" | "deluser" | "groupdel" => Some(Ask("delete a user")),
        "chpasswd" | "visudo" | "vipw" => Some(Ask(RIGHTS)),
        "passwd" if argv.texts().any(|text| text.starts_with('-') && text != "-S") => Some(Ask(RIGHTS)),
        "usermod" | "useradd" | "gpasswd" | "adduser" | "addgroup" | "groupmems" => grants(argv),
        "setcap" => Some(Ask("run as another user (set-uid)")),
        "crontab" => crontab(argv),
        "apt" | "apt-get" | "aptitude" | "dnf" | "yum" | "pacman" | "zypper" | "apk" | "dpkg" | "rpm" => {
            packages(argv)
        }
        _ => None,
    }
}

fn grants(argv: &Argv<'_>) -> Option<RuleFinding> {
    let groups = argv.texts().flat_map(|text| text.split([',', '=']));
    let powerful = groups.into_iter().any(|group| POWERFUL.contains(&group));
    let pairs = argv.texts().zip(argv.texts().skip(1));
    let as_root =
        argv.has("--uid=0") || pairs.into_iter().any(|pair| matches!(pair, ("-u" | "-g" | "--uid", "0")));
    (powerful || as_root).then_some(Ask(RIGHTS))
}

fn crontab(argv: &Argv<'_>) -> Option<RuleFinding> {
    if argv.has("-r") {
        return Some(Ask("delete all cron jobs"));
    }
    let mut texts = argv.texts();
    let mut file = None;
    while let Some(text) = texts.next() {
        match text {
            "-l" | "-e" | "-T" => return None,
            "-u" => {
                texts.next();
            }
            text => file = Some(text),
        }
    }
    // Without a file it reads its input.
    (file.is_some() || argv.args.is_empty()).then_some(Ask("change the cron jobs"))
}

/// Detects removing all packages that match a pattern; removing single ones is allowed.
fn packages(argv: &Argv<'_>) -> Option<RuleFinding> {
    let removes = argv.texts().any(|text| {
        matches!(text, "remove" | "purge" | "erase" | "autopurge" | "del" | "--purge" | "--remove" | "-e")
            || argv.name == "pacman" && text.starts_with("-R")
    });
    let many = argv.args.iter().any(|word| word.text.contains('*') || word.text.contains("$("));
    (removes && many).then_some(Ask("remove system packages"))
}
