//! One turn of a chat: whose conversation, which words, the run, and what is said in the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_agent::{
    Agent, Conversation, CutOff, Error as AgentError, Said, TurnOutcome, TurnRequest, TurnResult, TurnWork,
};
use hermes_store::{Closing, EndReason, Error as StoreError, SessionFilter, Waiting};
use hermes_text::head;
use hermes_types::{
    Cancel, Content, Envelope, Mark, Reply, Role, SessionId, SessionKind, TaskId, Turn, TurnId, TurnState,
};

use super::GRACE;
use super::background;
use super::context::context_prompt;
use super::present::Presenter;
use super::settle::words_of;
use crate::deliver;
use crate::gateway::Gateway;
use crate::intake::answer_to;
use crate::ports::Wish;
use crate::session::{Entry, ResetReason, expired};

/// Said to the model when nobody has talked to it before.
const INTRODUCE: &str = include_str!("introduce.md").trim_ascii();
/// The most of a message or an answer hooks are told.
const LONGEST_TOLD: usize = 500;
/// Platforms nothing is sent to unasked.
const WITHOUT_HOME: [&str; 4] = ["webhook", "api_server", "homeassistant", "email"];
/// How long to wait for a conversation somebody else is in.
const WHILE_TAKEN: Duration = Duration::from_secs(2);

/// A chat's conversation, ready for a turn.
struct Opened {
    conversation: Conversation,
    entry: Entry,
    /// It begins with this turn.
    fresh: bool,
    reset: Option<ResetReason>,
    cut_off: Option<CutOff>,
}

/// Why there is no turn now.
enum NotNow {
    /// Tell the user this; the message is dealt with.
    Tell(String),
    /// Somebody else is in the conversation.
    Taken,
    /// It would not stop and was left where it was.
    Abandoned,
    /// It was cut off too often; the user is told this.
    Parked(TurnId, String),
    Store(StoreError),
}

impl From<StoreError> for NotNow {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<AgentError> for NotNow {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Busy { .. } => Self::Taken,
            AgentError::Store(error) => Self::Store(error),
            AgentError::NotFound(session) => {
                Self::Tell(format!("The session {session} is gone. /new begins another."))
            }
        }
    }
}

impl Gateway {
    /// Runs a turn for these rows and settles them. What cannot be done now is tried again.
    pub(super) async fn take_turn(&self, key: &str, rows: Vec<Waiting>, words: Option<String>) {
        let Some(last) = rows.last() else { return };
        if background::is_key(key) {
            return background::take_turn(self, last).await;
        }
        let envelope = last.envelope.clone();
        let mut told = false;
        loop {
            match self.try_turn(key, &rows, words.as_deref()).await {
                Ok(()) => return,
                Err(NotNow::Tell(text)) => {
                    return self.settle_all(key, &rows, &envelope, Closing::Reported, vec![text]).await;
                }
                Err(NotNow::Abandoned) => {
                    return self.settle_all(key, &rows, &envelope, Closing::Done, Vec::new()).await;
                }
                // Under the key of the turn, as after the next start: however often it is found, it is told once.
                Err(NotNow::Parked(turn, text)) => {
                    match self.settle_turn(key, &rows, &envelope, &turn, Some(text), None).await {
                        Ok(()) => return,
                        Err(error) => {
                            tracing::error!(%error, key, "a notice could not be written down; trying again");
                            self.clock.sleep(super::PAUSE).await;
                        }
                    }
                }
                Err(NotNow::Taken) => {
                    if !told {
                        told = true;
                        let text = "This conversation is open in another Hermes; I go on when it is free."
                            .to_owned();
                        self.say(key, answer_to(&envelope, text, format!("taken:{}", last.id))).await;
                    }
                    self.clock.sleep(WHILE_TAKEN).await;
                }
                Err(NotNow::Store(error)) => {
                    tracing::error!(%error, key, "a turn could not be written down; trying again");
                    self.clock.sleep(super::PAUSE).await;
                }
            }
        }
    }

