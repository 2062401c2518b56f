//! Reading, changing and protecting auth.json.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hermes_config::auth::AuthFile;
use serde_json::{Value, json};

use crate::support::{ConfigFixture, leftovers};

#[test]
fn writes_are_pretty_private_and_keep_unknown_keys() {
    let temp = ConfigFixture::new();
    let auth = AuthFile::new(&temp.home);
    assert!(auth.read().providers().is_empty());
    assert!(!temp.home.auth().exists(), "reading writes nothing");
    fs::write(temp.home.auth(), r#"{"version":1,"zeta":{"b":1,"a":2},"providers":{"x":{"extra":[1]}}}"#)
        .expect("write");
    auth.update(|state| {
        state.set_provider("nous", json!({"access_token": "t"}));
        state.set_active_provider(Some("nous"));
    })
    .expect("update");
    let text = fs::read_to_string(temp.home.auth()).expect("read");
    assert!(
        text.starts_with("{\n  \"version\": 1,\n  \"zeta\": {\n    \"b\": 1,\n") && text.ends_with("}\n"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&text).expect("json");
    assert_eq!(json["providers"]["x"]["extra"], json!([1]));
    assert_eq!(json["active_provider"], "nous");
    assert!(json["updated_at"].as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 20));
    let mode = fs::metadata(temp.home.auth()).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(leftovers(temp.home.path()).is_empty());
    assert!(!format!("{:?}", auth.read()).contains("\"t\""));
    auth.update(|_| ()).expect("nothing");
    assert_eq!(fs::read_to_string(temp.home.auth()).expect("read"), text, "no change, no write");
    auth.update(|state| assert!(state.remove_provider("nous"))).expect("logout");
    assert_eq!((auth.read().active_provider(), auth.read().provider("nous")), (None, None));
}

#[test]
fn damaged_files_are_set_aside_before_a_write() {
    let temp = ConfigFixture::new();
    let auth = AuthFile::new(&temp.home);
    for (round, damage) in ["{broken", "[1]"].into_iter().enumerate() {
        fs::write(temp.home.auth(), damage).expect("write");
        assert!(auth.read().providers().is_empty());
        assert_eq!(fs::read_to_string(temp.home.auth()).expect("read"), damage, "a read leaves it alone");
        auth.update(|state| state.set_active_provider(Some("x"))).expect("update");
        let copy = temp.home.join(format!("auth.json.corrupt-{}", round + 1));
        assert_eq!(fs::read_to_string(copy).expect("a copy"), damage);
        assert_eq!(auth.read().active_provider(), Some("x"));
    }
}

#[test]
fn legacy_nous_state_is_read_and_pools_survive() {
    let temp = ConfigFixture::new();
    fs::write(
        temp.home.auth(),
        r#"{"systems":{"nous_portal":{"access_token":"t"}},"credential_pool":{"custom:x":[{"id":"1"}]}}"#,
    )
    .expect("write");
    let auth = AuthFile::new(&temp.home);
    let state = auth.read();
    assert_eq!(state.providers(), ["nous"]);
    assert_eq!(state.provider("nous"), Some(&json!({"access_token": "t"})));
    assert_eq!(state.credential_pool("custom:x").len(), 1);
    auth.update(|state| state.set_active_provider(Some("nous"))).expect("update");
    assert_eq!(auth.read().credential_pool("custom:x").len(), 1);
    let _held = auth.lock().expect("free");
    auth.update(|state| state.set_credential_pool("p", vec![json!({})])).expect("re-entrant");
}
