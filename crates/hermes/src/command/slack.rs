//! `hermes slack manifest`: what a Slack app must be like for this gateway.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_config::write;
use hermes_gateway::slash::{self, CommandSurface};
use serde_json::{Value, json};

use crate::cli::SlackCommand;
use crate::context::ProgramContext;
use crate::output::Console;

/// Slack accepts at most this many commands in a manifest.
const MAX_COMMANDS: usize = 50;
/// The permissions of the bot. The setup page of the guide lists the same.
const SCOPES: [&str; 14] = [
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "im:history",
    "im:read",
    "im:write",
    "reactions:write",
    "users:read",
];
const EVENTS: [&str; 4] = ["app_mention", "message.channels", "message.groups", "message.im"];
/// The lengths that Slack accepts for a long description.
const LONG_DESCRIPTION: std::ops::RangeInclusive<usize> = 175..=4000;

pub(crate) fn run(command: SlackCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let SlackCommand::Manifest {
        write: target,
        name,
        description,
        long_description,
        long_description_file,
        slashes_only,
    } = command;
    let long = match long_description_file {
        Some(file) => {
            let text =
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            Some(text)
        }
        None => long_description,
    };
    if let Some(length) = long.as_ref().map(|text| text.chars().count())
        && !LONG_DESCRIPTION.contains(&length)
    {
        bail!("the long description has {length} characters; Slack accepts 175 to 4,000");
    }
    let manifest =
        if slashes_only { slash_commands() } else { manifest(&name, &description, long.as_deref()) };
    let text = format!("{}\n", serde_json::to_string_pretty(&manifest)?);
    let Some(target) = target else {
        output.text(&text);
        return Ok(ExitCode::SUCCESS);
    };
    let target = target.unwrap_or_else(|| context.home.join("slack-manifest.json"));
    write::write_output(&target, text.as_bytes())?;
    output.line(&format!("✓ Manifest written to {}", target.display()));
    output.line(
        "  In the settings of the app at api.slack.com/apps: App Manifest, paste it, save, install again.",
    );
    Ok(ExitCode::SUCCESS)
}

fn manifest(name: &str, description: &str, long: Option<&str>) -> Value {
    let mut display = json!({"name": name, "description": description, "background_color": "#1a1a2e"});
    if let (Some(long), Some(display)) = (long, display.as_object_mut()) {
        display.insert("long_description".to_owned(), json!(long));
    }
    json!({
        "display_information": display,
        "features": {
            "app_home": {
                "home_tab_enabled": false,
                "messages_tab_enabled": true,
                "messages_tab_read_only_enabled": false,
            },
            "bot_user": {"display_name": name, "always_online": true},
            "slash_commands": slash_commands(),
        },
        "oauth_config": {"scopes": {"bot": SCOPES}},
        "settings": {
            "event_subscriptions": {"bot_events": EVENTS},
            "interactivity": {"is_enabled": true},
            "org_deploy_enabled": false,
            "socket_mode_enabled": true,
            "token_rotation_enabled": false,
        },
    })
}

/// Returns `/hermes` and the commands of chats.
fn slash_commands() -> Value {
    let entry = |name: &str, description: &str, hint: &str| {
        let mut entry =
            json!({"command": format!("/{name}"), "description": description, "should_escape": false});
        if let Some(entry) = entry.as_object_mut().filter(|_| !hint.is_empty()) {
            entry.insert("usage_hint".to_owned(), json!(hint));
        }
        entry
    };
    let own = entry("hermes", "Ask Hermes, or run one of its commands", "[question or command]");
    let others = slash::commands(CommandSurface::Chat)
        .map(|command| entry(command.name, command.description, command.arguments));
    std::iter::once(own).chain(others).take(MAX_COMMANDS).collect()
}
