//! Taking messages in: who may speak, which conversation it is, and onto the disk before anybody is told.

use hermes_store::{Closing, FollowUp, Intake as Taken, Settled, Waiting};
use hermes_types::{
    Accepted, Answer, Approval, BoxFuture, ChannelError, ChatKind, Envelope, InboxId, Intake, Piece, Reply,
};

use crate::authorise::{self, Access, Asker};
use crate::deliver;
use crate::desk::{Arrival, Busy, Kind, Phase, Stop};
use crate::gateway::Gateway;
use crate::pairing::NoCode;
use crate::session::session_key;
use crate::settings::{Settings, Strangers};
use crate::slash::{self, Done, Surface, Typed, WhileBusy};

impl Intake for Gateway {
    fn accept(&self, envelope: Envelope) -> BoxFuture<'_, Result<Accepted, ChannelError>> {
        Box::pin(self.take_in(envelope))
    }
}

impl Gateway {
    async fn take_in(&self, envelope: Envelope) -> Result<Accepted, ChannelError> {
        let settings = self.live.now();
        if self.access(&envelope, &settings) == Access::Denied {
            self.meet_stranger(&envelope, &settings).await?;
            return Ok(Accepted::New);
        }
        let key = session_key(&envelope.platform, &envelope.place, &envelope.sender, settings.isolation);
        let taken = self.store.accept(&key, envelope.clone()).await.map_err(|error| retry(&error))?;
        let Taken::New(id) = taken else { return Ok(Accepted::Duplicate) };
        self.hand_over(Waiting { id, conversation: key, envelope, turn: None });
        Ok(Accepted::New)
    }

    fn access(&self, envelope: &Envelope, settings: &Settings) -> Access {
        authorise::decide(self.asker(envelope), &settings.env)
    }

