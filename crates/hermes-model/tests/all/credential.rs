//! Signing in, renewing and rotating, against token servers on the loopback interface. No test waits on real time.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::{Env, Home};
use hermes_model::credential::pool::{PoolSpec, PoolStrategy};
use hermes_model::credential::{
    KeySource, SignInError, SignInProgress, SignInProvider, aws, login, login_to_nous, logout, nous,
};
use hermes_net::CertificateVerification;
use hermes_testkit::{ModelScript, ModelServer, TempHome};
use hermes_types::{Cancel, Secret};
use serde_json::{Value, json};

use super::issuer_fixture::{IssuerFixture, current, renew};
use super::pool::{pool_entry, pool_name};

/// A time in the past: the clock of the fixture starts at 2026-01-02 03:04:05.
const LONG_AGO: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-02T09:00:00Z";

fn signed_in(access_until: &str, key_until: &str) -> Value {
    json!({
        "version": 1, "unknown_top": [1, 2],
        "providers": {"nous": {
            "access_token": "acc0", "refresh_token": "ref0", "expires_at": access_until, "unknown": {"kept": true},
            "agent_key": "key0", "agent_key_expires_at": key_until,
        }},
    })
}

fn reply(path: &str, contains: &str, status: u16, body: &Value) -> String {
    format!(
        "  - when: {{path: {path}, body_contains: '{contains}'}}\n    http: {{status: {status}, body: {body}}}\n"
    )
}

fn refresh(with: &str, number: u32) -> String {
    let body = json!({"access_token": format!("acc{number}"), "refresh_token": format!("ref{number}"), "expires_in": 900});
    reply("/api/oauth/token", &format!("refresh_token={with}"), 200, &body)
}

fn mint(key: &str) -> String {
    let body = json!({"api_key": key, "key_id": "id", "expires_in": 7200, "reused": false, "inference_base_url": "https://i.example/v1/"});
    reply("/api/oauth/agent-key", "min_ttl_seconds", 200, &body)
}

fn refuse_mint(status: u16, word: &str) -> String {
    reply("/api/oauth/agent-key", "min_ttl_seconds", status, &json!({"error": word}))
}

#[tokio::test]
async fn a_key_that_lasts_is_used_without_asking() {
    let stage = IssuerFixture::new("", &signed_in(LONG_AGO, LATER), &[]).await;
    let nous = KeySource::Nous.credentials(&stage.context);
    assert_eq!(current(&*nous).await, Ok("key0".to_owned()));
    assert_eq!(stage.server.request_count(), 0);
}

#[tokio::test]
async fn a_rotated_token_is_saved_before_the_key_is_minted() {
    // Whatever fails after the rotation, the only token that still works is on disk.
    let replies = refresh("ref0", 1) + &refuse_mint(500, "boom");
    let stage = IssuerFixture::new(&replies, &signed_in(LONG_AGO, LONG_AGO), &[]).await;
    let told = current(&*KeySource::Nous.credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("HTTP 500"), "{told}");
    let state = stage.nous();
    assert_eq!((&state["refresh_token"], &state["access_token"]), (&json!("ref1"), &json!("acc1")));
    assert_eq!(state["expires_at"], json!("2026-01-02T03:19:05Z"));
    assert_eq!((&state["unknown"], &stage.auth()["unknown_top"]), (&json!({"kept": true}), &json!([1, 2])));
}

#[tokio::test]
async fn the_rotated_token_is_on_disk_when_the_mint_arrives() {
    let home =
        TempHome::builder().file("auth.json", signed_in(LONG_AGO, LONG_AGO).to_string()).build().unwrap();
    let file = home.join("auth.json");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let script = format!("replies:\n{}{}", refresh("ref0", 1), mint("key1"));
    let server = ModelServer::builder(ModelScript::from_yaml("issuer", &script).unwrap())
        .on_request(Arc::new(move |request| {
            let state: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let token = state["providers"]["nous"]["refresh_token"].as_str().unwrap().to_owned();
            log.lock().unwrap().push(format!("{} {token}", request.path()));
        }))
        .start()
        .await
        .unwrap();
    let mut stage = IssuerFixture::new("", &json!({}), &[]).await;
    stage.context.auth = hermes_config::auth::AuthFile::new(&Home::new(home.path()));
    stage.context.urls.nous_portal = server.url();
    assert_eq!(current(&*KeySource::Nous.credentials(&stage.context)).await, Ok("key1".to_owned()));
    assert_eq!(*seen.lock().unwrap(), ["/api/oauth/token ref0", "/api/oauth/agent-key ref1"]);
}

