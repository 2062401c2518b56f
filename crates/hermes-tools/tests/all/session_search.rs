use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_store::{NewMessage, NewSession, Store};
use hermes_tools::SessionSearchTool;
use hermes_types::{
    BoxFuture, CivilTime, Completion, Cost, DeltaSink, Message, Model, ModelError, ModelRequest, SideModel,
    Timestamp, ToolCall,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{FixedClock, UnattendedUser, parse, run};

/// The time 2026-03-05, 09:15:07.
const START: f64 = 1_772_702_107.0;

struct Past {
    _folder: TempDir,
    store: Store,
}

impl Past {
    /// Creates a store in which the running conversation `s` continues `s-before`.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("state.db")).unwrap();
        let past = Self { _folder: folder, store };
        let call = ToolCall::new(None, "terminal", "{}");
        past.session(
            "old",
            "cli",
            None,
            0.0,
            vec![
                Message::user("How do I deploy the zebra service?"),
                Message::assistant("").with_calls(vec![call.clone()]),
                Message::tool(&call, "z".repeat(2000)),
                Message::assistant(
                    "Run `make zebra`; the key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789.",
                ),
            ],
        );
        past.session(
            "old-child",
            "cli",
            Some("old"),
            10.0,
            vec![Message::user("zebra again, after compression")],
        );
        past.session("other", "telegram", None, 20.0, vec![Message::user("nothing but giraffes")]);
        past.session("made-by-tool", "tool", None, 30.0, vec![Message::user("zebra inside a tool")]);
        past.session("s-before", "cli", None, 40.0, vec![Message::user("zebra in this very conversation")]);
        past.session("s", "cli", Some("s-before"), 50.0, vec![Message::user("zebra now")]);
        past.session("s-child", "cli", Some("s"), 60.0, vec![Message::user("zebra below")]);
        past
    }

    fn session(&self, id: &str, source: &str, parent: Option<&str>, at: f64, messages: Vec<Message>) {
        let at = Timestamp(START + at);
        let mut session = NewSession::new(id.into(), source, at);
        session.parent = parent.map(Into::into);
        session.model = Some("some-model".to_owned());
        let messages = messages.into_iter().map(|message| NewMessage::new(message, at)).collect();
        self.store.append_creating(session, messages).wait().unwrap();
    }

    fn tool(&self) -> SessionSearchTool {
        SessionSearchTool::new(Some(self.store.clone()), Arc::new(FixedClock), CivilTime::utc)
    }

    fn ask(&self, arguments: Value) -> Value {
        parse(&run(&self.tool(), "t", arguments, &UnattendedUser))
    }
}

/// A model that gives scripted answers or errors.
struct Scripted(Mutex<Vec<Result<&'static str, ModelError>>>, Mutex<Vec<String>>);

impl Model for Scripted {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        self.1.lock().unwrap().push(request.messages[0].content.text().into_owned());
        let answer = self.0.lock().unwrap().pop().unwrap_or(Err(ModelError::Cancelled));
        Box::pin(std::future::ready(answer.map(|text| Completion {
            message: Message::assistant(text),
            usage: None,
            cost: Cost::UNKNOWN,
            model: request.model.clone(),
            provider: "test".to_owned(),
            response_id: None,
            provider_items: None,
        })))
    }

    fn context_window(&self, _: &str) -> u64 {
        100_000
    }
}

