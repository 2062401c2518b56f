//! Questions of servers to the person.

use serde_json::{Value, json};

use super::support::{Fixture, one_tool};

/// Lets a server ask while its tool runs, and returns what it got.
async fn elicit(fixture: &Fixture, params: &Value, answers: &[&str]) -> Value {
    fixture.write("elicitation.json", params);
    fixture.person.answers.lock().unwrap().extend(answers.iter().map(|answer| (*answer).to_owned()));
    fixture.call("mcp_scripted_elicit", json!({})).await;
    let answer: Value = serde_json::from_str(&fixture.read("elicited")).unwrap();
    answer["result"].clone()
}

async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("tools.json", &one_tool("elicit", ""));
    fixture.connect(vec![fixture.scripted("")]).await;
    fixture
}

fn form() -> Value {
    json!({"mode": "form", "message": "Which \u{1b}[31mtable?", "requestedSchema": {
        "type": "object",
        "properties": {
            "table": {"type": "string", "title": "Table", "minLength": 2},
            "seats": {"type": "integer", "minimum": 1},
            "outside": {"type": "boolean"},
            "note": {"type": "string"},
        },
        "required": ["table", "seats", "outside"],
    }})
}

#[tokio::test]
async fn a_form_is_filled_in_field_by_field() {
    let fixture = fixture().await;
    let answers = ["Answer", "A7", "four", "4", "No", "-"];
    let got = elicit(&fixture, &form(), &answers).await;
    let questions = fixture.person.questions.lock().unwrap().join("\n");
    assert_eq!(got["action"], "accept", "{got} {questions}");
    assert_eq!(got["content"], json!({"table": "A7", "seats": 4, "outside": false}), "{got}");
    assert!(questions.contains("The MCP server scripted asks: Which"), "{questions}");
    assert!(!questions.contains('\u{1b}') && questions.contains("not a whole number"), "{questions}");
    assert!(fixture.read("heard").contains("elicitation"), "the ability is declared");
}

#[tokio::test]
async fn a_person_can_decline_and_nobody_is_a_cancellation() {
    let fixture = fixture().await;
    assert_eq!(elicit(&fixture, &form(), &["Decline"]).await, json!({"action": "decline"}));
    assert_eq!(elicit(&fixture, &form(), &[]).await, json!({"action": "cancel"}));
}

#[tokio::test]
async fn an_address_is_shown_and_never_opened() {
    let fixture = fixture().await;
    let request = |url: &str| json!({"mode": "url", "message": "Sign in", "url": url, "elicitationId": "1"});
    let got = elicit(&fixture, &request("https://example.com/login"), &["Opened"]).await;
    assert_eq!(got, json!({"action": "accept"}));
    assert!(fixture.person.questions.lock().unwrap().join(" ").contains("https://example.com/login"));
    let got = elicit(&fixture, &request("file:///etc/passwd"), &[]).await;
    assert_eq!(got, json!({"action": "decline"}), "nobody is asked about other addresses");
}
