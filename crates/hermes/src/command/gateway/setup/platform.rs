//! Setup of a chat platform, with the questions of its table.

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::{Context as _, Result, bail};
use hermes_channels::{Options, Platform, PlatformVariable, VariableKind};
use hermes_config::{Config, Env};
use hermes_types::{PlatformTrait, platform_has};

use super::{SetupDialog, SetupState};
use crate::output::Confirmation;
use crate::wiring::channels::{SettingsProblem, options};

pub(super) fn state(platform: &Platform, config: &Config, env: &Env) -> SetupState {
    let present = options(platform, config, env);
    if platform.is_configured(&present) {
        let switch = format!("{}_ENCRYPTION", platform.name.to_uppercase());
        return if present.flag(&switch, false) { SetupState::Encrypted } else { SetupState::Configured };
    }
    let any = platform.variables.iter().any(|variable| present.text(variable.name).is_some());
    if any { SetupState::PartiallyConfigured } else { SetupState::NotConfigured }
}

/// Asks for the values that no flag gives, and writes the answers.
pub(super) fn configure(dialog: &SetupDialog<'_>, platform: &Platform) -> Result<()> {
    let mut given = values_from_flags(dialog, platform)?;
    let (config, env) = dialog.read();
    let present = options(platform, &config, &env);
    if !dialog.arguments.yes {
        dialog.output.line(&format!("\n{}\n{}\n", platform.label(), platform.guide.trim_end()));
    }
    let mut values: Vec<(&str, String)> = Vec::new();
    for variable in platform.variables {
        let has = present.text(variable.name);
        let said = match given.remove(variable.name) {
            Some(value) => Some(value),
            None if is_home(platform, variable) && has.is_none() => {
                offer_home(dialog, platform, &values, &present).or_else(|| ask(dialog, variable, has))
            }
            None => ask(dialog, variable, has),
        };
        match said.filter(|value| !value.is_empty()) {
            Some(value) => values.push((variable.name, value)),
            None if has.is_none()
                && variable.kind != VariableKind::Optional
                && !is_replaced(platform, variable, &values, &present) =>
            {
                bail!("{} needs {}; nothing was changed", platform.label(), variable.name);
            }
            None => {}
        }
    }
    let written: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if !written.is_empty() {
        if !is_accepted(dialog, platform, &written)? {
            dialog.output.line("Nothing was changed.");
            return Ok(());
        }
        dialog.save(&written)?;
    }
    ask_who_gets_in(dialog, platform)?;
    let (config, env) = dialog.read();
    explain_access(dialog, platform, &options(platform, &config, &env));
    Ok(())
}

/// Checks the values before they are stored. Tells whether to store them; without a terminal, wrong ones are an error.
fn is_accepted(dialog: &SetupDialog<'_>, platform: &Platform, values: &[(&str, &str)]) -> Result<bool> {
    let given = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let (config, env) = dialog.read();
    let options = options(platform, &config, &env.with_variables(given));
    match dialog.check(platform, &options)? {
        Ok(()) => Ok(true),
        Err(SettingsProblem::Unchecked(why)) => {
            dialog
                .output
                .line(&format!("  {} could not be asked whether this is right: {why}", platform.label()));
            Ok(true)
        }
        Err(SettingsProblem::Invalid(why)) if dialog.arguments.yes || !dialog.output.can_ask() => {
            bail!("{why}; nothing was changed (`--no-check` stores it all the same)")
        }
        Err(SettingsProblem::Invalid(why)) => {
            dialog.output.error(&why);
            Ok(dialog.output.confirm("Store it all the same?") == Confirmation::Yes)
        }
    }
}

/// Returns the values given by flags. A name the platform does not have is an error.
fn values_from_flags<'a>(
    dialog: &'a SetupDialog<'_>,
    platform: &Platform,
) -> Result<BTreeMap<&'a str, String>> {
    let mut given = BTreeMap::new();
    for pair in &dialog.arguments.values {
        let (name, value) = pair.split_once('=').with_context(|| format!("`{pair}`: write NAME=VALUE"))?;
        if !platform.variables.iter().any(|variable| variable.name == name) {
            let names: Vec<&str> = platform.variables.iter().map(|variable| variable.name).collect();
            bail!("{} does not ask for `{name}`; it asks for: {}", platform.label(), names.join(", "));
        }
        let value = if value == "-" { read_from_stdin(name)? } else { value.trim().to_owned() };
        if value.contains(['\n', '\r']) {
            bail!("{name} must be one line");
        }
        given.insert(name, value);
    }
    Ok(given)
}

/// Reads a value from standard input, so that it does not appear in the process list.
fn read_from_stdin(name: &str) -> Result<String> {
    let mut text = String::new();
    let input = std::io::stdin().take(64 * 1024).read_to_string(&mut text);
    input.with_context(|| format!("{name} could not be read from standard input"))?;
    Ok(text.trim().to_owned())
}

