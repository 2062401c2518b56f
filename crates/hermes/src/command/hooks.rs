//! `hermes hooks`: the shell hooks of the configuration.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_plugins::{
    HookApprovalState, HookApprovals, ShellHook, ShellHookRun, ShellHookSettings, TOOL_EVENTS,
};
use hermes_task::SystemClock;
use hermes_text::{ellipsize, escape_terminal};
use hermes_types::{Clock, HOOK_FACTS, HookEvent};
use serde_json::{Map, Value, json};

use crate::cli::HooksCommand;
use crate::command::table::table;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::extensions::hook_runner;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::working_folder;

const SHOWN_OUTPUT: usize = 400;

pub(crate) fn run(command: HooksCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.config(output);
    let settings = ShellHookSettings::from_config(&config);
    let from = ProgramConfig { context, config: &config };
    let commands = HookCommands { settings, approvals: HookApprovals::load(&context.home), from, output };
    match command {
        HooksCommand::List => commands.list(),
        HooksCommand::Test { event, for_tool, payload_file } => {
            return commands.test(&event, for_tool.as_deref(), payload_file.as_deref());
        }
        HooksCommand::Revoke { command } => return commands.revoke(&command),
        HooksCommand::Doctor => return commands.doctor(),
    }
    Ok(ExitCode::SUCCESS)
}

struct HookCommands<'a> {
    settings: ShellHookSettings,
    approvals: HookApprovals,
    from: ProgramConfig<'a>,
    output: &'a Console,
}

impl HookCommands<'_> {
    fn list(&self) {
        for problem in &self.settings.problems {
            self.output.notice(&format!("Warning: {problem}"));
        }
        if self.settings.hooks.is_empty() {
            let names: Vec<&str> = HOOK_FACTS.iter().map(|facts| facts.name).collect();
            self.output.line("No shell hooks are configured.");
            self.output.line(&format!("Add one under `hooks` in config.yaml; events: {}", names.join(", ")));
            return;
        }
        let rows: Vec<Vec<String>> = self.settings.hooks.iter().map(|hook| self.row(hook)).collect();
        let header = ["Event", "Tools", "Timeout", "Command", "Approval"];
        self.output.text(&table(&header, &[24, 24, 8, 60, 40], &rows));
        if self.settings.auto_accept {
            self.output.line("`hooks_auto_accept` is on: every hook runs.");
        }
    }

    fn row(&self, hook: &ShellHook) -> Vec<String> {
        vec![
            hook.event.name().to_owned(),
            hook.matcher.clone().unwrap_or_else(|| "all".to_owned()),
            format!("{} s", hook.timeout.as_secs()),
            hook.command.clone(),
            match self.state(hook) {
                HookApprovalState::Approved => {
                    let since = self.approvals.approved_at(hook).unwrap_or_default();
                    format!("approved {since}").trim_end().to_owned()
                }
                HookApprovalState::Changed => "script changed, not approved".to_owned(),
                HookApprovalState::Missing => "not approved".to_owned(),
            },
        ]
    }

    fn state(&self, hook: &ShellHook) -> HookApprovalState {
        self.approvals.state(hook, &self.from.context.env)
    }

    fn revoke(&self, command: &str) -> Result<ExitCode> {
        let removed = HookApprovals::revoke(&self.from.context.home, command)?;
        if removed == 0 {
            self.output
                .error(&format!("there is no approval of `{command}`; `hermes hooks list` shows them"));
            return Ok(ExitCode::FAILURE);
        }
        self.output.line(&format!(
            "Removed {removed} approval(s) of `{command}`. It does not run any more after a restart."
        ));
        Ok(ExitCode::SUCCESS)
    }

    fn test(&self, event: &str, tool: Option<&str>, payload: Option<&Path>) -> Result<ExitCode> {
        let Some(event) = HookEvent::parse(event) else {
            let names: Vec<&str> = HOOK_FACTS.iter().map(|facts| facts.name).collect();
            bail!("there is no event `{event}`; events: {}", names.join(", "));
        };
        let mut input = sample_input(event, tool.unwrap_or("terminal"));
        if let Some(path) = payload {
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            match serde_json::from_str(&text).with_context(|| path.display().to_string())? {
                Value::Object(more) => input.extend(more),
                _ => bail!("{}: not a JSON object", path.display()),
            }
        }
        let tool = input.get("tool_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_meant = |hook: &&ShellHook| {
            hook.event == event && (!TOOL_EVENTS.contains(&event) || hook.is_for_tool(&tool))
        };
        let hooks: Vec<&ShellHook> = self.settings.hooks.iter().filter(is_meant).collect();
        if hooks.is_empty() {
            self.output.line(&format!("No hook runs at {}.", event.name()));
            return Ok(ExitCode::SUCCESS);
        }
        let mut failed = false;
        for hook in hooks {
            let run = self.run_once(hook, &input)?;
            failed |= run.answer.is_err();
            self.output.line(&format!("{}  ({} ms)", hook.command, run.took.as_millis()));
            if !run.output.trim().is_empty() {
                let shown = ellipsize(run.output.trim(), SHOWN_OUTPUT);
                self.output.line(&format!("  output: {}", escape_terminal(&shown)));
            }
            self.output.line(&format!("  {}", describe(event, &run)));
        }
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn doctor(&self) -> Result<ExitCode> {
        let mut problems = self.settings.problems.len();
        for problem in &self.settings.problems {
            self.output.line(&format!("✗ {problem}"));
        }
        for hook in &self.settings.hooks {
            let mut found = Vec::new();
            match self.state(hook) {
                HookApprovalState::Approved => {}
                HookApprovalState::Changed => {
                    found.push("its script was changed after the approval: look at it, then approve it at the next chat".to_owned());
                }
                HookApprovalState::Missing => {
                    found.push(
                        "not approved: start a chat at a terminal, or run with --accept-hooks".to_owned(),
                    );
                }
            }
            // One that nobody approved is not run, not even for a check.
            if found.is_empty() {
                let run = self.run_once(hook, &sample_input(hook.event, "terminal"))?;
                if let Err(reason) = &run.answer {
                    found.push(reason.clone());
                }
                if run.took > hook.timeout / 2 {
                    found.push(format!("it took {} of its {} s", run.took.as_secs(), hook.timeout.as_secs()));
                }
            }
            let mark = if found.is_empty() { "✓" } else { "✗" };
            self.output.line(&format!("{mark} {}: {}", hook.event.name(), hook.command));
            for reason in &found {
                self.output.line(&format!("    {reason}"));
            }
            problems += found.len();
        }
        if problems == 0 {
            self.output.line(&format!("{} hook(s), no problems.", self.settings.hooks.len()));
        }
        Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn run_once(&self, hook: &ShellHook, input: &Map<String, Value>) -> Result<ShellHookRun> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let folder = working_folder(self.from.context, self.from.config)?;
        let runner = hook_runner(self.from, folder, &clock);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
        Ok(runtime.block_on(runner.run(hook, input)))
    }
}

