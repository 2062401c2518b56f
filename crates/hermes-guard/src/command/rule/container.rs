//! Containers: those with access to the machine, and data that is lost with them.

use super::RuleFinding::{self, Ask};
use crate::command::argv::Argv;
use crate::command::path::{collapse, is_vital};
use crate::command::unwrap::container_verb;

const POWER: RuleFinding = Ask("container with power over the machine");
const CAPABILITIES: &[&str] =
    &["ALL", "SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE", "DAC_READ_SEARCH", "SYS_RAWIO"];

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    let composed = match argv.name.as_str() {
        "docker" | "podman" | "nerdctl" => argv.has("compose"),
        "docker-compose" | "podman-compose" => true,
        _ => return None,
    };
    let (verb, behind) = container_verb(argv.args);
    let next = behind.first().map(|word| word.text.as_str()).unwrap_or_default();
    match (verb, next) {
        ("run" | "create", _) => exposes_host(argv).then_some(POWER),
        (verb, _) if composed => matches!(verb, "restart" | "stop" | "kill" | "down" | "rm")
            .then_some(Ask("docker compose restart/stop/kill/down")),
        ("restart" | "stop" | "kill", _) => Some(Ask("docker restart/stop/kill")),
        ("rm", _) if argv.has_letter('f') || argv.has_long("--force") => {
            Some(Ask("docker restart/stop/kill"))
        }
        ("system" | "volume" | "image" | "builder", "prune") | ("volume", "rm") | ("prune", _) => {
            Some(Ask("delete docker data"))
        }
        _ => None,
    }
}

fn exposes_host(argv: &Argv<'_>) -> bool {
    let mut texts = argv.texts().peekable();
    while let Some(text) = texts.next() {
        let next = texts.peek().copied().unwrap_or_default();
        let (option, value) = text.split_once('=').unwrap_or((text, next));
        let found = match option {
            "--privileged" => value != "false",
            "--pid" | "--userns" | "--ipc" | "--uts" => value == "host",
            "--cap-add" => CAPABILITIES.contains(&value.trim_start_matches("CAP_")),
            "--device" => value.starts_with("/dev/sd") || value.starts_with("/dev/nvme"),
            "-v" | "--volume" => is_power(value.split(':').next().unwrap_or_default()),
            "--mount" => {
                let parts = text.split_once('=').map_or(next, |(_, value)| value);
                parts
                    .split(',')
                    .filter_map(|part| part.split_once('='))
                    .any(|(name, value)| matches!(name, "source" | "src") && is_power(value))
            }
            _ => option
                .strip_prefix("-v")
                .is_some_and(|joined| is_power(joined.split(':').next().unwrap_or_default())),
        };
        if found {
            return true;
        }
    }
    false
}

/// Tells whether mounting a path gives a container control of the machine. A home folder is often mounted, and is
/// the user's own.
fn is_power(path: &str) -> bool {
    path.ends_with("docker.sock")
        || path.ends_with("containerd.sock")
        || is_vital(path) && collapse(path) != "~"
}
