//! Writing to files that affect more than a project.

use super::RuleFinding::{self, Ask, Deny};
use crate::command::argv::Argv;
use crate::command::path::{SensitivePath, collapse, is_vital, sensitive};

/// Judges a redirection into this file.
pub(in crate::command) fn redirected(target: &str) -> Option<RuleFinding> {
    sensitive(target).map(finding)
}

fn finding(place: SensitivePath) -> RuleFinding {
    match place {
        SensitivePath::BlockDevice => Deny("write to block device"),
        SensitivePath::SystemConfig => Ask("overwrite system config"),
        SensitivePath::SshFolder => Ask("write to the ssh folder"),
        SensitivePath::StartupFile => Ask("change a shell start-up file"),
        SensitivePath::Credentials => Ask("change a credentials file"),
        SensitivePath::HermesFile => Ask("change Hermes' own configuration"),
        SensitivePath::Autostart => Ask("start something with the system"),
    }
}

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    let name = argv.name.as_str();
    match name {
        "tee" => argv.plain().find_map(sensitive).map(|place| match place {
            SensitivePath::BlockDevice => Deny("write to block device"),
            _ => Ask("overwrite system file via tee"),
        }),
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp" => {
            let folder = argv.texts().find_map(|text| text.strip_prefix("--target-directory="));
            let after_t = argv.texts().skip_while(|text| *text != "-t").nth(1);
            let target = folder.or(after_t).or_else(|| argv.plain().last())?;
            let remote = matches!(name, "scp" | "rsync").then(|| target.split_once(':')).flatten();
            let target = remote.map_or(target, |(_, path)| path);
            if name == "mv" && argv.plain().any(is_vital) && !is_vital(target) {
                return Some(Ask("move the system or a home folder"));
            }
            let moved = (name == "mv").then(|| argv.plain().find_map(sensitive)).flatten();
            sensitive(target).or(moved).map(finding)
        }
        "sed" | "perl" | "ruby" | "gawk" | "yq" if in_place(argv) => {
            argv.plain().find_map(sensitive).map(finding)
        }
        "truncate" | "touch" | "unlink" | "rm" | "vipe" | "sponge" => {
            let place = argv.plain().find_map(sensitive)?;
            (name != "touch" || place != SensitivePath::SystemConfig).then(|| finding(place))
        }
        "curl" | "wget" => {
            let mut texts = argv.texts();
            let into = texts
                .find(|text| matches!(*text, "-o" | "-O" | "--output" | "--output-document"))
                .and_then(|_| texts.next());
            sensitive(into?).map(finding)
        }
        "tar" | "bsdtar" | "unzip" | "7z" => unpacked(argv),
        _ => None,
    }
}

/// Judges an archive that is unpacked over the system.
fn unpacked(argv: &Argv<'_>) -> Option<RuleFinding> {
    let mut texts = argv.texts();
    let into = texts.find(|text| matches!(*text, "-C" | "--directory" | "-d")).and_then(|_| texts.next());
    let into = into.or_else(|| argv.texts().find_map(|text| text.strip_prefix("--directory=")))?;
    let unpacks = argv.name == "unzip"
        || argv.has_long("--extract")
        || argv.has_letter('x')
        || argv.texts().next().is_some_and(|first| first.contains('x'));
    // Unpacking into a home folder is allowed.
    if unpacks && is_vital(into) && collapse(into) != "~" {
        return Some(Ask("overwrite system files"));
    }
    sensitive(into).map(finding)
}

/// Detects `-i`, alone, with a suffix, or among other letters as in `-pi`.
fn in_place(argv: &Argv<'_>) -> bool {
    argv.has_long("--in-place")
        || argv.texts().take_while(|text| *text != "--").any(|text| {
            text.strip_prefix('-').is_some_and(|letters| {
                letters.starts_with('i')
                    || letters.len() <= 4 && !letters.starts_with('-') && letters.contains('i')
            })
        })
}
