//! `hermes rl`: an agent that trains models with the `rl_*` tools.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hermes_config::Config;
use hermes_tools::describe_trainer_environments;

use crate::cli::{ChatArguments, RlArguments};
use crate::command::chat;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::training::{TRAINING_KEYS, checkout, missing_keys, python};

/// The model where none is configured.
const DEFAULT_MODEL: &str = "anthropic/claude-opus-4.5";
const TOOLSETS: &str = "terminal,web,rl";
/// What the agent is to do, beside its usual prompt.
const INSTRUCTIONS: &str = include_str!("rl.md");

pub(crate) fn run(arguments: &RlArguments, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let folder = checkout(context);
    if arguments.list_environments {
        let lines = describe_trainer_environments(&folder).map_err(anyhow::Error::msg)?;
        for line in lines {
            output.line(&line);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let missing = missing_keys(context);
    let mut problems: Vec<String> = missing.iter().map(|name| format!("{name} is not set")).collect();
    if python(context).is_none() {
        problems.push("there is no Python 3.11 or newer on the path, nor in the checkout's .venv".to_owned());
    }
    if !folder.is_dir() {
        problems.push(format!("{} does not exist; clone tinker-atropos there", folder.display()));
    }
    if arguments.check_server || !problems.is_empty() {
        for problem in &problems {
            output.error(problem);
        }
        if problems.is_empty() {
            output.line(&format!(
                "Ready: {} are set, and {} exists.",
                TRAINING_KEYS.join(" and "),
                folder.display()
            ));
        }
        return Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if arguments.task.is_none() && !arguments.interactive {
        output.error("give a task, or --interactive");
        return Ok(ExitCode::from(2));
    }
    std::env::set_current_dir(&folder).with_context(|| folder.display().to_string())?;
    let config = Config::load(&context.home, &context.env);
    let configured = config.is_user_set("model.default") || config.is_user_set("model.provider");
    let given = context
        .env
        .get("HERMES_EPHEMERAL_SYSTEM_PROMPT")
        .map(|text| format!("{text}\n\n"))
        .unwrap_or_default();
    let variables = [
        ("HERMES_EPHEMERAL_SYSTEM_PROMPT".to_owned(), format!("{given}{}", INSTRUCTIONS.trim_end())),
        ("TERMINAL_CWD".to_owned(), folder.display().to_string()),
    ];
    let context = ProgramContext { home: context.home.clone(), env: context.env.with_variables(variables) };
    let asked = ChatArguments {
        query: arguments.task.clone().filter(|_| !arguments.interactive),
        model: arguments.model.clone().or_else(|| (!configured).then(|| DEFAULT_MODEL.to_owned())),
        provider: arguments.provider.clone(),
        toolsets: Some(TOOLSETS.to_owned()),
        verbose: arguments.verbose,
        max_turns: Some(arguments.max_iterations),
        no_restore_cwd: true,
        ..ChatArguments::default()
    };
    chat::run(&asked, &context, output)
}
