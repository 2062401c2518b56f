//! Goes through files of trajectories: so many at once, in their order.

use std::fs::File;
use std::io::Write as _;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use hermes_agent::Calendar;
use hermes_task::spawn_cooperative;
use hermes_text::JsonTree;
use hermes_types::{Cancel, Clock};

use super::config::TrajectoryLimits;
use super::metrics::{CompressionMetrics, CompressionTotals, ReplacedTurns};
use super::region::{RegionChoice, choose_region};
use super::sample::{SampleGenerator, SampleShare};
use super::summary::SummaryModel;
use crate::batch::BatchObserver;
use crate::error::Error;
use crate::file::replace_file;
use crate::trajectory::{TrajectoryTurn, iso_time};

/// What is read, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressionTarget {
    /// The files to read, and those to write.
    pub files: Vec<(PathBuf, PathBuf)>,
    pub metrics: PathBuf,
}

impl CompressionTarget {
    /// Finds the files of an input: a file, or those of a folder by name. `only` selects some of a folder.
    pub fn new(
        input: &Path,
        output: Option<&Path>,
        only: &[String],
        settings: &TrajectoryLimits,
    ) -> Result<Self, Error> {
        let suffix = &settings.notice.suffix;
        let kind = std::fs::metadata(input).map_err(Error::file(input))?;
        if !kind.is_dir() {
            let stem = input.file_stem().unwrap_or_default().to_string_lossy();
            let output =
                output.map_or_else(|| input.with_file_name(format!("{stem}{suffix}.jsonl")), Path::to_owned);
            let stem = output.file_stem().unwrap_or_default().to_string_lossy();
            let metrics = output.with_file_name(format!("{stem}_metrics.json"));
            return Self { files: vec![(input.to_owned(), output)], metrics }.checked();
        }
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        let output = output.map_or_else(|| input.with_file_name(format!("{name}{suffix}")), Path::to_owned);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(input).map_err(Error::file(input))? {
            let name = entry.map_err(Error::file(input))?.file_name().to_string_lossy().into_owned();
            let is_lines = Path::new(&name).extension().is_some_and(|ending| ending == "jsonl");
            if is_lines && (only.is_empty() || only.contains(&name)) {
                names.push(name);
            }
        }
        names.sort_unstable();
        let files = names.iter().map(|name| (input.join(name), output.join(name))).collect();
        Self { files, metrics: output.join(&settings.metrics_file) }.checked()
    }

    fn checked(self) -> Result<Self, Error> {
        if self.files.is_empty() {
            return Err(Error::Unusable("there is no .jsonl file to compress".to_owned()));
        }
        match self.files.iter().find(|(from, to)| from == to) {
            Some((path, _)) => Err(Error::Unusable(format!(
                "{} would be written over itself; give another output",
                path.display()
            ))),
            None => Ok(self),
        }
    }

    /// Tells whether a run's parts and their sum are both among the files.
    pub fn has_records_twice(&self) -> bool {
        let named = |wanted: &dyn Fn(&str) -> bool| {
            self.files.iter().any(|(from, _)| wanted(&from.file_name().unwrap_or_default().to_string_lossy()))
        };
        named(&|name| name == "trajectories.jsonl") && named(&|name| name.starts_with("batch_"))
    }
}

/// Counts the tokens of a text.
pub type TokenCounter = Arc<dyn Fn(&str) -> u64 + Send + Sync>;

/// A compression that can begin.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct CompressionJob {
    pub settings: Arc<TrajectoryLimits>,
    pub model: SummaryModel,
    /// Counts the tokens of a text.
    pub count_tokens: TokenCounter,
    pub share: Option<SampleShare>,
    pub seed: u32,
    pub calendar: Calendar,
    pub observer: Arc<dyn BatchObserver>,
}

/// What a compression did.
#[derive(Debug, Clone, PartialEq)]
pub struct TrajectoryCompression {
    pub totals: CompressionTotals,
    pub seconds: f64,
    pub interrupted: bool,
}

/// What became of one line.
enum LineOutcome {
    /// The line, as it was or shortened.
    Line(String, CompressionMetrics),
    /// The line stays as it was, and something went wrong.
    Failed(String),
    TimedOut,
}

/// Counts what would be done: the lines of each file, and how many of them would be taken.
pub fn dry_run(
    target: &CompressionTarget,
    share: Option<SampleShare>,
) -> Result<Vec<(PathBuf, usize, usize)>, Error> {
    let counted = target.files.iter().map(|(from, _)| {
        let lines = valid_lines(from, |_| ())?.len();
        Ok((from.clone(), lines, share.map_or(lines, |share| share.of(lines))))
    });
    counted.collect()
}

