//! Commands about a chat's current conversation.

use hermes_agent::{Goals, STOP_GRACE};
use hermes_store::{SessionFilter, WaitingMessage};
use hermes_text::{head, single_line};
use hermes_types::{Cancel, SessionId, TaskId, random_hex};

use super::branch::{NOTHING_TO_BRANCH, branch};
use super::compress::{TOO_LITTLE, compress};
use super::goal::GoalWork;
use super::resume::{SessionOwner, find_session};
use super::undo::{NOTHING_TO_RETRY, NOTHING_TO_UNDO};
use super::usage::NOTHING_USED;
use super::{ChatCommands, SlashCommandOutcome};
use crate::chat_sessions::{LoadError, LoadedChat};
use crate::silent_frontend::SilentFrontend;
use crate::turn;

/// The outcome of a command, or the error that kept it from running.
pub(super) type SlashCommandResult = Result<SlashCommandOutcome, LoadError>;

const MAX_LISTED: usize = 10;

impl ChatCommands {
    pub(super) async fn start_new_session(&self, row: &WaitingMessage) -> SlashCommandResult {
        let had_one = self.sessions.replace(&row.conversation, &row.envelope).await?;
        let first = if had_one { "✨ Session reset! Starting fresh." } else { "✨ New session started!" };
        Ok(SlashCommandOutcome::reply(format!("{first}{}", self.agents.describe_model(&row.envelope))))
    }

    pub(super) async fn undo(&self, row: &WaitingMessage, arguments: &str) -> SlashCommandResult {
        let Some(LoadedChat { agent, mut conversation, .. }) = self.load_current(row).await? else {
            return Ok(SlashCommandOutcome::reply(NOTHING_TO_UNDO));
        };
        Ok(super::undo::undo(&agent, &mut conversation, arguments).await?.into())
    }

    pub(super) async fn retry(&self, row: &WaitingMessage) -> SlashCommandResult {
        let Some(LoadedChat { agent, mut conversation, .. }) = self.load_current(row).await? else {
            return Ok(SlashCommandOutcome::reply(NOTHING_TO_RETRY));
        };
        Ok(super::undo::retry(&agent, &mut conversation).await?.into())
    }

    pub(super) async fn title(&self, row: &WaitingMessage, name: &str) -> SlashCommandResult {
        let Some(entry) = self.sessions.find(&row.conversation).await? else {
            return Ok(SlashCommandOutcome::reply("There is no conversation yet; say something first."));
        };
        let session = SessionId::new(entry.session_id);
        let (source, now) = (&row.envelope.platform, self.clock.now());
        Ok(super::title::title(&self.store, &session, source, name, now).await?.into())
    }

    pub(super) async fn resume(&self, row: &WaitingMessage, name: &str) -> SlashCommandResult {
        if name.is_empty() {
            return self.list_resumable(row).await;
        }
        let (platform, user) = (&row.envelope.platform, row.envelope.sender.user_id.as_deref());
        let owner = SessionOwner::Person { platform, user };
        let session = match find_session(&self.store, name, owner).await? {
            Ok(session) => session,
            Err(message) => return Ok(SlashCommandOutcome::reply(message)),
        };
        let agent = self.agents.agent_for(&row.envelope).map_err(LoadError::NoAgent)?;
        let taken = agent.load_conversation_as(&session, TaskId::new(row.conversation.clone())).await?;
        if let Some(cut_off) = &taken.unfinished_turn {
            agent.drop_turn(cut_off).await?;
        }
        self.sessions.switch(&row.conversation, &row.envelope, &session).await?;
        let name = taken.title.unwrap_or_else(|| session.as_str().to_owned());
        Ok(SlashCommandOutcome::reply(format!(
            "↻ Resumed session **{name}** ({} messages). Conversation restored.",
            taken.conversation.messages().len()
        )))
    }

    pub(super) async fn branch(&self, row: &WaitingMessage, name: &str) -> SlashCommandResult {
        let Some(LoadedChat { agent, mut conversation, .. }) = self.load_current(row).await? else {
            return Ok(SlashCommandOutcome::reply(NOTHING_TO_BRANCH));
        };
        let before = conversation.session().clone();
        let reply = branch(&agent, &mut conversation, name).await?;
        if *conversation.session() != before {
            self.sessions.switch(&row.conversation, &row.envelope, conversation.session()).await?;
        }
        Ok(reply.into())
    }

