//! Setup of the webhook server.

use anyhow::{Result, bail};
use hermes_config::{Config, Env};
use hermes_serve::WebhookSettings;

use super::{SetupDialog, SetupState};
use crate::random;

const SECRET: &str = "WEBHOOK_SECRET";

pub(super) fn state(config: &Config, env: &Env) -> SetupState {
    let is_set = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
    match WebhookSettings::resolve(config, env) {
        Some(settings) if settings.secret.is_some() || !settings.routes.is_empty() => SetupState::Configured,
        Some(_) => SetupState::PartiallyConfigured,
        None if is_set(SECRET) || is_set("WEBHOOK_PORT") => SetupState::PartiallyConfigured,
        None => SetupState::NotConfigured,
    }
}

/// Asks for port and secret, and writes them.
pub(super) fn configure(dialog: &SetupDialog<'_>) -> Result<()> {
    let (config, env) = dialog.read();
    let present = WebhookSettings::resolve(&config, &env);
    let mut said = None;
    for pair in &dialog.arguments.values {
        match pair.split_once('=') {
            Some((SECRET, value)) => said = Some(value.trim().to_owned()),
            _ => bail!("webhooks do not ask for `{pair}`; they ask for: {SECRET}"),
        }
    }
    let now = present.as_ref().map_or(WebhookSettings::PORT, |settings| settings.port);
    let port = dialog.ask_port(now)?.to_string();
    let said = said.or_else(|| dialog.ask("Secret for all routes [keep the present one, or a random one]: "));
    let has_secret = env.get(SECRET).is_some_and(|secret| !secret.is_empty());
    let secret = match said.as_deref() {
        None | Some("") if has_secret => None,
        None | Some("") => Some(random::key()?),
        Some(said) => Some(said.to_owned()),
    };
    let mut values = vec![("WEBHOOK_ENABLED", "true"), ("WEBHOOK_PORT", port.as_str())];
    values.extend(secret.as_deref().map(|secret| (SECRET, secret)));
    dialog.save(&values)?;
    dialog.output.line(&format!(
        "  Events are taken at http://HOST:{port}/webhooks/NAME; `hermes webhook subscribe NAME` adds a route."
    ));
    Ok(())
}
