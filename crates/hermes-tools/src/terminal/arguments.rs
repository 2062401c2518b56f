//! The arguments of a `terminal` call.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::argument::number;
use crate::process::{ExitNotice, WatchOptions};

const SHORTEST_INTERVAL: usize = 30;

/// The parsed arguments.
pub(super) struct TerminalArguments {
    pub(super) background: bool,
    pub(super) pty: bool,
    pub(super) timeout: Duration,
    /// The interval as given, and as used.
    interval: Option<(usize, usize)>,
    at_end: ExitNotice,
    patterns: Vec<String>,
}

impl TerminalArguments {
    pub(super) fn read(arguments: &Map<String, Value>, usual: Duration) -> Self {
        let flag = |name: &str| match arguments.get(name) {
            Some(Value::Bool(given)) => *given,
            Some(Value::String(given)) => matches!(given.to_lowercase().as_str(), "true" | "1" | "yes"),
            _ => false,
        };
        let default = usize::try_from(usual.as_secs()).unwrap_or(usize::MAX);
        let seconds = number(arguments, "timeout", default, 1..=usize::MAX);
        let interval = arguments.get("check_interval").filter(|given| !given.is_null()).map(|_| {
            let given = number(arguments, "check_interval", SHORTEST_INTERVAL, 0..=usize::MAX);
            (given, given.max(SHORTEST_INTERVAL))
        });
        let at_end = if flag("notify_on_complete") { ExitNotice::Notify } else { ExitNotice::Silent };
        let patterns = arguments.get("watch_patterns").and_then(Value::as_array).into_iter().flatten();
        let patterns = patterns.filter_map(Value::as_str).filter(|text| !text.trim().is_empty());
        Self {
            // Patterns are dropped if the exit is reported, because one notice is enough.
            patterns: patterns.map(str::to_owned).filter(|_| at_end == ExitNotice::Silent).collect(),
            at_end,
            background: flag("background"),
            pty: flag("pty"),
            timeout: Duration::from_secs(seconds as u64),
            interval,
        }
    }

    pub(super) fn watch_options(&self) -> WatchOptions {
        WatchOptions {
            interval: self.interval.map(|(_, used)| Duration::from_secs(used as u64)),
            at_end: self.at_end,
            patterns: self.patterns.clone(),
        }
    }

    /// Adds the watch options to the result of a started process.
    pub(super) fn describe_watch(&self, fields: &mut Map<String, Value>) {
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        if let Some((given, used)) = self.interval.filter(|(given, used)| given != used) {
            put("check_interval_note", json!(format!("raised from {given} to {used} s")));
        }
        if self.at_end == ExitNotice::Notify {
            put("notify_on_complete", json!(true));
        }
        if !self.patterns.is_empty() {
            put("watch_patterns", json!(self.patterns));
        }
    }
}