/// Returns the places of the lines that are JSON, and tells of the others.
fn valid_lines(path: &Path, mut skipped: impl FnMut(usize)) -> Result<Vec<(u64, usize)>, Error> {
    let mut reader = BufReader::new(File::open(path).map_err(Error::file(path))?);
    let (mut lines, mut offset, mut number) = (Vec::new(), 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(Error::file(path))?;
        if length == 0 {
            return Ok(lines);
        }
        number += 1;
        if !line.trim_ascii().is_empty() {
            if std::str::from_utf8(&line).is_ok_and(|text| JsonTree::parse(text).is_ok()) {
                lines.push((offset, length));
            } else {
                skipped(number);
            }
        }
        offset += length as u64;
    }
}

impl CompressionJob {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.model.clock
    }

    /// Compresses all files. Each output appears when it is complete.
    pub async fn run(
        self,
        target: &CompressionTarget,
        cancel: &Cancel,
    ) -> Result<TrajectoryCompression, Error> {
        let clock = self.clock().clone();
        let now = || {
            let now = clock.now();
            iso_time((self.calendar)(now), now)
        };
        let (began, started) = (clock.monotonic(), now());
        let mut totals = CompressionTotals::default();
        let mut generator = SampleGenerator::new(self.seed);
        for (from, to) in &target.files {
            if cancel.is_cancelled() {
                break;
            }
            if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
                made.map_err(Error::file(folder))?;
            }
            self.compress_file(from, to, &mut generator, &mut totals, cancel).await?;
        }
        let seconds = clock.monotonic().saturating_sub(began).as_secs_f64();
        if self.settings.metrics && !cancel.is_cancelled() {
            let text = totals.to_json(&started, &now(), seconds).pretty();
            replace_file(&target.metrics, |out| out.write_all(text.as_bytes()))?;
        }
        Ok(TrajectoryCompression { totals, seconds, interrupted: cancel.is_cancelled() })
    }

    async fn compress_file(
        &self,
        from: &Path,
        to: &Path,
        generator: &mut SampleGenerator,
        totals: &mut CompressionTotals,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        let skip = |number: usize| {
            let path = from.display();
            self.observer
                .notice(&format!("warning: {path}, line {number}: it is not JSON; the line is skipped"));
        };
        let mut lines = valid_lines(from, skip)?;
        if let Some(share) = self.share {
            let drawn = generator.sample(lines.len(), share.of(lines.len()));
            lines = drawn.into_iter().filter_map(|at| lines.get(at).copied()).collect();
        }
        let file = File::open(from).map_err(Error::file(from))?;
        let parts = to.with_file_name(format!(
            ".{}_{}.part",
            to.file_stem().unwrap_or_default().to_string_lossy(),
            hermes_types::random_hex(8)
        ));
        let result = self.write_lines(&file, from, lines, &parts, totals, cancel).await;
        let moved = match result {
            Ok(()) if cancel.is_cancelled() => Ok(()),
            Ok(()) => return std::fs::rename(&parts, to).map_err(Error::file(to)),
            Err(error) => Err(error),
        };
        // The first error is the one to report; the file may not even exist.
        let _ = std::fs::remove_file(&parts);
        moved
    }

    async fn write_lines(
        &self,
        file: &File,
        from: &Path,
        lines: Vec<(u64, usize)>,
        parts: &Path,
        totals: &mut CompressionTotals,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(parts);
        let mut out = std::io::BufWriter::new(out.map_err(Error::file(parts))?);
        let mut waiting = lines.into_iter();
        let mut running = FuturesOrdered::new();
        loop {
            while running.len() < self.settings.concurrent && !cancel.is_cancelled() {
                let Some((offset, length)) = waiting.next() else { break };
                let mut line = vec![0; length];
                file.read_exact_at(&mut line, offset).map_err(Error::file(from))?;
                let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
                running.push_back(self.start(line, cancel));
            }
            let Some((line, outcome)) = running.next().await else { break };
            let written = match outcome {
                LineOutcome::Line(line, metrics) => {
                    totals.add(&metrics);
                    Some(line)
                }
                LineOutcome::Failed(reason) => {
                    totals.failed += 1;
                    self.observer.notice(&format!("warning: a trajectory is kept as it was: {reason}"));
                    Some(line)
                }
                LineOutcome::TimedOut => {
                    totals.failed += 1;
                    self.observer.notice("warning: a trajectory took too long and is left out");
                    None
                }
            };
            if let Some(line) = written {
                writeln!(out, "{line}").map_err(Error::file(parts))?;
            }
        }
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(Error::file(parts))
    }

    /// Begins with one line in a task of its own.
    fn start(
        &self,
        line: String,
        cancel: &Cancel,
    ) -> impl Future<Output = (String, LineOutcome)> + Send + use<> {
        let entry = Entry {
            settings: self.settings.clone(),
            model: self.model.clone(),
            count_tokens: self.count_tokens.clone(),
            limit: self.settings.trajectory_timeout,
        };
        let copy = line.clone();
        let task =
            spawn_cooperative(
                "compression",
                cancel,
                |cancel| async move { entry.compress(&copy, &cancel).await },
            );
        async move {
            let outcome = task.await.unwrap_or_else(|error| LineOutcome::Failed(error.to_string()));
            (line, outcome)
        }
    }
}

