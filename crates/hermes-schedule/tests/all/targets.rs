//! Parsing of delivery targets.

use hermes_schedule::{DeliveryTarget, parse_targets};

fn chat(platform: &str, chat: &str, thread: Option<&str>) -> DeliveryTarget {
    DeliveryTarget::Chat { platform: platform.into(), chat: chat.into(), thread: thread.map(str::to_owned) }
}

#[test]
fn words_platforms_chats_and_threads() {
    assert_eq!(parse_targets("local"), [DeliveryTarget::Local]);
    assert_eq!(parse_targets(""), [DeliveryTarget::Local]);
    assert_eq!(parse_targets(" Origin "), [DeliveryTarget::Origin]);
    assert_eq!(parse_targets("Telegram"), [DeliveryTarget::Platform("telegram".into())]);
    assert_eq!(parse_targets("telegram:-100123"), [chat("telegram", "-100123", None)]);
    assert_eq!(parse_targets("telegram:-100123:17"), [chat("telegram", "-100123", Some("17"))]);
    assert_eq!(parse_targets("slack:C01:1711.2"), [chat("slack", "C01", Some("1711.2"))]);
    assert_eq!(parse_targets("discord:#engineering"), [chat("discord", "#engineering", None)]);
}

#[test]
fn ids_keep_their_colons_where_chats_have_no_threads() {
    assert_eq!(parse_targets("matrix:!room:server.org"), [chat("matrix", "!room:server.org", None)]);
    assert_eq!(parse_targets("signal:group:aGVsbG8="), [chat("signal", "group:aGVsbG8=", None)]);
    assert_eq!(parse_targets("email:a@b.org"), [chat("email", "a@b.org", None)]);
    assert_eq!(
        parse_targets("whatsapp:123:4@s.whatsapp.net"),
        [chat("whatsapp", "123:4@s.whatsapp.net", None)]
    );
}

#[test]
fn lists_name_each_place_once() {
    let expected = [DeliveryTarget::Origin, chat("telegram", "1", None), DeliveryTarget::All];
    assert_eq!(parse_targets("origin, telegram:1, origin,all"), expected);
    assert_eq!(parse_targets(r#"["origin", "telegram:1", "all"]"#), expected);
}
