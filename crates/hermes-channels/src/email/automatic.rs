//! Mail that no person wrote to the agent. Answering it makes loops between machines. Pure.

use super::address::domain_of;

/// Parts of addresses that nobody reads.
const MACHINES: [&str; 12] = [
    "noreply",
    "no-reply",
    "no_reply",
    "donotreply",
    "do-not-reply",
    "do_not_reply",
    "mailer-daemon",
    "postmaster",
    "bounce",
    "auto-confirm",
    "auto-reply",
    "automailer",
];
/// Complete local parts of machines.
const MACHINE_NAMES: [&str; 3] = ["notifications", "notification", "automated"];
/// Fields that only mailing lists and machines write.
const FIELDS: [&str; 9] = [
    "list-unsubscribe",
    "list-id",
    "list-post",
    "list-help",
    "x-auto-response-suppress",
    "x-autoreply",
    "x-autorespond",
    "x-auto-reply",
    "x-failed-recipients",
];
const PRECEDENCES: [&str; 4] = ["bulk", "list", "junk", "auto_reply"];

/// Tells why a mail is not answered, if it was sent by a machine, a list or the agent itself. `field` returns the value of
/// a field by its name.
pub(super) fn reason<'a>(
    sender: &str,
    own: &str,
    field: impl Fn(&str) -> Option<&'a str>,
) -> Option<&'static str> {
    if sender == own {
        return Some("the agent sent it itself");
    }
    let local = sender.strip_suffix(domain_of(sender)).unwrap_or(sender).trim_end_matches('@');
    let is_machine = MACHINES.iter().any(|part| local.contains(part)) || MACHINE_NAMES.contains(&local);
    if is_machine {
        return Some("nobody reads the address it came from");
    }
    let said = |name: &str| field(name).map(|value| value.trim().to_ascii_lowercase());
    let first_word = |value: String| value.split([' ', ';', '\t', '(']).next().unwrap_or_default().to_owned();
    if said("auto-submitted").map(first_word).is_some_and(|value| value != "no") {
        return Some("it is an automatic answer");
    }
    if said("precedence").is_some_and(|value| PRECEDENCES.contains(&value.as_str())) {
        return Some("it was sent to many");
    }
    if FIELDS.iter().any(|name| field(name).is_some()) {
        return Some("it comes from a list or an automatic sender");
    }
    if said("return-path").is_some_and(|value| value == "<>") {
        return Some("it is a report about another mail");
    }
    if said("content-type").is_some_and(|value| value.starts_with("multipart/report")) {
        return Some("it is a report about another mail");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(sender: &str, fields: &[(&str, &'static str)]) -> Option<&'static str> {
        let field = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        reason(sender, "bot@example.org", field)
    }

    #[test]
    fn people_are_told_from_machines() {
        assert_eq!(why("ann@example.org", &[]), None);
        assert_eq!(why("ann@example.org", &[("auto-submitted", "no"), ("precedence", "normal")]), None);
        assert_eq!(why("ann@noreply-fans.org", &[]), None, "the domain says nothing");
        for sender in [
            "bot@example.org",
            "noreply@shop.org",
            "news-no-reply@shop.org",
            "mailer-daemon@example.org",
            "bounce+123=ann@lists.org",
            "notifications@github.com",
        ] {
            assert!(why(sender, &[]).is_some(), "{sender}");
        }
        for field in [
            ("auto-submitted", "auto-replied; owner=x"),
            ("auto-submitted", "Auto-Generated"),
            ("precedence", "Bulk"),
            ("list-id", "<l.example.org>"),
            ("x-auto-response-suppress", "All"),
            ("return-path", "<>"),
            ("content-type", "multipart/report; report-type=delivery-status"),
        ] {
            assert!(why("ann@example.org", &[field]).is_some(), "{field:?}");
        }
    }
}
