//! Scripts that jobs begin with, behind the same fence as commands.

use std::sync::Arc;

use hermes_config::settings::TerminalSettings;
use hermes_exec::{Clipped, ProgramEnd, Programs, Script, Scripts, Variables};
use hermes_gateway::{Language, Live, ScriptEnd, ScriptOrder};
use hermes_types::{Cancel, Clock};

use crate::wiring::fence;
use crate::wiring::staff::context as context_of;

/// Bytes kept of the beginning and of the end of what a script prints.
const OUTPUT: (usize, usize) = (100_000, 50_000);
const COMPLAINTS: usize = 10_000;

/// Runs them.
#[derive(Clone)]
pub(crate) struct JobScripts {
    live: Live,
    clock: Arc<dyn Clock>,
}

impl JobScripts {
    pub(crate) fn new(live: Live, clock: Arc<dyn Clock>) -> Self {
        Self { live, clock }
    }

    pub(crate) async fn run(&self, order: ScriptOrder<'_>) -> Result<ScriptEnd, String> {
        let settings = self.live.now();
        let context = context_of(self.live.home(), &settings);
        let terminal = TerminalSettings::resolve(&settings.config, &settings.env);
        let variables = Variables::for_scripts(settings.env.iter(), &terminal.env_passthrough);
        let name = match order.language {
            Language::Bash => "bash",
            Language::Python => "python3",
        };
        let program = Programs::new(variables.clone(), self.clock.clone()).find(name);
        let program =
            program.ok_or_else(|| format!("there is no program `{name}` to run the script with"))?;
        let user_home = settings.env.get("HOME").map_or_else(|| "/".into(), std::path::PathBuf::from);
        let scripts = Scripts::new(fence::sandbox(&terminal, &user_home, &context), self.clock.clone());
        let script = Script {
            program: &program,
            arguments: vec![order.file.as_os_str().to_owned()],
            variables: &variables,
            directory: order.directory,
            fenced_to: order.directory,
            limit: order.limit,
            output: OUTPUT,
            complaints: COMPLAINTS,
        };
        let ran = scripts.run(script, &Cancel::new()).await.map_err(|error| error.to_string())?;
        Ok(ScriptEnd {
            output: joined(ran.output),
            complaints: joined(ran.complaints),
            code: match ran.end {
                ProgramEnd::Exited(code) => Some(code),
                ProgramEnd::TooSlow | ProgramEnd::Cancelled => None,
            },
        })
    }
}

fn joined(Clipped { head, tail, omitted, .. }: Clipped) -> String {
    match omitted {
        0 => head + &tail,
        omitted => format!("{head}\n[{omitted} characters left out]\n{tail}"),
    }
}
