//! The variables that tell commands and scripts which chat, or which job, they work for.
//!
//! They are passed to one task and never set for the process: conversations that run at the same time do not mix.

use hermes_schedule::JobOrigin;
use hermes_text::single_line;
use hermes_types::ChatAddress;

use crate::deliver::ChatDestination;

/// The name and the value of a variable.
pub(crate) type SessionVariable = (&'static str, String);

/// Returns the variables of a chat.
pub(crate) fn chat_variables(platform: &str, key: &str, place: &ChatAddress) -> Vec<SessionVariable> {
    named([
        ("HERMES_SESSION_PLATFORM", Some(platform)),
        ("HERMES_SESSION_CHAT_ID", Some(&place.chat_id)),
        ("HERMES_SESSION_CHAT_NAME", place.chat_name.as_deref()),
        ("HERMES_SESSION_THREAD_ID", place.thread_id.as_deref()),
        ("HERMES_SESSION_KEY", Some(key)),
        ("HERMES_GATEWAY_SESSION", Some("1")),
    ])
}

/// Returns the variables of a job's run: the chat in which it was made, and where its answer is delivered.
pub(crate) fn job_variables(
    origin: Option<&JobOrigin>,
    delivered_to: Option<&ChatDestination>,
) -> Vec<SessionVariable> {
    let mut variables = named([
        ("HERMES_SESSION_PLATFORM", origin.map(|origin| origin.platform.as_str())),
        ("HERMES_SESSION_CHAT_ID", origin.map(|origin| origin.chat_id.as_str())),
        ("HERMES_SESSION_CHAT_NAME", origin.and_then(|origin| origin.chat_name.as_deref())),
        ("HERMES_SESSION_THREAD_ID", origin.and_then(|origin| origin.thread_id.as_deref())),
    ]);
    variables.extend(named([
        ("HERMES_CRON_AUTO_DELIVER_PLATFORM", delivered_to.map(|to| to.platform.as_str())),
        ("HERMES_CRON_AUTO_DELIVER_CHAT_ID", delivered_to.map(|to| to.place.chat_id.as_str())),
        ("HERMES_CRON_AUTO_DELIVER_THREAD_ID", delivered_to.and_then(|to| to.place.thread_id.as_deref())),
    ]));
    variables
}

/// Keeps the variables that have a value. A platform's text becomes one line.
fn named<'a>(variables: impl IntoIterator<Item = (&'static str, Option<&'a str>)>) -> Vec<SessionVariable> {
    let known = variables.into_iter().filter_map(|(name, value)| Some((name, single_line(value?))));
    known
        .map(|(name, value)| (name, value.replace('\0', "")))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}
