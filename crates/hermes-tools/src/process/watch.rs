//! Unsolicited notices about a process: that it is still running, that a pattern matched, that it ended.
//!
//! This module decides when to send a notice, and limits their rate; the sink decides who gets it and how.
//! Texts contain no control sequences or secrets. Invariant: a process with much output cannot flood the user
//! with notices.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_exec::strip_ansi;
use hermes_text::{head, tail};
use hermes_types::{Clock, TaskId};

use super::checkpoint::ProcessRecord;
use super::registry::ProcessEntry;
use crate::terminal::mask;

/// The interval at which output is searched for patterns.
const LOOK: Duration = Duration::from_secs(1);
/// The time in which one process sends at most one notice of a match.
const WINDOW: Duration = Duration::from_secs(15);
/// The number of consecutive windows with suppressed matches after which the patterns are dropped.
const MOST_STRIKES: u32 = 3;
/// The number of notices that all processes together may send within `AT_ONCE`; then they pause.
const MOST_AT_ONCE: usize = 15;
const AT_ONCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(30);
const RUNNING_CHARS: usize = 500;
const ENDED_CHARS: usize = 1000;
const LINE_CHARS: usize = 500;
const COMMAND_CHARS: usize = 80;
/// The exit code of a process whose end was not observed.
pub(super) const UNKNOWN_EXIT: i32 = -1;

/// A notice about a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessNotice {
    /// The id of the process: `proc_…`.
    pub process: String,
    /// The conversation in which the process was started.
    pub session: String,
    pub task: TaskId,
    pub kind: ProcessNoticeKind,
    /// The text for a person, on any platform.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessNoticeKind {
    Running,
    /// The process ended with this exit code.
    Ended(i32),
    /// A pattern matched.
    Matched,
    /// Patterns matched so often that matches are no longer reported.
    Muted,
}

/// Receives notices.
pub trait ProcessNoticeSink: Send + Sync + fmt::Debug {
    /// Delivers a notice. Must not block.
    fn notify(&self, notice: ProcessNotice);
}

/// Selects which notices a user gets: `display.background_process_notifications`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessNotificationLevel {
    All,
    /// The end of a process, not its progress.
    Result,
    /// Only the end of a process that failed.
    Error,
    Off,
}

impl ProcessNotificationLevel {
    /// Parses the setting. An unknown value means all notices.
    pub fn parse(text: &str) -> Self {
        match text.trim().to_lowercase().as_str() {
            "result" => Self::Result,
            "error" => Self::Error,
            "off" => Self::Off,
            _ => Self::All,
        }
    }

    pub fn include(self, kind: ProcessNoticeKind) -> bool {
        match (self, kind) {
            (Self::Off, _) | (Self::Result | Self::Error, ProcessNoticeKind::Running) => false,
            (Self::Error, ProcessNoticeKind::Ended(code)) => code != 0,
            // The model requested these patterns explicitly.
            _ => true,
        }
    }
}

/// The events for which a process is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WatchOptions {
    pub(crate) interval: Option<Duration>,
    pub(crate) at_end: ExitNotice,
    pub(crate) patterns: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ExitNotice {
    #[default]
    Silent,
    Notify,
}

impl WatchOptions {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the notices that a later start can still send: the output, and with it the patterns, cannot be read
    /// there, but the end can be seen.
    pub(crate) fn after_restart(&self) -> Self {
        let at_end = if self.patterns.is_empty() { self.at_end } else { ExitNotice::Notify };
        Self { interval: self.interval, at_end, patterns: Vec::new() }
    }
}

/// Sends notices to the sink within the limit for all processes together.
#[derive(Debug)]
pub(crate) struct NoticeDispatcher {
    sink: Arc<dyn ProcessNoticeSink>,
    rate_limit: Mutex<GlobalRateLimit>,
}

impl NoticeDispatcher {
    pub(crate) fn new(sink: Arc<dyn ProcessNoticeSink>) -> Self {
        Self { sink, rate_limit: Mutex::default() }
    }

    fn send(&self, entry: &ProcessEntry, kind: ProcessNoticeKind, text: String) {
        let (process, session, task) = (entry.id.clone(), entry.session.clone(), entry.task.clone());
        self.sink.notify(ProcessNotice { process, session, task, kind, text });
    }

