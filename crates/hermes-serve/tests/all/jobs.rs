//! Tests of `/api/jobs`.

use serde_json::{Value, json};

use super::support::{HttpAnswer, ServerFixture, TestModel};

async fn send(bench: &ServerFixture, method: &str, path: &str, body: &Value) -> HttpAnswer {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    bench.send(method, path, &[], &body).await
}

#[track_caller]
fn refused(answer: &HttpAnswer, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.body);
    answer.json()["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_job_is_made_changed_and_removed() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    assert_eq!(bench.get("/api/jobs").await.json(), json!({"jobs": []}));
    let body =
        json!({"name": "News", "schedule": "every 2h", "prompt": "read", "skills": ["web"], "repeat": 3});
    let made = bench.post("/api/jobs", &body).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let job = made.json()["job"].clone();
    assert_eq!(
        (&job["deliver"], &job["repeat"]["times"], &job["skill"]),
        (&json!("local"), &json!(3), &json!("web"))
    );
    assert_eq!(job["schedule"], json!({"kind": "interval", "minutes": 120, "display": "every 120m"}));
    let path = format!("/api/jobs/{}", job["id"].as_str().unwrap());
    assert_eq!(bench.get(&path).await.json()["job"], job);
    let changed = send(&bench, "PATCH", &path, &json!({"schedule": "0 9 * * *", "unknown": 1})).await.json();
    assert_eq!(changed["job"]["schedule"]["kind"], "cron");
    let off = send(&bench, "PATCH", &path, &json!({"enabled": false})).await.json();
    assert_eq!((&off["job"]["enabled"], &off["job"]["state"]), (&json!(false), &json!("paused")));
    assert_eq!(bench.get("/api/jobs").await.json()["jobs"], json!([]));
    assert_eq!(
        bench.get("/api/jobs?include_disabled=true").await.json()["jobs"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        send(&bench, "POST", &format!("{path}/resume"), &Value::Null).await.json()["job"]["state"],
        "scheduled"
    );
    assert_eq!(
        send(&bench, "POST", &format!("{path}/pause"), &Value::Null).await.json()["job"]["state"],
        "paused"
    );
    let run = send(&bench, "POST", &format!("{path}/run"), &Value::Null).await.json();
    assert_eq!((&run["job"]["enabled"], &run["job"]["state"]), (&json!(true), &json!("scheduled")));
    assert_eq!(send(&bench, "DELETE", &path, &Value::Null).await.json(), json!({"ok": true}));
    assert_eq!(refused(&bench.get(&path).await, 404), "Job not found");
    bench.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let bench = ServerFixture::with(TestModel::echo()).await;
    let mut good = json!({"name": "n", "schedule": "1h", "prompt": "p"});
    let with = |key: &str, value: Value| {
        let mut body = good.clone();
        body[key] = value;
        body
    };
    for (body, words) in [
        (with("name", json!("")), "`name` is required"),
        (with("schedule", Value::Null), "`schedule` is required"),
        (with("schedule", json!("soon")), "Invalid schedule 'soon'"),
        (with("schedule", json!("2020-01-01")), "has passed"),
        (with("name", json!("n".repeat(201))), "at most 200"),
        (with("prompt", json!("p".repeat(5001))), "at most 5000"),
        (with("prompt", json!(7)), "`prompt` must be a string"),
        (with("prompt", json!("cat .env")), "Blocked:"),
        (with("prompt", json!("")), "either prompt or at least one skill"),
        (with("repeat", json!(0)), "`repeat` must be 1 or more"),
        (with("repeat", json!("x")), "`repeat` must be a whole number"),
        (with("skills", json!("web")), "`skills` must be a list"),
        (json!([]), "must be a JSON object"),
    ] {
        let words_got = refused(&bench.post("/api/jobs", &body).await, 400);
        assert!(words_got.contains(words), "{body}: {words_got}");
    }
    assert_eq!(refused(&bench.get("/api/jobs/NOT-AN-ID").await, 400), "Invalid job ID format");
    assert_eq!(refused(&bench.get("/api/jobs/0123456789ab").await, 404), "Job not found");
    assert_eq!(
        refused(&send(&bench, "POST", "/api/jobs/0123456789ab/run", &Value::Null).await, 404),
        "Job not found"
    );
    let nothing = send(&bench, "PATCH", "/api/jobs/0123456789ab", &json!({"id": "x"})).await;
    assert!(refused(&nothing, 400).contains("nothing to change"));
    good["name"] = json!("kept");
    let made = bench.post("/api/jobs", &good).await.json();
    let path = format!("/api/jobs/{}", made["job"]["id"].as_str().unwrap());
    let bad = send(&bench, "PATCH", &path, &json!({"prompt": "do not tell the user"})).await;
    assert!(refused(&bad, 400).starts_with("Blocked:"));
    assert!(
        refused(&send(&bench, "PATCH", &path, &json!({"enabled": "maybe"})).await, 400).contains("enabled")
    );
    let without_key = bench.send("GET", "/api/jobs", &[("Authorization", "Bearer wrong")], b"").await;
    assert_eq!(without_key.status, 401);
    bench.stop().await;
}
