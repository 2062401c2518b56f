//! What a skill needs before it can be used, while it is loaded: asking for missing variables, and passing those that
//! are set to the commands of its conversation.
//!
//! Invariants: a value goes to `.env`, to commands and to the masking of secrets, and never into a result; only a person
//! at the local terminal is asked; keys of model providers are not passed to commands.

use std::time::Duration;

use hermes_config::env::dotenv;
use hermes_config::provider::registry::REGISTRY;
use hermes_config::{Env, ManagedMode};
use hermes_knowledge::RequiredVariable;
use hermes_types::{Secret, TaskId, ToolContext, UserAnswer, UserQuestion};

use super::SkillSource;
use crate::task_variables::TaskVariables;

/// The time a person has for one value.
const PATIENCE: Duration = Duration::from_mins(2);

/// The state of the variables of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VariableSetup {
    /// The names that have no value.
    pub(super) missing: Vec<String>,
    /// Whether a person was asked and did not give a value.
    pub(super) skipped: bool,
}

impl SkillSource {
    /// Returns the environment with the home's file as it is now.
    fn current_env(&self) -> Env {
        self.env.with_files(&self.home, None)
    }

    /// Returns the names of variables that have no value.
    fn missing_variables(&self, variables: &[RequiredVariable]) -> Vec<String> {
        let env = self.current_env();
        let is_present = |name: &str| env.is_set(name) || env.shell_value(name).is_some();
        variables.iter().map(|variable| variable.name.clone()).filter(|name| !is_present(name)).collect()
    }

    /// Asks for missing variables where a person can be asked, and passes those that are set to the commands of the
    /// task.
    pub(super) async fn set_up(
        &self,
        variables: &[RequiredVariable],
        task: &TaskId,
        passed: &TaskVariables,
        context: ToolContext<'_>,
    ) -> VariableSetup {
        let mut setup = VariableSetup::default();
        if self.platform == "cli" {
            for name in self.missing_variables(variables) {
                let Some(variable) = variables.iter().find(|variable| variable.name == name) else {
                    continue;
                };
                match self.ask(variable, context).await {
                    Asked::Given(value) => self.save(&name, &value),
                    Asked::Skipped => setup.skipped = true,
                    Asked::Nobody => break,
                }
            }
        }
        setup.missing = self.missing_variables(variables);
        let env = self.current_env();
        for variable in variables.iter().filter(|variable| may_be_passed(&variable.name)) {
            if let Some(value) = env.get(&variable.name).or_else(|| env.shell_value(&variable.name)) {
                hermes_guard::register_secrets([Secret::new(value)]);
                passed.pass(task, &variable.name, Secret::new(value));
            }
        }
        setup
    }

    async fn ask(&self, variable: &RequiredVariable, context: ToolContext<'_>) -> Asked {
        let prompt = match &variable.help {
            Some(help) => format!("{} ({help}; empty to skip)", variable.prompt),
            None => format!("{} (empty to skip)", variable.prompt),
        };
        let question = UserQuestion::Secret { name: variable.name.clone(), prompt };
        let answer = tokio::select! {
            answer = context.frontend.ask(question, context.cancel) => answer,
            () = self.clock.sleep(PATIENCE) => UserAnswer::TimedOut,
        };
        match answer {
            UserAnswer::Secret(value) if !value.expose().trim().is_empty() => Asked::Given(value),
            UserAnswer::Unavailable => Asked::Nobody,
            _ => Asked::Skipped,
        }
    }

    fn save(&self, name: &str, value: &Secret) {
        let value = value.expose().trim();
        hermes_guard::register_secrets([Secret::new(value)]);
        let management = ManagedMode::detect(&self.home, &self.env);
        if let Err(error) = dotenv::save(&self.home, management, &[(name, value)]) {
            tracing::warn!(%error, name, "a skill's variable could not be saved");
        }
    }
}

/// What came of a question.
enum Asked {
    Given(Secret),
    Skipped,
    Nobody,
}

/// Tells whether commands may get a variable because a skill names it. Otherwise a skill could take the keys with which
/// the agent itself pays.
fn may_be_passed(name: &str) -> bool {
    !REGISTRY.iter().any(|provider| provider.keys.contains(&name) || provider.base_variable == name)
        && !name.starts_with("HERMES_")
}