    async fn try_turn(&self, key: &str, rows: &[Waiting], words: Option<&str>) -> Result<(), NotNow> {
        let Some(first) = rows.first() else { return Ok(()) };
        let envelope = rows.last().map_or(&first.envelope, |last| &last.envelope);
        let mut agent = self.agent_for(envelope).map_err(NotNow::Tell)?;
        let begun = match &first.turn {
            Some(turn) => self.store.turn(turn).await?,
            None => None,
        };
        let mut opened = match begun {
            Some(turn) if turn.state == TurnState::Running => {
                self.open_unfinished(&agent, key, envelope, &turn).await?
            }
            Some(turn) => {
                let reply = missing_reply(&agent, &turn).await?;
                self.settle_turn(key, rows, envelope, &turn.id, reply, None).await?;
                return Ok(());
            }
            None => self.open(&agent, key, envelope).await?,
        };
        self.introduce(&mut agent, opened.conversation.session()).await?;
        if opened.fresh {
            self.tell_about_home(key, envelope).await;
        }
        let cancel = Cancel::new();
        let presenter = Presenter::start(self, key, envelope, opened.conversation.session());
        let marks = self.mark_seen(rows);
        let is_resumed = opened.cut_off.as_ref().is_some_and(|cut_off| is_of(rows, cut_off));
        self.desk.begin(key, cancel.clone(), is_resumed.then(|| self.clock.now()));
        let about = about_turn(envelope, opened.conversation.session());
        self.ports.watchers.emit("agent:start", about.clone());
        let ran = self.run(&agent, &mut opened, rows, words, &presenter, &cancel).await;
        let stopped = self.desk.end(key);
        let shown = presenter.finish().await;
        let result = match ran {
            Ok(result) => result,
            Err(reason) => {
                shown.settle(self, envelope).await;
                return Err(reason);
            }
        };
        let mut reply =
            words_of(&result, stopped, self.live.now().display_on(&envelope.platform).show_reasoning);
        deliver::add_tools_files(&mut reply, opened.conversation.messages());
        self.after_turn(&agent, opened, &result).await?;
        marks.end(if result.failure.is_none() && reply.is_some() { Mark::Answered } else { Mark::Failed });
        self.tell_ended(about, reply.as_deref());
        if reply.is_none() {
            shown.clone().settle(self, envelope).await;
        }
        self.settle_turn(key, rows, envelope, &result.turn, reply, Some(shown)).await?;
        Ok(())
    }

    /// As long as there is one conversation and no other, it is said how to begin it: the same words in each of its turns,
    /// so that what providers keep stays good.
    async fn introduce(&self, agent: &mut Agent, own: &SessionId) -> Result<(), StoreError> {
        if self.introduced.load(Ordering::Relaxed) {
            return Ok(());
        }
        let sessions = self.store.list_sessions(SessionFilter::default(), 2).await?;
        self.introduced.store(sessions.len() > 1, Ordering::Relaxed);
        if sessions.iter().all(|session| session.id == *own) {
            let own = agent.asking.ephemeral.take();
            let texts: Vec<String> = own.into_iter().chain([INTRODUCE.to_owned()]).collect();
            agent.asking.ephemeral = Some(texts.join("\n\n"));
        }
        Ok(())
    }

    fn tell_ended(&self, mut about: serde_json::Value, reply: Option<&str>) {
        about["response"] = serde_json::json!(head(reply.unwrap_or_default(), LONGEST_TOLD));
        self.ports.watchers.emit("agent:end", about);
    }

    /// A chat that begins where nothing unasked could be sent to yet is told how that is changed, once.
    async fn tell_about_home(&self, key: &str, envelope: &Envelope) {
        let platform = envelope.platform.as_str();
        if WITHOUT_HOME.contains(&platform) || self.live.now().home_channel(platform).is_some() {
            return;
        }
        let text = format!(
            "📬 No home channel is set for {}. /sethome makes this chat the place for what comes unasked, such as \
             scheduled jobs.",
            proper_name(platform)
        );
        let key_of_notice = format!("home:{platform}:{}", envelope.place.chat_id);
        self.say(key, answer_to(envelope, text, key_of_notice)).await;
    }

