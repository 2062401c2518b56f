//! `/provider`: lists the providers that can be used with the present configuration.

use hermes_config::provider::registry::{ProviderKind, REGISTRY};
use hermes_config::{Config, ProgramSurface};
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};

use super::CommandReply;
use crate::context::ProgramContext;

pub(super) fn run(context: &ProgramContext, config: Config) -> CommandReply {
    let env = &context.env;
    let inputs = ProviderInputs::read(&context.home, config, env.clone());
    let of = |choice: &ProviderChoice| match resolve(&inputs, choice, ProgramSurface::Gateway) {
        Ok(ResolvedModel::Target(target)) => Some(target),
        _ => None,
    };
    let current = of(&ProviderChoice::default()).map(|target| target.provider().to_owned());
    let mut lines = vec![format!("🔌 **Provider:** {}", current.as_deref().unwrap_or("offline"))];
    for provider in REGISTRY.iter().filter(|provider| provider.kind != ProviderKind::Offline) {
        let name = provider.id;
        let choice = ProviderChoice { provider: Some(name.to_owned()), ..ProviderChoice::default() };
        let signed_in = provider.kind != ProviderKind::Aws
            || env.is_set("AWS_ACCESS_KEY_ID")
            || env.is_set("AWS_PROFILE");
        let usable = current.as_deref() == Some(name)
            || (signed_in && of(&choice).is_some_and(|target| target.key_origin.is_some()));
        // One that needs an address from the user is listed when it has one.
        if usable || provider.kind != ProviderKind::ApiKey || !provider.base_url.is_empty() {
            lines.push(format!("{} {name}", if usable { "✅" } else { "❌" }));
        }
    }
    lines.push("\n`/model PROVIDER:MODEL` changes it.".to_owned());
    CommandReply::emphasized(lines.join("\n"))
}
