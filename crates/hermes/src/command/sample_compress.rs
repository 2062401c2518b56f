//! `hermes sample-compress`: draws long trajectories from several datasets, and shortens them.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hermes_research::{CompressionTarget, TrajectorySelection, merge_folder};

use super::compress::{CompressionWish, compress, read_settings, token_counter};
use crate::cli::SampleCompressArguments;
use crate::context::ProgramContext;
use crate::output::Console;

pub(crate) fn run(
    arguments: &SampleCompressArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let name = &arguments.output_name;
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        output.error(&format!("--output-name is `{name}`; it must be a name without `/`, and not hidden"));
        return Ok(ExitCode::from(2));
    }
    if arguments.total_samples == 0 || arguments.batch_size == 0 {
        output.error("--total-samples and --batch-size must be at least 1");
        return Ok(ExitCode::from(2));
    }
    let settings = read_settings(&arguments.config, arguments.target_max_tokens, output)?;
    let counter = token_counter(arguments.tokenizer.as_deref(), &settings, context, output)?;
    let data = Path::new("data");
    let raw = data.join(format!("{name}_raw"));
    let batches = data.join(format!("{name}_batches"));
    if raw.exists() || batches.exists() {
        output.error(&format!(
            "{} or {} exists already; remove them, or choose another --output-name",
            raw.display(),
            batches.display()
        ));
        return Ok(ExitCode::FAILURE);
    }
    let selection = TrajectorySelection {
        datasets: arguments.datasets.clone(),
        total: arguments.total_samples,
        min_tokens: arguments.min_tokens,
        seed: arguments.seed,
        batch_size: arguments.batch_size,
        folder: raw.clone(),
    };
    let report = selection.write(&counter)?;
    output.line(&format!(
        "{} of {} lines are long enough; {} were drawn.",
        report.long_enough, report.lines, report.drawn
    ));
    if report.unusable > 0 {
        output.notice(&format!("warning: {} lines have no conversation; they are left out", report.unusable));
    }
    let target = CompressionTarget::new(&raw, Some(&batches), &[], &settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let wish = CompressionWish { settings, share: None, seed: arguments.seed, counter };
    let code = runtime.block_on(compress(wish, &target, context, output))?;
    let merged = data.join(format!("{name}.jsonl"));
    if code == ExitCode::SUCCESS || batches.is_dir() {
        let lines = merge_folder(&batches, &merged)?;
        output.line(&format!("Written: {} ({lines} trajectories)", merged.display()));
    }
    Ok(code)
}
