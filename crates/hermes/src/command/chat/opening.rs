//! Chooses the session of a run: a new one, the latest, or one by name.

use anyhow::Result;
use hermes_agent::{Agent, Conversation, LoadedConversation, UnfinishedTurn};
use hermes_config::Env;
use hermes_store::Store;
use hermes_types::{Role, SessionId, SessionKind};

use crate::cli::ChatArguments;
use crate::output::Console;

/// The session to work in.
pub(crate) struct OpenedConversation {
    pub(crate) conversation: Conversation,
    pub(crate) title: Option<String>,
    /// True when the session existed before this run.
    pub(crate) resumed: bool,
    pub(crate) unfinished_turn: Option<UnfinishedTurn>,
}

/// Returns the session that is asked for and the flag that asks for it; an empty name means the latest one.
pub(super) fn requested_session(arguments: &ChatArguments) -> Option<(&str, &'static str)> {
    match (&arguments.resume, &arguments.go_on) {
        (Some(name), _) if !name.trim().is_empty() => Some((name.trim(), "-r")),
        (_, Some(name)) if !name.trim().is_empty() => Some((name.trim(), "-c")),
        (None, None) => None,
        _ => Some(("", "-c")),
    }
}

/// Finds a session by id or title; an empty name means the latest one.
pub(super) async fn find_session(store: &Store, name: &str) -> Result<Option<SessionId>> {
    if !name.is_empty() {
        return Ok(store.resolve(name).await?);
    }
    match store.newest_session("cli").await? {
        Some(newest) => Ok(store.resolve(newest.as_str()).await?),
        None => Ok(None),
    }
}

/// Opens the session the arguments name. Returns `None`, after an error message, when it does not exist.
pub(crate) async fn open(
    agent: &Agent,
    arguments: &ChatArguments,
    env: &Env,
    output: &Console,
) -> Result<Option<OpenedConversation>> {
    let tagged = || env.get("HERMES_SESSION_SOURCE").map(str::to_owned).filter(|source| !source.is_empty());
    let source = arguments.source.clone().or_else(tagged).unwrap_or_else(|| "cli".to_owned());
    let Some((name, flag)) = requested_session(arguments) else {
        let conversation = agent.new_conversation(source, SessionKind::Local);
        return Ok(Some(OpenedConversation {
            conversation,
            title: None,
            resumed: false,
            unfinished_turn: None,
        }));
    };
    let id = find_session(agent.store(), name).await?;
    let Some(id) = id else {
        match (name, flag) {
            ("", _) => output.notice("No previous CLI session found to continue."),
            (name, "-c") => {
                output.notice(&format!("No session found matching '{name}'."));
                output.notice("Use 'hermes sessions list' to see available sessions.");
            }
            (name, _) => {
                output.notice(&format!("Session not found: {name}"));
                output.notice("Use 'hermes sessions list' to see available sessions.");
            }
        }
        return Ok(None);
    };
    let LoadedConversation { conversation, title, unfinished_turn: cut_off } =
        agent.load_conversation(&id).await?;
    Ok(Some(OpenedConversation { conversation, title, resumed: true, unfinished_turn: cut_off }))
}

/// Returns the line that says which session was continued.
pub(crate) fn greeting(opened: &OpenedConversation) -> String {
    let messages = opened.conversation.messages();
    let id = opened.conversation.session();
    if messages.is_empty() {
        return format!("Session {id} found but has no messages. Starting fresh.");
    }
    let users = messages.iter().filter(|message| message.role == Role::User).count();
    let plural = if users == 1 { "" } else { "s" };
    let title = opened.title.as_ref().map(|title| format!(" \"{title}\"")).unwrap_or_default();
    format!("↻ Resumed session {id}{title} ({users} user message{plural}, {} total messages)", messages.len())
}

/// Describes a turn that a dead process left unfinished.
pub(crate) fn describe_unfinished_turn(cut_off: &UnfinishedTurn) -> String {
    let unknown = match cut_off.unknown_calls.as_slice() {
        [] => String::new(),
        names => format!(" What became of these calls is unknown: {}.", names.join(", ")),
    };
    if cut_off.parked {
        format!("The last turn was cut off twice and is not tried again by itself.{unknown}")
    } else {
        format!("The last turn was cut off before it ended.{unknown}")
    }
}
