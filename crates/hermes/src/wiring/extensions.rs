//! The hooks, the plugins and the memory service of a process.
//!
//! Without an entry in `hooks` and without an enabled plugin nothing is started.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hermes_config::{Env, Home};
use hermes_exec::{ProgramRunner, Variables};
use hermes_plugins::{
    HookApprovalState, HookApprovals, HookDispatcher, HookSources, PluginHost, PluginHostOptions, ShellHook,
    ShellHookRunner, ShellHookSettings, find_plugins,
};
use hermes_types::Clock;

use super::memory_services::MemoryServices;
use super::program_runtime::ProgramConfig;
use super::{child_variables, working_folder};
use crate::output::{Confirmation, Console};

const PYTHON: &str = "python3";

/// What users added to the program. Clones share the processes.
#[derive(Debug, Clone)]
pub(crate) struct Extensions {
    pub(crate) hooks: HookDispatcher,
    pub(crate) plugins: PluginHost,
    pub(crate) memory: MemoryServices,
    /// The hooks that nobody approved, and whether their script was changed.
    unapproved: Vec<(ShellHook, HookApprovalState)>,
    problems: Vec<String>,
}

impl Extensions {
    /// Prepares hooks and plugins; starts nothing.
    pub(crate) fn open(from: ProgramConfig<'_>, clock: &Arc<dyn Clock>) -> Result<Self> {
        let ProgramConfig { context, config } = from;
        let folder = working_folder(context, config)?;
        let plugins = plugin_host(from, folder.clone(), clock);
        let is_safe = context.env.bool("HERMES_SAFE_MODE") == Some(true);
        let settings =
            if is_safe { ShellHookSettings::default() } else { ShellHookSettings::from_config(config) };
        let (mut hooks, unapproved) =
            sort_by_approval(settings.hooks, &HookApprovals::load(&context.home), &context.env);
        let mut problems = settings.problems;
        let mut unapproved = unapproved;
        let is_accepted = context.env.bool("HERMES_ACCEPT_HOOKS") == Some(true) || settings.auto_accept;
        if is_accepted && !unapproved.is_empty() {
            let accepted: Vec<ShellHook> = unapproved.drain(..).map(|(hook, _)| hook).collect();
            let all: Vec<&ShellHook> = accepted.iter().collect();
            if let Err(error) = HookApprovals::approve(&context.home, &all, &context.env, clock.now()) {
                problems.push(format!("the approvals of hooks could not be stored: {error}"));
            }
            hooks.extend(accepted);
        }
        let runner = hook_runner(from, folder, clock);
        let sources = HookSources { hooks, runner, plugins: plugins.has_plugins().then(|| plugins.clone()) };
        let memory = MemoryServices::new(clock.clone());
        Ok(Self { hooks: HookDispatcher::new(sources, clock.clone()), plugins, memory, unapproved, problems })
    }

    /// Asks the person at the terminal about hooks that were not approved. Where nobody can be asked, they do not run,
    /// and a notice says so.
    pub(crate) fn ask_for_approvals(&self, from: ProgramConfig<'_>, clock: &dyn Clock, output: &Console) {
        for problem in &self.problems {
            output.notice(&format!("Warning: {problem}"));
        }
        for (hook, state) in &self.unapproved {
            let (event, command) = (hook.event.name(), &hook.command);
            let why =
                if *state == HookApprovalState::Changed { "its script was changed" } else { "it is new" };
            let question = format!(
                "The hook `{command}` is to run {} ({event}), outside the sandbox; {why}. Allow it?",
                hook.event.facts().when
            );
            match output.confirm(&question) {
                Confirmation::Yes => {
                    let ProgramConfig { context, .. } = from;
                    let stored = HookApprovals::approve(&context.home, &[hook], &context.env, clock.now());
                    if let Err(error) = stored {
                        output.notice(&format!("Warning: the approval was not stored: {error}"));
                    }
                    self.hooks.add_hooks(vec![hook.clone()]);
                }
                Confirmation::No => output.notice("It does not run in this session."),
                Confirmation::NotInteractive => output.notice(&skipped(hook, *state)),
            }
        }
    }

