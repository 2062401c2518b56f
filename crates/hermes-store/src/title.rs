//! Titles: unique names people give to sessions, and the lookup of a session by title.

use hermes_text::{Title, next_title, title_base};
use hermes_types::SessionId;
use rusqlite::{OptionalExtension, params};

use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::session::find_id;
use crate::writer::{Durability, OperationScope};
use crate::{Error, Store, lineage};

impl Store {
    /// Sets or removes the title of a session.
    pub fn set_title(&self, id: &SessionId, title: Option<Title>) -> PendingResult<()> {
        let id = id.clone();
        self.write(Durability::Process, move |scope| assign(scope, &id, title.as_ref()))
    }

    /// Returns the title for a continuation of a session with this title.
    pub fn next_title(&self, title: &str) -> PendingResult<String> {
        let title = title.to_owned();
        self.read(move |scope| {
            let taken = series(scope, title_base(&title))?;
            Ok(next_title(&title, taken.iter().map(|(_, taken)| taken.as_str())))
        })
    }

    /// Returns the session of one person that a name refers to, as [`Store::resolve`] does among all sessions.
    pub fn resolve_of(
        &self,
        name: &str,
        source: &str,
        user: Option<&str>,
    ) -> PendingResult<Option<SessionId>> {
        let (name, source, user) = (name.to_owned(), source.to_owned(), user.map(str::to_owned));
        self.read(move |scope| {
            let is_own = |id: &SessionId| -> OperationResult<bool> {
                let mut statement = scope.connection.prepare_cached(
                    "SELECT 1 FROM sessions WHERE id = ?1 AND source = ?2 AND user_id IS ?3",
                )?;
                Ok(statement.exists(params![id.as_str(), source, user])?)
            };
            let exact = find_id(scope, &name)?.map(SessionId::new);
            let named = series(scope, &name)?;
            let (same, numbered): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, title)| *title == name);
            let titled = numbered.into_iter().chain(same).map(|(id, _)| id);
            for id in exact.into_iter().chain(titled) {
                let newest = lineage::newest_continuation(scope, &id)?;
                if is_own(&newest)? {
                    return Ok(Some(newest));
                }
            }
            Ok(None)
        })
    }

    /// Returns the session a name refers to: an exact id first, then the newest of the title's series.
    pub fn resolve(&self, name: &str) -> PendingResult<Option<SessionId>> {
        let name = name.to_owned();
        self.read(move |scope| {
            let found = match find_id(scope, &name)? {
                Some(id) => Some(SessionId::new(id)),
                None => by_title(scope, &name)?,
            };
            found.map(|id| lineage::newest_continuation(scope, &id)).transpose()
        })
    }
}

pub(crate) fn assign(
    scope: &OperationScope<'_>,
    id: &SessionId,
    title: Option<&Title>,
) -> OperationResult<()> {
    if let Some(title) = title {
        let holder: Option<String> = scope
            .connection
            .prepare_cached("SELECT id FROM sessions WHERE title = ?1 AND id <> ?2")?
            .query_row(params![title.as_str(), id.as_str()], |row| row.get(0))
            .optional()?;
        match holder {
            // The conversation continued in another session, so its earlier session gives up the title.
            Some(session)
                if lineage::compression_ancestors(scope, id)?.iter().any(|a| a.as_str() == session) =>
            {
                scope.connection.execute("UPDATE sessions SET title = NULL WHERE id = ?1", [session])?;
            }
            Some(session) => {
                return Err(Error::TitleTaken { title: title.as_str().to_owned(), session }.into());
            }
            None => {}
        }
    }
    let changed = scope
        .connection
        .prepare_cached("UPDATE sessions SET title = ?2 WHERE id = ?1")?
        .execute(params![id.as_str(), title.map(Title::as_str)])?;
    if changed == 0 {
        return Err(Error::NotFound(format!("Session not found: {id}")).into());
    }
    Ok(())
}

fn by_title(scope: &OperationScope<'_>, title: &str) -> OperationResult<Option<SessionId>> {
    let numbered = series(scope, title)?.into_iter().find(|(_, other)| other != title);
    if let Some((id, _)) = numbered {
        return Ok(Some(id));
    }
    let exact: Option<String> = scope
        .connection
        .prepare_cached("SELECT id FROM sessions WHERE title = ?1")?
        .query_row([title], |row| row.get(0))
        .optional()?;
    Ok(exact.map(SessionId::new))
}

/// Returns the sessions titled `base` or `base #N`, newest first.
pub(crate) fn series(scope: &OperationScope<'_>, base: &str) -> OperationResult<Vec<(SessionId, String)>> {
    let pattern = format!("{} #%", escape_like(base));
    let mut statement = scope.connection.prepare_cached(
        r"SELECT id, title FROM sessions WHERE title = ?1 OR title LIKE ?2 ESCAPE '\' ORDER BY started_at DESC",
    )?;
    let rows = statement
        .query_map([base, &pattern], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let mut members = Vec::new();
    for row in rows {
        let (id, title) = row?;
        // LIKE ignores case and matches anything after `#`, so the title is compared exactly here.
        if title == base || title_base(&title) == base {
            members.push((SessionId::new(id), title));
        }
    }
    Ok(members)
}

pub(crate) fn escape_like(text: &str) -> String {
    text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_")
}