#[tokio::test]
async fn a_second_mint_uses_the_newest_token() {
    let replies =
        refresh("ref0", 1) + &refuse_mint(401, "invalid_token") + &refresh("ref1", 2) + &mint("key2");
    let stage = IssuerFixture::new(
        &replies,
        &signed_in(LONG_AGO, LONG_AGO),
        &[("HERMES_NOUS_MIN_KEY_TTL_SECONDS", "5")],
    )
    .await;
    let nous = KeySource::Nous.credentials(&stage.context);
    assert_eq!(current(&*nous).await, Ok("key2".to_owned()));
    let state = stage.nous();
    assert_eq!((&state["refresh_token"], &state["agent_key_id"]), (&json!("ref2"), &json!("id")));
    assert_eq!(state["inference_base_url"], json!("https://i.example/v1"));
    assert_eq!(stage.server.request(3).header("authorization"), Some("Bearer acc2"));
    // The minimum lifetime is at least a minute.
    assert_eq!(stage.server.request(3).at("/min_ttl_seconds"), &json!(60));
    // From then on it is in memory.
    assert_eq!(current(&*nous).await, Ok("key2".to_owned()));
    stage.server.assert_requests(4);
    stage.server.assert_finished();
}

#[tokio::test]
async fn a_refused_key_is_renewed_once() {
    let stage = IssuerFixture::new(&mint("key1"), &signed_in(LATER, LATER), &[]).await;
    let nous = KeySource::Nous.credentials(&stage.context);
    let other = KeySource::Nous.credentials(&stage.context);
    assert!(nous.can_renew());
    assert_eq!(
        (current(&*nous).await, current(&*other).await),
        (Ok("key0".to_owned()), Ok("key0".to_owned()))
    );
    assert_eq!(renew(&*nous).await, Ok(()));
    assert_eq!(current(&*nous).await, Ok("key1".to_owned()));
    // A client that was refused with the same old key uses the stored one.
    assert_eq!(renew(&*other).await, Ok(()));
    assert_eq!(current(&*other).await, Ok("key1".to_owned()));
    stage.server.assert_requests(1);
}

#[tokio::test]
async fn two_at_once_rotate_once() {
    let replies = refresh("ref0", 1) + &mint("key1");
    let stage = IssuerFixture::new(&replies, &signed_in(LONG_AGO, LONG_AGO), &[]).await;
    let (one, two) =
        (KeySource::Nous.credentials(&stage.context), KeySource::Nous.credentials(&stage.context));
    let (first, second) = tokio::join!(current(&*one), current(&*two));
    assert_eq!((first, second), (Ok("key1".to_owned()), Ok("key1".to_owned())));
    stage.server.assert_requests(2);
}

#[tokio::test]
async fn newer_tokens_are_the_key_themselves() {
    let body = json!({"access_token": "jwt1", "refresh_token": "ref1", "expires_in": 900, "scope": "inference:invoke"});
    let mut auth = signed_in(LONG_AGO, LONG_AGO);
    auth["providers"]["nous"]["scope"] = json!("profile inference:invoke");
    let stage = IssuerFixture::new(&reply("/api/oauth/token", "ref0", 200, &body), &auth, &[]).await;
    let nous = KeySource::Nous.credentials(&stage.context);
    assert_eq!(current(&*nous).await, Ok("jwt1".to_owned()));
    let state = stage.nous();
    assert_eq!(
        (&state["agent_key"], &state["agent_key_expires_at"]),
        (&json!("jwt1"), &json!("2026-01-02T03:19:05Z"))
    );
    stage.server.assert_requests(1);
}

