//! Setup of the API server.

use anyhow::Result;
use hermes_config::{Config, Env};
use hermes_serve::ServerSettings;

use super::{SetupDialog, SetupState};
use crate::random;

pub(super) fn state(config: &Config, env: &Env) -> SetupState {
    match ServerSettings::resolve(config, env) {
        Some(server) if server.check().is_ok() => SetupState::Configured,
        Some(_) => SetupState::PartiallyConfigured,
        None => SetupState::NotConfigured,
    }
}

pub(super) fn configure(dialog: &SetupDialog<'_>) -> Result<()> {
    let env = &dialog.context.env;
    let present = ServerSettings::resolve(&Config::load(&dialog.context.home, env), env);
    let now = present.as_ref().map_or(ServerSettings::PORT, |server| server.port);
    let port = dialog.arguments.port.map_or_else(|| dialog.ask_port(now), Ok)?.to_string();
    let said = match &dialog.arguments.key {
        Some(key) => key.trim().to_owned(),
        None => {
            dialog.ask("Key callers must send [keep the present one, or a random one]: ").unwrap_or_default()
        }
    };
    let has_key = present.is_some_and(|server| server.key.is_some());
    let key = match said.as_str() {
        "" if has_key => None,
        "" => Some(random::key()?),
        said => Some(said.to_owned()),
    };
    let mut values = vec![("API_SERVER_ENABLED", "true"), ("API_SERVER_PORT", &port)];
    values.extend(key.as_deref().map(|key| ("API_SERVER_KEY", key)));
    dialog.save(&values)?;
    dialog
        .output
        .line(&format!("  The API is at http://127.0.0.1:{port}/v1; callers send the key API_SERVER_KEY."));
    Ok(())
}
