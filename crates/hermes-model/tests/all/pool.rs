//! Several keys for one provider: selection, cooldown, renewal and dead keys.

use std::sync::Arc;
use std::time::Duration;

use hermes_model::client::{CredentialProvider as _, Endpoint, KeyRefusal, ModelClient, RetryPolicy};
use hermes_model::context_window::WindowOrigin;
use hermes_model::credential::pool::{CredentialPool, PoolSpec, PoolStrategy};
use hermes_model::wire::{ApiMode, FailureCause, WireOptions};
use hermes_types::{Deadline, Message, Model as _, Secret};
use serde_json::{Value, json};

use super::credential::{NOW, web_token};
use super::issuer_fixture::{IssuerFixture, current, renew};
use super::support::request;

pub(crate) fn pool_entry(id: &str, key: &str, extra: &Value) -> Value {
    let mut entry = json!({"id": id, "access_token": key, "auth_type": "api_key", "note": "kept"});
    entry.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
    entry
}

pub(crate) fn pool_name(strategy: PoolStrategy) -> PoolSpec {
    PoolSpec {
        name: "zai".to_owned(),
        host: "api.z.ai".to_owned(),
        strategy,
        mode: ApiMode::Chat,
        extra_key: None,
    }
}

#[tokio::test]
async fn a_pool_rests_its_keys() {
    let entries = json!([
        pool_entry("b", "key-b", &json!({"priority": 2})),
        pool_entry("a", "key-a", &json!({"priority": 1})),
        pool_entry("d", "key-d", &json!({"priority": 0, "last_status": "dead"})),
        pool_entry("f", "key-f", &json!({"base_url": "https://elsewhere.example/v1"})),
        pool_entry(
            "c",
            "key-c",
            &json!({"last_status": "exhausted", "last_status_at": NOW - 10, "last_error_code": 429})
        ),
    ]);
    let stage =
        IssuerFixture::new("", &json!({"credential_pool": {"zai": entries, "other": ["?"]}}), &[]).await;
    let pool = CredentialPool::open(&stage.context, pool_name(PoolStrategy::FillFirst));
    assert_eq!(current(&pool).await, Ok("key-a".to_owned()));
    assert!(pool.has_another() && !pool.can_renew());
    assert!(pool.rotate(&KeyRefusal::new(FailureCause::RateLimit, None)));
    assert_eq!(current(&pool).await, Ok("key-b".to_owned()));
    assert!(!pool.rotate(&KeyRefusal::new(FailureCause::Credential, None)));
    let told = current(&pool).await.unwrap_err();
    assert!(told.contains("zai") && told.contains("5 min") && !told.contains("key-"), "{told}");
    // The state is on disk, with everything else unchanged.
    let stored = stage.auth()["credential_pool"].clone();
    assert_eq!(stored["other"], json!(["?"]));
    let find = |id: &str| stored["zai"].as_array().unwrap().iter().find(|e| e["id"] == id).unwrap().clone();
    let (a, b) = (find("a"), find("b"));
    assert_eq!(
        (&a["last_status"], &a["last_error_code"], &a["note"]),
        (&json!("exhausted"), &json!(429), &json!("kept"))
    );
    assert_eq!((&b["last_error_code"], &b["last_status_at"]), (&json!(401), &json!(1_767_323_045.0)));
    // Another process sees the same state; a refused key is available after five minutes, a used-up one after an
    // hour.
    let reopened = CredentialPool::open(&stage.context, pool_name(PoolStrategy::FillFirst));
    assert!(current(&reopened).await.is_err());
    stage.clock.advance(Duration::from_secs(301));
    assert_eq!(current(&reopened).await, Ok("key-b".to_owned()));
    stage.clock.advance(Duration::from_hours(1));
    let order = [current(&pool).await, current(&reopened).await];
    assert_eq!(order, [Ok("key-c".to_owned()), Ok("key-c".to_owned())]);
}