    /// The turn itself. One that does not stop when told to is left where it is.
    async fn run(
        &self,
        agent: &Agent,
        opened: &mut Opened,
        rows: &[Waiting],
        words: Option<&str>,
        presenter: &Presenter,
        cancel: &Cancel,
    ) -> Result<TurnResult, NotNow> {
        let work = match opened.cut_off.take() {
            Some(cut_off) if is_of(rows, &cut_off) => {
                self.tell_resumed(rows, &cut_off).await;
                TurnWork::Resume(cut_off)
            }
            cut_off => {
                if let Some(cut_off) = cut_off {
                    agent.drop_turn(&cut_off).await?;
                }
                let window = agent.window(&opened.conversation);
                let said = self.compose(rows, words, opened, window).await.map_err(NotNow::Tell)?;
                TurnWork::Begin { id: TurnId::generate(), said: Box::new(said) }
            }
        };
        let request = TurnRequest { work, frontend: presenter.frontend(), cancel, grace: Some(GRACE) };
        match agent.drive(&mut opened.conversation, request).await? {
            TurnOutcome::Ended(result) => Ok(*result),
            TurnOutcome::Abandoned => Err(NotNow::Abandoned),
            TurnOutcome::Parked(cut_off) => Err(NotNow::Parked(cut_off.turn.id.clone(), parked(&cut_off))),
        }
    }

    /// The agent for a message at its place.
    pub(crate) fn agent_for(&self, envelope: &Envelope) -> Result<Agent, String> {
        let settings = self.live.now();
        let context = context_prompt(envelope, &settings, &self.platforms());
        self.ports.agents.agent(&Wish {
            platform: &envelope.platform,
            context: Some(context),
            ..Wish::default()
        })
    }

    /// The chat's conversation: the one it is at, or a new one where there is none or it is over.
    async fn open(&self, agent: &Agent, key: &str, envelope: &Envelope) -> Result<Opened, NotNow> {
        let now = self.clock.now();
        let civil = (self.calendar)(now);
        let entry = self.index.find(key).await?;
        let settings = self.live.now();
        let policy = settings.reset_policy(&envelope.platform, envelope.place.kind);
        let task = TaskId::new(key);
        let over = entry.as_ref().and_then(|entry| self.is_over(key, entry, &policy));
        if let (Some(mut entry), None) = (entry.clone(), over) {
            let session = SessionId::new(entry.session_id.clone());
            entry.origin = Some(crate::session::Origin::of(envelope));
            return match agent.take_up_as(&session, task.clone()).await {
                Ok(taken) => {
                    let fresh = taken.conversation.messages().is_empty();
                    Ok(Opened {
                        conversation: taken.conversation,
                        entry,
                        fresh,
                        reset: None,
                        cut_off: taken.cut_off,
                    })
                }
                // Bound, but nothing was said in it yet.
                Err(AgentError::NotFound(_)) => {
                    let conversation = begin(agent, session, envelope, task);
                    Ok(Opened { conversation, entry, fresh: true, reset: None, cut_off: None })
                }
                Err(error) => Err(error.into()),
            };
        }
        let session = SessionId::generate(SessionKind::Gateway, civil);
        if let (Some(entry), Some(reason)) = (&entry, over) {
            self.flush_in_the_background(envelope, entry);
            self.end_old(entry).await?;
            agent.release(&task);
            self.tell_reset(key, envelope, entry, reason, &policy).await;
        }
        let entry = Entry::new(key, &session, envelope, civil);
        self.index.keep(entry.clone(), now).await?;
        let conversation = begin(agent, session, envelope, task);
        self.emit("session:start", envelope, &entry);
        Ok(Opened { conversation, entry, fresh: true, reset: over, cut_off: None })
    }

    /// Returns why a chat's conversation is over. As long as something it started still runs, it is not.
    pub(crate) fn is_over(
        &self,
        key: &str,
        entry: &Entry,
        policy: &hermes_config::settings::SessionResetSettings,
    ) -> Option<ResetReason> {
        let now = (self.calendar)(self.clock.now());
        let reason = expired(policy, entry.last_used()?, now)?;
        (!self.ports.services.has_running_process(&TaskId::new(key))).then_some(reason)
    }

