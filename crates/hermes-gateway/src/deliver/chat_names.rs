//! Finds chats by the names people use for them. Pure.
//!
//! The directory lists a chat under its platform's name for it, after the name of what contains it: `Home /
//! #general`, `Team / Deploys`. People write `#general`, `Home/general` or `Team/deploys`.

use serde_json::Value;

/// A chat, and the thread or topic in it.
pub(super) type ChatMatch = (String, Option<String>);

/// Returns the chat with a name: by the whole name, by its last part, or, where a `#` marks it as a name and not
/// an id, by the beginning of exactly one last part.
pub(super) fn find(entries: &[Value], name: &str) -> Option<ChatMatch> {
    let wanted = name_parts(name).join("/");
    if wanted.is_empty() {
        return None;
    }
    let named = |entry: &Value| name_parts(entry.get("name").and_then(Value::as_str).unwrap_or_default());
    let whole = entries.iter().find(|entry| {
        let guild = entry.get("guild").and_then(Value::as_str).unwrap_or_default();
        let name = named(entry).join("/");
        name == wanted || name_parts(&format!("{guild}/{name}")).join("/") == wanted
    });
    let last = |entry: &Value| named(entry).pop().unwrap_or_default();
    let found = whole.or_else(|| single(entries.iter().filter(|entry| last(entry) == wanted)));
    let begun = || single(entries.iter().filter(|entry| last(entry).starts_with(&wanted)));
    let found = found.or_else(|| begun().filter(|_| name.starts_with('#')));
    let entry = found?;
    let id = entry.get("id").and_then(Value::as_str)?;
    let thread = entry.get("thread_id").and_then(Value::as_str);
    // A topic is listed as `chat:topic`.
    let chat = thread.and_then(|thread| id.strip_suffix(thread)?.strip_suffix(':')).unwrap_or(id);
    Some((chat.to_owned(), thread.map(str::to_owned)))
}

/// Returns the parts of a name, without `#` and in lower case.
fn name_parts(name: &str) -> Vec<String> {
    let part = |part: &str| part.trim().trim_start_matches('#').trim().to_lowercase();
    name.split('/').map(part).filter(|part| !part.is_empty()).collect()
}

fn single<'a>(mut found: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn chats_are_found_by_the_names_people_say() {
        let entries = [
            json!({"id": "1", "name": "Home / #general", "type": "channel"}),
            json!({"id": "2", "name": "Home / #gardening", "type": "channel"}),
            json!({"id": "3", "name": "Work / #random", "type": "channel"}),
            json!({"id": "C4", "name": "general-slack", "type": "channel"}),
            json!({"id": "-100:17", "name": "Team / Deploys", "type": "group", "thread_id": "17"}),
            json!({"id": "6", "name": "lounge", "guild": "Old", "type": "channel"}),
        ];
        let check = |name: &str, expected: Option<(&str, Option<&str>)>| {
            let expected = expected.map(|(chat, thread)| (chat.to_owned(), thread.map(str::to_owned)));
            assert_eq!(find(&entries, name), expected, "{name}");
        };
        check("#general", Some(("1", None)));
        check("Home/general", Some(("1", None)));
        check("home / #General", Some(("1", None)));
        check("#rand", Some(("3", None)));
        check("#general-slack", Some(("C4", None)));
        check("Deploys", Some(("-100", Some("17"))));
        check("Team/Deploys", Some(("-100", Some("17"))));
        check("#lounge", Some(("6", None)));
        check("Old/lounge", Some(("6", None)));
        // Several names begin like this.
        check("rand", None);
        check("#g", None);
        check("#nowhere", None);
        check("#", None);
    }
}
