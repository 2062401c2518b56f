//! Parses the texts of approval buttons.

use hermes_types::ApprovalDecision;

/// Returns the decision a button's text stands for, and the id of its question: `/approve session #1a2b`.
pub(crate) fn parse_approval(says: &str) -> Option<(ApprovalDecision, Option<&str>)> {
    let (words, tag) = match says.split_once(" #") {
        Some((words, tag)) => (words, Some(tag)),
        None => (says, None),
    };
    let approval = match words {
        "/approve" => ApprovalDecision::Once,
        "/approve session" => ApprovalDecision::Session,
        "/approve always" => ApprovalDecision::Always,
        "/deny" => ApprovalDecision::Deny,
        _ => return None,
    };
    Some((approval, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_their_words() {
        assert_eq!(parse_approval("/approve #1a"), Some((ApprovalDecision::Once, Some("1a"))));
        assert_eq!(parse_approval("/approve always"), Some((ApprovalDecision::Always, None)));
        assert_eq!(parse_approval("/deny #x"), Some((ApprovalDecision::Deny, Some("x"))));
        assert_eq!(parse_approval("blue #1"), None);
    }
}
