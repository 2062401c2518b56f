//! Rejects prompts that must not be scheduled, because no user watches what a scheduled run does.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::error::{Error, Result};

const SECRET_VARIABLE: &str = r"\s[^\n]*\$\{?\w*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)";

/// The patterns that are searched for, in this order, each with its name.
const PATTERNS: [(&str, &str); 10] = [
    ("prompt_injection", r"ignore\s+(?:\w+\s+)*(?:previous|all|above|prior)\s+(?:\w+\s+)*instructions"),
    ("deception_hide", r"do\s+not\s+tell\s+the\s+user"),
    ("sys_prompt_override", r"system\s+prompt\s+override"),
    ("disregard_rules", r"disregard\s+(?:your|all|any)\s+(?:instructions|rules|guidelines)"),
    ("exfil_curl", "curl"),
    ("exfil_wget", "wget"),
    ("read_secrets", r"cat\s[^\n]*(?:\.env|credentials|\.netrc|\.pgpass)"),
    ("ssh_backdoor", "authorized_keys"),
    ("sudoers_mod", r"/etc/sudoers|visudo"),
    ("destructive_root_rm", r"rm\s+-rf\s+/"),
];

/// The pattern for gateway restarts: the restarted gateway would run the job that restarts it again.
const GATEWAY: (&str, &str) = (
    "gateway_lifecycle",
    r"hermes\s+gateway\s+(?:restart|stop)|(?:systemctl|launchctl)\s[^\n]*hermes[-_.]?gateway|pkill\s[^\n]*hermes",
);

static COMPILED: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let compile = |(id, pattern): (&'static str, &str)| {
        let pattern = match id {
            "exfil_curl" | "exfil_wget" => format!("{pattern}{SECRET_VARIABLE}"),
            _ => pattern.to_owned(),
        };
        RegexBuilder::new(&pattern).case_insensitive(true).build().ok().map(|regex| (id, regex))
    };
    PATTERNS.into_iter().chain([GATEWAY]).filter_map(compile).collect()
});

/// Rejects a prompt that must not be scheduled.
pub fn screen(prompt: &str) -> Result<()> {
    if let Some(hidden) = invisible(prompt) {
        let code = u32::from(hidden);
        return Err(Error::Blocked(format!(
            "Blocked: prompt contains invisible unicode U+{code:04X} (possible injection)."
        )));
    }
    let found = COMPILED.iter().find(|(_, pattern)| pattern.is_match(prompt));
    found.map_or(Ok(()), |(id, _)| {
        Err(Error::Blocked(format!(
            "Blocked: prompt matches threat pattern '{id}'. Prompts of scheduled jobs must not contain injection or exfiltration payloads."
        )))
    })
}

/// Rejects a script that stops the gateway that runs it.
pub(crate) fn screen_script(text: &str) -> Result<()> {
    let stops = COMPILED.iter().any(|(id, pattern)| *id == GATEWAY.0 && pattern.is_match(text));
    if !stops {
        return Ok(());
    }
    Err(Error::Blocked(format!(
        "Blocked: the script matches '{}'. A job must not stop or restart the gateway that runs it.",
        GATEWAY.0
    )))
}

fn invisible(prompt: &str) -> Option<char> {
    let chars: Vec<char> = prompt.chars().collect();
    chars.iter().enumerate().find_map(|(at, c)| {
        let hidden = matches!(
            c,
            '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2062}'..='\u{2064}' | '\u{2066}'..='\u{2069}'
        );
        (hidden && !joins_emoji(&chars, at)).then_some(*c)
    })
}

/// Tells whether a zero-width joiner is between two emoji, where it is legitimate.
fn joins_emoji(chars: &[char], at: usize) -> bool {
    let picture = |at: Option<usize>| {
        at.and_then(|at| chars.get(at))
            .is_some_and(|c| matches!(c, '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}'))
    };
    chars.get(at) == Some(&'\u{200d}') && picture(at.checked_sub(1)) && picture(at.checked_add(1))
}
