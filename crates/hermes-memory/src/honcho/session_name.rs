//! Names the session of Honcho that a conversation belongs to.

use std::path::Path;

use crate::engine::{MemoryScope, safe_name};

use super::settings::{HonchoSessionStrategy, HonchoSettings};

/// Returns a text with `-` in the place of everything but letters, digits, `-` and `_`.
pub fn plain_name(text: &str) -> String {
    let kept: String = text
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' })
        .collect();
    kept.trim_matches('-').to_owned()
}

/// Names the session: by the list of folders, by the title, by the strategy. Other people's conversations are named by
/// their account, whatever folder the program works in.
pub(super) fn session_name(settings: &HonchoSettings, scope: &MemoryScope, root_session: &str) -> String {
    if let Some(person) = scope.person.key() {
        return safe_name(&format!("{person}-{root_session}"));
    }
    let folder = scope.folder.to_string_lossy();
    let mapped = settings.sessions.iter().find(|(known, _)| Path::new(known) == scope.folder);
    let named = mapped.map(|(_, name)| plain_name(name)).or_else(|| scope.title.as_deref().map(plain_name));
    let name = named.filter(|name| !name.is_empty()).unwrap_or_else(|| match settings.session_strategy {
        HonchoSessionStrategy::PerSession => safe_name(root_session),
        HonchoSessionStrategy::Global => safe_name(&settings.workspace),
        HonchoSessionStrategy::PerRepo => folder_name(repository(&scope.folder)),
        HonchoSessionStrategy::PerDirectory => folder_name(&scope.folder),
    });
    let name = if name.is_empty() { safe_name(&folder) } else { name };
    if settings.prefixes_sessions { format!("{}-{name}", plain_name(&settings.peer)) } else { name }
}

/// Returns the folder of the repository that a folder belongs to, or the folder.
fn repository(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(folder)
}

fn folder_name(folder: &Path) -> String {
    plain_name(&folder.file_name().unwrap_or_default().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_other_characters() {
        assert_eq!(plain_name(" my project/v2 "), "my-project-v2");
        assert_eq!(plain_name("///"), "");
    }
}
