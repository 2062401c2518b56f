//! Permissions, disks, services, the machine itself.

use super::RuleFinding::{self, Ask, Deny};
use super::redirected;
use crate::command::argv::Argv;
use crate::command::path::{is_block_device, is_system_folder, is_temporary, is_vital};
use crate::command::unwrap::InvocationKind;

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    let name = argv.name.as_str();
    match name {
        "chmod" => chmod(argv),
        "chown" | "chgrp" => chown(argv),
        "dd" => dd(argv),
        "nvme" if matches!(argv.word(0), "format" | "sanitize" | "write-zeroes" | "delete-ns") => {
            Some(Ask("change disks or partitions"))
        }
        "hdparm" if argv.texts().any(|text| text.starts_with("--security") || text.starts_with("--trim")) => {
            Some(Ask("change disks or partitions"))
        }
        "umount" if argv.has_letter('a') || argv.has("--all") || argv.plain().any(is_system_folder) => {
            Some(Ask("change disks or partitions"))
        }
        "kexec" if argv.has_letter('e') || argv.has("--exec") => Some(Ask("shut the machine down")),
        "fdisk" | "sfdisk" | "sgdisk" | "parted" | "wipefs" | "blkdiscard" | "mkswap" | "cryptsetup"
        | "lvremove" | "vgremove" | "pvremove" | "zpool" | "diskutil"
            if !argv.asks_for_help()
                && !argv
                    .texts()
                    .any(|text| matches!(text, "-l" | "--list" | "print" | "status" | "list")) =>
        {
            Some(Ask("change disks or partitions"))
        }
        _ if name == "mkfs" || name.starts_with("mkfs.") || name == "mke2fs" => {
            (!argv.asks_for_help()).then_some(Deny("format filesystem"))
        }
        "shutdown" | "reboot" | "halt" | "poweroff" => {
            let cancels = argv.has("-c") || argv.asks_for_help();
            (!cancels).then_some(shut_down(argv))
        }
        "init" | "telinit" if matches!(argv.word(0), "0" | "6") => Some(shut_down(argv)),
        "systemctl" => systemctl(argv),
        "rc-service" if matches!(argv.word(1), "stop" | "restart") => {
            Some(Ask("stop/disable system service"))
        }
        "service" if matches!(argv.word(1), "stop" | "restart") => Some(Ask("stop/disable system service")),
        "launchctl" if matches!(argv.word(0), "load" | "bootstrap" | "enable" | "submit") => {
            Some(Ask("start something with the system"))
        }
        "launchctl"
            if matches!(argv.word(0), "unload" | "bootout" | "stop" | "remove" | "kickstart" | "disable") =>
        {
            Some(Ask("stop/disable system service"))
        }
        "sudo" | "doas" => sudo(argv),
        "iptables" | "ip6tables" | "nft" if argv.has("-F") || argv.has("flush") => {
            Some(Ask("change the firewall"))
        }
        "ufw" if matches!(argv.word(0), "disable" | "reset") => Some(Ask("change the firewall")),
        "powershell" | "pwsh" if argv.texts().any(|text| text.to_lowercase().starts_with("-enc")) => {
            Some(Ask("encoded PowerShell command"))
        }
        _ => None,
    }
}

/// Judges copies from and to disks. Writing a plain file is common; an unknown target needs approval.
fn dd(argv: &Argv<'_>) -> Option<RuleFinding> {
    let value = |name: &str| argv.texts().find_map(|text| text.strip_prefix(name));
    let target = value("of=");
    if target.is_some_and(is_block_device) {
        return Some(Deny("write to block device"));
    }
    if let Some(finding) = target.and_then(redirected) {
        return Some(finding);
    }
    let source = value("if=")?;
    let plain = |target: &str| {
        !target.contains('$') && (!target.starts_with('/') || is_temporary(target) || target == "/dev/null")
    };
    // Without a target it prints.
    let harmless = !is_block_device(source) && !source.contains('$') && target.is_none_or(plain);
    (!harmless).then_some(Ask("disk copy"))
}