#[tokio::test]
async fn refusals_are_told_in_words() {
    async fn check(replies: String, words: &[&str]) {
        let stage = IssuerFixture::new(&replies, &signed_in(LONG_AGO, LONG_AGO), &[]).await;
        let told = current(&*KeySource::Nous.credentials(&stage.context)).await.unwrap_err();
        for word in words {
            assert!(told.contains(word), "{told} lacks {word}");
        }
        for secret in ["ref0", "ref1", "acc0", "acc1", "key0"] {
            assert!(!told.contains(secret), "{told}");
        }
    }
    let minted = |status, word| refresh("ref0", 1) + &refuse_mint(status, word);
    check(minted(402, "subscription_required"), &["no active paid subscription"]).await;
    check(minted(402, "insufficient_credits"), &["credits", "used up"]).await;
    check(minted(503, "temporarily_unavailable"), &["shortly"]).await;
    check(minted(400, "relogin_required"), &["hermes login", "hermes model"]).await;
    check(minted(400, "ref1 acc1 secret-looking text"), &["HTTP 400"]).await;
    check(reply("/api/oauth/token", "ref0", 400, &json!({"error": "invalid_grant"})), &["hermes login"])
        .await;
    check(reply("/api/oauth/token", "ref0", 503, &json!("down")), &["HTTP 503", "shortly"]).await;
}

#[tokio::test]
async fn without_a_sign_in() {
    let stage = IssuerFixture::new("", &json!({"version": 1}), &[]).await;
    let told = current(&*KeySource::Nous.credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("not signed in") && told.contains("hermes login"), "{told}");
    let told = current(&*KeySource::Codex.credentials(&stage.context)).await.unwrap_err();
    assert!(told.contains("not signed in") && told.contains("hermes login"), "{told}");
}

fn device_code(expires_in: u32) -> String {
    let body = json!({
        "device_code": "dev", "user_code": "ABCD-EFGH", "verification_uri": "https://p/device",
        "verification_uri_complete": "https://p/device?c=1", "expires_in": expires_in, "interval": 5,
    });
    reply("/api/oauth/device/code", "scope=inference", 200, &body)
}

fn poll(status: u16, body: &Value) -> String {
    reply("/api/oauth/token", "device_code=dev", status, body)
}

#[tokio::test]
async fn signing_in_to_nous() {
    let replies = device_code(600)
        + &poll(400, &json!({"error": "authorization_pending"}))
        + &poll(400, &json!({"error": "slow_down"}))
        + &poll(400, &json!({"error": "authorization_pending"}))
        + &poll(
            200,
            &json!({"access_token": "acc9", "refresh_token": "ref9", "expires_in": 900, "token_type": "Bearer"}),
        )
        + &mint("key9");
    let stage = IssuerFixture::new(&replies, &json!({"other": 1, "providers": {"x": {"y": 2}}}), &[]).await;
    let (result, steps) = stage.login("nous").await;
    assert_eq!(result, Ok(SignInProvider::Nous));
    let code = SignInProgress::Code {
        url: "https://p/device".to_owned(),
        complete_url: Some("https://p/device?c=1".to_owned()),
        user_code: "ABCD-EFGH".to_owned(),
        expires_in: Duration::from_mins(10),
    };
    assert_eq!(steps, [code, SignInProgress::Confirmed]);
    let waits: Vec<u64> = stage.clock.slept().iter().map(Duration::as_secs).filter(|s| *s < 10).collect();
    assert_eq!(waits, [1, 1, 2, 2]);
    let auth = stage.auth();
    assert_eq!(
        (&auth["active_provider"], &auth["other"], &auth["providers"]["x"]),
        (&json!("nous"), &json!(1), &json!({"y": 2}))
    );
    let state = stage.nous();
    assert_eq!(
        (&state["agent_key"], &state["refresh_token"], &state["client_id"]),
        (&json!("key9"), &json!("ref9"), &json!("hermes-cli"))
    );
    stage.server.assert_finished();
}

