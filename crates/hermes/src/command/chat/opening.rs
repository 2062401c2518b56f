//! Which conversation a run is about: a new one, the newest, or one by name.

use anyhow::Result;
use hermes_agent::{Agent, Conversation, CutOff, TakenUp};
use hermes_config::Env;
use hermes_types::{Role, SessionKind};

use crate::cli::ChatArguments;
use crate::output::Output;

/// A conversation to work in.
pub(crate) struct Opened {
    pub(crate) conversation: Conversation,
    pub(crate) title: Option<String>,
    /// It was begun earlier.
    pub(crate) resumed: bool,
    pub(crate) cut_off: Option<CutOff>,
}

/// Opens what the arguments ask for. Nothing when they name something that does not exist, which has been said.
pub(crate) async fn open(
    agent: &Agent,
    arguments: &ChatArguments,
    env: &Env,
    output: &Output,
) -> Result<Option<Opened>> {
    let tagged = || env.get("HERMES_SESSION_SOURCE").map(str::to_owned).filter(|source| !source.is_empty());
    let source = arguments.source.clone().or_else(tagged).unwrap_or_else(|| "cli".to_owned());
    let name = match (&arguments.resume, &arguments.go_on) {
        (Some(name), _) if !name.trim().is_empty() => Some((name.trim(), "-r")),
        (_, Some(name)) if !name.trim().is_empty() => Some((name.trim(), "-c")),
        (None, None) => None,
        _ => Some(("", "-c")),
    };
    let Some((name, flag)) = name else {
        let conversation = agent.begin(source, SessionKind::Local);
        return Ok(Some(Opened { conversation, title: None, resumed: false, cut_off: None }));
    };
    let id = if name.is_empty() {
        match agent.store.newest_session("cli").await? {
            Some(newest) => agent.store.resolve(newest.as_str()).await?,
            None => None,
        }
    } else {
        agent.store.resolve(name).await?
    };
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
    let TakenUp { conversation, title, cut_off } = agent.take_up(&id).await?;
    Ok(Some(Opened { conversation, title, resumed: true, cut_off }))
}

/// The line that says what was taken up.
pub(crate) fn greeting(opened: &Opened) -> String {
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

/// What is said about a turn that a dead process left behind.
pub(crate) fn about_cut_off(cut_off: &CutOff) -> String {
    let unknown = match cut_off.unknown.as_slice() {
        [] => String::new(),
        names => format!(" What became of these calls is unknown: {}.", names.join(", ")),
    };
    if cut_off.parked {
        format!("The last turn was cut off twice and is not tried again by itself.{unknown}")
    } else {
        format!("The last turn was cut off before it ended.{unknown}")
    }
}
