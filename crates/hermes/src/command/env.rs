//! `hermes env`: runs an environment for reinforcement learning.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hermes_research::{
    EnvironmentFlags, EnvironmentMode, EnvironmentObserver, EnvironmentReport, EnvironmentRun, Error,
    iso_time,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};

use crate::cli::{self, EnvArguments};
use crate::command::chat::signals::ChatSignals;
use crate::context::{ProgramContext, local_time};
use crate::output::Console;
use crate::wiring::environment::{as_json, configure, describe_all};
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::research::ScratchStore;

/// The folder of files, in the working directory.
const FOLDER: &str = "data";

struct Notices(Console);

impl EnvironmentObserver for Notices {
    fn notice(&self, text: &str) {
        self.0.notice(text);
    }
}

fn mode_of(word: &str) -> Option<EnvironmentMode> {
    Some(match word {
        "serve" => EnvironmentMode::Serve,
        "process" => EnvironmentMode::Process,
        "evaluate" => EnvironmentMode::Evaluate,
        _ => return None,
    })
}

pub(crate) fn run(arguments: &EnvArguments, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    if arguments.environment == "list" && arguments.words.is_empty() {
        output.text(&describe_all());
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.words.iter().any(|word| word == "--help" || word == "-h") {
        let help =
            cli::definition().find_subcommand_mut("env").map(|command| command.render_help().to_string());
        output.text(&help.unwrap_or_default());
        return Ok(ExitCode::SUCCESS);
    }
    let mut words = arguments.words.clone();
    let mut name = arguments.environment.clone();
    // Both orders are in use.
    if let (Some(_), Some(first)) = (mode_of(&name), words.first_mut()) {
        std::mem::swap(&mut name, first);
    }
    let Some(mode) = words.first().and_then(|word| mode_of(word)) else {
        output.error("say what to do: `hermes env ENVIRONMENT serve`, `process` or `evaluate`");
        return Ok(ExitCode::from(2));
    };
    let flags = match EnvironmentFlags::parse(words.get(1..).unwrap_or_default()) {
        Ok(flags) => flags,
        Err(error) => {
            output.error(&error.to_string());
            return Ok(ExitCode::from(2));
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let done = runtime.block_on(run_environment(&name, mode, &flags, context, output));
    match done {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Unusable(_))) => {
            output.error(&format!("{error:#}"));
            Ok(ExitCode::from(2))
        }
        done => done,
    }
}

async fn run_environment(
    name: &str,
    mode: EnvironmentMode,
    flags: &EnvironmentFlags,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let configured = configure(name, mode, flags, context, &clock).await?;
    let config = configured.config(&context.usable_config(output)?, context);
    if configured.settings.enabled_toolsets.is_none() && configured.settings.distribution.is_none() {
        output.notice(
            "note: the model gets all tools, also those that send messages; env.enabled_toolsets chooses",
        );
    }
    let scratch = ScratchStore::create(context)?;
    let done = async {
        let from = ProgramConfig { context, config: &config };
        let (means, agents) = configured.means(from, &scratch, &clock)?;
        let now = {
            let clock = clock.clone();
            Arc::new(move || iso_time(local_time(clock.now()), clock.now()))
        };
        let folder = std::env::current_dir().context("the working directory no longer exists")?.join(FOLDER);
        let observer = Arc::new(Notices(Console::new()));
        let run = EnvironmentRun::new(
            configured.environment.clone(),
            configured.settings.clone(),
            means,
            observer,
            &folder,
            now,
        );
        let report = match run {
            Ok(run) => supervise(Arc::new(run), mode, output).await,
            Err(error) => Err(error.into()),
        };
        agents.shut_down().await;
        report
    };
    let done = done.await;
    scratch.remove().await;
    let (report, code) = done?;
    output.text(&describe(&report, mode));
    if let Some(code) = code.filter(|_| report.interrupted) {
        return Ok(code);
    }
    let is_empty = mode != EnvironmentMode::Evaluate && report.groups == 0;
    Ok(if is_empty { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs to the end, or until a signal.
async fn supervise(
    run: Arc<EnvironmentRun>,
    mode: EnvironmentMode,
    output: &Console,
) -> Result<(EnvironmentReport, Option<ExitCode>)> {
    let cancel = Cancel::new();
    let mut signals = ChatSignals::listen()?;
    let report = {
        let work = async {
            match mode {
                EnvironmentMode::Serve => run.serve(&cancel).await,
                EnvironmentMode::Process => run.process(&cancel).await,
                EnvironmentMode::Evaluate => run.evaluate(&cancel).await,
            }
        };
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => break done?,
                _ = signals.next() => {
                    if !cancel.is_cancelled() {
                        output.notice("Stopping; the running rollouts are ended.");
                    }
                    cancel.cancel();
                }
            }
        }
    };
    let code = signals.exit_code().or_else(|| cancel.is_cancelled().then(|| ExitCode::from(130)));
    Ok((report, code))
}

fn describe(report: &EnvironmentReport, mode: EnvironmentMode) -> String {
    let mut lines = Vec::new();
    if mode == EnvironmentMode::Evaluate {
        lines.push(as_json(&report.metrics));
    } else {
        lines.push(format!("Groups: {}, mean score {:.3}", report.groups, report.mean_score));
    }
    lines.extend(report.refused.iter().map(|(reason, count)| format!("  not used: {count} ({reason})")));
    lines.extend(report.files.iter().map(|path| format!("Written: {}", path.display())));
    lines.push(String::new());
    lines.join("\n")
}
