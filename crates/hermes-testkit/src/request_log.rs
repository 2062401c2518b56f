//! A log of every request the server received, for assertions.
//!
//! A request is added when its body is complete, before the response begins; how the response ended is added later.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;

use crate::http::ReceivedRequest;
use crate::watched_value::WatchedValue;
use crate::wire::{Wire, inspect};

/// A received request. Clones are cheap.
#[derive(Clone)]
pub struct RecordedRequest {
    sequence: usize,
    message: Arc<ReceivedRequest>,
    json: Arc<OnceLock<Option<Value>>>,
    peek: Arc<OnceLock<RequestSummary>>,
    outcome: RequestOutcome,
}

/// The fields needed to choose a reply. Parsed separately, because parsing everything would cost more than the
/// reply under load.
#[derive(Default, Deserialize)]
struct RequestSummary {
    #[serde(default)]
    model: String,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// Says how the response to a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The response is still being sent, or waits at a gate.
    Open,
    Complete,
    /// The client disconnected before the end.
    Disconnected,
    /// The script cut the connection.
    Cut,
    /// No reply of the script matched.
    Unmatched,
}

impl RecordedRequest {
    pub(crate) fn new(sequence: usize, message: ReceivedRequest) -> Self {
        Self {
            sequence,
            message: Arc::new(message),
            json: Arc::default(),
            peek: Arc::default(),
            outcome: RequestOutcome::Open,
        }
    }

    /// Returns the number of the request, from 0.
    pub fn sequence(&self) -> usize {
        self.sequence
    }

    pub fn method(&self) -> &str {
        &self.message.method
    }

    /// Returns the path without the query.
    pub fn path(&self) -> &str {
        self.message.target.split('?').next().unwrap_or_default()
    }

    /// Returns the path with the query.
    pub fn target(&self) -> &str {
        &self.message.target
    }

    pub fn headers(&self) -> &[(String, String)] {
        &self.message.headers
    }

    /// Returns the first header of that name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.message.header(name)
    }

    pub fn body(&self) -> &[u8] {
        &self.message.body
    }

    pub fn body_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.message.body)
    }

    /// Returns how the response had ended when this record was fetched.
    pub fn outcome(&self) -> RequestOutcome {
        self.outcome
    }

    pub fn disconnected(&self) -> bool {
        self.outcome == RequestOutcome::Disconnected
    }

    /// Returns the model wire its path belongs to.
    pub fn wire(&self) -> Option<Wire> {
        Wire::of_path(self.path())
    }

    pub fn try_json(&self) -> Option<&Value> {
        self.json.get_or_init(|| serde_json::from_slice(&self.message.body).ok()).as_ref()
    }

    /// Returns the body as JSON; panics with the body's text when it is not.
    #[track_caller]
    pub fn json(&self) -> &Value {
        let Some(json) = self.try_json() else {
            panic!("the body of {self} is not JSON:\n{}", self.body_text());
        };
        json
    }

    /// Returns the value at a JSON pointer; panics with the whole body when there is none.
    #[track_caller]
    pub fn at(&self, pointer: &str) -> &Value {
        let json = self.json();
        let Some(value) = json.pointer(pointer) else {
            panic!("nothing at {pointer} in the body of {self}:\n{json:#}");
        };
        value
    }

    pub fn model(&self) -> &str {
        // On Bedrock's wire the model is part of the path.
        match (self.wire(), self.path().split('/').rev().nth(1)) {
            (Some(Wire::Converse), Some(model)) => model,
            _ => &self.peek().model,
        }
    }

    pub fn wants_stream(&self) -> bool {
        self.peek().stream.unwrap_or_else(|| self.path().ends_with("/converse-stream"))
    }

    /// Tells whether a chat request asked for usage at the end of its stream.
    pub fn wants_stream_usage(&self) -> bool {
        self.peek().stream_options.as_ref().is_some_and(|options| options.include_usage)
    }

    pub fn last_user_text(&self) -> Option<String> {
        inspect::last_user_text(self.try_json()?)
    }

    pub fn system_text(&self) -> String {
        self.try_json().map(inspect::system_text).unwrap_or_default()
    }

    /// Returns call ids with the text of their results, in order.
    pub fn tool_results(&self) -> Vec<(String, String)> {
        self.try_json().map(inspect::tool_results).unwrap_or_default()
    }

    /// Returns the result of one call; panics naming the calls that do have one.
    #[track_caller]
    pub fn tool_result(&self, call_id: &str) -> String {
        let results = self.tool_results();
        let Some((_, text)) = results.iter().find(|(id, _)| id == call_id) else {
            let ids: Vec<_> = results.iter().map(|(id, _)| id).collect();
            panic!("{self} has no result for call `{call_id}`, only for {ids:?}");
        };
        text.clone()
    }

    /// Returns the names of the tools offered, in order.
    pub fn tool_names(&self) -> Vec<String> {
        self.try_json().map(inspect::tool_names).unwrap_or_default()
    }

    fn peek(&self) -> &RequestSummary {
        self.peek.get_or_init(|| serde_json::from_slice(&self.message.body).unwrap_or_default())
    }
}

