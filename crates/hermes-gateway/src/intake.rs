//! Takes messages in: checks the sender, finds the conversation, and stores the message before it is
//! acknowledged.

use hermes_store::{
    FollowUpWork, InboxCloseReason, InboxInsertion as Taken, InboxSettlement, WaitingMessage,
};
use hermes_types::{
    ApprovalDecision, BoxFuture, ChannelError, ChatKind, ChatPart, Envelope, InboxId, Intake, IntakeOutcome,
    OutgoingMessage, UserAnswer,
};

use crate::active_conversations::{ArrivalAction, BusyState, QuestionKind, StopReason, WorkerPhase};
use crate::authorise::{self, AccessDecision, AccessRequest};
use crate::deliver;
use crate::gateway::Gateway;
use crate::pairing::CodeRefusal;
use crate::session::session_key;
use crate::settings::{GatewaySettings, UnknownSenderPolicy};
use crate::slash::{self, BusyPolicy, CommandSurface, ParsedCommand, SlashCommandOutcome};

impl Intake for Gateway {
    fn accept(&self, envelope: Envelope) -> BoxFuture<'_, Result<IntakeOutcome, ChannelError>> {
        Box::pin(self.accept_envelope(envelope))
    }
}

impl Gateway {
    async fn accept_envelope(&self, envelope: Envelope) -> Result<IntakeOutcome, ChannelError> {
        let settings = self.settings.current();
        if self.decide_access(&envelope, &settings) == AccessDecision::Denied {
            self.handle_unknown_sender(&envelope, &settings).await?;
            return Ok(IntakeOutcome::New);
        }
        let key = session_key(&envelope.platform, &envelope.place, &envelope.sender, settings.isolation);
        let taken =
            self.store.accept(&key, envelope.clone()).await.map_err(|error| retryable_error(&error))?;
        let Taken::New(id) = taken else { return Ok(IntakeOutcome::Duplicate) };
        self.dispatch(WaitingMessage { id, conversation: key, envelope, turn: None });
        Ok(IntakeOutcome::New)
    }

    fn decide_access(&self, envelope: &Envelope, settings: &GatewaySettings) -> AccessDecision {
        authorise::decide(self.access_request(envelope), &settings.env)
    }