    /// Reports a process that ended while no Hermes watched it.
    pub(super) fn report_missed_end(&self, record: &ProcessRecord) {
        let name = name(&record.session_id, &record.command);
        self.sink.notify(ProcessNotice {
            process: record.session_id.clone(),
            session: record.session_key.clone(),
            task: TaskId::from(record.task_id.as_str()),
            kind: ProcessNoticeKind::Ended(UNKNOWN_EXIT),
            text: format!("[{name} ended while Hermes was not running; its exit code is not known]"),
        });
    }

    fn try_acquire(&self, now: Duration) -> bool {
        self.rate_limit.lock().unwrap_or_else(PoisonError::into_inner).try_acquire(now)
    }
}

/// Watches a process until it has ended.
pub(crate) async fn watch(
    entry: ProcessEntry,
    wishes: WatchOptions,
    outlet: Arc<NoticeDispatcher>,
    clock: Arc<dyn Clock>,
) {
    let mut watched = ProcessWatch {
        entry: &entry,
        dispatcher: &outlet,
        clock: &*clock,
        options: wishes,
        looked_at: 0,
        reported: 0,
        windows: MatchRateLimit::default(),
    };
    let mut next_report = watched.options.interval.map(|interval| clock.monotonic() + interval);
    let code = loop {
        let pause = match (watched.options.patterns.is_empty(), next_report) {
            (false, _) => Some(LOOK),
            (true, Some(at)) => Some(at.saturating_sub(clock.monotonic())),
            (true, None) => None,
        };
        let pause = async {
            match pause {
                Some(pause) => clock.sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            code = entry.ended(&*clock) => break code,
            () = pause => {}
        }
        watched.look_for_patterns();
        if let (Some(at), Some(interval)) = (next_report, watched.options.interval)
            && clock.monotonic() >= at
        {
            watched.report_progress();
            next_report = Some(clock.monotonic() + interval);
        }
    };
    watched.look_for_patterns();
    watched.report_end(code);
}

struct ProcessWatch<'a> {
    entry: &'a ProcessEntry,
    dispatcher: &'a NoticeDispatcher,
    clock: &'a dyn Clock,
    options: WatchOptions,
    /// The number of characters searched for patterns; the next field is the number at the last report.
    looked_at: u64,
    reported: u64,
    windows: MatchRateLimit,
}

impl ProcessWatch<'_> {
    fn report_progress(&mut self) {
        let total = self.entry.total_chars();
        if total == self.reported {
            return;
        }
        self.reported = total;
        let text = format!("[{} is still running]\n{}", self.name(), self.last(RUNNING_CHARS));
        self.dispatcher.send(self.entry, ProcessNoticeKind::Running, text);
    }

    fn report_end(&self, code: i32) {
        if self.options.interval.is_some() || self.options.at_end == ExitNotice::Notify {
            let name = self.name();
            let text = if self.entry.is_detached() {
                format!("[{name} ended; Hermes was restarted while it ran, so its exit code is not known]")
            } else {
                format!("[{name} ended with exit code {code}]\n{}", self.last(ENDED_CHARS))
            };
            self.dispatcher.send(self.entry, ProcessNoticeKind::Ended(code), text.trim_end().to_owned());
        }
    }

    fn look_for_patterns(&mut self) {
        if self.options.patterns.is_empty() {
            return;
        }
        let total = self.entry.total_chars();
        let fresh = usize::try_from(total.saturating_sub(self.looked_at)).unwrap_or(usize::MAX);
        let output = self.entry.output();
        let raw = tail(&output, fresh);
        // An incomplete line is searched again once it is complete.
        let rest = raw.rsplit('\n').next().unwrap_or_default().chars().count();
        let fresh = strip_ansi(raw);
        let complete = self.entry.exit_code().is_some();
        self.looked_at = if complete { total } else { total.saturating_sub(rest as u64) };
        let lines = fresh.lines().take(if complete { usize::MAX } else { fresh.matches('\n').count() });
        for line in lines {
            let Some(pattern) = self.options.patterns.iter().find(|pattern| line.contains(pattern.as_str()))
            else {
                continue;
            };
            let now = self.clock.monotonic();
            match self.windows.decide(now) {
                MatchDecision::Notify if self.dispatcher.try_acquire(now) => {
                    let line = mask(&self.entry.command, head(line.trim(), LINE_CHARS));
                    let text = format!("[{}: `{pattern}` appeared]\n{line}", self.name());
                    self.dispatcher.send(self.entry, ProcessNoticeKind::Matched, text);
                }
                MatchDecision::Notify | MatchDecision::Suppress => {}
                MatchDecision::GiveUp => return self.give_up(),
            }
        }
    }

    fn give_up(&mut self) {
        self.options.patterns.clear();
        self.options.at_end = ExitNotice::Notify;
        let text = format!("[{}: its patterns appear too often; only its end is told]", self.name());
        self.dispatcher.send(self.entry, ProcessNoticeKind::Muted, text);
    }

    fn name(&self) -> String {
        name(&self.entry.id, &self.entry.command)
    }

    fn last(&self, chars: usize) -> String {
        let output = self.entry.output();
        tail(&mask(&self.entry.command, &strip_ansi(&output)), chars).to_owned()
    }
}

