//! The line that shows how far a run has come.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_research::{BatchObserver, BatchProgress, ProgressSnapshot};
use hermes_types::Clock;

use crate::output::Console;

/// How often the line is drawn on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// How often a line is written elsewhere.
const REPORT: Duration = Duration::from_secs(30);

/// Shows progress on standard error.
pub(super) struct ProgressLine {
    progress: Arc<BatchProgress>,
    clock: Arc<dyn Clock>,
    output: Console,
    began: Duration,
    /// Set while a line is drawn that has to be removed before another is written.
    drawn: Mutex<bool>,
}

impl ProgressLine {
    pub(super) fn new(progress: Arc<BatchProgress>, clock: Arc<dyn Clock>) -> Self {
        let began = clock.monotonic();
        Self { progress, clock, output: Console::new(), began, drawn: Mutex::new(false) }
    }

    /// Waits until the line is to be shown again.
    pub(super) async fn wait(&self) {
        self.clock.sleep(if Console::draws_status() { REDRAW } else { REPORT }).await;
    }

    pub(super) fn show(&self) {
        let elapsed = self.clock.monotonic().saturating_sub(self.began);
        let text = describe(&self.progress.snapshot(), elapsed);
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if Console::draws_status() {
            *drawn = true;
            Console::status(&text);
        } else {
            self.output.notice(&text);
        }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *drawn) {
            Console::status("");
        }
    }

    pub(super) fn say(&self, text: &str) {
        self.clear();
        self.output.notice(text);
    }
}

impl BatchObserver for ProgressLine {
    fn notice(&self, text: &str) {
        self.say(text);
    }
}

/// Describes a moment of a run.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn describe(now: &ProgressSnapshot, elapsed: Duration) -> String {
    let done = now.done();
    let percent = (done * 100).checked_div(now.total).unwrap_or(100);
    let mut text = format!("{done}/{} prompts {percent} %", now.total);
    // Writing to a `String` cannot fail.
    let _ = write!(text, " | batches {}/{} | {} running", now.batches_done, now.batches, now.running);
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    let _ = write!(text, " | {rate:.1}/s | {}", cost(now));
    if now.failed > 0 {
        let _ = write!(text, " | {} failed", now.failed);
    }
    if now.discarded > 0 {
        let _ = write!(text, " | {} discarded", now.discarded);
    }
    if done > 0 && done < now.total {
        let left = Duration::from_secs_f64(((now.total - done) as f64 / rate).min(1e9));
        let _ = write!(text, " | ETA {}", span(left));
    }
    text
}

/// Describes what was spent.
#[expect(clippy::cast_precision_loss, reason = "sums people pay are far below 2^52")]
pub(super) fn cost(now: &ProgressSnapshot) -> String {
    let dollars = format!("${:.4}", now.micro_usd as f64 / 1e6);
    match (now.micro_usd, now.unpriced) {
        (_, 0) => dollars,
        (0, _) => "cost unknown".to_owned(),
        (_, calls) => format!("{dollars} and {calls} calls of unknown price"),
    }
}

/// Describes a length of time.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h {minutes:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_described_in_one_line() {
        let mut now = ProgressSnapshot {
            total: 200,
            batches: 20,
            batches_done: 4,
            running: 8,
            written: 40,
            ..ProgressSnapshot::default()
        };
        let elapsed = Duration::from_secs(20);
        assert_eq!(
            describe(&now, elapsed),
            "40/200 prompts 20 % | batches 4/20 | 8 running | 2.0/s | $0.0000 | ETA 1m 20s"
        );
        now = ProgressSnapshot { failed: 3, discarded: 7, micro_usd: 1_234_500, unpriced: 2, ..now };
        let text = describe(&now, elapsed);
        assert!(text.contains("50/200") && text.contains("$1.2345 and 2 calls of unknown price"), "{text}");
        assert!(text.contains("| 3 failed | 7 discarded |"), "{text}");
        assert_eq!(
            describe(&ProgressSnapshot::default(), Duration::ZERO).split(" | ").next(),
            Some("0/0 prompts 100 %")
        );
        assert_eq!(span(Duration::from_secs(3725)), "1h 02m");
    }
}