    fn asker<'a>(&self, envelope: &'a Envelope) -> Asker<'a> {
        let user_id = envelope.sender.user_id.as_deref();
        let paired = user_id.is_some_and(|id| self.pairing.is_approved(&envelope.platform, id));
        let handle = envelope.sender.handle.as_deref();
        Asker { platform: &envelope.platform, user_id, handle, paired }
    }

    /// Whether a message is from somebody who was let in by name.
    pub(crate) fn is_from_owner(&self, envelope: &Envelope) -> bool {
        authorise::is_owner(self.asker(envelope), &self.live.now().env)
    }

    /// Strangers get a code in a direct message, and silence everywhere else.
    async fn meet_stranger(&self, envelope: &Envelope, settings: &Settings) -> Result<(), ChannelError> {
        let platform = envelope.platform.as_str();
        tracing::warn!(platform, kind = envelope.place.kind.as_str(), "a stranger was turned away");
        let Some(user) = envelope.sender.user_id.as_deref() else { return Ok(()) };
        if envelope.place.kind != ChatKind::Dm || settings.strangers(platform) == Strangers::Ignore {
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
            // Asked again too soon: the code of the first time is still good, and an answer each time could be used to
            // have the bot write to somebody.
            Err(NoCode::TooSoon) => return Ok(()),
            Err(NoCode::LockedOut) => {
                "Too many pairing requests right now. Please try again later.".to_owned()
            }
        };
        let conversation = format!("stranger:{platform}:{}", envelope.place.chat_id);
        let key = format!("pair:{platform}:{}", envelope.platform_key);
        let reply = answer_to(envelope, text, key);
        self.store.enqueue(&conversation, reply, self.clock.now()).await.map_err(|error| retry(&error))?;
        self.delivery.wake(platform);
        Ok(())
    }

    /// Finds the hands for something that is safely on disk: a worker, or, where a turn runs and this concerns it, at
    /// once and beside it.
    pub(crate) fn hand_over(&self, row: Waiting) {
        let key = row.conversation.clone();
        let Some(busy) = self.desk.busy(&key) else {
            if self.is_draining() {
                return;
            }
            if self.desk.arrive(&key) == Arrival::StartWorker {
                self.start_worker(key);
            }
            return;
        };
        let waits = self.live.now().display.busy_input_mode == "queue";
        match self.beside(&row.envelope, busy) {
            Beside::Interrupt if waits && !self.is_draining() => self.say_queued(&row),
            Beside::Nothing => {}
            // What runs may come to its end; the message waits for the next process.
            Beside::Interrupt if self.is_draining() => {}
            Beside::Interrupt => {
                self.desk.stop(&key, Stop::NewMessage);
            }
            Beside::Queue => self.say_queued(&row),
            Beside::Stop => {
                self.desk.stop(&key, Stop::Asked);
            }
            Beside::Do(what) => {
                self.desk.set_aside(&key, row.id);
                let gateway = self.clone();
                drop(self.tasks.spawn("beside a turn", async move { gateway.do_beside(row, what).await }));
                return;
            }
        }
        if self.desk.arrive(&key) == Arrival::StartWorker {
            self.start_worker(key);
        }
    }

    fn say_queued(&self, row: &Waiting) {
        let text = "⏳ Queued for the next turn.".to_owned();
        let reply = answer_to(&row.envelope, text, format!("queued:{}", row.id));
        let (gateway, key) = (self.clone(), row.conversation.clone());
        drop(self.tasks.spawn("saying that it waits", async move { gateway.say(&key, reply).await }));
    }

    async fn do_beside(&self, row: Waiting, what: Aside) {
        let key = row.conversation.clone();
        let text = match what {
            Aside::Approve(approval) => Some(self.resolve_approval(&key, approval, Which::Oldest, None)),
            Aside::Clarify(text) => {
                self.desk.answer(&key, Kind::Clarification, None, Answer::Text(text));
                None
            }
            Aside::Refuse(name) => Some(format!(
                "⏳ I am busy; /{name} has to wait until I am done. /stop ends what I am doing."
            )),
            Aside::Command(typed) => match self.run_command(&row, &typed).await {
                Done::Said(text) => text,
                Done::Words(_) => None,
                Done::Begin(text, work) => {
                    self.settle_and_begin(&row, text, *work).await;
                    return self.leave_aside(&key, row.id);
                }
            },
            Aside::Stop => Some(self.stop_turn(&row).await.to_owned()),
        };
        self.settle_row(&row, text).await;
        self.leave_aside(&key, row.id);
    }

    fn leave_aside(&self, key: &str, row: InboxId) {
        self.desk.done_aside(key, row);
        // The worker may have passed this row over while it was dealt with here.
        if self.desk.arrive(key) == Arrival::StartWorker {
            self.start_worker(key.to_owned());
        }
    }

    /// What runs ends, and what waits is dropped.
    async fn stop_turn(&self, row: &Waiting) -> &'static str {
        let key = &row.conversation;
        let starting = self.desk.busy(key).is_some_and(|busy| busy.phase == Phase::Starting);
        let stopped = self.desk.stop(key, Stop::Asked);
        self.drop_waiting(key, row.id).await;
        match (stopped, starting) {
            (true, _) => "⚡ Force-stopped. The session is unlocked; you can send something new.",
            (false, true) => "⚡ Force-stopped. The agent was still starting — session unlocked.",
            (false, false) => "No active task to stop.",
        }
    }

    /// What waits behind a stopped turn is not to be run any more.
    async fn drop_waiting(&self, key: &str, but: InboxId) {
        let waiting = match self.store.waiting(key).await {
            Ok(waiting) => waiting,
            Err(error) => return tracing::warn!(%error, "waiting messages could not be dropped"),
        };
        for row in waiting.into_iter().filter(|row| row.id < but && row.turn.is_none()) {
            let note = Some("stopped by the user".to_owned());
            if let Err(error) = self.store.close_inbox(row.id, Closing::Done, note, self.clock.now()).await {
                tracing::warn!(%error, "a waiting message could not be dropped");
            }
        }
    }

    /// Closes a row with an answer and takes in the work it asked for, in one step.
    pub(crate) async fn settle_and_begin(&self, row: &Waiting, text: String, work: FollowUp) {
        let FollowUp { conversation, envelope } = work.clone();
        let settled = Settled {
            inbox: vec![row.id],
            closing: Closing::Done,
            note: None,
            conversation: row.conversation.clone(),
            replies: vec![answer_to(&row.envelope, text, format!("in:{}", row.id))],
            at: self.clock.now(),
        };
        match self.store.settle_with(settled, work).await {
            Ok(Taken::New(id)) => self.hand_over(Waiting { id, conversation, envelope, turn: None }),
            Ok(Taken::Duplicate(_)) => {}
            Err(error) => tracing::error!(%error, "work in the background could not be written down"),
        }
        self.delivery.wake(&row.envelope.platform);
    }

    /// Closes a row with an answer, or without one.
    pub(crate) async fn settle_row(&self, row: &Waiting, text: Option<String>) {
        let key = format!("in:{}", row.id);
        let abilities = self.delivery.abilities(&row.envelope.platform);
        let reply = text.map(|text| answer_to(&row.envelope, text, key));
        let replies = reply.into_iter().flat_map(|reply| deliver::in_parts(reply, abilities)).collect();
        let settled = Settled {
            inbox: vec![row.id],
            closing: Closing::Done,
            note: None,
            conversation: row.conversation.clone(),
            replies,
            at: self.clock.now(),
        };
        if let Err(error) = self.store.settle(settled).await {
            tracing::error!(%error, "an answer could not be written down; it will be made again");
        }
        self.delivery.wake(&row.envelope.platform);
    }
}

