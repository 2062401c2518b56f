//! Decides who may talk to the agent: nobody, unless a setting or a pairing allows it.

use hermes_config::{Env, env::split_list};
use hermes_types::{PlatformTrait, platform_has};

/// The facts about a sender that the decision is based on.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    pub platform: &'a str,
    pub user_id: Option<&'a str>,
    /// A name that is unique on the platform.
    pub handle: Option<&'a str>,
    /// Another id that the platform gives the same person.
    pub alt_id: Option<&'a str>,
    /// Set when the pairing store has approved the sender.
    pub paired: bool,
}

/// The result of an access check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessDecision {
    Granted,
    Denied,
}

/// Decides in the documented order: transport, id, platform open to all, paired, listed.
pub fn decide(asker: AccessRequest<'_>, env: &Env) -> AccessDecision {
    if delivers_external_events(asker.platform) {
        return AccessDecision::Granted;
    }
    let Some(user) = asker.user_id.filter(|id| !id.is_empty()) else { return AccessDecision::Denied };
    let upper = asker.platform.to_uppercase();
    if env.bool(&format!("{upper}_ALLOW_ALL_USERS")).unwrap_or(false) || asker.paired {
        return AccessDecision::Granted;
    }
    let listed = allowlist(&upper, env);
    let granted = if listed.is_empty() {
        env.bool("GATEWAY_ALLOW_ALL_USERS").unwrap_or(false)
    } else {
        listed
            .iter()
            .map(|entry| strip_mention_syntax(entry))
            .any(|entry| entry == "*" || entry_matches(entry, user, asker))
    };
    if granted { AccessDecision::Granted } else { AccessDecision::Denied }
}

/// Tells whether a platform delivers events of other services, whose text anybody may have written: data, never
/// commands. Its transport has checked the sender already.
pub fn delivers_external_events(platform: &str) -> bool {
    platform_has(platform, PlatformTrait::ExternalEvents)
}

/// Tells whether a user is allowed individually: paired, or on a list by id or handle. A rule that allows
/// everybody does not count.
pub fn is_owner(asker: AccessRequest<'_>, env: &Env) -> bool {
    let Some(user) = asker.user_id.filter(|id| !id.is_empty()) else { return false };
    if delivers_external_events(asker.platform) {
        return false;
    }
    let listed = allowlist(&asker.platform.to_uppercase(), env);
    asker.paired || listed.iter().any(|entry| entry_matches(strip_mention_syntax(entry), user, asker))
}

/// Tells whether an entry of a list means this user.
fn entry_matches(entry: &str, user: &str, asker: AccessRequest<'_>) -> bool {
    let has_number = platform_has(asker.platform, PlatformTrait::NumberIds);
    let number = user.split_once('@').filter(|_| has_number).map(|(number, _)| number);
    // An entry of digits only is an id. It must not match a handle, because anybody could choose such a handle.
    let is_id = !entry.is_empty() && entry.chars().all(|c| c.is_ascii_digit());
    entry == user
        || asker.alt_id.is_some_and(|alt| !alt.is_empty() && entry == alt)
        || number.is_some_and(|number| !number.is_empty() && entry == number)
        || (!is_id && asker.handle.is_some_and(|handle| entry.eq_ignore_ascii_case(handle)))
}

/// Strips the syntax in which platforms copy ids: `<@42>`, `user:42`, `@alice`.
fn strip_mention_syntax(entry: &str) -> &str {
    let inner = entry.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(entry);
    let inner = inner.strip_prefix("user:").unwrap_or(inner);
    // On some platforms, ids begin with `@` and have a server after a colon.
    match inner.strip_prefix('@') {
        Some(rest) if !rest.contains(':') => rest.trim_start_matches('!'),
        _ => inner,
    }
}

/// Tells whether anybody can get access without pairing; if not, the gateway says so when it starts.
pub fn allows_unpaired_users(platforms: &[String], env: &Env) -> bool {
    env.bool("GATEWAY_ALLOW_ALL_USERS").unwrap_or(false)
        || platforms.iter().any(|platform| {
            let upper = platform.to_uppercase();
            env.bool(&format!("{upper}_ALLOW_ALL_USERS")).unwrap_or(false)
                || !allowlist(&upper, env).is_empty()
        })
}

/// Tells whether the owner has listed who may use a platform.
pub(crate) fn has_allowlist(platform: &str, env: &Env) -> bool {
    !allowlist(&platform.to_uppercase(), env).is_empty()
}

/// Returns the only user who may talk to the agent on a platform; none when there are several, or anybody may.
pub fn only_user(platform: &str, paired: impl Iterator<Item = String>, env: &Env) -> Option<String> {
    let upper = platform.to_uppercase();
    let opened = |name: &str| env.bool(name).unwrap_or(false);
    if opened(&format!("{upper}_ALLOW_ALL_USERS")) || opened("GATEWAY_ALLOW_ALL_USERS") {
        return None;
    }
    let listed = allowlist(&upper, env);
    let mut users: Vec<String> =
        listed.iter().map(|entry| strip_mention_syntax(entry).to_owned()).chain(paired).collect();
    users.sort_unstable();
    users.dedup();
    match users.as_slice() {
        [only] if only != "*" => Some(only.clone()),
        _ => None,
    }
}

