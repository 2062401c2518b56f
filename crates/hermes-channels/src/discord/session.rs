//! The progress of a gateway session: what a resume may claim to have received.
//!
//! Pure. Invariants: the position is that of the last event up to which all events have been handled; a session is
//! saved only when no work from an earlier session is pending, so that a process that loads it loses nothing.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Limits the channels whose last message is remembered.
const MAX_CHANNELS: usize = 200;
/// The number of later finished events after which a gap in the sequence, which should not occur, is skipped.
const LONGEST_GAP: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GatewaySession {
    pub(super) id: String,
    /// The URL at which the session is resumed.
    pub(super) url: String,
}

/// Identifies a started piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventTicket {
    generation: u64,
    /// The sequence number; `None` for work without an event.
    sequence: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct GatewayProgress {
    session: Option<GatewaySession>,
    generation: u64,
    /// The sequence number up to which all events are handled.
    position: u64,
    /// The handled events beyond the position.
    done: BTreeSet<u64>,
    open: BTreeSet<u64>,
    /// The number of unfinished pieces of work from before this session.
    pending_catch_up: usize,
    /// The newest handled message of each channel; the most recently active channels are last.
    channels: Vec<(String, u64)>,
}

impl GatewayProgress {
    /// Loads the progress from the document of an earlier run, ignoring invalid parts.
    pub(super) fn from_document(document: Option<&Value>) -> Self {
        let mut progress = Self::default();
        let Some(document) = document else { return progress };
        let text = |key: &str| document.get(key).and_then(Value::as_str).map(str::to_owned);
        let sequence = document.get("seq").and_then(Value::as_u64);
        if let (Some(id), Some(url), Some(sequence)) =
            (text("session_id"), text("resume_gateway_url"), sequence)
        {
            progress.session = Some(GatewaySession { id, url });
            progress.position = sequence;
        }
        for (channel, last) in document.get("channels").and_then(Value::as_object).into_iter().flatten() {
            if let Some(last) = last.as_str().and_then(|last| last.parse().ok()) {
                progress.record_message(channel, last);
            }
        }
        progress
    }

    pub(super) fn document(&self) -> Value {
        let last = |(channel, last): &(String, u64)| (channel.clone(), json!(last.to_string()));
        let channels: Map<String, Value> = self.channels.iter().map(last).collect();
        match self.session.as_ref().filter(|_| self.pending_catch_up == 0) {
            Some(GatewaySession { id, url }) => {
                json!({"session_id": id, "resume_gateway_url": url, "seq": self.position, "channels": channels})
            }
            None => json!({"channels": channels}),
        }
    }

    pub(super) fn session(&self) -> Option<&GatewaySession> {
        self.session.as_ref()
    }

    /// Returns the position for a resume or a heartbeat.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Starts a new session. Unfinished work of the old one becomes pending.
    pub(super) fn start_session(&mut self, session: GatewaySession, sequence: u64) {
        self.session = Some(session);
        self.generation += 1;
        self.pending_catch_up += self.open.len();
        self.position = sequence;
        self.open.clear();
        self.done.clear();
    }

    /// Discards the session; a new one has to be started.
    pub(super) fn lose_session(&mut self) {
        self.session = None;
    }

    /// Registers an event. Returns `None` for a repeated one: a resume repeats events that were not finished.
    pub(super) fn start_event(&mut self, sequence: u64) -> Option<EventTicket> {
        if sequence <= self.position || self.done.contains(&sequence) || !self.open.insert(sequence) {
            return None;
        }
        Some(EventTicket { generation: self.generation, sequence: Some(sequence) })
    }

    /// Registers work without an event that has to be finished before the session may be saved.
    pub(super) fn start_catch_up(&mut self) -> EventTicket {
        self.pending_catch_up += 1;
        EventTicket { generation: self.generation, sequence: None }
    }