/// Denies shutting down this machine; another one needs approval.
fn shut_down(argv: &Argv<'_>) -> RuleFinding {
    const KEY: &str = "shut the machine down";
    if argv.via == InvocationKind::Remote { Ask(KEY) } else { Deny(KEY) }
}

fn chmod(argv: &Argv<'_>) -> Option<RuleFinding> {
    let mode = argv.word(0);
    let octal = mode.trim_start_matches('0');
    let all = matches!(octal, "777" | "666")
        || mode.split(',').any(|part| {
            let (who, what) = part.split_once(['+', '=']).unwrap_or_default();
            what.contains('w')
                && (who.is_empty() && part.contains('=') || who.contains('o') || who.contains('a'))
        });
    let open = all || octal.len() == 4 && octal.ends_with("777");
    if open && argv.has_long("--recursive") {
        return Some(Ask("recursive world-writable (long flag)"));
    }
    if open {
        return Some(Ask("world-writable permissions"));
    }
    if sets_uid(mode) {
        return Some(Ask("run as another user (set-uid)"));
    }
    let recursive = argv.has_letter('R') || argv.has_long("--recursive");
    let vital = |path: &str| is_system_folder(path) || is_vital(path);
    (recursive && argv.plain().skip(1).any(vital)).then_some(Ask("change permissions of system folders"))
}

/// Tells whether a mode (`u+s`, `4755`) lets a program run as its owner.
fn sets_uid(mode: &str) -> bool {
    let octal = mode.len() >= 4 && mode.chars().all(|c| c.is_digit(8));
    let special = mode.chars().rev().nth(3).filter(|_| octal).and_then(|c| c.to_digit(8)).unwrap_or(0);
    special >= 4
        || mode.split(',').any(|part| {
            let (who, what) = part.split_once(['+', '=']).unwrap_or_default();
            what.contains('s') && part.contains(['+', '=']) && !who.starts_with('g')
        })
}

fn chown(argv: &Argv<'_>) -> Option<RuleFinding> {
    let to_root = argv.word(0).split([':', '.']).next().is_some_and(|owner| owner == "root" || owner == "0");
    if argv.has_long("--recursive") && to_root {
        return Some(Ask("recursive chown to root (long flag)"));
    }
    if argv.has_letter('R') && to_root {
        return Some(Ask("recursive chown to root"));
    }
    let recursive = argv.has_letter('R') || argv.has_long("--recursive");
    (recursive && argv.plain().skip(1).any(is_system_folder))
        .then_some(Ask("change permissions of system folders"))
}

fn systemctl(argv: &Argv<'_>) -> Option<RuleFinding> {
    match argv.word(0) {
        "poweroff" | "reboot" | "halt" | "kexec" | "soft-reboot" => Some(shut_down(argv)),
        "stop" | "disable" | "mask" | "restart" | "kill" | "isolate" => {
            Some(Ask("stop/disable system service"))
        }
        "enable" | "reenable" | "link" | "set-default" => Some(Ask("start something with the system")),
        _ => None,
    }
}

/// Judges sudo's own options; what it runs is judged separately.
fn sudo(argv: &Argv<'_>) -> Option<RuleFinding> {
    let mut own = argv.texts().take_while(|text| text.starts_with('-') && *text != "--");
    own.find_map(|text| match text {
        "--stdin" => Some(Deny("password given to sudo")),
        "--askpass" | "--shell" | "--login" => Some(Ask("root shell or askpass")),
        _ if text.starts_with("--") => None,
        _ if text.contains('S') => Some(Deny("password given to sudo")),
        _ if text.contains(['A', 's', 'i']) => Some(Ask("root shell or askpass")),
        _ => None,
    })
    .or_else(|| (argv.word(0) == "su").then_some(Ask("root shell or askpass")))
}
