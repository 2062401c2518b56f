//! How the agent works: how long a turn may be, what is shown, when chats begin anew.

use anyhow::{Result, bail};
use hermes_config::yaml::YamlValue;

use super::SetupWizard;

const PROGRESS: [(&str, &str); 4] = [
    ("all", "every tool call"),
    ("new", "a line when the tool changes"),
    ("verbose", "arguments and results too"),
    ("off", "nothing"),
];

const RESETS: [(&str, &str); 4] = [
    ("both", "after a day without messages, and every morning"),
    ("idle", "after a day without messages"),
    ("daily", "every morning"),
    ("none", "never"),
];

pub(super) fn ask(wizard: &mut SetupWizard<'_>) -> Result<()> {
    let flags = wizard.arguments;
    if wizard.asks() || flags.max_turns.is_some() {
        let now = wizard.config.count("agent.max_turns") as u64;
        let turns = wizard.number(flags.max_turns, "Model calls per turn at most", now, 1..=10_000)?;
        wizard.set("agent.max_turns", YamlValue::Int(i128::from(turns)));
    }
    choice(
        wizard,
        "display.tool_progress",
        flags.tool_progress.as_deref(),
        "What is shown of tool calls?",
        &PROGRESS,
    )?;
    choice(
        wizard,
        "session_reset.mode",
        flags.session_reset.as_deref(),
        "When does a chat begin a new session?",
        &RESETS,
    )
}

fn choice(
    wizard: &mut SetupWizard<'_>,
    key: &str,
    flag: Option<&str>,
    question: &str,
    choices: &[(&str, &str)],
) -> Result<()> {
    let value = match flag {
        Some(value) if choices.iter().any(|(name, _)| *name == value) => value.to_owned(),
        Some(value) => {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            bail!("`{value}` is none of {}", names.join(", "))
        }
        None if !wizard.asks() => return Ok(()),
        None => {
            let now = wizard.config.text(key);
            let rows: Vec<String> =
                choices.iter().map(|(name, about)| format!("{name:<8} {about}")).collect();
            let first = choices.iter().position(|(name, _)| *name == now).unwrap_or(0);
            let at = wizard.choose(question, &rows, first)?;
            choices.get(at).map_or(now, |(name, _)| (*name).to_owned())
        }
    };
    wizard.set_text(key, &value);
    Ok(())
}