#[tokio::test]
async fn a_pool_takes_turns() {
    async fn check(strategy: PoolStrategy, besides: Option<&str>, expected: &[&str]) {
        let entries = json!([
            pool_entry("a", "key-a", &json!({"request_count": 5})),
            pool_entry("b", "key-b", &json!({"request_count": 1})),
        ]);
        let stage = IssuerFixture::new("", &json!({"credential_pool": {"zai": entries}}), &[]).await;
        let name = PoolSpec { extra_key: besides.map(Secret::new), ..pool_name(strategy) };
        let pool = CredentialPool::open(&stage.context, name);
        for key in expected {
            assert_eq!(current(&pool).await.as_deref(), Ok(*key), "{strategy:?}");
        }
    }
    check(PoolStrategy::FillFirst, None, &["key-a", "key-a"]).await;
    check(PoolStrategy::RoundRobin, None, &["key-b", "key-a", "key-b"]).await;
    check(PoolStrategy::LeastUsed, None, &["key-b", "key-b"]).await;
    check(PoolStrategy::FillFirst, Some("key-env"), &["key-env"]).await;
    // A key that is stored already is not added twice.
    check(PoolStrategy::RoundRobin, Some("key-b"), &["key-b", "key-a", "key-b"]).await;
    let entries = json!([pool_entry("a", "key-a", &json!({}))]);
    let stage = IssuerFixture::new("", &json!({"credential_pool": {"zai": entries}}), &[]).await;
    let pool = CredentialPool::open(&stage.context, pool_name(PoolStrategy::Random));
    assert_eq!(current(&pool).await, Ok("key-a".to_owned()));
    // The time that a server names replaces the default hour.
    assert!(!pool.rotate(&KeyRefusal::new(FailureCause::RateLimit, Some(Duration::from_secs(20)))));
    stage.clock.advance(Duration::from_secs(21));
    assert_eq!(current(&pool).await, Ok("key-a".to_owned()));
}

fn stored(stage: &IssuerFixture, pool: &str, id: &str) -> Value {
    let entries = stage.auth()["credential_pool"][pool].clone();
    entries.as_array().unwrap().iter().find(|entry| entry["id"] == id).unwrap().clone()
}

#[tokio::test]
async fn turns_are_counted_on_disk() {
    let entries = json!([pool_entry("a", "key-a", &json!({})), pool_entry("b", "key-b", &json!({}))]);
    let stage = IssuerFixture::new("", &json!({"credential_pool": {"zai": entries}}), &[]).await;
    let pool = CredentialPool::open(&stage.context, pool_name(PoolStrategy::RoundRobin));
    for key in ["key-a", "key-b", "key-a"] {
        assert_eq!(current(&pool).await.as_deref(), Ok(key));
    }
    // The last count is on disk before the next key is returned.
    assert_eq!(current(&pool).await.as_deref(), Ok("key-b"));
    assert_eq!(stored(&stage, "zai", "a")["request_count"], 2);
    // Another process continues with the next key.
    let next = CredentialPool::open(&stage.context, pool_name(PoolStrategy::RoundRobin));
    assert_eq!(current(&next).await.as_deref(), Ok("key-b"));
}

#[tokio::test]
async fn a_key_refused_for_good_is_dead() {
    let entries =
        json!([pool_entry("a", "key-a", &json!({})), pool_entry("b", "key-b", &json!({"priority": 9}))]);
    let stage = IssuerFixture::new("", &json!({"credential_pool": {"zai": entries}}), &[]).await;
    let pool = CredentialPool::open(&stage.context, pool_name(PoolStrategy::FillFirst));
    assert_eq!(current(&pool).await.as_deref(), Ok("key-a"));
    let revoked = KeyRefusal {
        permanent_code: Some("token_revoked"),
        message: "HTTP 401: gone".to_owned(),
        ..KeyRefusal::new(FailureCause::Credential, Some(Duration::from_secs(1)))
    };
    assert!(pool.rotate(&revoked));
    assert_eq!(current(&pool).await.as_deref(), Ok("key-b"));
    let dead = stored(&stage, "zai", "a");
    assert_eq!(
        (
            &dead["last_status"],
            &dead["last_error_reason"],
            &dead["last_error_message"],
            &dead["last_error_reset_at"]
        ),
        (&json!("dead"), &json!("token_revoked"), &json!("HTTP 401: gone"), &Value::Null)
    );
    stage.clock.advance(Duration::from_hours(48));
    assert_eq!(current(&pool).await.as_deref(), Ok("key-b"));
}

