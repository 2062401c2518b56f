//! Tests of repeated requests, and of conversations that outlive their stored responses.

use serde_json::{Value, json};

use super::support::{ModelStep, ServerFixture, TestModel};

fn text(body: &Value) -> &str {
    body["output"].as_array().unwrap().last().unwrap()["content"][0]["text"].as_str().unwrap()
}

fn counting() -> std::sync::Arc<TestModel> {
    TestModel::new(|said, request| ModelStep::Say(format!("{said} after {}", request.messages.len() - 1)))
}

#[tokio::test]
async fn a_repeat_in_a_named_conversation_is_the_same_answer_and_moves_nothing() {
    for stream in [false, true] {
        let bench = ServerFixture::with(counting()).await;
        let ask = |key: &'static str, input: &'static str| {
            let body = json!({"input": input, "conversation": "trip", "stream": stream}).to_string();
            let bench = &bench;
            async move {
                let answer =
                    bench.send("POST", "/v1/responses", &[("Idempotency-Key", key)], body.as_bytes()).await;
                if stream { answer.events().last().unwrap()["response"].clone() } else { answer.json() }
            }
        };
        let first = ask("k1", "a").await;
        let second = ask("k2", "b").await;
        assert_eq!((text(&first), text(&second)), ("a after 0", "b after 2"));
        let again = ask("k1", "a").await;
        assert_eq!(again, first, "stream: {stream}");
        let third = ask("k3", "c").await;
        assert_eq!(text(&third), "c after 4", "the conversation goes on where it was");
        assert_eq!(third["previous_response_id"], second["id"]);
        assert_eq!(bench.model.questions().len(), 3);
    }
}

#[tokio::test]
async fn a_conversation_goes_on_when_its_answers_are_no_longer_kept() {
    let bench = ServerFixture::with(counting()).await;
    let say = |input: String, conversation: Option<&'static str>| {
        let bench = &bench;
        async move {
            let body = json!({"input": input, "conversation": conversation});
            let answer = bench.post("/v1/responses", &body).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            text(&answer.json()).to_owned()
        }
    };
    say("remember me".into(), Some("trip")).await;
    for at in 0..101 {
        say(format!("other {at}"), None).await;
    }
    assert_eq!(say("where were we".into(), Some("trip")).await, "where were we after 2");
    assert_eq!(say("and now".into(), Some("trip")).await, "and now after 4");
}

#[tokio::test]
async fn two_conversations_that_begin_with_the_same_words_stay_apart() {
    let bench = ServerFixture::with(counting()).await;
    for (name, input, expected) in [
        ("a", "hi", "hi after 0"),
        ("b", "hi", "hi after 0"),
        ("a", "x", "x after 2"),
        ("b", "y", "y after 2"),
    ] {
        let body = bench.post("/v1/responses", &json!({"input": input, "conversation": name})).await.json();
        assert_eq!(text(&body), expected);
    }
}

#[tokio::test]
async fn what_tools_keep_for_a_chain_of_responses_is_kept() {
    let bench = ServerFixture::with(counting()).await;
    let one = bench.post("/v1/responses", &json!({"input": "one"})).await.json();
    bench.post("/v1/responses", &json!({"input": "two", "previous_response_id": one["id"]})).await;
    bench.post("/v1/responses", &json!({"input": "one", "conversation": "c"})).await;
    assert!(bench.ended().is_empty(), "{:?}", bench.ended());
}

/// Returns the resident memory of this process in megabytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap() * 4 / 1024
}

#[tokio::test]
async fn streams_nobody_reads_are_not_buffered_without_bound() {
    let bench = ServerFixture::with(TestModel::new(|_, _| ModelStep::Say("a word ".repeat(200_000)))).await;
    let body = json!({"messages": [{"role": "user", "content": "talk"}], "stream": true}).to_string();
    let before = resident();
    let mut connections = Vec::new();
    for at in 1..=4 {
        connections.push(bench.open("POST", "/v1/chat/completions", &[], body.as_bytes()).await);
        bench.until_asked(at).await;
        bench.until_idle().await;
    }
    // Each stream would take 80 MB in frames of one word; its text is 1.4 MB.
    let grown = resident().saturating_sub(before);
    assert!(grown < 80, "{grown} MB for four streams");
    drop(connections);
    let next = json!({"messages": [{"role": "user", "content": "short"}]});
    assert_eq!(bench.post("/v1/chat/completions", &next).await.status, 200);
}