/// Names a process to a person, with its masked command.
fn name(id: &str, command: &str) -> String {
    format!("Process {id} ({})", head(&mask(command, command), COMMAND_CHARS))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MatchDecision {
    Notify,
    Suppress,
    GiveUp,
}

/// Limits how often one process reports matches.
#[derive(Debug, Default)]
struct MatchRateLimit {
    began: Option<Duration>,
    held_back: bool,
    strikes: u32,
}

impl MatchRateLimit {
    fn decide(&mut self, now: Duration) -> MatchDecision {
        if self.began.is_some_and(|began| now.saturating_sub(began) < WINDOW) {
            if !std::mem::replace(&mut self.held_back, true) {
                self.strikes += 1;
            }
            return if self.strikes >= MOST_STRIKES {
                MatchDecision::GiveUp
            } else {
                MatchDecision::Suppress
            };
        }
        if !self.held_back {
            self.strikes = 0;
        }
        self.held_back = false;
        self.began = Some(now);
        MatchDecision::Notify
    }
}

/// Limits how often all processes together report matches.
#[derive(Debug, Default)]
struct GlobalRateLimit {
    recent: VecDeque<Duration>,
    quiet_until: Duration,
}

impl GlobalRateLimit {
    fn try_acquire(&mut self, now: Duration) -> bool {
        if now < self.quiet_until {
            return false;
        }
        self.recent.retain(|at| now.saturating_sub(*at) < AT_ONCE);
        if self.recent.len() >= MOST_AT_ONCE {
            self.quiet_until = now + PAUSE;
            self.recent.clear();
            return false;
        }
        self.recent.push_back(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn one_match_per_window_and_three_full_windows_are_the_end() {
        let mut windows = MatchRateLimit::default();
        let told: Vec<MatchDecision> =
            [0, 1, 2, 16, 17, 32, 33].map(|time| windows.decide(at(time))).to_vec();
        assert_eq!(
            told,
            [
                MatchDecision::Notify,
                MatchDecision::Suppress,
                MatchDecision::Suppress,
                MatchDecision::Notify,
                MatchDecision::Suppress,
                MatchDecision::Notify,
                MatchDecision::GiveUp
            ]
        );
        // A window without suppressed matches resets the count.
        let mut calm = MatchRateLimit::default();
        for time in [0, 1, 16, 17, 40, 60, 61, 80, 81] {
            assert_ne!(calm.decide(at(time)), MatchDecision::GiveUp, "{time}");
        }
    }

    #[test]
    fn a_crowd_is_paused() {
        let mut crowd = GlobalRateLimit::default();
        assert_eq!((0..20).filter(|_| crowd.try_acquire(at(1))).count(), MOST_AT_ONCE);
        assert!(!crowd.try_acquire(at(30)));
        assert!(crowd.try_acquire(at(31)));
    }

    #[test]
    fn users_choose_what_they_hear() {
        for (setting, running, ended, failed, matched) in [
            ("all", true, true, true, true),
            ("RESULT", false, true, true, true),
            ("error", false, false, true, true),
            ("off", false, false, false, false),
            ("sometimes", true, true, true, true),
        ] {
            let wants = ProcessNotificationLevel::parse(setting);
            let heard = [
                ProcessNoticeKind::Running,
                ProcessNoticeKind::Ended(0),
                ProcessNoticeKind::Ended(1),
                ProcessNoticeKind::Matched,
            ]
            .map(|kind| wants.include(kind));
            assert_eq!(heard, [running, ended, failed, matched], "{setting}");
        }
    }
}
