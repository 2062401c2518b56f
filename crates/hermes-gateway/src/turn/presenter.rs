//! Shows a running turn in its chat: the typing indicator, the tools in use, the answer as it is written.
//!
//! None of it is durable and none of it can delay a turn: events go into a queue, and a platform that fails to
//! show them is skipped. The answer itself is sent through the outbox; where its beginning is already in the
//! chat, the outbox edits those messages to their final text.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::settings::{StreamingSettings, ToolProgress};
use hermes_store::WaitingMessage;
use hermes_task::{Task, TaskGroup};
use hermes_text::{head, length, single_line, split};
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelCapabilities, ChatAddress, Clock, Delta, Envelope, Frontend,
    SessionId, TurnEvent, TurnNoticeKind, UserAnswer, UserQuestion,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::mark::MessageMarks;
use crate::deliver::Delivery;
use crate::ports::EventObserver;
use crate::questions::ChatQuestions;
use crate::resources::GatewayResources;
use crate::settings::LiveSettings;

/// The shortest time between two edits of one message.
const MIN_EDIT_INTERVAL: Duration = Duration::from_millis(300);
const LONGEST_PREVIEW: usize = 80;
const LONGEST_ARGUMENTS: usize = 200;

/// The messages already in the chat when the turn has ended.
#[derive(Debug, Clone, Default)]
pub(super) struct ShownDrafts {
    /// The messages that hold the beginning of the answer, one per part.
    pub(super) drafts: Vec<String>,
    /// The message that ends with a cursor, and its text without it.
    unfinished: Option<(String, String)>,
}

impl ShownDrafts {
    /// Removes the cursor, where no answer follows that would replace it.
    async fn remove_cursor(self, delivery: &Delivery, envelope: &Envelope) {
        let Some((message, text)) = self.unfinished else { return };
        let Some(channel) = delivery.channel(&envelope.platform) else { return };
        if let Err(error) = channel.edit(&envelope.place, &message, &text).await {
            tracing::debug!(%error, "a cursor stays in the chat");
        }
    }
}

/// Makes the presenters of turns, and marks the messages they answer.
pub(crate) struct TurnDisplay {
    settings: LiveSettings,
    delivery: Delivery,
    clock: Arc<dyn Clock>,
    questions: ChatQuestions,
    observer: Arc<dyn EventObserver>,
    tasks: Arc<TaskGroup>,
    turns: Arc<TaskGroup>,
}

impl TurnDisplay {
    pub(crate) fn new(resources: &GatewayResources, delivery: Delivery, questions: ChatQuestions) -> Self {
        Self {
            settings: resources.settings.clone(),
            delivery,
            clock: resources.clock.clone(),
            questions,
            observer: resources.observer.clone(),
            tasks: resources.tasks.clone(),
            turns: resources.turns.clone(),
        }
    }

    /// Starts showing a turn.
    pub(super) fn present(&self, key: &str, envelope: &Envelope, session: &SessionId) -> Presenter {
        let (events, received) = unbounded_channel();
        let settings = self.settings.current();
        let streams = settings.streaming.enabled && settings.streaming.transport != "off";
        let cancel = self.turns.cancel_token().child_token();
        let channel = self.delivery.channel(&envelope.platform);
        let abilities = channel.as_ref().map(|channel| channel.capabilities()).unwrap_or_default();
        let screen = ProgressDisplay {
            channel,
            abilities,
            place: envelope.place.clone(),
            clock: self.clock.clone(),
            mode: settings.display_on(&envelope.platform).tool_progress,
            streaming: (streams && abilities.edits).then(|| settings.streaming.clone()),
            lines: ToolLines::default(),
            draft: AnswerDraft::default(),
            ended: Vec::new(),
        };
        let running = cancel.clone();
        let screen = self.tasks.spawn("showing a turn", async move { screen.run(received, running).await });
        let frontend = ChatFrontend {
            questions: self.questions.clone(),
            observer: self.observer.clone(),
            key: key.to_owned(),
            envelope: envelope.clone(),
            session: session.clone(),
            events,
        };
        Presenter { frontend, screen, cancel }
    }