    fn access_request<'a>(&self, envelope: &'a Envelope) -> AccessRequest<'a> {
        let user_id = envelope.sender.user_id.as_deref();
        let paired = user_id.is_some_and(|id| self.pairing.is_approved(&envelope.platform, id));
        let handle = envelope.sender.handle.as_deref();
        AccessRequest { platform: &envelope.platform, user_id, handle, paired }
    }

    /// Tells whether a message is from a user who is allowed individually.
    pub(crate) fn is_from_owner(&self, envelope: &Envelope) -> bool {
        authorise::is_owner(self.access_request(envelope), &self.settings.current().env)
    }

    /// Answers an unknown sender with a pairing code in a direct message, and with nothing elsewhere.
    async fn handle_unknown_sender(
        &self,
        envelope: &Envelope,
        settings: &GatewaySettings,
    ) -> Result<(), ChannelError> {
        let platform = envelope.platform.as_str();
        tracing::warn!(platform, kind = envelope.place.kind.as_str(), "a stranger was turned away");
        let Some(user) = envelope.sender.user_id.as_deref() else { return Ok(()) };
        if envelope.place.kind != ChatKind::Dm
            || settings.unknown_sender_policy(platform) == UnknownSenderPolicy::Ignore
        {
            return Ok(());
        }
        let name = envelope.sender.user_name.as_deref();
        let code = match self.pairing.request(platform, user, name, self.clock.now()) {
            Ok(code) => code,
            Err(error) => {
                tracing::warn!(%error, "no pairing code could be made");
                return Ok(());
            }
        };
        let text = match code {
            Ok(code) => format!(
                "Hi! I don't know you yet. Your pairing code is `{code}`, good for one hour.\n\nMy owner lets you in with:\n\
                 `hermes pairing approve {platform} {code}`"
            ),
            // A repeated request gets no answer: the first code is still valid, and an answer each time could be
            // used to make the bot write to somebody.
            Err(CodeRefusal::TooSoon) => return Ok(()),
            Err(CodeRefusal::LockedOut) => {
                "Too many pairing requests right now. Please try again later.".to_owned()
            }
        };
        let conversation = format!("stranger:{platform}:{}", envelope.place.chat_id);
        let key = format!("pair:{platform}:{}", envelope.platform_key);
        let reply = reply_to(envelope, text, key);
        self.store
            .enqueue(&conversation, reply, self.clock.now())
            .await
            .map_err(|error| retryable_error(&error))?;
        self.delivery.wake(platform);
        Ok(())
    }

    /// Assigns a stored message to a worker, or handles it at once, outside the worker, if it concerns the
    /// running turn.
    pub(crate) fn dispatch(&self, row: WaitingMessage) {
        let key = row.conversation.clone();
        let Some(busy) = self.conversations.busy_state(&key) else {
            if self.is_draining() {
                return;
            }
            if self.conversations.record_arrival(&key) == ArrivalAction::StartWorker {
                self.start_worker(key);
            }
            return;
        };
        let waits = self.settings.current().display.busy_input_mode == "queue";
        match self.busy_action(&row.envelope, busy) {
            BusyAction::Interrupt if waits && !self.is_draining() => self.say_queued(&row),
            BusyAction::Nothing => {}
            // The running turn may finish; the message waits for the next process.
            BusyAction::Interrupt if self.is_draining() => {}
            BusyAction::Interrupt => {
                self.conversations.stop_turn(&key, StopReason::NewMessage);
            }
            BusyAction::Queue => self.say_queued(&row),
            BusyAction::Stop => {
                self.conversations.stop_turn(&key, StopReason::UserRequest);
            }
            BusyAction::Run(what) => {
                self.conversations.mark_side_row(&key, row.id);
                let gateway = self.clone();
                drop(
                    self.tasks
                        .spawn("beside a turn", async move { gateway.run_side_action(row, what).await }),
                );
                return;
            }
        }
        if self.conversations.record_arrival(&key) == ArrivalAction::StartWorker {
            self.start_worker(key);
        }
    }

    fn say_queued(&self, row: &WaitingMessage) {
        let text = "⏳ Queued for the next turn.".to_owned();
        let reply = reply_to(&row.envelope, text, format!("queued:{}", row.id));
        let (gateway, key) = (self.clone(), row.conversation.clone());
        drop(self.tasks.spawn("saying that it waits", async move { gateway.queue_reply(&key, reply).await }));
    }

    async fn run_side_action(&self, row: WaitingMessage, what: SideAction) {
        let key = row.conversation.clone();
        let text = match what {
            SideAction::Approve(approval) => {
                Some(self.resolve_approval(&key, approval, ApprovalSelector::Oldest, None))
            }
            SideAction::Clarify(text) => {
                self.conversations.answer(&key, QuestionKind::Clarification, None, UserAnswer::Text(text));
                None
            }
            SideAction::Refuse(name) => Some(format!(
                "⏳ I am busy; /{name} has to wait until I am done. /stop ends what I am doing."
            )),
            SideAction::Command(typed) => match self.run_command(&row, &typed).await {
                SlashCommandOutcome::Reply(text) => text,
                SlashCommandOutcome::Prompt(_) => None,
                SlashCommandOutcome::Start(text, work) => {
                    self.settle_and_begin(&row, text, *work).await;
                    return self.finish_side_row(&key, row.id);
                }
            },
            SideAction::Stop => Some(self.stop_turn(&row).await.to_owned()),
        };
        self.settle_row(&row, text).await;
        self.finish_side_row(&key, row.id);
    }

    fn finish_side_row(&self, key: &str, row: InboxId) {
        self.conversations.clear_side_row(key, row);
        // The worker may have skipped this row while it was handled here.
        if self.conversations.record_arrival(key) == ArrivalAction::StartWorker {
            self.start_worker(key.to_owned());
        }
    }

    /// Stops the running turn and drops the waiting messages.
    async fn stop_turn(&self, row: &WaitingMessage) -> &'static str {
        let key = &row.conversation;
        let starting =
            self.conversations.busy_state(key).is_some_and(|busy| busy.phase == WorkerPhase::Starting);
        let stopped = self.conversations.stop_turn(key, StopReason::UserRequest);
        self.drop_waiting(key, row.id).await;
        match (stopped, starting) {
            (true, _) => "⚡ Force-stopped. The session is unlocked; you can send something new.",
            (false, true) => "⚡ Force-stopped. The agent was still starting — session unlocked.",
            (false, false) => "No active task to stop.",
        }
    }

    /// Drops the messages that wait behind a stopped turn.
    async fn drop_waiting(&self, key: &str, but: InboxId) {
        let waiting = match self.store.waiting(key).await {
            Ok(waiting) => waiting,
            Err(error) => return tracing::warn!(%error, "waiting messages could not be dropped"),
        };
        for row in waiting.into_iter().filter(|row| row.id < but && row.turn.is_none()) {
            let note = Some("stopped by the user".to_owned());
            if let Err(error) =
                self.store.close_inbox(row.id, InboxCloseReason::Done, note, self.clock.now()).await
            {
                tracing::warn!(%error, "a waiting message could not be dropped");
            }
        }
    }

    /// Closes a row with an answer and stores the work it requested, in one step.
    pub(crate) async fn settle_and_begin(&self, row: &WaitingMessage, text: String, work: FollowUpWork) {
        let FollowUpWork { conversation, envelope } = work.clone();
        let settled = InboxSettlement {
            inbox: vec![row.id],
            closing: InboxCloseReason::Done,
            note: None,
            conversation: row.conversation.clone(),
            replies: vec![reply_to(&row.envelope, text, format!("in:{}", row.id))],
            at: self.clock.now(),
        };
        match self.store.settle_with_follow_up(settled, work).await {
            Ok(Taken::New(id)) => self.dispatch(WaitingMessage { id, conversation, envelope, turn: None }),
            Ok(Taken::Duplicate(_)) => {}
            Err(error) => tracing::error!(%error, "work in the background could not be written down"),
        }
        self.delivery.wake(&row.envelope.platform);
    }

    /// Closes a row with an answer, or without one.
    pub(crate) async fn settle_row(&self, row: &WaitingMessage, text: Option<String>) {
        let key = format!("in:{}", row.id);
        let abilities = self.delivery.abilities(&row.envelope.platform);
        let reply = text.map(|text| reply_to(&row.envelope, text, key));
        let replies = reply.into_iter().flat_map(|reply| deliver::split_reply(reply, abilities)).collect();
        let settled = InboxSettlement {
            inbox: vec![row.id],
            closing: InboxCloseReason::Done,
            note: None,
            conversation: row.conversation.clone(),
            replies,
            at: self.clock.now(),
        };
        if let Err(error) = self.store.settle_inbox(settled).await {
            tracing::error!(%error, "an answer could not be written down; it will be made again");
        }
        self.delivery.wake(&row.envelope.platform);
    }
}