fn ask(dialog: &SetupDialog<'_>, variable: &PlatformVariable, has: Option<&str>) -> Option<String> {
    if dialog.arguments.yes {
        return None;
    }
    let now = match (variable.kind, has) {
        (VariableKind::RequiredSecret | VariableKind::SecretUnless(_), Some(_)) => {
            "[keep the present one]".to_owned()
        }
        (_, Some(value)) => format!("[{value}]"),
        (VariableKind::Optional | VariableKind::SecretUnless(_), None) => "[none]".to_owned(),
        (_, None) => "(needed)".to_owned(),
    };
    let question = format!("{} {now}: ", variable.prompt);
    let said = match variable.kind {
        VariableKind::RequiredSecret | VariableKind::SecretUnless(_) => dialog.output.ask_secret(&question),
        _ => dialog.output.ask(&question),
    };
    said.map(|said| said.trim().to_owned())
}

/// Tells whether a variable is not needed, because the one that can take its place is set or will still be asked for.
fn is_replaced(
    platform: &Platform,
    variable: &PlatformVariable,
    given: &[(&str, String)],
    present: &Options,
) -> bool {
    let VariableKind::SecretUnless(other) = variable.kind else { return false };
    let order = |name: &str| platform.variables.iter().position(|variable| variable.name == name);
    order(other) > order(variable.name)
        || present.text(other).is_some()
        || given.iter().any(|(name, value)| *name == other && !value.is_empty())
}

fn is_home(platform: &Platform, variable: &PlatformVariable) -> bool {
    variable.name == format!("{}_HOME_CHANNEL", platform.name.to_uppercase())
}

/// Offers the first allowed user's chat as home channel, where a user's id is also the id of the direct chat.
fn offer_home(
    dialog: &SetupDialog<'_>,
    platform: &Platform,
    values: &[(&str, String)],
    present: &Options,
) -> Option<String> {
    if !platform.person_is_chat {
        return None;
    }
    let allowed = format!("{}_ALLOWED_USERS", platform.name.to_uppercase());
    let said = values.iter().find(|(name, _)| *name == allowed).map(|(_, value)| value.as_str());
    let first =
        hermes_config::env::split_list(said.or_else(|| present.text(&allowed))?).into_iter().next()?;
    let is_id = first.bytes().all(|byte| byte.is_ascii_digit());
    let question = format!("Use {first}, the first allowed id, as home channel? [Y/n] ");
    let said = dialog.ask(&question).filter(|_| is_id)?;
    matches!(said.to_lowercase().as_str(), "" | "y" | "yes").then_some(first)
}

/// Asks who may use the bot when no user is named: everybody, paired users, or nobody for now.
fn ask_who_gets_in(dialog: &SetupDialog<'_>, platform: &Platform) -> Result<()> {
    if platform_has(platform.name, PlatformTrait::ExternalEvents) {
        return Ok(());
    }
    let (config, env) = dialog.read();
    let now = options(platform, &config, &env);
    let upper = platform.name.to_uppercase();
    let settled = now.flag(&format!("{upper}_ALLOW_ALL_USERS"), false)
        || env.bool("GATEWAY_ALLOW_ALL_USERS").unwrap_or(false)
        || !now.list(&format!("{upper}_ALLOWED_USERS")).is_empty();
    if settled {
        return Ok(());
    }
    let question = "Nobody is named. Who may talk to the agent?\n  open  everybody, on every platform\n  pair  whoever you \
                    approve with a pairing code\n  skip  decide later\nChoose open, pair or skip [pair]: ";
    while let Some(said) = dialog.ask(question) {
        match said.to_lowercase().as_str() {
            "open" | "o" | "1" => return dialog.save(&[("GATEWAY_ALLOW_ALL_USERS", "true")]),
            "" | "pair" | "p" | "2" | "skip" | "s" | "3" => return Ok(()),
            other => dialog.output.line(&format!("  `{other}` is none of them.")),
        }
    }
    Ok(())
}

fn explain_access(dialog: &SetupDialog<'_>, platform: &Platform, now: &Options) {
    if platform_has(platform.name, PlatformTrait::ExternalEvents) {
        return dialog.output.line("  Its events are data for the agent; nobody needs to be allowed.");
    }
    let upper = platform.name.to_uppercase();
    let (_, env) = dialog.read();
    let everywhere = env.bool("GATEWAY_ALLOW_ALL_USERS").unwrap_or(false);
    let listed = !now.list(&format!("{upper}_ALLOWED_USERS")).is_empty();
    let open = now.flag(&format!("{upper}_ALLOW_ALL_USERS"), false);
    if everywhere && !listed && !open {
        return dialog.output.line("  Everybody may talk to the agent (GATEWAY_ALLOW_ALL_USERS).");
    }
    dialog.output.line(&match (open, listed) {
        (true, _) => format!("  Everybody on {} may talk to the agent ({upper}_ALLOW_ALL_USERS).", platform.label()),
        (false, true) => format!("  Those in {upper}_ALLOWED_USERS may talk to the agent; others get a pairing code."),
        (false, false) => format!(
            "  No users are allowed yet. Unknown users get a code; `hermes pairing approve {} CODE` allows them.",
            platform.name
        ),
    });
}