    /// Marks messages as seen in the background; the turn never waits for it.
    pub(super) fn mark_seen(&self, rows: &[WaitingMessage]) -> MessageMarks {
        let channel = rows.first().and_then(|row| self.delivery.channel(&row.envelope.platform));
        MessageMarks::show(rows, channel, &self.tasks)
    }

    /// Removes the cursor of drafts, where no answer follows that would replace it.
    pub(super) async fn remove_cursor(&self, shown: ShownDrafts, envelope: &Envelope) {
        shown.remove_cursor(&self.delivery, envelope).await;
    }
}

/// Shows a turn in its chat.
pub(super) struct Presenter {
    frontend: ChatFrontend,
    screen: Task<ShownDrafts>,
    cancel: Cancel,
}

impl Presenter {
    pub(super) fn frontend(&self) -> &dyn Frontend {
        &self.frontend
    }

    /// Ends the display and returns what it showed.
    pub(super) async fn finish(self) -> ShownDrafts {
        drop(self.frontend);
        let shown = self.screen.await.unwrap_or_default();
        self.cancel.cancel();
        shown
    }
}

struct ChatFrontend {
    questions: ChatQuestions,
    observer: Arc<dyn EventObserver>,
    key: String,
    envelope: Envelope,
    session: SessionId,
    events: UnboundedSender<TurnEvent>,
}

impl Frontend for ChatFrontend {
    fn show(&self, event: TurnEvent) {
        if let TurnEvent::Step { iteration, previous_tools } = &event {
            self.observer.emit(
                "agent:step",
                serde_json::json!({
                    "platform": self.envelope.platform,
                    "user_id": self.envelope.sender.user_id,
                    "session_id": self.session.as_str(),
                    "iteration": iteration,
                    "tool_names": previous_tools,
                }),
            );
        }
        // The receiver is gone when the display has ended.
        let _ = self.events.send(event);
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(self.questions.ask(&self.key, &self.envelope, question, cancel))
    }
}

struct ProgressDisplay {
    channel: Option<Arc<dyn Channel>>,
    abilities: ChannelCapabilities,
    place: ChatAddress,
    clock: Arc<dyn Clock>,
    mode: ToolProgress,
    streaming: Option<StreamingSettings>,
    lines: ToolLines,
    draft: AnswerDraft,
    /// Messages of earlier drafts that still end with a cursor, and their texts without it.
    ended: Vec<(String, String)>,
}

/// The lines about tools, all in one message.
#[derive(Default)]
struct ToolLines {
    shown: Vec<(String, usize)>,
    message: Option<String>,
    changed: bool,
    last_tool: String,
    /// Set when the platform does not support edits: each line is a message of its own.
    one_by_one: bool,
}

/// The answer as far as it is written.
#[derive(Default)]
struct AnswerDraft {
    text: String,
    messages: Vec<String>,
    shown: Vec<String>,
    /// The text of the last message without its cursor.
    text_without_cursor: String,
    failed: bool,
}

impl ProgressDisplay {
    async fn run(mut self, mut events: UnboundedReceiver<TurnEvent>, cancel: Cancel) -> ShownDrafts {
        let Some(channel) = self.channel.clone() else { return drain_events(events).await };
        let (place, clock, every) = (self.place.clone(), self.clock.clone(), self.abilities.typing_interval);
        let typing = async move {
            loop {
                channel.show_typing(&place).await;
                clock.sleep(every).await;
            }
        };
        let work = self.follow(&mut events);
        tokio::select! {
            shown = work => shown,
            never = typing => never,
            () = cancel.cancelled() => ShownDrafts::default(),
        }
    }

    async fn follow(&mut self, events: &mut UnboundedReceiver<TurnEvent>) -> ShownDrafts {
        while let Some(event) = events.recv().await {
            self.apply_event(event);
            // Further events that have arrived meanwhile belong to the same update.
            while let Ok(event) = events.try_recv() {
                self.apply_event(event);
            }
            if self.flush().await && !self.pause(events).await {
                break;
            }
        }
        self.flush().await;
        let draft = std::mem::take(&mut self.draft);
        ShownDrafts { unfinished: draft.unfinished(), drafts: draft.messages }
    }

