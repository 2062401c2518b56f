//! Conversations much longer than the context window, each in one session: over the API, in a chat, in the
//! terminal.

use std::collections::BTreeMap;

use hermes_store::{SessionFilter, Store};
use hermes_testkit::slack::{self, FakeSlack};
use hermes_testkit::{ModelScript, ScriptedReply, script::ReplyCondition};
use hermes_types::Role;
use serde_json::{Value, json};

use super::gateway::GatewayHome;
use super::support::until;

const WINDOW: usize = 16_000;
const TURNS: usize = 300;

/// Returns a script that echoes messages, and summarises when asked to.
fn script() -> ModelScript {
    let system =
        |text: &str| ReplyCondition { system_contains: Some(text.to_owned()), ..ReplyCondition::new() };
    ModelScript::new()
        .reply(
            ScriptedReply::text("nothing to keep")
                .when_user_contains("about to leave your context")
                .forever(),
        )
        .reply(
            ScriptedReply::text("## Goal\nTalk for long.")
                .when(system("You summarise a conversation"))
                .forever(),
        )
        .echo()
}

fn words(turn: usize) -> String {
    format!("This is turn {turn}. {}", "Some more words that take up room in the window. ".repeat(8))
}

fn config() -> Value {
    json!({"model": {"context_length": WINDOW}})
}

/// Checks that no request exceeds the context window, that no message is lost, and that it is one conversation.
fn check(place: &GatewayHome, source: &str) {
    for request in place.server.requests() {
        let body = request.json();
        let messages = body["messages"].as_array().unwrap();
        let text: usize = messages.iter().map(|message| message["content"].to_string().len()).sum();
        let tools = body["tools"].to_string().len();
        assert!((text + tools) / 4 < WINDOW, "a request of {} tokens", (text + tools) / 4);
    }
    let store = Store::open(&place.home.state_db()).unwrap();
    let all = store.list_sessions(SessionFilter::of_source(source), 10_000).wait().unwrap();
    let mut roots = BTreeMap::<String, usize>::new();
    let (mut asked, mut answered) = (vec![false; TURNS], vec![false; TURNS]);
    for session in &all {
        let place = store.continuation(&session.id).wait().unwrap();
        *roots.entry(place.first.as_str().to_owned()).or_default() += 1;
        for row in store.transcript(&session.id).wait().unwrap() {
            let text = row.message.content.text().into_owned();
            let number = text.strip_prefix("This is turn ").and_then(|rest| rest.split('.').next());
            let Some(number) = number.and_then(|number| number.parse::<usize>().ok()) else { continue };
            match row.message.role {
                Role::User => asked[number] = true,
                Role::Assistant => answered[number] = true,
                _ => {}
            }
        }
    }
    assert_eq!(roots.len(), 1, "one conversation: {roots:?}");
    assert!((3..40).contains(&all.len()), "{} sessions", all.len());
    let missing = |found: &[bool]| found.iter().filter(|found| !**found).count();
    assert_eq!((missing(&asked), missing(&answered)), (0, 0), "turns that are not in the database");
    assert!(store.running_turns().wait().unwrap().is_empty());
    store.close().wait().unwrap();
}

#[test]
fn three_hundred_turns_under_one_session_id_are_one_conversation() {
    for path in ["/v1/chat/completions", "/v1/runs"] {
        let place = GatewayHome::configured(script(), config());
        {
            let _running = place.start();
            for turn in 0..TURNS {
                if path == "/v1/runs" {
                    let body = json!({"input": words(turn), "session_id": "long"}).to_string();
                    let (status, run) = place.request("POST", path, &body).unwrap();
                    assert_eq!(status, 202, "{run}");
                    let at = format!("/v1/runs/{}", run["run_id"].as_str().unwrap());
                    let mut end = Value::Null;
                    until("the run has ended", || {
                        end = place.request("GET", &at, "").unwrap().1;
                        end["status"] != "running"
                    });
                    assert_eq!(
                        (end["status"].as_str(), end["session_id"].as_str()),
                        (Some("completed"), Some("long"))
                    );
                } else {
                    let body = json!({"messages": [{"role": "user", "content": words(turn)}]}).to_string();
                    let answer = super::api_kill::exchange(
                        &place,
                        "POST",
                        path,
                        "X-Hermes-Session-Id: long\r\n",
                        &body,
                    );
                    let answer = answer.unwrap();
                    assert_eq!(answer.text().as_deref(), Some(words(turn).trim()), "turn {turn}: {answer:?}");
                }
            }
        }
        check(&place, "api_server");
    }
}

