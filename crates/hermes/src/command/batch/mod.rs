//! `hermes batch`: runs the agent over a dataset and writes training data.

mod launch;
mod progress;
mod queue;
mod settings;
mod summary;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use hermes_research::{
    BatchProgress, BatchRun, Dataset, DistributionSampler, RolloutRunner, describe_distributions,
};
use hermes_task::SystemClock;
use hermes_tools::TOOLSETS;
use hermes_types::{Cancel, Clock};

use crate::cli::{BatchAction, BatchArguments};
use crate::command::chat::signals::{ChatSignal, ChatSignals};
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::research::{ResearchAgents, ScratchStore};
use progress::ProgressLine;
use settings::BatchSettings;

/// The most problems of a dataset that are named one by one.
const MAX_PROBLEMS: usize = 20;

pub(crate) fn run(
    arguments: &BatchArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    if arguments.list_distributions {
        output.text(&describe_distributions());
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.action == BatchAction::Launch {
        return launch::run(arguments, context, output);
    }
    let settings = match BatchSettings::read(arguments) {
        Ok(settings) => settings,
        Err(problem) => {
            output.error(&problem);
            return Ok(ExitCode::from(2));
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(async {
        match arguments.action {
            BatchAction::Run => run_dataset(arguments, settings, context, output).await,
            _ => queue::run(arguments, settings, context, output).await,
        }
    })
}

async fn run_dataset(
    arguments: &BatchArguments,
    settings: BatchSettings,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let config = settings.config(&context.usable_config(output)?, context);
    let dataset = open_dataset(arguments, &settings, output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let scratch = ScratchStore::create(context)?;
    let done = async {
        let models = settings.models(arguments, context, &config, &clock, &scratch.store)?;
        for note in &models.notes {
            output.notice(&format!("note: {note}"));
        }
        let (options, rollouts) =
            (settings.batch_options(arguments, models.name())?, settings.rollouts(arguments, models.name()));
        let agents = settings.agents(context, &config, models, &clock, &scratch.store)?;
        let agents = Arc::new(agents);
        let progress = Arc::new(BatchProgress::default());
        let line = Arc::new(ProgressLine::new(progress.clone(), clock.clone()));
        let exists = |name: &str| TOOLSETS.iter().any(|toolset| toolset.name == name);
        let run = BatchRun {
            options: options.clone(),
            dataset,
            sampler: DistributionSampler::new(settings.distribution, arguments.seed, exists),
            runner: RolloutRunner::new(agents.clone(), rollouts, progress),
            clock,
            observer: line.clone(),
        };
        let (summary, code) =
            supervise(async |stop: &Cancel, cancel: &Cancel| run.run(stop, cancel).await, &line, &agents)
                .await?;
        output.text(&summary::describe(&summary, &options));
        let failed = summary.progress.failed > 0 || summary.stopped.is_some();
        Ok(code.unwrap_or(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
    };
    let done = done.await;
    scratch.remove().await;
    done
}

/// Opens the dataset, and tells of the lines that cannot be used.
fn open_dataset(arguments: &BatchArguments, settings: &BatchSettings, output: &Console) -> Result<Dataset> {
    let dataset = Dataset::open(&settings.dataset, arguments.max_samples)?;
    for problem in dataset.problems.iter().take(MAX_PROBLEMS) {
        output.notice(&format!(
            "warning: {}, line {}: {}; the line is skipped",
            settings.dataset.display(),
            problem.line,
            problem.reason
        ));
    }
    if let Some(more) = dataset.problems.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
        output.notice(&format!("warning: {more} more lines are skipped"));
    }
    Ok(dataset)
}

/// Runs to the end, while progress is shown and signals are obeyed: the first Ctrl-C lets the running conversations end, the second
/// abandons them.
async fn supervise<T>(
    run: impl AsyncFnOnce(&Cancel, &Cancel) -> Result<T, hermes_research::Error>,
    line: &ProgressLine,
    agents: &ResearchAgents,
) -> Result<(T, Option<ExitCode>)> {
    let (stop, cancel) = (Cancel::new(), Cancel::new());
    let mut signals = ChatSignals::listen()?;
    let mut interrupted = false;
    let summary = {
        let mut running = std::pin::pin!(run(&stop, &cancel));
        loop {
            tokio::select! {
                ended = &mut running => break ended,
                signal = signals.next() => match signal {
                    ChatSignal::Interrupt if !interrupted => {
                        interrupted = true;
                        stop.cancel();
                        line.say("Stopping when the running conversations have ended. Press Ctrl-C again to abandon them.");
                    }
                    ChatSignal::Interrupt | ChatSignal::End => {
                        stop.cancel();
                        cancel.cancel();
                    }
                },
                () = line.wait() => line.show(),
            }
        }
    };
    line.clear();
    agents.shut_down().await;
    let code = signals.exit_code().or_else(|| interrupted.then(|| ExitCode::from(130)));
    Ok((summary?, code))
}
