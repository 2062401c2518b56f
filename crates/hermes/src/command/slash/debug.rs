//! `/debug`: writes the report of `hermes dump` to a file.

use std::path::Path;
use std::time::Duration;

use hermes_config::write;
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_task::SystemClock;
use hermes_types::Cancel;

use super::CommandReply;
use crate::context::{ProgramContext, format_time, now};
use crate::wiring::child_variables;

/// The time a report may take: it checks the whole home.
const LIMIT: Duration = Duration::from_mins(2);

pub(super) async fn run(context: &ProgramContext) -> CommandReply {
    match report(context).await {
        Ok(path) => CommandReply::text(format!(
            "Wrote {path}. Secrets are masked and conversations are not in it; read it before you pass it on."
        )),
        Err(reason) => CommandReply::text(format!("⚠️ The report was not written: {reason}")),
    }
}

async fn report(context: &ProgramContext) -> Result<String, String> {
    let program = hermes_exec::own_program().map_err(|error| error.to_string())?;
    let name = program.to_str().ok_or("the program's path has no readable name")?;
    let home = context.home.path().to_string_lossy().into_owned();
    let env = context.env.with_variables([("HERMES_HOME".to_owned(), home)]);
    let variables = child_variables(&env, &["HERMES_HOME".to_owned()]);
    let runner = ProgramRunner::new(variables, std::sync::Arc::new(SystemClock::new()));
    let dump = Program {
        name,
        arguments: vec!["dump".into()],
        directory: Path::new("/"),
        limit: LIMIT,
        stderr: StderrMode::Merge,
    };
    // Checks that found something end with 1; the report is whole all the same.
    let text = match runner.output(dump, &Cancel::new()).await {
        Ok((text, ProgramExit::Exited(0 | 1))) => text,
        Ok((text, _)) => return Err(hermes_text::tail(text.trim(), 200).to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let folder = context.home.folder("logs").map_err(|error| error.to_string())?;
    let path = folder.join(format!("report-{}.md", format_time(now(), "%Y%m%d-%H%M%S")));
    write::replace(&path, text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(path.display().to_string())
}
