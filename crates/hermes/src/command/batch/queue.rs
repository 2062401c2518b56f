//! `hermes batch enqueue`, `worker`, `status`, `export` and `import`: a run that several machines share.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_config::write;
use hermes_net::HttpClient;
use hermes_research::{
    BatchProgress, DistributionSampler, QueueOptions, QueueStatus, QueueWorker, RolloutRunner, RunQueue,
    export_run, find_distribution, import_run, iso_time, queue_items,
};
use hermes_task::SystemClock;
use hermes_text::JsonTree;
use hermes_tools::TOOLSETS;
use hermes_types::{Cancel, Clock, HolderId};
use sha2::{Digest as _, Sha256};

use super::progress::{ProgressLine, cost};
use super::settings::BatchSettings;
use super::{open_dataset, supervise};
use crate::cli::{BatchAction, BatchArguments};
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;
use crate::wiring::model::net_config;
use crate::wiring::research::{ScratchStore, registered_tools};

pub(super) async fn run(
    arguments: &BatchArguments,
    settings: BatchSettings,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let config = context.usable_config(output)?;
    let address =
        arguments.queue.clone().or_else(|| context.env.get("HERMES_BATCH_QUEUE").map(str::to_owned));
    let Some(address) = address else {
        output.error(
            "--queue is missing; give the address of a PostgreSQL database, or set HERMES_BATCH_QUEUE",
        );
        return Ok(ExitCode::from(2));
    };
    let lease = Duration::from_secs(u64::from(arguments.lease_seconds));
    let options = QueueOptions { lease, ..QueueOptions::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let net = HttpClient::new(net_config(&context.env, &clock))?;
    let queue = RunQueue::connect(&address, &settings.run_name, options, &net).await?;
    match arguments.action {
        BatchAction::Run | BatchAction::Launch => bail!("this needs no queue"),
        BatchAction::Enqueue => enqueue(&queue, arguments, &settings, output).await,
        BatchAction::Status => {
            let status = queue.status().await?;
            output.text(&describe(&settings.run_name, status));
            Ok(ExitCode::SUCCESS)
        }
        BatchAction::Worker => {
            let config = settings.config(&config, context);
            work(queue, arguments, &settings, context, &config, output).await
        }
        BatchAction::Export => export(&queue, arguments, &settings, output).await,
        BatchAction::Import => {
            stored(&queue).await?;
            let folder = settings.batch_options(arguments, "")?.folder;
            let report = import_run(&queue, &folder).await?;
            output.line(&format!(
                "Imported {} records of {}; {} are left out, because their prompt is not open in the queue.",
                report.imported,
                folder.display(),
                report.left_out
            ));
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn enqueue(
    queue: &RunQueue,
    arguments: &BatchArguments,
    settings: &BatchSettings,
    output: &Console,
) -> Result<ExitCode> {
    let dataset = open_dataset(arguments, settings, output)?;
    let known = match queue.config().await? {
        Some(text) => JsonTree::parse(&text).ok(),
        None => None,
    };
    // Workers draw by the seed, so that a prompt that is done again gets the same toolsets.
    let seed = arguments.seed.or_else(|| known.as_ref()?.get("seed")?.as_u64());
    let seed =
        seed.unwrap_or_else(|| u64::from_str_radix(&hermes_types::random_hex(12), 16).unwrap_or_default());
    let config = JsonTree::object([
        ("distribution", settings.distribution.name.into()),
        ("batch_size", settings.batch_size.into()),
        ("seed", seed.into()),
    ]);
    let registry = Sha256::digest(registered_tools().join("\n"));
    let registry = data_encoding::HEXLOWER.encode(&registry);
    let added = queue.enqueue(&queue_items(&dataset)?, &config.to_string(), &registry).await?;
    output.line(&format!("{added} of {} prompts are new in the queue.", dataset.len()));
    output.text(&describe(&settings.run_name, queue.status().await?));
    Ok(ExitCode::SUCCESS)
}

/// What is stored with a run.
struct StoredRun {
    distribution: String,
    batch_size: usize,
    seed: Option<u64>,
}

async fn stored(queue: &RunQueue) -> Result<StoredRun> {
    let text =
        queue.config().await?.context("there is no such run in the queue; `hermes batch enqueue` adds it")?;
    let config = JsonTree::parse(&text).context("what the queue stores of the run is not JSON")?;
    let number = |name: &str| config.get(name).and_then(JsonTree::as_u64);
    Ok(StoredRun {
        distribution: config.get("distribution").and_then(JsonTree::as_str).unwrap_or("default").to_owned(),
        batch_size: number("batch_size").and_then(|size| usize::try_from(size).ok()).unwrap_or(1),
        seed: number("seed"),
    })
}

async fn work(
    queue: RunQueue,
    arguments: &BatchArguments,
    settings: &BatchSettings,
    context: &ProgramContext,
    config: &hermes_config::Config,
    output: &Console,
) -> Result<ExitCode> {
    let run = stored(&queue).await?;
    let distribution = find_distribution(&run.distribution);
    let distribution = distribution.with_context(|| {
        format!("the run uses the distribution {}, which does not exist here", run.distribution)
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let scratch = ScratchStore::create(context)?;
    let done = async {
        let models = settings.models(arguments, context, config, &clock, &scratch.store)?;
        let rollouts = settings.rollouts(arguments, models.name());
        let agents = Arc::new(settings.agents(context, config, models, &clock, &scratch.store)?);
        let progress = Arc::new(BatchProgress::default());
        let line = Arc::new(ProgressLine::new(progress.clone(), clock.clone()));
        let exists = |name: &str| TOOLSETS.iter().any(|toolset| toolset.name == name);
        let worker = QueueWorker {
            queue,
            runner: RolloutRunner::new(agents.clone(), rollouts, progress),
            sampler: DistributionSampler::new(distribution, run.seed, exists),
            batch_size: run.batch_size,
            workers: arguments.num_workers,
            owner: HolderId::generate().as_str().to_owned(),
            clock: clock.clone(),
            observer: line.clone(),
        };
        let (summary, code) =
            supervise(async |stop: &Cancel, cancel: &Cancel| worker.run(stop, cancel).await, &line, &agents)
                .await?;
        let progress = summary.progress;
        output.line(&format!(
            "Wrote {} records, discarded {}, failed {} ({}).",
            progress.written,
            progress.discarded,
            progress.failed,
            cost(&progress)
        ));
        if summary.fenced > 0 {
            output.line(&format!(
                "Dropped {} results of prompts that other workers took over.",
                summary.fenced
            ));
        }
        if let Some(reason) = &summary.stopped {
            output.line(&format!("Stopped: {reason}"));
        }
        let failed = progress.failed > 0 || summary.stopped.is_some();
        Ok(code.unwrap_or(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
    };
    let done = done.await;
    scratch.remove().await;
    done
}

async fn export(
    queue: &RunQueue,
    arguments: &BatchArguments,
    settings: &BatchSettings,
    output: &Console,
) -> Result<ExitCode> {
    let run = stored(queue).await?;
    let model = arguments.model.clone().unwrap_or_default();
    let options = settings.batch_options(arguments, &model)?;
    let folder = &options.folder;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let status = queue.status().await?;
    let mut finished = Vec::new();
    let target = folder.join("trajectories.jsonl");
    let (report, statistics) =
        export_run(queue, &target, &registered_tools(), |index| finished.push(index)).await?;
    let at = now();
    let time = iso_time(local_time(at), at);
    let checkpoint = JsonTree::object([
        ("run_name", settings.run_name.as_str().into()),
        ("completed_prompts", finished.into_iter().collect()),
        ("batch_stats", JsonTree::object([])),
        ("last_updated", time.as_str().into()),
    ]);
    write::replace(&folder.join("checkpoint.json"), checkpoint.pretty().as_bytes())?;
    let total = usize::try_from(status.total()).unwrap_or(usize::MAX);
    let text =
        statistics.describe_run(&settings.run_name, &run.distribution, total, run.batch_size, &model, &time);
    write::replace(&folder.join("statistics.json"), text.as_bytes())?;
    for dropped in &report.dropped {
        output.line(&format!("dropped: {dropped}"));
    }
    output.line(&format!("Wrote {} records to {}.", report.merged, target.display()));
    if status.open() > 0 {
        output.line(&format!("{} prompts are still open.", status.open()));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(run: &str, status: QueueStatus) -> String {
    let mut text = format!("Run {run}: {} prompts\n", status.total());
    let QueueStatus { ready, leased, done, discarded, dead } = status;
    for (name, count) in [
        ("waiting", ready),
        ("running", leased),
        ("done", done),
        ("discarded", discarded),
        ("given up", dead),
    ] {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  {name:<10} {count}");
    }
    text
}