fn allowlist(upper: &str, env: &Env) -> Vec<String> {
    let of = |name: &str| env.get(name).map(split_list).unwrap_or_default();
    let mut listed = of(&format!("{upper}_ALLOWED_USERS"));
    listed.extend(of("GATEWAY_ALLOWED_USERS"));
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(platform: &str, user: Option<&str>, paired: bool, env: &[(&str, &str)]) -> AccessDecision {
        decide(
            AccessRequest { platform, user_id: user, handle: Some("alice"), alt_id: Some("alt-1"), paired },
            &Env::from_pairs(env.iter().copied()),
        )
    }

    #[test]
    fn the_order_of_the_rules() {
        use AccessDecision::{Denied, Granted};
        let list = [("TELEGRAM_ALLOWED_USERS", "1, 2"), ("GATEWAY_ALLOW_ALL_USERS", "true")];
        for (expected, platform, user, paired, env) in [
            (Denied, "telegram", Some("1"), false, &[][..]),
            (Granted, "telegram", Some("1"), true, &[][..]),
            (Denied, "telegram", None, true, &[("TELEGRAM_ALLOW_ALL_USERS", "1")][..]),
            (Granted, "telegram", Some("9"), false, &[("TELEGRAM_ALLOW_ALL_USERS", "yes")][..]),
            (Granted, "telegram", Some("9"), false, &[("GATEWAY_ALLOW_ALL_USERS", "true")][..]),
            (Granted, "telegram", Some("2"), false, &list[..]),
            (Denied, "telegram", Some("9"), false, &list[..]),
            (Granted, "telegram", Some("9"), true, &list[..]),
            (Denied, "discord", Some("1"), false, &[("TELEGRAM_ALLOWED_USERS", "1")][..]),
            (Granted, "discord", Some("1"), false, &[("GATEWAY_ALLOWED_USERS", "1")][..]),
            (
                Granted,
                "whatsapp",
                Some("49123@s.whatsapp.net"),
                false,
                &[("WHATSAPP_ALLOWED_USERS", "49123")][..],
            ),
            (Granted, "webhook", None, false, &[][..]),
            (Granted, "slack", Some("U1"), false, &[("SLACK_ALLOWED_USERS", "*")][..]),
            (Granted, "discord", Some("42"), false, &[("DISCORD_ALLOWED_USERS", "<@!42>")][..]),
            (Granted, "discord", Some("42"), false, &[("DISCORD_ALLOWED_USERS", "user:42")][..]),
            (Granted, "discord", Some("42"), false, &[("DISCORD_ALLOWED_USERS", "bob, Alice")][..]),
            (Granted, "discord", Some("42"), false, &[("DISCORD_ALLOWED_USERS", "@alice")][..]),
            (Denied, "discord", Some("42"), false, &[("DISCORD_ALLOWED_USERS", "alic,421")][..]),
            (Granted, "matrix", Some("@a:b.c"), false, &[("MATRIX_ALLOWED_USERS", "@a:b.c")][..]),
            (Denied, "matrix", Some("@a:b.c"), false, &[("MATRIX_ALLOWED_USERS", "@b:b.c,@,<>")][..]),
            (Granted, "signal", Some("+49"), false, &[("SIGNAL_ALLOWED_USERS", "alt-1")][..]),
            (Denied, "signal", None, false, &[("SIGNAL_ALLOWED_USERS", "alt-1")][..]),
            (Denied, "email", Some("bob@evil.example"), false, &[("EMAIL_ALLOWED_USERS", "bob")][..]),
        ] {
            assert_eq!(ask(platform, user, paired, env), expected, "{platform} {user:?} {env:?}");
        }
    }

    #[test]
    fn digits_are_an_id_and_never_a_handle() {
        let env = Env::from_pairs([("DISCORD_ALLOWED_USERS", "42"), ("TELEGRAM_ALLOWED_USERS", "42")]);
        for platform in ["discord", "telegram"] {
            let stranger = AccessRequest {
                platform,
                user_id: Some("666"),
                handle: Some("42"),
                alt_id: None,
                paired: false,
            };
            assert_eq!(decide(stranger, &env), AccessDecision::Denied, "{platform}");
            assert_eq!(
                decide(AccessRequest { user_id: Some("42"), ..stranger }, &env),
                AccessDecision::Granted
            );
        }
    }

    #[test]
    fn an_owner_is_named() {
        let asker = AccessRequest {
            platform: "slack",
            user_id: Some("U1"),
            handle: Some("ann"),
            alt_id: None,
            paired: false,
        };
        for (expected, asker, env) in [
            (false, asker, &[("SLACK_ALLOW_ALL_USERS", "1")][..]),
            (false, asker, &[("SLACK_ALLOWED_USERS", "*")][..]),
            (true, asker, &[("SLACK_ALLOWED_USERS", "*,U1")][..]),
            (true, asker, &[("GATEWAY_ALLOWED_USERS", "ann")][..]),
            (true, AccessRequest { paired: true, ..asker }, &[][..]),
            (false, AccessRequest { platform: "webhook", paired: true, ..asker }, &[][..]),
        ] {
            assert_eq!(is_owner(asker, &Env::from_pairs(env.iter().copied())), expected, "{env:?}");
        }
    }
}