    /// The conversation of a turn that has not ended, in whatever session it is now, however long ago it began.
    async fn open_unfinished(
        &self,
        agent: &Agent,
        key: &str,
        envelope: &Envelope,
        turn: &Turn,
    ) -> Result<Opened, NotNow> {
        let taken = agent.take_up_as(&turn.session, TaskId::new(key)).await?;
        let session = taken.conversation.session().clone();
        let mut entry = match self.index.find(key).await? {
            Some(entry) => entry,
            None => Entry::new(key, &session, envelope, (self.calendar)(self.clock.now())),
        };
        session.as_str().clone_into(&mut entry.session_id);
        entry.origin = Some(crate::session::Origin::of(envelope));
        Ok(Opened {
            conversation: taken.conversation,
            entry,
            fresh: false,
            reset: None,
            cut_off: taken.cut_off,
        })
    }

    /// Ends the session a chat was at.
    pub(crate) async fn end_old(&self, entry: &Entry) -> Result<(), StoreError> {
        let session = SessionId::new(entry.session_id.clone());
        self.store.end_session(&session, EndReason::SessionReset, self.clock.now()).await
    }

    async fn tell_reset(
        &self,
        key: &str,
        envelope: &Envelope,
        entry: &Entry,
        reason: ResetReason,
        policy: &hermes_config::settings::SessionResetSettings,
    ) {
        if !policy.notify
            || entry.total_tokens == 0
            || policy.notify_exclude_platforms.contains(&envelope.platform)
        {
            return;
        }
        let text = format!(
            "◐ Session automatically reset ({}). Conversation history cleared.\n/resume goes back to an earlier one; \
             `session_reset` in config.yaml says when this happens.{}",
            reason.words(),
            self.info_block(envelope)
        );
        self.say(key, answer_to(envelope, text, format!("reset:{}", entry.session_id))).await;
    }

    async fn tell_resumed(&self, rows: &[Waiting], cut_off: &CutOff) {
        let Some(row) = rows.last().filter(|_| !cut_off.parked) else { return };
        let text = "⚠️ I was restarted in the middle of your request. I am going on with it.".to_owned();
        let key = format!("resumed:{}:{}", cut_off.turn.id, cut_off.turn.cut_offs);
        self.say(&row.conversation, answer_to(&row.envelope, text, key)).await;
    }

    /// What the model reads: all that was said, in one.
    async fn compose(
        &self,
        rows: &[Waiting],
        words: Option<&str>,
        opened: &Opened,
        window: u64,
    ) -> Result<Said, String> {
        let mut texts: Vec<String> = Vec::new();
        for row in rows {
            let text = match words {
                Some(words) => words.to_owned(),
                None => self.enriched(&row.envelope, &opened.conversation, window).await?,
            };
            // The pictures of an album may all carry its caption.
            if !text.is_empty() && !texts.contains(&text) {
                texts.push(text);
            }
        }
        let with_files = rows.iter().any(|row| row.envelope.files().next().is_some());
        let mut text = texts.join(if with_files { "\n\n" } else { "\n" });
        if let Some(reason) = opened.reset {
            text = format!("{}\n\n{text}", reason.note());
        } else if opened.fresh
            && let Some(skill) = rows.first().and_then(|row| row.envelope.skill.as_deref())
            && let Some(loaded) = self.ports.services.skill(skill, &text)
        {
            text = loaded;
        }
        Ok(Said {
            content: Content::Text(text),
            stored: None,
            before: Vec::new(),
            inbox: rows.iter().map(|row| row.id).collect(),
        })
    }

    async fn after_turn(
        &self,
        agent: &Agent,
        mut opened: Opened,
        result: &TurnResult,
    ) -> Result<(), StoreError> {
        // Compression may have moved the conversation to another session.
        opened.entry.session_id = result.session.as_str().to_owned();
        opened.entry.count(opened.conversation.usage(), result.last_prompt_tokens);
        self.index.keep(opened.entry, self.clock.now()).await?;
        self.look_back(agent, opened.conversation);
        Ok(())
    }