    /// Marks an event or pending work as finished.
    pub(super) fn finish(&mut self, ticket: EventTicket) {
        let Some(sequence) = ticket.sequence.filter(|_| ticket.generation == self.generation) else {
            self.pending_catch_up = self.pending_catch_up.saturating_sub(1);
            return;
        };
        self.open.remove(&sequence);
        self.done.insert(sequence);
        if self.done.len() > LONGEST_GAP && self.open.is_empty() {
            self.position = self.done.last().copied().unwrap_or(self.position);
            self.done.clear();
        }
        while self.done.remove(&(self.position + 1)) {
            self.position += 1;
        }
    }

    /// Records that a message of a channel has been handled.
    pub(super) fn record_message(&mut self, channel: &str, message: u64) {
        let known = self.channels.iter().position(|(known, _)| known == channel);
        let before = known.map(|at| self.channels.remove(at).1);
        self.channels.push((channel.to_owned(), before.unwrap_or(0).max(message)));
        if self.channels.len() > MAX_CHANNELS {
            self.channels.remove(0);
        }
    }

    pub(super) fn forget_channel(&mut self, channel: &str) {
        self.channels.retain(|(known, _)| known != channel);
    }

    pub(super) fn is_known_channel(&self, channel: &str) -> bool {
        self.channels.iter().any(|(known, _)| known == channel)
    }

    /// Returns the channels and their last messages, for catching up.
    pub(super) fn channels(&self) -> &[(String, u64)] {
        &self.channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str) -> GatewaySession {
        GatewaySession { id: id.to_owned(), url: "u".to_owned() }
    }

    #[test]
    fn the_position_waits_for_what_is_not_done() {
        let mut progress = GatewayProgress::default();
        progress.start_session(session("s"), 1);
        let (two, three) = (progress.start_event(2).unwrap(), progress.start_event(3).unwrap());
        assert_eq!(progress.start_event(2), None, "it came again while it was being dealt with");
        progress.finish(three);
        assert_eq!(progress.position(), 1);
        assert_eq!(progress.start_event(3), None, "it came again after it was done");
        progress.finish(two);
        assert_eq!(progress.position(), 3);
    }

    #[test]
    fn a_session_is_written_down_when_nothing_is_owed_from_before() {
        let mut progress = GatewayProgress::default();
        progress.start_session(session("old"), 1);
        let late = progress.start_event(2).unwrap();
        progress.lose_session();
        progress.start_session(session("new"), 1);
        let catching_up = progress.start_catch_up();
        progress.record_message("c", 7);
        assert_eq!(progress.document(), json!({"channels": {"c": "7"}}));
        progress.finish(late);
        assert_eq!(progress.document().get("session_id"), None);
        progress.finish(catching_up);
        let document = progress.document();
        assert_eq!((&document["session_id"], &document["seq"]), (&json!("new"), &json!(1)));
        let again = GatewayProgress::from_document(Some(&document));
        assert_eq!(
            (again.session(), again.position(), again.channels()),
            (Some(&session("new")), 1, &[("c".to_owned(), 7)][..])
        );
    }

    #[test]
    fn only_the_newest_channels_are_kept_and_nothing_is_taken_back() {
        let mut progress = GatewayProgress::default();
        progress.record_message("first", 9);
        for channel in 0..MAX_CHANNELS - 1 {
            progress.record_message(&channel.to_string(), 1);
        }
        progress.record_message("first", 3);
        progress.record_message("one more", 1);
        assert_eq!(progress.channels().len(), MAX_CHANNELS);
        assert!(progress.channels().contains(&("first".to_owned(), 9)));
        assert!(!progress.is_known_channel("0"));
    }

    #[test]
    fn a_gap_that_never_closes_is_given_up() {
        let mut progress = GatewayProgress::default();
        progress.start_session(session("s"), 1);
        for sequence in 3..2000 {
            let ticket = progress.start_event(sequence).unwrap();
            progress.finish(ticket);
        }
        assert_eq!(progress.position(), 1999);
    }
}