fn describe(event: HookEvent, run: &ShellHookRun) -> String {
    match &run.answer {
        Ok(None) => "no answer: nothing changes".to_owned(),
        Ok(Some(text)) => {
            let what = match event.facts().reply {
                hermes_types::HookReply::Block => "blocks the tool",
                hermes_types::HookReply::Context => "adds to the turn",
                hermes_types::HookReply::Replacement => "replaces the result",
                hermes_types::HookReply::Ignored => "is ignored",
            };
            format!("{what}: {}", escape_terminal(&ellipsize(text, SHOWN_OUTPUT)))
        }
        Err(reason) => format!("failed: {reason}; a turn goes on as without it"),
    }
}

/// Returns made-up input of a step.
fn sample_input(event: HookEvent, tool: &str) -> Map<String, Value> {
    let facts = json!({
        "tool_name": tool,
        "args": {"command": "echo hello"},
        "result": "{\"output\": \"hello\", \"exit_code\": 0}",
        "task_id": "test",
        "session_id": "test-session",
        "model": "test-model",
        "platform": "cli",
        "user_message": "hello",
        "is_first_turn": true,
        "conversation_history": [{"role": "user", "content": "hello"}],
        "assistant_response": "hello",
        "command": "echo hello",
        "output": "hello",
        "returncode": 0,
        "response_text": "hello",
    });
    let about_tool = ["tool_name", "args", "result"];
    let is_meant = |name: &str| {
        if TOOL_EVENTS.contains(&event) {
            name != "result" || event != HookEvent::PreToolCall
        } else {
            !about_tool.contains(&name)
        }
    };
    let Value::Object(facts) = facts else { return Map::new() };
    facts.into_iter().filter(|(name, _)| is_meant(name)).collect()
}
