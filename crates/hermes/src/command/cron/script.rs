//! Scripts that run before a job, in the same sandbox as commands.

use std::sync::Arc;

use hermes_config::settings::TerminalSettings;
use hermes_exec::{ClippedOutput, ProgramExit, ProgramRunner, ScriptCommand, ScriptRunner, Variables};
use hermes_gateway::{JobScriptOutcome, JobScriptRequest, LiveSettings, ScriptLanguage};
use hermes_types::{Cancel, Clock};

use crate::wiring::live_agents::context as context_of;
use crate::wiring::sandbox;

/// The bytes kept of the beginning and of the end of a script's output.
const OUTPUT: (usize, usize) = (100_000, 50_000);
const MAX_STDERR: usize = 10_000;

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

    pub(crate) async fn run(&self, order: JobScriptRequest<'_>) -> Result<JobScriptOutcome, String> {
        let settings = self.live.current();
        let context = context_of(self.live.home(), &settings);
        let terminal = TerminalSettings::resolve(&settings.config, &settings.env);
        let variables = Variables::for_scripts(settings.env.iter(), &terminal.env_passthrough);
        let name = match order.language {
            ScriptLanguage::Bash => "bash",
            ScriptLanguage::Python => "python3",
        };
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
            code: match ran.exit {
                ProgramExit::Exited(code) => Some(code),
                ProgramExit::TimedOut | ProgramExit::Cancelled => None,
            },
        })
    }
}

fn join_output(ClippedOutput { head, tail, omitted, .. }: ClippedOutput) -> String {
    match omitted {
        0 => head + &tail,
        omitted => format!("{head}\n[{omitted} characters left out]\n{tail}"),
    }
}