    /// Waits between two updates. Returns false at once when the turn ends.
    async fn pause(&mut self, events: &mut UnboundedReceiver<TurnEvent>) -> bool {
        let mut over = self.clock.sleep(self.pace());
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.apply_event(event),
                    None => return false,
                },
                () = &mut over => break,
            }
        }
        // Shows what the events received during the pause changed.
        self.flush().await;
        true
    }

    fn pace(&self) -> Duration {
        self.streaming
            .as_ref()
            .map_or(MIN_EDIT_INTERVAL, |streaming| streaming.edit_interval.max(MIN_EDIT_INTERVAL / 6))
    }

    fn apply_event(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::ToolStarted { name, preview, arguments, display, .. } => {
                self.lines.add(self.mode, &name, &display.icon, &preview, &arguments);
            }
            TurnEvent::Delta(Delta::Text(text)) if self.streaming.is_some() => {
                self.draft.text.push_str(&text);
            }
            TurnEvent::Delta(Delta::Restart) => self.draft.text.clear(),
            // Text before a tool call is not the answer; its message stays, without the cursor.
            TurnEvent::SegmentEnded => {
                let next = AnswerDraft { failed: self.draft.failed, ..AnswerDraft::default() };
                self.ended.extend(std::mem::replace(&mut self.draft, next).unfinished());
            }
            TurnEvent::Notice { kind: TurnNoticeKind::ContextPressure | TurnNoticeKind::Lifecycle, text } => {
                self.lines.note(self.mode, &text);
            }
            TurnEvent::Notice {
                kind:
                    TurnNoticeKind::Retry
                    | TurnNoticeKind::Sandbox
                    | TurnNoticeKind::Learning
                    | TurnNoticeKind::Progress,
                ..
            }
            | TurnEvent::Delta(
                Delta::Text(_) | Delta::Reasoning(_) | Delta::ToolStarted { .. } | Delta::Status(_),
            )
            | TurnEvent::TurnStarted { .. }
            | TurnEvent::Step { .. }
            | TurnEvent::ToolEnded { .. }
            | TurnEvent::Spent { .. }
            | TurnEvent::TurnEnded { .. }
            | TurnEvent::Child { .. } => {}
        }
    }

    /// Shows what changed. Returns whether anything was sent.
    async fn flush(&mut self) -> bool {
        let Some(channel) = self.channel.clone() else { return false };
        let lines = self.lines.flush(&*channel, &self.place, self.abilities).await;
        for (message, text) in std::mem::take(&mut self.ended) {
            if let Err(error) = channel.edit(&self.place, &message, &text).await {
                tracing::debug!(%error, "a cursor stays in the chat");
            }
        }
        let draft = match &self.streaming {
            Some(streaming) => self.draft.flush(&*channel, &self.place, self.abilities, streaming).await,
            None => false,
        };
        lines || draft
    }
}

impl ToolLines {
    fn add(&mut self, mode: ToolProgress, tool: &str, icon: &str, preview: &str, arguments: &str) {
        let repeated = self.last_tool == tool;
        tool.clone_into(&mut self.last_tool);
        let line = match mode {
            ToolProgress::Off => return,
            ToolProgress::New if repeated => return,
            ToolProgress::Verbose => {
                format!("{icon} {tool}({})\n{}", argument_names(arguments), truncate_arguments(arguments))
            }
            _ if preview.trim().is_empty() => format!("{icon} {tool}..."),
            _ => {
                let preview = single_line(preview);
                let short = head(&preview, LONGEST_PREVIEW);
                let more = if short.len() < preview.len() { "..." } else { "" };
                format!("{icon} {tool}: \"{short}{more}\"")
            }
        };
        self.push(line);
    }

    fn note(&mut self, mode: ToolProgress, text: &str) {
        if mode != ToolProgress::Off {
            self.push(text.to_owned());
        }
    }

