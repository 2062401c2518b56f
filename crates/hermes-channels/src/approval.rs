//! Buttons that answer whether a command may run, by what they say.

use hermes_types::Approval;

/// What the words of a button decide, and the question they name: `/approve session #1a2b`.
pub(crate) fn approval(says: &str) -> Option<(Approval, Option<&str>)> {
    let (words, tag) = match says.split_once(" #") {
        Some((words, tag)) => (words, Some(tag)),
        None => (says, None),
    };
    let approval = match words {
        "/approve" => Approval::Once,
        "/approve session" => Approval::Session,
        "/approve always" => Approval::Always,
        "/deny" => Approval::Deny,
        _ => return None,
    };
    Some((approval, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_their_words() {
        assert_eq!(approval("/approve #1a"), Some((Approval::Once, Some("1a"))));
        assert_eq!(approval("/approve always"), Some((Approval::Always, None)));
        assert_eq!(approval("/deny #x"), Some((Approval::Deny, Some("x"))));
        assert_eq!(approval("blue #1"), None);
    }
}