/// The immediate action for a message in a busy conversation.
enum BusyAction {
    Nothing,
    Interrupt,
    /// The message waits for the next turn, as the user requested.
    Queue,
    /// The turn is stopped; the worker then handles the message.
    Stop,
    Run(SideAction),
}

/// An action outside the worker while a turn runs.
enum SideAction {
    Stop,
    Command(ParsedCommand),
    Refuse(&'static str),
    Approve(ApprovalDecision),
    Clarify(String),
}

/// Selects the open question an approval answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalSelector<'a> {
    Oldest,
    All,
    /// The question with this tag, as a button names it.
    Tagged(&'a str),
}

impl Gateway {
    /// Parses a command; a configured reset trigger counts as `/new`.
    pub(crate) fn parse_command(&self, envelope: &Envelope) -> Option<ParsedCommand> {
        if authorise::delivers_external_events(&envelope.platform) {
            return None;
        }
        let text = envelope.text();
        let is_trigger = |trigger: &String| trigger.trim().eq_ignore_ascii_case(text.trim());
        if self.settings.current().reset_triggers.iter().any(is_trigger) {
            return Some(ParsedCommand { name: "new".to_owned(), arguments: String::new() });
        }
        slash::parse(&text)
    }

    /// Decides what a message means for the running turn.
    fn busy_action(&self, envelope: &Envelope, busy: BusyState) -> BusyAction {
        decide_busy_action(envelope, self.parse_command(envelope), busy)
    }
}

fn decide_busy_action(envelope: &Envelope, typed: Option<ParsedCommand>, busy: BusyState) -> BusyAction {
    let text = envelope.text();
    if let Some(typed) = typed {
        return match slash::find(&typed.name, CommandSurface::Chat)
            .map(|command| (command.name, command.busy_policy))
        {
            Some(("stop", _)) => BusyAction::Run(SideAction::Stop),
            Some((_, BusyPolicy::StopTurn)) => BusyAction::Stop,
            Some((_, BusyPolicy::RunNow)) => BusyAction::Run(SideAction::Command(typed)),
            Some((_, BusyPolicy::Queue)) if typed.arguments.is_empty() => {
                BusyAction::Run(SideAction::Command(typed))
            }
            Some((_, BusyPolicy::Queue)) => BusyAction::Queue,
            Some((name, BusyPolicy::Refuse)) => BusyAction::Run(SideAction::Refuse(name)),
            None => interrupt_or_queue(envelope, busy),
        };
    }
    match busy.question.filter(|_| !authorise::delivers_external_events(&envelope.platform)) {
        Some(QuestionKind::Approval) => {
            if let Some(approval) = parse_plain_approval(&text) {
                return BusyAction::Run(SideAction::Approve(approval));
            }
        }
        Some(QuestionKind::Clarification) if !text.trim().is_empty() => {
            return BusyAction::Run(SideAction::Clarify(text));
        }
        _ => {}
    }
    if envelope.files().next().is_some() {
        return BusyAction::Nothing;
    }
    interrupt_or_queue(envelope, busy)
}

fn interrupt_or_queue(envelope: &Envelope, busy: BusyState) -> BusyAction {
    match busy.phase {
        // The message was written while the gateway was down: it comes after the unfinished turn.
        WorkerPhase::Running if busy.resumed_at.is_some_and(|at| envelope.received_at < at) => {
            BusyAction::Nothing
        }
        WorkerPhase::Running => BusyAction::Interrupt,
        WorkerPhase::Starting => BusyAction::Nothing,
    }
}

/// Parses a plain word as the answer to an approval question; only used while one is open.
fn parse_plain_approval(text: &str) -> Option<ApprovalDecision> {
    match text.trim().to_lowercase().as_str() {
        "yes" | "y" | "ok" | "okay" | "approve" | "confirm" | "go" | "👍" => Some(ApprovalDecision::Once),
        "session" => Some(ApprovalDecision::Session),
        "always" => Some(ApprovalDecision::Always),
        "no" | "n" | "deny" | "reject" | "cancel" | "👎" => Some(ApprovalDecision::Deny),
        _ => None,
    }
}

/// Creates a reply to the chat a message came from.
pub(crate) fn reply_to(envelope: &Envelope, text: String, idempotency_key: String) -> OutgoingMessage {
    OutgoingMessage {
        platform: envelope.platform.clone(),
        place: envelope.place.clone(),
        pieces: vec![ChatPart::Text { text }],
        reply_to: envelope.message_id.clone(),
        choices: Vec::new(),
        draft: None,
        idempotency_key,
    }
}

fn retryable_error(error: &hermes_store::Error) -> ChannelError {
    ChannelError::Retry { after: None, reason: error.to_string() }
}
