//! Turns the filters of the command line into conditions.

use anyhow::{Result, bail};
use hermes_schedule::Zone;
use hermes_store::{NumberRange, SessionCriteria};
use hermes_types::Timestamp;

use crate::cli::SessionFilterArguments;
use crate::command::age;
use crate::context::now;

/// Returns the sessions that the filters describe.
pub(super) fn criteria(filters: &SessionFilterArguments, zone: Zone) -> Result<SessionCriteria> {
    let older = filters.older_than.as_deref().map(began_before).transpose()?;
    let newer = filters.newer_than.as_deref().map(began_before).transpose()?;
    let before = filters.before.as_deref().map(|text| date(text, zone)).transpose()?;
    let after = filters.after.as_deref().map(|text| date(text, zone)).transpose()?;
    let folder = filters.cwd.as_deref().map(std::path::absolute).transpose()?;
    let range = |least, most| NumberRange { least, most };
    Ok(SessionCriteria {
        source: filters.source.clone(),
        started_before: earliest(older, before),
        started_after: latest(newer, after),
        title: filters.title.clone(),
        end_reason: filters.end_reason.clone(),
        folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
        model: filters.model.clone(),
        provider: filters.provider.clone(),
        user: filters.user.clone(),
        chat_id: filters.chat_id.clone(),
        chat_type: filters.chat_type.clone(),
        branch: filters.branch.clone(),
        messages: range(filters.min_messages, filters.max_messages),
        tokens: range(filters.min_tokens, filters.max_tokens),
        cost: range(filters.min_cost, filters.max_cost),
        tool_calls: range(filters.min_tool_calls, filters.max_tool_calls),
        ..SessionCriteria::default()
    })
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.seconds() < b.seconds() { a } else { b }),
        (a, b) => a.or(b),
    }
}

fn latest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.seconds() > b.seconds() { a } else { b }),
        (a, b) => a.or(b),
    }
}

/// Returns the time that long ago. A bare number is days.
fn began_before(text: &str) -> Result<Timestamp> {
    let days = text.parse::<u64>().is_ok().then(|| format!("{text}d"));
    Ok(now().minus(age::parse(days.as_deref().unwrap_or(text))?))
}

fn date(text: &str, zone: Zone) -> Result<Timestamp> {
    match zone.parse(text) {
        Ok(at) => Ok(at),
        Err(why) => bail!("`{text}` is not a date: {why}"),
    }
}