#[tokio::test]
async fn the_flags_of_a_sign_in_are_kept_with_it() {
    let tokens = json!({"access_token": "acc9", "refresh_token": "ref9", "expires_in": 900});
    let other = reply(
        "/mine/api/oauth/device/code",
        "scope=inference%3Aother",
        200,
        &json!({
            "device_code": "dev", "user_code": "A", "verification_uri": "https://p/device", "expires_in": 60,
        }),
    );
    let replies = other
        + &reply("/mine/api/oauth/token", "client_id=me", 200, &tokens)
        + &reply(
            "/mine/api/oauth/agent-key",
            "min_ttl",
            200,
            &json!({"api_key": "key9", "expires_in": 7200}),
        );
    let stage = IssuerFixture::new(&replies, &json!({}), &[]).await;
    let options = nous::NousLoginOptions {
        portal_url: Some(format!("{}/mine/", stage.server.url())),
        inference_url: Some("https://i.example/v1/".to_owned()),
        client_id: Some("me".to_owned()),
        scope: Some("inference:other".to_owned()),
        tls: nous::TlsOverrides { ca_bundle: None, verification: CertificateVerification::Skipped },
    };
    assert_eq!(login_to_nous(&stage.context, &options, &|_| {}, &Cancel::new()).await, Ok(()));
    let state = stage.nous();
    assert_eq!(state["tls"], json!({"insecure": true, "ca_bundle": null}));
    assert_eq!(
        (&state["portal_base_url"], &state["inference_base_url"], &state["client_id"], &state["agent_key"]),
        (
            &json!(format!("{}/mine", stage.server.url())),
            &json!("https://i.example/v1"),
            &json!("me"),
            &json!("key9")
        )
    );
    // An unusable bundle is reported before any request is sent.
    let broken = nous::TlsOverrides {
        ca_bundle: Some(stage.home.join("none.pem")),
        verification: CertificateVerification::Required,
    };
    let options = nous::NousLoginOptions { tls: broken, ..nous::NousLoginOptions::default() };
    let told =
        login_to_nous(&stage.context, &options, &|_| {}, &Cancel::new()).await.unwrap_err().to_string();
    assert!(told.contains("none.pem"), "{told}");
}

#[tokio::test]
async fn a_renewal_nobody_waits_for_is_finished() {
    async fn check(keys: KeySource, auth: Value, path: &str, body: Value, file: &str, expected: &str) {
        let replies = format!(
            "  - when: {{path: {path}}}\n    events: [{{wait: gate}}]\n    http: {{status: 200, body: {body}}}\n"
        );
        let stage = IssuerFixture::new(&replies, &auth, &[]).await;
        let keys = match keys {
            KeySource::AnthropicFile(_) => {
                let old =
                    json!({"claudeAiOauth": {"accessToken": "a0", "refreshToken": "r0", "expiresAt": 1}});
                std::fs::write(stage.home.join(file), old.to_string()).unwrap();
                KeySource::AnthropicFile(stage.home.join(file))
            }
            other => other,
        };
        let credentials = keys.credentials(&stage.context);
        let cancel = Cancel::new();
        {
            let mut asking = credentials.current(&cancel);
            let arrived = stage.server.wait_until_at("gate", 1);
            let mut arrived = std::pin::pin!(arrived);
            std::future::poll_fn(|context| {
                assert!(asking.as_mut().poll(context).is_pending(), "{path}");
                arrived.as_mut().poll(context)
            })
            .await;
            // Here the turn is cancelled and everything it waited for is dropped.
        }
        stage.server.release("gate");
        while !stage.home.read(file).contains(expected) {
            tokio::task::yield_now().await;
        }
    }
    let pair = json!({"access_token": "acc1", "refresh_token": "rotated", "expires_in": 900});
    check(
        KeySource::Nous,
        signed_in(LONG_AGO, LONG_AGO),
        "/api/oauth/token",
        pair.clone(),
        "auth.json",
        "rotated",
    )
    .await;
    let state = codex_state(&web_token(NOW - 5, "old"));
    check(KeySource::Codex, state, "/oauth/token", pair.clone(), "auth.json", "rotated").await;
    let none = KeySource::AnthropicFile("".into());
    check(none, json!({}), "/first", pair, "anthropic.json", "rotated").await;
}