    async fn list_resumable(&self, row: &WaitingMessage) -> SlashCommandResult {
        let filter = SessionFilter::of_source(row.envelope.platform.clone());
        let found = self.store.list_sessions(filter, 100).await?;
        let own = row.envelope.sender.user_id.as_deref();
        let mut lines: Vec<String> = Vec::new();
        for summary in found {
            let Some(title) = summary.title.clone() else { continue };
            let stored = self.store.session(&summary.id).await?;
            if stored.is_some_and(|stored| stored.user_id.as_deref() == own) {
                lines.push(format!("• **{title}** — {}", head(&single_line(&summary.preview), 40)));
            }
            if lines.len() == MAX_LISTED {
                break;
            }
        }
        if lines.is_empty() {
            return Ok(SlashCommandOutcome::reply("No named sessions yet. `/title NAME` names this one."));
        }
        lines.insert(0, "📋 **Named sessions**".to_owned());
        lines.push("\n`/resume NAME` goes on with one.".to_owned());
        Ok(SlashCommandOutcome::reply(lines.join("\n")))
    }

    pub(super) async fn compress(&self, row: &WaitingMessage, focus: &str) -> SlashCommandResult {
        let Some(LoadedChat { agent, mut conversation, mut entry }) = self.load_current(row).await? else {
            return Ok(SlashCommandOutcome::reply(TOO_LITTLE));
        };
        // Registered as a turn, so that `/stop` ends it.
        let cancel = Cancel::new();
        self.conversations.start_turn(&row.conversation, cancel.clone(), None);
        let overdue = async {
            cancel.cancelled().await;
            self.clock.sleep(STOP_GRACE).await;
        };
        let done = tokio::select! {
            biased;
            done = compress(&agent, &mut conversation, focus, &SilentFrontend, &cancel) => done,
            // A compression that does not stop in time is abandoned; the step that would have changed the
            // conversation does not run.
            () = overdue => Ok(None),
        };
        self.conversations.end_turn(&row.conversation);
        let Some(reply) = done? else {
            return Ok(SlashCommandOutcome::reply("Compression was stopped; nothing was changed."));
        };
        // Compression moves a conversation to another session.
        if entry.session_id != conversation.session().as_str() {
            entry.session_id = conversation.session().as_str().to_owned();
            self.sessions.persist_used(entry).await?;
        }
        Ok(reply.into())
    }

    pub(super) async fn goal(&self, row: &WaitingMessage, arguments: &str) -> SlashCommandResult {
        let agent = self.agents.agent_for(&row.envelope).map_err(LoadError::NoAgent)?;
        let opened = self.sessions.open(&agent, &row.conversation, &row.envelope).await?;
        let limit = self.settings.current().goal_turns;
        let session = opened.conversation.session();
        let (text, work) = super::goal::goal(Goals::new(&agent), session, arguments, limit).await?;
        Ok(match work {
            GoalWork::Begin => {
                let id = random_hex(12);
                let step = turn::goal_step(&row.envelope, &row.conversation, &id, self.clock.now());
                SlashCommandOutcome::Start(text, Box::new(step))
            }
            GoalWork::Nothing => SlashCommandOutcome::reply(text),
        })
    }

    pub(super) async fn subgoal(&self, row: &WaitingMessage, arguments: &str) -> SlashCommandResult {
        let agent = self.agents.agent_for(&row.envelope).map_err(LoadError::NoAgent)?;
        let opened = self.sessions.open(&agent, &row.conversation, &row.envelope).await?;
        let session = opened.conversation.session();
        Ok(SlashCommandOutcome::reply(super::goal::subgoal(Goals::new(&agent), session, arguments).await?))
    }

    pub(super) async fn usage(&self, row: &WaitingMessage) -> SlashCommandResult {
        let Some(entry) = self.sessions.find(&row.conversation).await? else {
            return Ok(SlashCommandOutcome::reply(NOTHING_USED));
        };
        Ok(super::usage::usage(&self.store, &SessionId::new(entry.session_id)).await?.into())
    }

    async fn load_current(&self, row: &WaitingMessage) -> Result<Option<LoadedChat>, LoadError> {
        self.sessions.load_current(&row.conversation, &row.envelope).await
    }
}
