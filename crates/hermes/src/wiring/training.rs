//! What the `rl_*` tools get of the program: the checkout, a Python, keys, and where logs go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::settings::SecuritySettings;
use hermes_exec::ProgramRunner;
use hermes_tools::{MetricsService, TrainerAccess};
use hermes_types::{Clock, Secret};

use super::child_variables;
use super::program_runtime::ProgramConfig;
use super::web::lazy_client;
use crate::context::{ProgramContext, local_time};

/// The keys without which nothing can be trained.
pub(crate) const TRAINING_KEYS: [&str; 2] = ["TINKER_API_KEY", "WANDB_API_KEY"];
const OPENROUTER: &str = "https://openrouter.ai/api/v1";
const METRICS: &str = "https://api.wandb.ai";
const ENTITY: &str = "nousresearch";

fn setting<'a>(context: &'a ProgramContext, name: &str) -> Option<&'a str> {
    context.env.get(name).map(str::trim).filter(|text| !text.is_empty())
}

/// Returns the folder of the trainer's checkout, whether it exists or not.
pub(crate) fn checkout(context: &ProgramContext) -> PathBuf {
    context.home.join("hermes-agent").join("tinker-atropos")
}

/// Returns the keys that are not set.
pub(crate) fn missing_keys(context: &ProgramContext) -> Vec<&'static str> {
    TRAINING_KEYS.into_iter().filter(|name| setting(context, name).is_none()).collect()
}

/// Finds a Python of version 3.11 or newer: of the checkout, or on the path. Starts nothing.
pub(crate) fn python(context: &ProgramContext) -> Option<PathBuf> {
    let checkout = checkout(context);
    let own = [".venv", "venv"].map(|folder| checkout.join(folder).join("bin/python"));
    if let Some(found) = own.into_iter().find(|path| path.is_file()) {
        return Some(found);
    }
    let folders: Vec<&Path> = context.env.get("PATH").unwrap_or_default().split(':').map(Path::new).collect();
    let named = (11..30).rev().map(|minor| format!("python3.{minor}"));
    named.flat_map(|name| folders.iter().map(move |folder| folder.join(&name))).find(|path| path.is_file())
}

/// Returns what the tools need, if training is possible here.
pub(super) fn trainer(clock: &Arc<dyn Clock>, from: ProgramConfig<'_>) -> Option<TrainerAccess> {
    let context = from.context;
    if !missing_keys(context).is_empty() {
        return None;
    }
    let python = python(context)?;
    let security = SecuritySettings::resolve(from.config, &context.env);
    let passed: Vec<String> = TRAINING_KEYS.iter().map(|name| (*name).to_owned()).collect();
    Some(TrainerAccess {
        checkout: checkout(context),
        python: python.display().to_string(),
        logs: context.home.join("logs").join("rl_training"),
        programs: ProgramRunner::new(child_variables(&context.env, &passed), clock.clone()),
        metrics: MetricsService {
            url: setting(context, "WANDB_BASE_URL").unwrap_or(METRICS).to_owned(),
            key: Secret::new(setting(context, "WANDB_API_KEY").unwrap_or_default()),
            entity: setting(context, "WANDB_ENTITY").unwrap_or(ENTITY).to_owned(),
            http: lazy_client(&security, clock, from),
            clock: clock.clone(),
        },
        inference_key: setting(context, "OPENROUTER_API_KEY").map(Secret::new),
        inference_url: setting(context, "OPENROUTER_BASE_URL").unwrap_or(OPENROUTER).to_owned(),
        clock: clock.clone(),
        local_time,
    })
}