    /// Names the conversation and learns from it, beside everything else.
    fn look_back(&self, agent: &Agent, conversation: Conversation) {
        let agent = agent.clone();
        drop(self.tasks.spawn_cooperative("looking back", move |cancel| async move {
            let said = conversation.messages().iter().filter(|message| message.role == Role::User).count();
            // Nobody resumes the conversation of a single event.
            if said == 1 && conversation.source() != "webhook" {
                let _ = agent.name_conversation(&conversation, &cancel).await;
            }
            let due = agent.review_due(&conversation);
            if due.is_any() {
                let _ = agent.review(&conversation, due, &cancel).await;
            }
        }));
    }

    /// Queues something to be said.
    pub(crate) async fn say(&self, key: &str, reply: Reply) {
        let platform = reply.platform.clone();
        for part in deliver::in_parts(reply, self.delivery.abilities(&platform)) {
            if let Err(error) = self.store.enqueue(key, part, self.clock.now()).await {
                tracing::error!(%error, key, "something could not be said");
            }
        }
        self.delivery.wake(&platform);
    }

    pub(crate) fn emit(&self, event: &str, envelope: &Envelope, entry: &Entry) {
        self.ports.watchers.emit(
            event,
            serde_json::json!({
                "platform": envelope.platform,
                "user_id": envelope.sender.user_id,
                "session_id": entry.session_id,
                "session_key": entry.session_key,
            }),
        );
    }
}

/// Whether a turn that was cut off was the answer to these messages.
fn is_of(rows: &[Waiting], cut_off: &CutOff) -> bool {
    rows.iter().any(|row| row.turn.as_ref() == Some(&cut_off.turn.id))
}

/// What hooks are told about a turn.
fn about_turn(envelope: &Envelope, session: &SessionId) -> serde_json::Value {
    serde_json::json!({
        "platform": envelope.platform,
        "user_id": envelope.sender.user_id,
        "chat_id": envelope.place.chat_id,
        "thread_id": envelope.place.thread_id,
        "chat_type": envelope.place.kind.as_str(),
        "session_id": session.as_str(),
        "message": head(&envelope.text(), LONGEST_TOLD),
    })
}

/// A platform as people write it.
fn proper_name(platform: &str) -> String {
    match platform {
        "whatsapp" => "WhatsApp".to_owned(),
        "dingtalk" => "DingTalk".to_owned(),
        "sms" => "SMS".to_owned(),
        name => {
            let mut letters = name.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
        }
    }
}

fn begin(agent: &Agent, session: SessionId, envelope: &Envelope, task: TaskId) -> Conversation {
    agent
        .begin_as(session, envelope.platform.clone(), SessionKind::Gateway)
        .with_task(task)
        .with_user(envelope.sender.user_id.clone())
}

const PARKED: &str = "I was cut off twice while working on your message, so I have stopped trying. What was done until then is \
                      kept; tell me how to go on.";

pub(super) fn parked(cut_off: &CutOff) -> String {
    if cut_off.unknown.is_empty() {
        return PARKED.to_owned();
    }
    format!("{PARKED} I do not know whether these took effect: {}.", cut_off.unknown.join(", "))
}

/// What a turn that is closed already said in the end; its answer only never left.
pub(super) async fn missing_reply(agent: &Agent, turn: &Turn) -> Result<Option<String>, StoreError> {
    match turn.state {
        TurnState::Running | TurnState::Interrupted => Ok(None),
        TurnState::Done => {
            let Some(past) = agent.past_turn(&turn.id).await? else { return Ok(None) };
            let last = past.messages.get(past.first..).and_then(<[_]>::last);
            let text =
                last.map(|message| hermes_text::strip_think(&message.content.text()).trim().to_owned());
            Ok(past.answer().or(text).filter(|text| !text.is_empty()))
        }
        TurnState::Failed => Ok(Some("Sorry, I encountered an error. Please try again.".to_owned())),
        TurnState::Parked => Ok(Some(PARKED.to_owned())),
    }
}