#[test]
fn the_newest_conversations_are_listed_without_this_one() {
    let past = Past::new();
    let recent = past.ask(json!({"query": "  "}));
    assert_eq!((&recent["mode"], &recent["count"]), (&json!("recent"), &json!(2)), "{recent}");
    let ids: Vec<&str> =
        recent["results"].as_array().unwrap().iter().map(|r| r["session_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["other", "old"]);
    assert_eq!(recent["results"][1]["preview"], "How do I deploy the zebra service?");
    assert_eq!(recent["results"][1]["started_at"], "2026-03-05T09:15:07");
}

#[test]
fn words_find_conversations_but_never_this_one() {
    let past = Past::new();
    let found = past.ask(json!({"query": "zebra"}));
    assert_eq!(
        (&found["success"], &found["count"], &found["sessions_searched"]),
        (&json!(true), &json!(1), &json!(1))
    );
    let result = &found["results"][0];
    assert_eq!(result["session_id"], "old");
    assert_eq!(result["when"], "March 05, 2026 at 09:15 AM");
    assert_eq!((&result["source"], &result["model"]), (&json!("cli"), &json!("some-model")));
    assert!(
        result["summary"].as_str().unwrap().starts_with("[Raw preview — summarization unavailable]"),
        "{result}"
    );
    assert!(!found.to_string().contains("abcdefghijklmnopqrstuvwxyz"));
    let nothing = past.ask(json!({"query": "hippopotamus"}));
    assert_eq!((&nothing["count"], &nothing["message"]), (&json!(0), &json!("No matching sessions found.")));
    assert_eq!(past.ask(json!({"query": "***"}))["count"], 0);
    assert_eq!(past.ask(json!({"query": "giraffes", "role_filter": "assistant, tool"}))["count"], 0);
    assert_eq!(past.ask(json!({"query": "giraffes", "role_filter": "user"}))["count"], 1);
}

#[test]
fn a_side_model_summarises_what_was_said() {
    let past = Past::new();
    let failure = || ModelError::GiveUp { message: "no".to_owned(), status: None };
    let model = Arc::new(Scripted(
        Mutex::new(vec![Ok("<think>hm</think>The user deployed zebra."), Ok(" "), Err(failure())]),
        Mutex::default(),
    ));
    let side = |model: &Arc<Scripted>| SideModel {
        model: model.clone(),
        name: "small".to_owned(),
        timeout: Duration::from_secs(9),
    };
    let tool = past.tool().with_summaries(side(&model));
    let found = parse(&run(&tool, "t", json!({"query": "deploy make"}), &UnattendedUser));
    assert_eq!(found["count"], 0, "both words in one message: {found}");
    let found = parse(&run(&tool, "t", json!({"query": "deploy"}), &UnattendedUser));
    assert_eq!(found["results"][0]["summary"], "The user deployed zebra.", "{found}");
    let asked = model.1.lock().unwrap().clone();
    assert_eq!(asked.len(), 3);
    assert!(
        asked[0].contains("[USER]: How do I deploy") && asked[0].contains("[ASSISTANT]: [Called: terminal]")
    );
    assert!(
        asked[0].contains("[TOOL:terminal]: zzz") && asked[0].contains("[… 1500 characters …]"),
        "{}",
        asked[0]
    );
    let silent = past.tool().with_summaries(side(&Arc::new(Scripted(Mutex::default(), Mutex::default()))));
    let found = parse(&run(&silent, "t", json!({"query": "deploy"}), &UnattendedUser));
    assert!(found["results"][0]["summary"].as_str().unwrap().starts_with("[Raw preview"), "{found}");
}

#[test]
fn a_conversation_is_read_and_scrolled() {
    let past = Past::new();
    let messages = (0..50).map(|n| Message::user(format!("message {n}"))).collect();
    past.session("long", "cli", None, 5.0, messages);
    let read = past.ask(json!({"session_id": "long"}));
    let shown = read["messages"].as_array().unwrap();
    assert_eq!((shown.len(), &read["left_out"], &read["message_count"]), (30, &json!(20), &json!(50)));
    assert_eq!((&shown[19]["content"], &shown[20]["content"]), (&json!("message 19"), &json!("message 40")));
    let id = shown[10]["id"].clone();
    let around = past.ask(json!({"session_id": "long", "around_message_id": id, "window": 2}));
    let contents: Vec<&str> =
        around["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["message 8", "message 9", "message 10", "message 11", "message 12"]);
    assert_eq!((&around["messages_before"], &around["messages_after"]), (&json!(8), &json!(37)));
    assert_eq!(past.ask(json!({"session_id": "gone"}))["error"], "Session not found: gone");
    assert_eq!(past.ask(json!({"session_id": "long", "around_message_id": 1}))["success"], false);
}

#[test]
fn without_a_database_it_says_so() {
    let tool = SessionSearchTool::new(None, Arc::new(FixedClock), CivilTime::utc);
    let answer = parse(&run(&tool, "t", json!({"query": "x"}), &UnattendedUser));
    assert_eq!(answer, json!({"success": false, "error": "Session database not available."}));
}

#[test]
fn people_who_share_a_gateway_do_not_find_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("state.db")).unwrap();
    let past = Past { _folder: folder, store };
    for (id, user, text) in [
        ("ann-1", Some("ann"), "my secret is a walrus"),
        ("bob-1", Some("bob"), "I saw a walrus too"),
        ("owner", None, "a walrus at the terminal"),
        ("s", Some("bob"), "what about now"),
    ] {
        let source = if user.is_some() { "telegram" } else { "cli" };
        let mut session = NewSession::new(id.into(), source, Timestamp(START));
        session.user_id = user.map(str::to_owned);
        let message = NewMessage::new(Message::user(text), Timestamp(START));
        past.store.append_creating(session, vec![message]).wait().unwrap();
    }
    for arguments in [json!({"query": "walrus"}), json!({})] {
        let found = past.ask(arguments.clone());
        let ids: Vec<&str> =
            found["results"].as_array().unwrap().iter().map(|r| r["session_id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["bob-1"], "{arguments}: {found}");
    }
    let refused = past.ask(json!({"session_id": "ann-1"}));
    assert!(refused.to_string().contains("Session not found"), "{refused}");
}