    /// Describes what is wrong with plugins that are enabled.
    pub(crate) fn plugin_problems(&self) -> Vec<String> {
        let plugins = self.plugins.plugins();
        let enabled = plugins.iter().filter(|loaded| loaded.plugin.is_enabled());
        enabled
            .flat_map(|loaded| {
                let name = &loaded.plugin.manifest.name;
                loaded.problems.iter().map(move |problem| format!("plugin {name}: {problem}"))
            })
            .collect()
    }

    /// Logs what a service without a terminal leaves out.
    pub(crate) fn log_problems(&self) {
        for problem in &self.problems {
            tracing::warn!("{problem}");
        }
        for (hook, state) in &self.unapproved {
            tracing::warn!("{}", skipped(hook, *state));
        }
    }

    /// Ends what runs, after it was told what is still queued.
    pub(crate) async fn shut_down(&self) {
        self.hooks.shut_down().await;
        self.plugins.shut_down().await;
        self.memory.shut_down().await;
    }
}

fn skipped(hook: &ShellHook, state: HookApprovalState) -> String {
    let why = if state == HookApprovalState::Changed {
        "its script was changed after its approval"
    } else {
        "nobody approved it"
    };
    format!(
        "Warning: the {} hook `{}` does not run, because {why}. Approve it at a terminal, or with --accept-hooks.",
        hook.event.name(),
        hook.command
    )
}

/// Separates hooks that may run from those that may not.
fn sort_by_approval(
    hooks: Vec<ShellHook>,
    approvals: &HookApprovals,
    env: &Env,
) -> (Vec<ShellHook>, Vec<(ShellHook, HookApprovalState)>) {
    let mut allowed = Vec::new();
    let mut others = Vec::new();
    for hook in hooks {
        match approvals.state(&hook, env) {
            HookApprovalState::Approved => allowed.push(hook),
            state => others.push((hook, state)),
        }
    }
    (allowed, others)
}

/// Returns the runner of shell hooks that work in `folder`.
pub(crate) fn hook_runner(
    from: ProgramConfig<'_>,
    folder: PathBuf,
    clock: &Arc<dyn Clock>,
) -> ShellHookRunner {
    let env = &from.context.env;
    let programs = ProgramRunner::new(child_variables(env, &[]), clock.clone());
    ShellHookRunner::new(programs, env.clone(), folder, clock.clone())
}

fn plugin_host(from: ProgramConfig<'_>, folder: PathBuf, clock: &Arc<dyn Clock>) -> PluginHost {
    let ProgramConfig { context, config } = from;
    let found = find_plugins(&context.home, &folder, config, &context.env);
    let options = PluginHostOptions {
        programs: ProgramRunner::new(plugin_variables(&context.env, &found, &context.home), clock.clone()),
        python: python(&context.env, &context.home),
        home: context.home.path().to_owned(),
        folder,
        clock: clock.clone(),
    };
    PluginHost::new(options, found)
}

/// Returns the environment of plugins: that of commands, and the variables their manifests name.
pub(crate) fn plugin_variables(env: &Env, found: &[hermes_plugins::FoundPlugin], home: &Home) -> Variables {
    let enabled = found.iter().filter(|plugin| plugin.is_enabled());
    let named: Vec<String> = enabled
        .flat_map(|plugin| &plugin.manifest.requires_env)
        .map(|variable| variable.name.clone())
        .collect();
    let pairs: Vec<(String, String)> = named
        .iter()
        .filter_map(|name| Some((name.clone(), env.get(name)?.to_owned())))
        .chain([("HERMES_HOME".to_owned(), home.path().to_string_lossy().into_owned())])
        .collect();
    child_variables(env, &named).with_all(pairs)
}

/// Returns the interpreter of plugins: the one that is set, that of an installation of the Python program, or the
/// system's.
pub(crate) fn python(env: &Env, home: &Home) -> String {
    if let Some(python) = env.get("HERMES_PYTHON") {
        return python.to_owned();
    }
    let installed = home.join("hermes-agent/venv/bin/python3");
    if installed.is_file() { installed.to_string_lossy().into_owned() } else { PYTHON.to_owned() }
}
