//! Scripts that run before a job or for an event, in the same sandbox as commands.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::settings::TerminalSettings;
use hermes_exec::{
    ClippedOutput, Program, ProgramExit, ProgramRunner, ScriptCommand, ScriptRunner, StderrMode, Variables,
};
use hermes_gateway::{JobScriptOutcome, JobScriptRequest, LiveSettings, ScriptLanguage};
use hermes_schedule::JobScript;
use hermes_types::{Cancel, Clock};

use crate::wiring::live_agents::context as context_of;
use crate::wiring::sandbox;

/// The bytes kept of the beginning and of the end of a script's output.
const OUTPUT: (usize, usize) = (100_000, 50_000);
const MAX_STDERR: usize = 10_000;
/// The time a script has for an event; its sender waits meanwhile.
const EVENT_LIMIT: Duration = Duration::from_secs(20);

/// Runs the scripts of jobs.
#[derive(Clone)]
pub(crate) struct JobScripts {
    live: LiveSettings,
    clock: Arc<dyn Clock>,
}

impl JobScripts {
    pub(crate) fn new(live: LiveSettings, clock: Arc<dyn Clock>) -> Self {
        Self { live, clock }
    }

    /// Runs a script with an event as its standard input.
    pub(crate) async fn run_with_event(&self, name: &str, event: &str) -> Result<JobScriptOutcome, String> {
        let script = JobScript::find(self.live.home(), name).map_err(|error| error.to_string())?;
        let directory = script.file.parent().unwrap_or(Path::new("/"));
        let settings = self.live.current();
        let context = context_of(self.live.home(), &settings);
        let terminal = TerminalSettings::resolve(&settings.config, &settings.env);
        let variables = Variables::for_scripts(settings.env.iter(), &terminal.env_passthrough);
        let user_home = settings.env.get("HOME").map_or_else(|| "/".into(), std::path::PathBuf::from);
        let sandbox = sandbox::sandbox(&terminal, &user_home, &context);
        let programs = ProgramRunner::new(variables, self.clock.clone()).in_sandbox(sandbox, directory);
        let program = Program {
            name: interpreter(script.language),
            arguments: vec![script.file.as_os_str().to_owned()],
            directory,
            limit: EVENT_LIMIT,
            stderr: StderrMode::Discard,
        };
        let ran = programs.output_for(program, Some(event.as_bytes()), &Cancel::new()).await;
        let (stdout, exit) = ran.map_err(|error| error.to_string())?;
        Ok(JobScriptOutcome { stdout, stderr: String::new(), code: code_of(exit) })
    }

    pub(crate) async fn run(&self, order: JobScriptRequest<'_>) -> Result<JobScriptOutcome, String> {
        let settings = self.live.current();
        let context = context_of(self.live.home(), &settings);
        let terminal = TerminalSettings::resolve(&settings.config, &settings.env);
        let variables = Variables::for_scripts(settings.env.iter(), &terminal.env_passthrough);
        let name = interpreter(order.language);
        let program = ProgramRunner::new(variables.clone(), self.clock.clone()).find(name);
        let program =
            program.ok_or_else(|| format!("there is no program `{name}` to run the script with"))?;
        let user_home = settings.env.get("HOME").map_or_else(|| "/".into(), std::path::PathBuf::from);
        let scripts =
            ScriptRunner::new(sandbox::sandbox(&terminal, &user_home, &context), self.clock.clone());
        let script = ScriptCommand {
            program: &program,
            arguments: vec![order.file.as_os_str().to_owned()],
            variables: &variables,
            directory: order.directory,
            sandbox_anchor: order.directory,
            limit: order.limit,
            output_limits: OUTPUT,
            stderr_limit: MAX_STDERR,
        };
        let ran = scripts.run(script, &Cancel::new()).await.map_err(|error| error.to_string())?;
        Ok(JobScriptOutcome {
            stdout: join_output(ran.output),
            stderr: join_output(ran.stderr),
            code: code_of(ran.exit),
        })
    }
}

fn interpreter(language: ScriptLanguage) -> &'static str {
    match language {
        ScriptLanguage::Bash => "bash",
        ScriptLanguage::Python => "python3",
    }
}

/// Returns the exit code; `None` for a script that did not end by itself.
fn code_of(exit: ProgramExit) -> Option<i32> {
    match exit {
        ProgramExit::Exited(code) => Some(code),
        ProgramExit::TimedOut | ProgramExit::Cancelled => None,
    }
}

fn join_output(ClippedOutput { head, tail, omitted, .. }: ClippedOutput) -> String {
    match omitted {
        0 => head + &tail,
        omitted => format!("{head}\n[{omitted} characters left out]\n{tail}"),
    }
}
