//! `hermes compress`: shortens trajectories.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_research::{
    BatchObserver, CompressionJob, CompressionTarget, SampleShare, TokenCounter, TrajectoryCompression,
    TrajectoryLimits, dry_run,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};

use crate::cli::CompressArguments;
use crate::command::chat::signals::ChatSignals;
use crate::context::{ProgramContext, local_time};
use crate::output::Console;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::research::summary_model;

struct Notices(Console);

impl BatchObserver for Notices {
    fn notice(&self, text: &str) {
        self.0.notice(text);
    }
}

pub(crate) fn run(
    arguments: &CompressArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let share = arguments.sample_percent.map(SampleShare::new);
    if let (Some(None), Some(percent)) = (share, arguments.sample_percent) {
        output.error(&format!("--sample-percent is {percent}; it must be above 0 and at most 100"));
        return Ok(ExitCode::from(2));
    }
    let share = share.flatten();
    let settings = read_settings(&arguments.config, arguments.target_max_tokens, output)?;
    let target =
        CompressionTarget::new(&arguments.input, arguments.output.as_deref(), &arguments.only, &settings)?;
    if target.has_records_twice() {
        output.notice(
            "warning: the folder has batch files and trajectories.jsonl, which contains the same records; both are \
             compressed and paid for. --only trajectories.jsonl leaves the batch files out.",
        );
    }
    if arguments.dry_run {
        for ((from, lines, taken), (_, to)) in dry_run(&target, share)?.iter().zip(&target.files) {
            output.line(&format!("{}: {taken} of {lines} trajectories to {}", from.display(), to.display()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let counter = token_counter(arguments.tokenizer.as_deref(), &settings, context, output)?;
    let wish = CompressionWish { settings, share, seed: arguments.seed, counter };
    runtime.block_on(compress(wish, &target, context, output))
}

/// What is compressed, and how.
pub(super) struct CompressionWish {
    pub(super) settings: TrajectoryLimits,
    pub(super) share: Option<SampleShare>,
    pub(super) seed: u32,
    pub(super) counter: TokenCounter,
}

/// Returns what counts tokens: the tokenizer that is named, where it can be used, or else an estimate, which is said.
pub(super) fn token_counter(
    flag: Option<&str>,
    settings: &TrajectoryLimits,
    context: &ProgramContext,
    output: &Console,
) -> Result<TokenCounter> {
    let named = flag.or(settings.tokenizer.as_deref());
    if let Some(name) = named {
        if let Some(counter) = counter_of(name, context)? {
            return Ok(counter);
        }
        let why = if cfg!(feature = "tokenizers") {
            "there is no tokenizer.json in such a folder, nor among fetched models"
        } else {
            "this build has no tokenizers; build it with `--features tokenizers`"
        };
        if flag.is_some() {
            bail!("--tokenizer {name}: {why}");
        }
        output.notice(&format!("warning: tokenizer.name {name}: {why}"));
    }
    output.notice("note: tokens are estimated as a quarter of the characters");
    Ok(Arc::new(estimated_tokens))
}

#[cfg(feature = "tokenizers")]
fn counter_of(name: &str, context: &ProgramContext) -> Result<Option<TokenCounter>> {
    let Some(folder) = crate::wiring::tokenizer::find(name, &context.env) else { return Ok(None) };
    let file = hermes_research::TokenizerFile::open(&folder)?;
    // What cannot be encoded is estimated.
    Ok(Some(Arc::new(move |text: &str| {
        if text.is_empty() { 0 } else { file.count(text).unwrap_or_else(|_| estimated_tokens(text)) }
    })))
}

#[cfg(not(feature = "tokenizers"))]
#[expect(clippy::unnecessary_wraps, reason = "as with the feature")]
fn counter_of(_: &str, _: &ProgramContext) -> Result<Option<TokenCounter>> {
    Ok(None)
}

/// Reads the settings. Only the file that is looked for by default may be missing.
pub(super) fn read_settings(path: &Path, target: Option<u64>, output: &Console) -> Result<TrajectoryLimits> {
    let mut settings = match std::fs::read_to_string(path) {
        Ok(text) => TrajectoryLimits::from_yaml(&text).with_context(|| path.display().to_string())?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            output.notice(&format!("note: {} does not exist; the defaults are used", path.display()));
            TrajectoryLimits::default()
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    if let Some(tokens) = target {
        settings.target_tokens = tokens;
    }
    Ok(settings)
}

pub(super) async fn compress(
    wish: CompressionWish,
    target: &CompressionTarget,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let CompressionWish { settings, share, seed, counter } = wish;
    let config = context.usable_config(output)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let model = summary_model(&settings.summary, ProgramConfig { context, config: &config }, &clock)?;
    let job = CompressionJob {
        settings: Arc::new(settings),
        model,
        count_tokens: counter,
        share,
        seed,
        calendar: Arc::new(local_time),
        observer: Arc::new(Notices(Console::new())),
    };
    let cancel = Cancel::new();
    let mut signals = ChatSignals::listen()?;
    let report = {
        let mut running = std::pin::pin!(job.run(target, &cancel));
        loop {
            tokio::select! {
                done = &mut running => break done?,
                _ = signals.next() => cancel.cancel(),
            }
        }
    };
    if report.interrupted {
        output.notice("Interrupted; files that were not complete were not written.");
        return Ok(signals.exit_code().unwrap_or(ExitCode::from(130)));
    }
    output.text(&describe(&report, target));
    Ok(if report.totals.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn estimated_tokens(text: &str) -> u64 {
    text.chars().count() as u64 / 4
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn describe(report: &TrajectoryCompression, target: &CompressionTarget) -> String {
    let totals = &report.totals;
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let mut line = |words: String| {
        let _ = writeln!(text, "{words}");
    };
    line(format!("Trajectories: {}", totals.trajectories));
    line(format!("  compressed      {}", totals.compressed));
    line(format!("  short enough    {}", totals.skipped));
    line(format!("  still too long  {}", totals.over_limit));
    line(format!("  failed          {}", totals.failed));
    line(format!("Tokens: {} before, {} after", totals.tokens_before, totals.tokens_after));
    line(format!("Turns: {} before, {} after", totals.turns_before, totals.turns_after));
    line(format!("Summaries: {} requests, {} failed", totals.api_calls, totals.errors));
    if let Some(([least, most, middle], [saved_least, saved_most, saved_middle])) = totals.spreads() {
        line(format!("Ratio: {least:.3} to {most:.3}, median {middle:.3}"));
        line(format!("Saved tokens: {saved_least:.0} to {saved_most:.0}, median {saved_middle:.0}"));
    }
    let time = Duration::from_secs_f64(report.seconds.max(0.0));
    let rate = totals.trajectories as f64 / report.seconds.max(0.001);
    line(format!("Time: {:.1} s ({rate:.1} trajectories/s)", time.as_secs_f64()));
    for (_, to) in &target.files {
        line(format!("Written: {}", to.display()));
    }
    text
}