fn codex_pool() -> PoolSpec {
    PoolSpec {
        name: "openai-codex".to_owned(),
        host: "chatgpt.com".to_owned(),
        mode: ApiMode::Responses,
        ..pool_name(PoolStrategy::FillFirst)
    }
}

fn exchange(with: &str, status: u16, body: &Value) -> String {
    format!(
        "  - when: {{path: /oauth/token, body_contains: 'refresh_token={with}&'}}\n    http: {{status: {status}, body: {body}}}\n"
    )
}

#[tokio::test]
async fn tokens_of_a_pool_are_renewed() {
    let (old, new, newest) =
        (web_token(NOW + 60, "old"), web_token(NOW + 3_600, "new"), web_token(NOW + 7_200, "newest"));
    let entries = json!([pool_entry("a", &old, &json!({"auth_type": "oauth", "refresh_token": "r0"}))]);
    let replies = exchange("r0", 200, &json!({"access_token": new, "refresh_token": "r1"}))
        + &exchange("r1", 200, &json!({"access_token": newest}));
    let stage =
        IssuerFixture::new(&replies, &json!({"credential_pool": {"openai-codex": entries}}), &[]).await;
    let pool = CredentialPool::open(&stage.context, codex_pool());
    // A token about to expire is renewed before it is sent, and stored.
    assert_eq!(current(&pool).await, Ok(new.clone()));
    let entry = stored(&stage, "openai-codex", "a");
    assert_eq!(
        (&entry["access_token"], &entry["refresh_token"], &entry["note"]),
        (&json!(new), &json!("r1"), &json!("kept"))
    );
    // The key is refused although it has not expired.
    assert!(pool.can_renew());
    assert_eq!(renew(&pool).await, Ok(()));
    assert_eq!(current(&pool).await, Ok(newest.clone()));
    // If the server sends no new refresh token, the old one stays.
    assert_eq!(stored(&stage, "openai-codex", "a")["refresh_token"], "r1");
    stage.server.assert_requests(2);
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_is_put_away() {
    let old = web_token(NOW - 60, "old");
    let good = web_token(NOW + 3_600, "good");
    let oauth = json!({"auth_type": "oauth", "refresh_token": "r0"});
    let entries = json!([pool_entry("a", &old, &oauth), pool_entry("b", &good, &json!({"priority": 5}))]);
    let replies = exchange("r0", 400, &json!({"error": "invalid_grant"}));
    let stage =
        IssuerFixture::new(&replies, &json!({"credential_pool": {"openai-codex": entries}}), &[]).await;
    let pool = CredentialPool::open(&stage.context, codex_pool());
    assert_eq!(current(&pool).await, Ok(good));
    let dead = stored(&stage, "openai-codex", "a");
    assert_eq!((&dead["last_status"], &dead["last_error_reason"]), (&json!("dead"), &json!("invalid_grant")));
    // A server that is only busy causes nothing but a wait.
    let entries = json!([pool_entry("a", &old, &oauth)]);
    let stage = IssuerFixture::new(
        &exchange("r0", 503, &json!({})),
        &json!({"credential_pool": {"openai-codex": entries}}),
        &[],
    )
    .await;
    let pool = CredentialPool::open(&stage.context, codex_pool());
    assert!(current(&pool).await.unwrap_err().contains("503"));
    assert_eq!(stored(&stage, "openai-codex", "a")["last_status"], Value::Null);
}

#[tokio::test]
async fn a_sign_in_of_a_pool_buys_a_new_key() {
    let long_ago = "2026-01-01T00:00:00Z";
    let entry = pool_entry(
        "a",
        "acc0",
        &json!({"refresh_token": "r0", "agent_key": "key0", "agent_key_expires_at": long_ago}),
    );
    let exchange = |body: &Value| {
        format!("  - when: {{path: /api/oauth/token}}\n    http: {{status: 200, body: {body}}}\n")
    };
    let mint = |body: &Value| {
        format!(
            "  - when: {{path: /api/oauth/agent-key, headers: {{authorization: Bearer acc1}}}}\n    http: {{status: 200, body: {body}}}\n"
        )
    };
    let replies = exchange(&json!({"access_token": "acc1", "refresh_token": "r1", "expires_in": 900}))
        + &mint(&json!({"api_key": "key1", "expires_in": 7200}));
    let stage = IssuerFixture::new(&replies, &json!({"credential_pool": {"nous": [entry]}}), &[]).await;
    let name = PoolSpec { name: "nous".to_owned(), ..pool_name(PoolStrategy::FillFirst) };
    let pool = CredentialPool::open(&stage.context, name.clone());
    assert_eq!(current(&pool).await.as_deref(), Ok("key1"));
    let kept = stored(&stage, "nous", "a");
    assert_eq!((&kept["refresh_token"], &kept["agent_key"]), (&json!("r1"), &json!("key1")));
    assert_eq!(current(&CredentialPool::open(&stage.context, name)).await.as_deref(), Ok("key1"));
    stage.server.assert_requests(2);
}

#[tokio::test]
async fn a_revoked_key_is_put_away_and_the_next_one_answers() {
    let entries =
        json!([pool_entry("a", "key-a", &json!({})), pool_entry("b", "key-b", &json!({"priority": 9}))]);
    let replies = "  - when: {path: /v1/chat/completions, headers: {authorization: Bearer key-a}}
    http: {status: 401, body: {error: {message: 'no more', code: token_revoked}}}
  - when: {path: /v1/chat/completions, headers: {authorization: Bearer key-b}}
    text: ok
  - when: {path: /v1/chat/completions, headers: {authorization: Bearer key-b}}
    http: {status: 401, body: {error: {message: 'no more', code: token_invalidated}}}
";
    let stage = IssuerFixture::new(replies, &json!({"credential_pool": {"zai": entries}}), &[]).await;
    let endpoint = Endpoint {
        model: "m".to_owned(),
        model_choice: hermes_model::provider::ModelChoice::Explicit,
        key_origin: None,
        wire: WireOptions::new(ApiMode::Chat, "zai", &stage.server.base_url()),
        credentials: Arc::new(CredentialPool::open(&stage.context, pool_name(PoolStrategy::FillFirst))),
        context_window: 128_000,
        window_origin: WindowOrigin::Configured,
        prices: None,
        stats: Arc::default(),
    };
    let (net, clock) = (stage.context.net.clone(), stage.context.clock.clone());
    let client = ModelClient::new(net, clock, vec![endpoint.clone()], RetryPolicy::default()).unwrap();
    let mut asked = request("m", vec![Message::user("hi")]);
    asked.deadline = Deadline::after(&stage.clock, Duration::from_mins(5));
    let answer = client.complete(&asked, &mut |_| ()).await.unwrap();
    assert_eq!(answer.message.content.text(), "ok");
    assert_eq!(stored(&stage, "zai", "a")["last_error_reason"], "token_revoked");
    // The last key is marked dead too: there is no other, but it is not tried again.
    assert!(client.complete(&asked, &mut |_| ()).await.is_err());
    assert!(current(&*endpoint.credentials).await.unwrap_err().contains("used up or refused"));
    assert_eq!(stored(&stage, "zai", "b")["last_status"], "dead");
}