/// What to do at once about a message in a busy conversation.
enum Beside {
    Nothing,
    Interrupt,
    /// It waits for the next turn, as the user wants it to.
    Queue,
    /// The turn ends; the worker then comes to the message.
    Stop,
    Do(Aside),
}

/// Something done beside a turn.
enum Aside {
    Stop,
    Command(Typed),
    Refuse(&'static str),
    Approve(Approval),
    Clarify(String),
}

/// Which open question an approval is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which<'a> {
    Oldest,
    All,
    /// The one with this tag, as a button names it.
    Tagged(&'a str),
}

impl Gateway {
    /// A command, as it was typed; a word of the user's own that begins the conversation anew counts as one.
    pub(crate) fn typed(&self, envelope: &Envelope) -> Option<Typed> {
        if authorise::is_foreign(&envelope.platform) {
            return None;
        }
        let text = envelope.text();
        let is_trigger = |trigger: &String| trigger.trim().eq_ignore_ascii_case(text.trim());
        if self.live.now().reset_triggers.iter().any(is_trigger) {
            return Some(Typed { name: "new".to_owned(), rest: String::new() });
        }
        slash::parse(&text)
    }

    /// What a message means to a turn that is running.
    fn beside(&self, envelope: &Envelope, busy: Busy) -> Beside {
        beside(envelope, self.typed(envelope), busy)
    }
}

fn beside(envelope: &Envelope, typed: Option<Typed>, busy: Busy) -> Beside {
    let text = envelope.text();
    if let Some(typed) = typed {
        return match slash::find(&typed.name, Surface::Chat).map(|command| (command.name, command.while_busy))
        {
            Some(("stop", _)) => Beside::Do(Aside::Stop),
            Some((_, WhileBusy::Stops)) => Beside::Stop,
            Some((_, WhileBusy::Now)) => Beside::Do(Aside::Command(typed)),
            Some((_, WhileBusy::Waits)) if typed.rest.is_empty() => Beside::Do(Aside::Command(typed)),
            Some((_, WhileBusy::Waits)) => Beside::Queue,
            Some((name, WhileBusy::Refused)) => Beside::Do(Aside::Refuse(name)),
            None => interrupting(envelope, busy),
        };
    }
    match busy.question.filter(|_| !authorise::is_foreign(&envelope.platform)) {
        Some(Kind::Approval) => {
            if let Some(approval) = plain_approval(&text) {
                return Beside::Do(Aside::Approve(approval));
            }
        }
        Some(Kind::Clarification) if !text.trim().is_empty() => return Beside::Do(Aside::Clarify(text)),
        _ => {}
    }
    if envelope.files().next().is_some() {
        return Beside::Nothing;
    }
    interrupting(envelope, busy)
}

fn interrupting(envelope: &Envelope, busy: Busy) -> Beside {
    match busy.phase {
        // Written while nobody was there: it comes after what was left unfinished then.
        Phase::Running if busy.resumed_at.is_some_and(|at| envelope.received_at < at) => Beside::Nothing,
        Phase::Running => Beside::Interrupt,
        Phase::Starting => Beside::Nothing,
    }
}

/// Words that answer the question whether a command may run; only while it is open.
fn plain_approval(text: &str) -> Option<Approval> {
    match text.trim().to_lowercase().as_str() {
        "yes" | "y" | "ok" | "okay" | "approve" | "confirm" | "go" | "👍" => Some(Approval::Once),
        "session" => Some(Approval::Session),
        "always" => Some(Approval::Always),
        "no" | "n" | "deny" | "reject" | "cancel" | "👎" => Some(Approval::Deny),
        _ => None,
    }
}

/// A reply to the place a message came from.
pub(crate) fn answer_to(envelope: &Envelope, text: String, idempotency_key: String) -> Reply {
    Reply {
        platform: envelope.platform.clone(),
        place: envelope.place.clone(),
        pieces: vec![Piece::Text { text }],
        reply_to: envelope.message_id.clone(),
        choices: Vec::new(),
        draft: None,
        idempotency_key,
    }
}

fn retry(error: &hermes_store::Error) -> ChannelError {
    ChannelError::Retry { after: None, reason: error.to_string() }
}