impl fmt::Display for RecordedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "request #{} {} {}", self.sequence, self.method(), self.target())?;
        if !self.model().is_empty() {
            write!(formatter, " model={}", self.model())?;
        }
        if let Some(text) = self.last_user_text() {
            let start: String = text.chars().take(60).collect();
            let more = if start.len() < text.len() { "…" } else { "" };
            write!(formatter, " user={start:?}{more}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self} ({:?})", self.outcome)
    }
}

/// The log itself, shared between the server and the test.
#[derive(Debug)]
pub(crate) struct RequestLog {
    entries: WatchedValue<Entries>,
    keep: usize,
}

#[derive(Debug, Default)]
struct Entries {
    kept: VecDeque<RecordedRequest>,
    total: usize,
}

impl RequestLog {
    pub(crate) fn new(keep: usize) -> Self {
        Self { entries: WatchedValue::new(Entries::default()), keep }
    }

    pub(crate) fn record(&self, message: ReceivedRequest) -> RecordedRequest {
        self.entries.update(|entries| {
            let request = RecordedRequest::new(entries.total, message);
            entries.total += 1;
            entries.kept.push_back(request.clone());
            if entries.kept.len() > self.keep {
                entries.kept.pop_front();
            }
            request
        })
    }

    pub(crate) fn close(&self, sequence: usize, outcome: RequestOutcome) {
        self.entries.update(|entries| {
            if let Some(entry) = entries.find(sequence) {
                entry.outcome = outcome;
            }
        });
    }

    pub(crate) fn total(&self) -> usize {
        self.entries.read(|entries| entries.total)
    }

    pub(crate) fn all(&self) -> Vec<RecordedRequest> {
        self.entries.read(|entries| entries.kept.iter().cloned().collect())
    }

    pub(crate) async fn until_total(&self, count: usize) {
        self.entries.until(|entries| (entries.total >= count).then_some(())).await;
    }

    #[track_caller]
    pub(crate) fn until_total_blocking(&self, count: usize) {
        let what = format!("{count} requests");
        self.entries.until_blocking(&what, |entries| (entries.total >= count).then_some(()));
    }

    pub(crate) async fn until_closed(&self, sequence: usize) -> RequestOutcome {
        self.entries.until(|entries| entries.closed(sequence)).await
    }

    #[track_caller]
    pub(crate) fn until_closed_blocking(&self, sequence: usize) -> RequestOutcome {
        let what = format!("the end of request #{sequence}");
        self.entries.until_blocking(&what, |entries| entries.closed(sequence))
    }
}

impl Entries {
    fn find(&mut self, sequence: usize) -> Option<&mut RecordedRequest> {
        let dropped = self.total - self.kept.len();
        self.kept.get_mut(sequence.checked_sub(dropped)?)
    }

    fn closed(&mut self, sequence: usize) -> Option<RequestOutcome> {
        self.find(sequence).map(|entry| entry.outcome).filter(|outcome| *outcome != RequestOutcome::Open)
    }
}