    fn push(&mut self, line: String) {
        match self.shown.last_mut() {
            Some((last, count)) if *last == line => *count += 1,
            _ => self.shown.push((line, 1)),
        }
        self.changed = true;
    }

    fn text(&self) -> String {
        let line = |(line, count): &(String, usize)| match count {
            1 => line.clone(),
            count => format!("{line} (×{count})"),
        };
        self.shown.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    async fn flush(
        &mut self,
        channel: &dyn Channel,
        place: &ChatAddress,
        abilities: ChannelCapabilities,
    ) -> bool {
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        let text = self.text();
        if let Some(message) = self.message.clone().filter(|_| !self.one_by_one) {
            if length(&text, abilities.unit) <= abilities.max_length
                && channel.edit(place, &message, &text).await.is_ok()
            {
                return true;
            }
            // This message is full or cannot be edited: the next line goes into another one.
            self.one_by_one = !abilities.edits;
            let last = self.shown.pop();
            self.shown.clear();
            self.shown.extend(last);
            self.message = None;
        }
        match channel.post(place, &self.text()).await {
            Ok(message) => {
                self.message = Some(message);
                if !abilities.edits {
                    self.shown.clear();
                    self.message = None;
                }
            }
            Err(error) => tracing::debug!(%error, "progress was not shown"),
        }
        true
    }
}

impl AnswerDraft {
    /// Returns the message that ends with a cursor, and its text without it.
    fn unfinished(&self) -> Option<(String, String)> {
        let ends_with_cursor = self.shown.last().is_some_and(|shown| *shown != self.text_without_cursor);
        self.messages
            .last()
            .filter(|_| ends_with_cursor)
            .map(|message| (message.clone(), self.text_without_cursor.clone()))
    }

    /// Shows the answer so far. After one failure the platform gets no more drafts until the answer is complete.
    async fn flush(
        &mut self,
        channel: &dyn Channel,
        place: &ChatAddress,
        abilities: ChannelCapabilities,
        streaming: &StreamingSettings,
    ) -> bool {
        let visible = hermes_text::strip_think(&self.text).trim().to_owned();
        if self.failed || visible.is_empty() {
            return false;
        }
        // The parts are those of the final answer, so that no message is left over; a full one has no room for a
        // cursor.
        let mut parts = split(&visible, abilities.max_length, abilities.unit);
        if let Some(last) = parts.last_mut() {
            self.text_without_cursor.clone_from(last);
            let room = abilities.max_length.saturating_sub(length(&streaming.cursor, abilities.unit));
            if length(last, abilities.unit) <= room {
                last.push_str(&streaming.cursor);
            }
        }
        let mut sent = false;
        for (at, part) in parts.iter().enumerate() {
            if self.shown.get(at) == Some(part) {
                continue;
            }
            let done = match self.messages.get(at) {
                Some(message) => channel.edit(place, message, part).await,
                None => channel.post(place, part).await.map(|message| self.messages.push(message)),
            };
            if let Err(error) = done {
                tracing::debug!(%error, "an answer is no longer shown as it is written");
                self.failed = true;
                return true;
            }
            sent = true;
            if let Some(shown) = self.shown.get_mut(at) {
                part.clone_into(shown);
            } else {
                self.shown.push(part.clone());
            }
        }
        sent
    }
}

/// Returns the names of a call's arguments, as a list.
fn argument_names(arguments: &str) -> String {
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(arguments).unwrap_or_default();
    let names: Vec<String> = fields.keys().map(|name| format!("'{name}'")).collect();
    format!("[{}]", names.join(", "))
}

fn truncate_arguments(arguments: &str) -> String {
    let short = head(arguments, LONGEST_ARGUMENTS);
    let more = if short.len() < arguments.len() { "..." } else { "" };
    format!("{short}{more}")
}

async fn drain_events(mut events: UnboundedReceiver<TurnEvent>) -> ShownDrafts {
    while events.recv().await.is_some() {}
    ShownDrafts::default()
}