#[tokio::test]
async fn sign_ins_that_end_badly() {
    async fn check(replies: String, expected: SignInError) {
        let stage = IssuerFixture::new(&replies, &json!({"kept": true}), &[]).await;
        assert_eq!(stage.login("nous").await.0, Err(expected));
        assert_eq!(stage.auth(), json!({"kept": true}));
    }
    check(device_code(600) + &poll(400, &json!({"error": "access_denied"})), SignInError::Denied).await;
    check(device_code(600) + &poll(400, &json!({"error": "expired_token"})), SignInError::Expired).await;
    let pending = poll(400, &json!({"error": "authorization_pending"}));
    check(device_code(3) + &pending + &pending + &pending + &pending, SignInError::Expired).await;
    let stage = IssuerFixture::new(&device_code(600), &json!({}), &[]).await;
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(login(&stage.context, "nous", &|_| {}, &cancel).await, Err(SignInError::Cancelled));
    assert_eq!(
        login(&stage.context, "zai", &|_| {}, &cancel).await,
        Err(SignInError::NoSignIn("zai".to_owned()))
    );
}

#[tokio::test]
async fn an_account_without_a_plan_is_signed_in_with_a_note() {
    let replies = device_code(600)
        + &poll(200, &json!({"access_token": "acc9", "refresh_token": "ref9", "expires_in": 900}))
        + &refuse_mint(402, "subscription_required");
    let stage = IssuerFixture::new(&replies, &json!({}), &[]).await;
    let (result, steps) = stage.login("nous").await;
    assert_eq!(result, Ok(SignInProvider::Nous));
    assert!(
        matches!(steps.last(), Some(SignInProgress::Note(words)) if words.contains("subscription")),
        "{steps:?}"
    );
    assert_eq!(stage.nous()["refresh_token"], json!("ref9"));
}

/// Returns a web token with an expiry; only the payload matters.
pub(crate) fn web_token(exp: u64, name: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let payload = json!({"exp": exp, "n": name}).to_string();
    let mut text = String::new();
    for chunk in payload.as_bytes().chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    format!("h.{text}.s")
}

pub(crate) const NOW: u64 = 1_767_323_045;

fn codex_state(access: &str) -> Value {
    json!({"providers": {"openai-codex": {"tokens": {"access_token": access, "refresh_token": "cref0", "id": 7}, "mine": 1}}})
}

fn codex_refresh(with: &str, access: &str) -> String {
    reply(
        "/oauth/token",
        &format!("refresh_token={with}"),
        200,
        &json!({"access_token": access, "refresh_token": "cref1"}),
    )
}

#[tokio::test]
async fn codex_tokens_are_renewed_early_and_once() {
    let (old, new) = (web_token(NOW + 60, "old"), web_token(NOW + 3_600, "new"));
    let stage = IssuerFixture::new(&codex_refresh("cref0", &new), &codex_state(&old), &[]).await;
    let (one, two) =
        (KeySource::Codex.credentials(&stage.context), KeySource::Codex.credentials(&stage.context));
    let (first, second) = tokio::join!(current(&*one), current(&*two));
    assert_eq!((first, second), (Ok(new.clone()), Ok(new.clone())));
    stage.server.assert_requests(1);
    let state = &stage.auth()["providers"]["openai-codex"];
    assert_eq!(
        (&state["tokens"]["refresh_token"], &state["tokens"]["id"], &state["mine"]),
        (&json!("cref1"), &json!(7), &json!(1))
    );
    assert_eq!(
        (&state["auth_mode"], &state["last_refresh"]),
        (&json!("chatgpt"), &json!("2026-01-02T03:04:05Z"))
    );
}

#[tokio::test]
async fn a_refused_codex_token_is_renewed() {
    let (old, new) = (web_token(NOW + 3_600, "old"), web_token(NOW + 3_600, "new"));
    let stage = IssuerFixture::new(&codex_refresh("cref0", &new), &codex_state(&old), &[]).await;
    let codex = KeySource::Codex.credentials(&stage.context);
    assert_eq!(current(&*codex).await, Ok(old));
    assert_eq!(renew(&*codex).await, Ok(()));
    assert_eq!(current(&*codex).await, Ok(new));
    let gone = IssuerFixture::new(
        &reply("/oauth/token", "cref0", 400, &json!({"error": {"code": "invalid_grant"}})),
        &codex_state("x"),
        &[],
    )
    .await;
    let codex = KeySource::Codex.credentials(&gone.context);
    assert_eq!(current(&*codex).await, Ok("x".to_owned()));
    assert!(renew(&*codex).await.unwrap_err().contains("hermes login"));
}

