//! Tests of unknown users and pairing.

use std::os::unix::fs::PermissionsExt as _;

use hermes_config::Home;
use hermes_gateway::pairing::{PairingResult, PairingStore};
use hermes_types::{ChatAddress, ChatKind, Timestamp};

use super::support::{GatewayFixturePlan, TestModel};

fn code_in(text: &str) -> String {
    text.split('`').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn a_stranger_gets_a_code_and_is_known_once_it_is_approved() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.env = &[("FAKE_HOME_CHANNEL", "home")];
    let bench = plan.start().await;
    bench.channel.write("eve", "hello");
    let text = bench.channel.until_said("eve", "pairing code").await;
    let code = code_in(&text);
    assert_eq!(code.len(), 8);
    assert!(text.contains(&format!("hermes pairing approve fake {code}")));
    assert!(bench.model.questions().is_empty(), "the model never sees a stranger");
    let pairing = PairingStore::new(&Home::new(bench.folder.path()));
    let now = hermes_types::Clock::now(&bench.clock);
    assert!(matches!(
        pairing.approve("fake", &code.to_lowercase(), now).unwrap(),
        PairingResult::Approved { .. }
    ));
    bench.channel.write("eve", "hello again");
    bench.channel.until_said("eve", "you said: hello again").await;
}

#[tokio::test]
async fn strangers_in_groups_and_those_to_be_ignored_get_silence() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.env = &[("FAKE_ALLOWED_USERS", "ann"), ("FAKE_HOME_CHANNEL", "home")];
    let bench = plan.start().await;
    let mut envelope = bench.channel.envelope("eve", "hello");
    envelope.place = ChatAddress::new(ChatKind::Group, "g");
    bench.channel.deliver(envelope);
    bench.channel.write("ann", "hi");
    bench.channel.until_said("ann", "you said: hi").await;
    bench.channel.until_acknowledged(2).await;
    assert_eq!(bench.channel.posted().len(), 1);

    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.env = &[("FAKE_HOME_CHANNEL", "home")];
    plan.config = "unauthorized_dm_behavior: ignore\n";
    let bench = plan.start().await;
    bench.channel.write("eve", "hello");
    bench.channel.until_acknowledged(1).await;
    assert!(bench.channel.posted().is_empty());
}

fn store() -> (tempfile::TempDir, PairingStore) {
    let folder = tempfile::tempdir().unwrap();
    let pairing = PairingStore::new(&Home::new(folder.path()));
    (folder, pairing)
}

#[test]
fn guessing_is_shut_out() {
    let (_folder, pairing) = store();
    let now = Timestamp(1_000_000.0);
    let code = pairing.request("fake", "eve", None, now).unwrap().unwrap();
    for _ in 0..5 {
        assert_eq!(pairing.approve("fake", "AAAAAAAA", now).unwrap(), PairingResult::UnknownCode);
    }
    assert_eq!(pairing.approve("fake", &code, now).unwrap(), PairingResult::LockedOut, "even the right one");
    assert!(pairing.request("fake", "mallory", None, now).unwrap().is_err());
    let later = Timestamp(1_000_000.0 + 3_601.0);
    assert_eq!(
        pairing.approve("fake", &code, later).unwrap(),
        PairingResult::UnknownCode,
        "the code is too old by now"
    );
    assert!(pairing.request("fake", "mallory", None, later).unwrap().is_ok());
}

#[test]
fn strangers_cannot_keep_others_out() {
    let (folder, pairing) = store();
    let now = Timestamp(1_000_000.0);
    assert!(pairing.request("fake", "a", Some("A"), now).unwrap().is_ok());
    assert!(pairing.request("fake", "a", None, Timestamp(1_000_599.0)).unwrap().is_err(), "too soon");
    assert!(pairing.request("fake", "b", None, now).unwrap().is_ok());
    assert!(pairing.request("fake", "c", None, now).unwrap().is_ok());
    for stranger in 0..300 {
        let at = Timestamp(1_000_001.0 + f64::from(stranger));
        assert!(pairing.request("fake", &format!("stranger {stranger}"), None, at).unwrap().is_ok());
    }
    let later = Timestamp(1_000_400.0);
    let code = pairing.request("fake", "friend", None, later).unwrap().unwrap();
    assert!(pairing.pending(later).len() <= 100, "and they do not pile up");
    assert!(matches!(pairing.approve("fake", &code, later).unwrap(), PairingResult::Approved { .. }));
    assert!(pairing.clear_pending(later).unwrap() > 0);
    let file = Home::new(folder.path()).pairing().join("fake-pending.json");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn people_can_be_shut_out_again_and_newer_codes_are_understood() {
    let (folder, pairing) = store();
    let home = Home::new(folder.path());
    std::fs::create_dir_all(home.pairing()).unwrap();
    std::fs::write(
        home.pairing().join("fake-pending.json"),
        r#"{"0123456789abcdef": {"user_id": "7", "user_name": "Bo", "created_at": 1000000.0, "salt": "01ff",
            "hash": "7c6cb8c4e33faab811ebd17a368bbb148f01d741bd5476e59feab77815599ebf"}}"#,
    )
    .unwrap();
    assert!(matches!(
        pairing.approve("fake", "abcd2345", Timestamp(1_000_001.0)).unwrap(),
        PairingResult::Approved { .. }
    ));
    std::fs::write(
        home.pairing().join("fake-approved.json"),
        r#"{"42": {"user_name": "Ann", "approved_at": 1.5}}"#,
    )
    .unwrap();
    assert!(pairing.is_approved("fake", "42"));
    assert!(pairing.revoke("fake", "42").unwrap());
    assert!(!pairing.revoke("fake", "42").unwrap());
    assert!(!pairing.is_approved("fake", "42"));
}