#[test]
fn three_hundred_turns_of_a_client_that_tells_everything_are_one_conversation() {
    let place = GatewayHome::configured(script(), config());
    {
        let _running = place.start();
        let mut messages = Vec::new();
        for turn in 0..TURNS {
            messages.push(json!({"role": "user", "content": words(turn)}));
            let body = json!({"messages": messages}).to_string();
            let (status, answer) = place.request("POST", "/v1/chat/completions", &body).unwrap();
            assert_eq!(status, 200, "turn {turn}: {answer}");
            messages.push(answer["choices"][0]["message"].clone());
        }
    }
    check(&place, "api_server");
}

#[test]
fn three_hundred_turns_of_a_named_conversation_of_responses_are_one_conversation() {
    let place = GatewayHome::configured(script(), config());
    {
        let _running = place.start();
        for turn in 0..TURNS {
            let body = json!({"input": words(turn), "conversation": "long"}).to_string();
            let (status, answer) = place.request("POST", "/v1/responses", &body).unwrap();
            assert_eq!(status, 200, "turn {turn}: {answer}");
        }
    }
    check(&place, "api_server");
}

#[test]
fn three_hundred_turns_of_a_chat_are_one_conversation() {
    let slack = FakeSlack::start().unwrap();
    slack.person("U1", "Ann");
    slack.direct("D1");
    let mut config = config();
    config["platforms"] = json!({"slack": {"extra": {"base_url": slack.base_url()}}});
    let place = GatewayHome::configured(script(), config);
    place.add_env(&format!(
        "SLACK_ALLOW_ALL_USERS=1\nSLACK_HOME_CHANNEL=C\nSLACK_REACTIONS=false\nSLACK_BOT_TOKEN={}\nSLACK_APP_TOKEN={}\n",
        slack::BOT_TOKEN,
        slack::APP_TOKEN
    ));
    {
        let _running = place.start();
        until("it is connected", || slack.opened() >= 2);
        for turn in 0..TURNS {
            slack.says("U1", "D1", &words(turn));
            slack.until_said_blocking("D1", &format!("This is turn {turn}."));
        }
    }
    check(&place, "slack");
}

#[test]
fn three_hundred_questions_in_the_terminal_are_one_conversation() {
    let place = GatewayHome::configured(script(), config());
    for turn in 0..TURNS {
        let question = words(turn);
        let mut arguments = vec!["chat", "-Q", "-q", &question];
        if turn > 0 {
            arguments.insert(1, "-c");
        }
        let (code, answer) = place.output(&arguments);
        assert_eq!(code, 0, "turn {turn}: {answer}");
    }
    check(&place, "cli");
}

#[test]
fn a_title_in_the_terminal_stays_with_a_conversation_that_is_compressed() {
    let place = GatewayHome::configured(script(), config());
    for turn in 0..TURNS {
        let words = words(turn);
        let name = ["-r", "long talk"];
        let go_on: &[&str] = if turn == 0 { &[] } else { &name };
        let arguments = [go_on, &["chat", "-Q", "-q", &words]].concat();
        let (code, text) = place.output(&arguments);
        assert_eq!(code, 0, "turn {turn}: {text}");
        if turn == 0 {
            let id = text.lines().find_map(|line| line.strip_prefix("session_id: ")).unwrap().to_owned();
            let (code, text) = place.output(&["sessions", "rename", &id, "long talk"]);
            assert_eq!(code, 0, "{text}");
        }
    }
    check(&place, "cli");
}