#[tokio::test]
async fn a_foreign_codex_sign_in_is_copied_once() {
    let token = web_token(NOW + 3_600, "theirs");
    let stage = IssuerFixture::new("", &json!({}), &[]).await;
    let theirs = stage.home.join(".codex");
    std::fs::create_dir(&theirs).unwrap();
    let text = json!({"tokens": {"access_token": token, "refresh_token": "theirs"}}).to_string();
    std::fs::write(theirs.join("auth.json"), &text).unwrap();
    assert_eq!(current(&*KeySource::Codex.credentials(&stage.context)).await, Ok(token.clone()));
    assert_eq!(stage.auth()["providers"]["openai-codex"]["tokens"]["refresh_token"], json!("theirs"));
    assert_eq!(std::fs::read_to_string(theirs.join("auth.json")).unwrap(), text);
    std::fs::remove_dir_all(&theirs).unwrap();
    assert_eq!(current(&*KeySource::Codex.credentials(&stage.context)).await, Ok(token));
}

#[tokio::test]
async fn signing_in_to_codex() {
    let wait = "/api/accounts/deviceauth/token";
    let replies = reply(
        "/api/accounts/deviceauth/usercode",
        "client_id",
        200,
        &json!({"user_code": "WXYZ", "device_auth_id": "d1", "interval": "2"}),
    ) + &reply(wait, "d1", 403, &json!({}))
        + &reply(wait, "d1", 404, &json!({}))
        + &reply(wait, "d1", 200, &json!({"authorization_code": "code1", "code_verifier": "ver1"}))
        + &reply(
            "/oauth/token",
            "code=code1",
            200,
            &json!({"access_token": "cacc", "refresh_token": "cref"}),
        );
    let stage = IssuerFixture::new(&replies, &json!({}), &[]).await;
    let (result, steps) = stage.login("codex").await;
    assert_eq!(result, Ok(SignInProvider::Codex));
    assert!(matches!(&steps[0], SignInProgress::Code { user_code, .. } if user_code == "WXYZ"));
    let waits: Vec<u64> = stage.clock.slept().iter().map(Duration::as_secs).filter(|s| *s < 10).collect();
    assert_eq!(waits, [3, 3, 3]);
    let last = stage.bodies().pop().unwrap();
    assert!(last.contains("code_verifier=ver1") && last.contains("deviceauth%2Fcallback"), "{last}");
    assert_eq!(stage.auth()["active_provider"], json!("openai-codex"));
    stage.server.assert_finished();
}

#[tokio::test]
async fn signing_in_to_copilot_and_out_again() {
    let token = "/login/oauth/access_token";
    let code = json!({"device_code": "gdev", "user_code": "GH-1", "verification_uri": "https://g/device", "expires_in": 900, "interval": 5});
    let replies = reply("/login/device/code", "client_id=Ov23", 200, &code)
        + &reply(token, "gdev", 200, &json!({"error": "slow_down"}))
        + &reply(token, "gdev", 200, &json!({"access_token": "gho_new"}));
    let stage = IssuerFixture::new(&replies, &json!({}), &[]).await;
    assert_eq!(stage.login("github").await.0, Ok(SignInProvider::Copilot));
    assert_eq!(stage.auth()["providers"]["copilot"]["access_token"], json!("gho_new"));
    let home = Home::new(stage.home.path());
    std::fs::write(home.config(), "# mine\nmodel:\n  provider: github\n  default: gpt-5.4\n").unwrap();
    assert_eq!(logout(&home, &stage.context.env, "copilot"), Ok(true));
    assert_eq!(logout(&home, &stage.context.env, "copilot"), Ok(false));
    let auth = stage.auth();
    assert_eq!((&auth["active_provider"], auth["providers"].get("copilot")), (&Value::Null, None));
    assert_eq!(stage.home.read("config.yaml"), "# mine\nmodel:\n  provider: auto\n  default: gpt-5.4\n");
}

