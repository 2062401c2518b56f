//! Where commands run.

use anyhow::{Result, bail};
use hermes_config::settings::{BACKEND_FACTS, BackendFacts, CommandBackend};
use hermes_config::yaml::YamlValue;

use super::SetupWizard;

pub(super) fn ask(wizard: &mut SetupWizard<'_>) -> Result<()> {
    let now = wizard.config.text("terminal.backend");
    let backend = match &wizard.arguments.terminal {
        Some(name) if BackendFacts::find(name).is_some() => name.clone(),
        Some(name) => {
            bail!("there is no backend '{name}'; there are: {}", CommandBackend::NAMES.join(", "))
        }
        None if !wizard.asks() => return Ok(()),
        None => {
            let rows: Vec<String> =
                BACKEND_FACTS.iter().map(|facts| format!("{:<12} {}", facts.name, facts.summary)).collect();
            let first = BACKEND_FACTS.iter().position(|facts| facts.name == now).unwrap_or(0);
            let at = wizard.choose("Where do commands run?", &rows, first)?;
            BACKEND_FACTS.get(at).map_or(now, |facts| facts.name.to_owned())
        }
    };
    wizard.set_text("terminal.backend", &backend);
    let image = wizard.arguments.image.clone();
    match BackendFacts::find(&backend) {
        Some(facts) if facts.has_image => {
            let key = format!("terminal.{backend}_image");
            let image = wizard.text(image.as_ref(), "Image", &wizard.config.text(&key))?;
            wizard.set_text(&key, &image);
            if wizard.asks() {
                let memory = wizard.config.count("terminal.container_memory") as u64;
                let memory = wizard.number(None, "Memory in megabytes", memory, 64..=1_048_576)?;
                wizard.set("terminal.container_memory", YamlValue::Int(i128::from(memory)));
            }
        }
        Some(facts) if facts.backend == CommandBackend::Ssh => {
            for (variable, question) in [
                ("TERMINAL_SSH_HOST", "Host"),
                ("TERMINAL_SSH_USER", "User"),
                ("TERMINAL_SSH_PORT", "Port"),
                ("TERMINAL_SSH_KEY", "File of the private key (empty: the usual ones)"),
            ] {
                let now = wizard.context.env.get(variable).unwrap_or_default().to_owned();
                let now = if now.is_empty() && variable.ends_with("PORT") { "22".to_owned() } else { now };
                let value = wizard.text(None, question, &now)?;
                if !value.is_empty() {
                    wizard.set_variable(variable, &value)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}