/// What one line needs.
struct Entry {
    settings: Arc<TrajectoryLimits>,
    model: SummaryModel,
    count_tokens: TokenCounter,
    limit: Duration,
}

impl Entry {
    async fn compress(&self, line: &str, cancel: &Cancel) -> LineOutcome {
        let late = self.model.clock.sleep(self.limit);
        let cancel = cancel.child_token();
        tokio::select! {
            biased;
            outcome = self.shorten(line, &cancel) => outcome,
            () = late => {
                cancel.cancel();
                LineOutcome::TimedOut
            }
        }
    }

    async fn shorten(&self, line: &str, cancel: &Cancel) -> LineOutcome {
        let mut value = match JsonTree::parse(line) {
            Ok(value) => value,
            Err(error) => return LineOutcome::Failed(error.to_string()),
        };
        let Some(turns) = value.get("conversations").and_then(JsonTree::as_array) else {
            return LineOutcome::Line(line.to_owned(), CompressionMetrics::default());
        };
        let read: Option<Vec<TrajectoryTurn>> = turns.iter().map(TrajectoryTurn::from_json).collect();
        let Some(turns) = read else {
            return LineOutcome::Failed("a turn has no `from` or no `value`".to_owned());
        };
        let counts: Vec<(&str, u64)> =
            turns.iter().map(|turn| (turn.from.as_str(), (self.count_tokens)(&turn.value))).collect();
        let original_tokens = counts.iter().map(|(_, tokens)| tokens).sum();
        let unchanged = CompressionMetrics {
            original_tokens,
            compressed_tokens: original_tokens,
            original_turns: turns.len(),
            compressed_turns: turns.len(),
            ..CompressionMetrics::default()
        };
        let (start, end) = match choose_region(&counts, &self.settings) {
            RegionChoice::Keep => {
                let metrics = CompressionMetrics { skipped_under_target: true, ..unchanged };
                return LineOutcome::Line(line.to_owned(), metrics);
            }
            RegionChoice::TooLong => {
                let metrics = CompressionMetrics { still_over_limit: true, ..unchanged };
                return LineOutcome::Line(line.to_owned(), metrics);
            }
            RegionChoice::Replace { start, end } => (start, end),
        };
        let replaced = turns.get(start..end).unwrap_or_default();
        let summary = self.model.summarize(replaced, start, &self.settings, cancel).await;
        let mut kept: Vec<TrajectoryTurn> = turns.get(..start).unwrap_or_default().to_vec();
        if self.settings.notice.add {
            for turn in kept.iter_mut().filter(|turn| turn.from == "system") {
                turn.value.push_str(&self.settings.notice.text);
            }
        }
        kept.push(TrajectoryTurn { from: "human".to_owned(), value: summary.text });
        kept.extend(turns.get(end..).unwrap_or_default().iter().cloned());
        let compressed_tokens = kept.iter().map(|turn| (self.count_tokens)(&turn.value)).sum();
        let metrics = CompressionMetrics {
            compressed_tokens,
            compressed_turns: kept.len(),
            region: Some(ReplacedTurns { start, end }),
            still_over_limit: compressed_tokens > self.settings.target_tokens,
            api_calls: summary.calls,
            errors: summary.errors,
            ..unchanged
        };
        value.set("conversations", kept.iter().map(TrajectoryTurn::to_json).collect());
        if self.settings.metrics && self.settings.metrics_per_trajectory {
            value.set("compression_metrics", metrics.to_json());
        }
        LineOutcome::Line(value.to_string(), metrics)
    }
}
