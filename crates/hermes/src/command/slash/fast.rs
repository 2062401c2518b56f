//! `/fast`: asks the provider for its priority tier, or no longer.

use hermes_config::yaml::YamlValue;
use hermes_config::{Config, ProgramSurface, set};
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_types::ApiMode;

use super::{CommandReply, SessionChange, save_setting};
use crate::context::ProgramContext;

const KEY: &str = "agent.service_tier";
const PRIORITY: &str = "priority";

pub(super) fn run(argument: &str, context: &ProgramContext, config: &Config) -> CommandReply {
    let current = config.non_empty_text(KEY);
    let wanted = match argument {
        "on" => true,
        "off" => false,
        "" => current.is_none(),
        "status" => {
            let tier = current.as_deref().unwrap_or("the provider's default");
            return CommandReply::text(format!("Service tier: {tier}"));
        }
        _ => return CommandReply::text("Usage: /fast [on | off | status]"),
    };
    if !wanted {
        let saved = match set::unset(&context.home, &context.env, KEY) {
            Ok(_) | Err(hermes_config::Error::NotSet { .. }) => Ok(()),
            Err(error) => Err(error),
        };
        return CommandReply::text("Requests go to the provider's default tier.")
            .changing(SessionChange::Model)
            .saved(saved);
    }
    if !has_tiers(context, config) {
        return CommandReply::text("This provider has no service tiers; nothing was changed.");
    }
    CommandReply::text(
        "Requests ask for the provider's priority tier, which costs more. /fast off ends that.",
    )
    .changing(SessionChange::Model)
    .saved(save_setting(context, KEY, YamlValue::Str(PRIORITY.to_owned())))
}

/// Tells whether requests to the present provider can name a tier.
fn has_tiers(context: &ProgramContext, config: &Config) -> bool {
    let inputs = ProviderInputs::read(&context.home, config.clone(), context.env.clone());
    let resolved = resolve(&inputs, &ProviderChoice::default(), ProgramSurface::Cli);
    matches!(resolved, Ok(ResolvedModel::Target(target)) if matches!(target.wire.mode, ApiMode::Chat | ApiMode::Responses))
}