#[tokio::test]
async fn anthropics_file_is_renewed_in_place() {
    let replies = reply("/first", "aref0", 404, &json!({}))
        + &reply(
            "/second",
            "aref0",
            200,
            &json!({"access_token": "aacc1", "refresh_token": "aref1", "expires_in": 3600}),
        );
    let stage = IssuerFixture::new(&replies, &json!({}), &[]).await;
    let path = stage.home.join("credentials.json");
    let write = |until: u64| {
        let text = json!({"other": {"a": 1}, "claudeAiOauth": {"accessToken": "aacc0", "refreshToken": "aref0", "expiresAt": until * 1000, "scopes": ["x"]}});
        std::fs::write(&path, text.to_string()).unwrap();
    };
    write(NOW + 3_600);
    let file = KeySource::AnthropicFile(path.clone()).credentials(&stage.context);
    assert_eq!(current(&*file).await, Ok("aacc0".to_owned()));
    write(NOW + 30);
    assert_eq!(current(&*file).await, Ok("aacc1".to_owned()));
    let text = std::fs::read_to_string(&path).unwrap();
    let expected = json!({"other": {"a": 1}, "claudeAiOauth": {"accessToken": "aacc1", "refreshToken": "aref1", "expiresAt": (NOW + 3_600) * 1000, "scopes": ["x"]}});
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // The token is refused, and both servers refuse the renewal: the message says where the token came from.
    let told = renew(&*file).await.unwrap_err();
    assert!(told.contains("credentials.json") && !told.contains("aref"), "{told}");
}

#[test]
fn where_anthropics_credential_is_found() {
    use hermes_model::credential::anthropic::{AnthropicCredentialSource, find};
    #[track_caller]
    fn check(file: &Value, env: &[(&str, &str)], expected: &str) {
        let home = TempHome::builder().file(".claude/.credentials.json", file.to_string()).build().unwrap();
        let user = home.path().to_string_lossy().into_owned();
        let env = Env::from_pairs([("HOME", user.as_str())].into_iter().chain(env.iter().copied()));
        let shown = match find(&env) {
            Some(AnthropicCredentialSource::Key { variable, .. }) => variable,
            Some(AnthropicCredentialSource::File(_)) => "file",
            None => "none",
        };
        assert_eq!(shown, expected);
    }
    let empty = json!({});
    let full = json!({"claudeAiOauth": {"accessToken": "a", "refreshToken": "r"}});
    let short = json!({"claudeAiOauth": {"accessToken": "a"}});
    let key = ("ANTHROPIC_API_KEY", "sk-ant-api03-k");
    let token = ("ANTHROPIC_TOKEN", "sk-ant-oat01-t");
    check(&empty, &[], "none");
    check(&empty, &[key], "ANTHROPIC_API_KEY");
    check(&empty, &[key, token], "ANTHROPIC_TOKEN");
    check(&empty, &[("CLAUDE_CODE_OAUTH_TOKEN", "oauth"), key], "CLAUDE_CODE_OAUTH_TOKEN");
    check(&full, &[key], "file");
    // A token that cannot be renewed yields to a file whose token can.
    check(&full, &[token], "file");
    check(&short, &[token], "ANTHROPIC_TOKEN");
    check(&full, &[("ANTHROPIC_TOKEN", "sk-ant-api03-k")], "ANTHROPIC_TOKEN");
    check(&json!("broken"), &[key], "ANTHROPIC_API_KEY");
}

#[tokio::test]
async fn no_credential_shows_itself() {
    let auth = json!({
        "providers": {"nous": {"access_token": "hidden", "refresh_token": "hidden", "agent_key": "hidden", "agent_key_expires_at": LATER}},
        "credential_pool": {"zai": [pool_entry("a", "hidden", &json!({}))]},
    });
    let stage = IssuerFixture::new("", &auth, &[("AWS_BEARER_TOKEN_BEDROCK", "hidden")]).await;
    let config = hermes_config::Config::from_text(Path::new("config.yaml"), "", &stage.context.env);
    let keys = [
        KeySource::Nous,
        KeySource::bearer(Secret::new("hidden")),
        KeySource::Pool(PoolSpec {
            extra_key: Some(Secret::new("hidden")),
            ..pool_name(PoolStrategy::FillFirst)
        }),
        KeySource::Aws(aws::AwsCredentialSource::find(&config, &stage.context.env)),
    ];
    for key in keys {
        let credentials = key.credentials(&stage.context);
        assert!(credentials.current(&Cancel::new()).await.is_ok());
        let shown = format!("{key:?} {credentials:?} {:?}", stage.context);
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
