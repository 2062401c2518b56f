//! Messages are read back exactly as they were stored.

use hermes_store::{NewMessage, NewSession};
use hermes_types::{
    ContentPart, FinishReason, Message, MessageContent, Provenance, RawJson, Role, Timestamp, ToolCall,
};

use super::support::store_fixture;

fn full_message() -> Message {
    let mut call = ToolCall::new(Some("call_1"), "terminal", r#"{"command": "ls"}"#);
    call.extra_content = Some(RawJson::parse(r#"{"google": {"thought_signature":"a+b=="}}"#.into()).unwrap());
    let mut message = Message::assistant("thinking done").with_calls(vec![call]);
    message.reasoning = Some("because".into());
    message.reasoning_details =
        Some(RawJson::parse(r#"[ {"type":"reasoning.encrypted",  "n": 1.50} ]"#.into()).unwrap());
    message.codex_reasoning_items =
        Some(RawJson::parse(r#"[{"encrypted_content":"gA\/A"}]"#.into()).unwrap());
    message.finish_reason = Some(FinishReason::ToolCalls);
    message.extra.set("annotations", RawJson::parse("[1,  2]".into()).unwrap());
    message
}

#[test]
fn a_message_comes_back_byte_for_byte() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    let parts = MessageContent::Parts(vec![
        ContentPart::Text("see".into()),
        ContentPart::Image { url: "data:image/png;base64,AA".into() },
    ]);
    let mut with_parts = Message::user("");
    with_parts.content = parts;
    let messages = vec![Message::user("héllo \0 world"), full_message(), with_parts];
    let new = messages.iter().cloned().map(|message| NewMessage::new(message, Timestamp(2.0))).collect();
    place.store.append_all(&session, new).wait().unwrap();
    let back: Vec<_> =
        place.store.transcript(&session).wait().unwrap().into_iter().map(|m| m.message).collect();
    assert_eq!(back, messages);
}

#[test]
fn parts_are_stored_the_way_newer_releases_do() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    let mut message = Message::user("");
    message.content = MessageContent::Parts(vec![ContentPart::Text("hi".into())]);
    place.store.append(&session, NewMessage::new(message, Timestamp(2.0))).wait().unwrap();
    let stored: String = place.sql().query_row("SELECT content FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!(stored, "\0json:[{\"type\":\"text\",\"text\":\"hi\"}]");
}

#[test]
fn a_clock_that_steps_back_does_not_reorder() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    for (text, at) in [("first", 100.0), ("second", 50.0), ("third", 75.0)] {
        place.append_user_message(&session, text, at);
    }
    let texts: Vec<_> =
        place.store.transcript(&session).wait().unwrap().into_iter().map(|m| m.message.content).collect();
    assert_eq!(texts, ["first", "second", "third"].map(MessageContent::from));
}

#[test]
fn counters_follow_messages_and_calls() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    let call = |id: &str| ToolCall::new(Some(id), "todo", "{}");
    let asking = Message::assistant("").with_calls(vec![call("a"), call("b")]);
    let answer = Message::tool(&call("a"), "ok");
    for message in [Message::user("x"), asking, answer] {
        place.store.append(&session, NewMessage::new(message, Timestamp(2.0))).wait().unwrap();
    }
    let row = place.store.session(&session).wait().unwrap().unwrap();
    assert_eq!((row.message_count, row.tool_call_count), (3, 2));
}

#[test]
fn origins_are_kept_where_the_role_does_not_tell() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    let call = ToolCall::new(Some("w"), "web_extract", "{}");
    let mut page = NewMessage::new(Message::tool(&call, "a page"), Timestamp(2.0));
    page.provenance = Some(Provenance::Web);
    place.store.append(&session, NewMessage::new(Message::user("go"), Timestamp(1.0))).wait().unwrap();
    place.store.append(&session, page).wait().unwrap();
    let origins: Vec<_> =
        place.store.transcript(&session).wait().unwrap().iter().map(|m| m.provenance).collect();
    assert_eq!(origins, [Provenance::Person, Provenance::Web]);
}

#[test]
fn a_session_row_that_is_missing_is_made_with_its_messages() {
    let place = store_fixture();
    let session = NewSession::new("late".into(), "cli", Timestamp(1.0));
    let messages = vec![NewMessage::new(Message::user("x"), Timestamp(1.0))];
    place.store.append_creating(session.clone(), messages.clone()).wait().unwrap();
    place.store.append_creating(session.clone(), messages).wait().unwrap();
    assert_eq!(place.store.transcript(&session.id).wait().unwrap().len(), 2);
}

#[test]
fn a_message_for_no_session_is_refused_and_takes_nobody_with_it() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    let message = || NewMessage::new(Message::user("x"), Timestamp(1.0));
    // All three wait in the queue together, so that they share a transaction.
    let pending = [
        place.store.append(&session, message()),
        place.store.append(&"nobody".into(), message()),
        place.store.append(&session, message()),
    ];
    let results: Vec<_> =
        pending.into_iter().map(|pending| pending.wait().map_err(|error| error.to_string())).collect();
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    assert_eq!(results[1], Err("Session not found: nobody".to_owned()));
    assert_eq!(place.store.transcript(&session).wait().unwrap().len(), 2);
}

#[test]
fn rows_other_programs_wrote_oddly_are_read() {
    let place = store_fixture();
    let session = place.session("s", 1.0);
    place
        .sql()
        .execute_batch(
            "INSERT INTO messages (session_id, role, content, timestamp, tool_calls, reasoning_details)
                VALUES ('s', 'assistant', NULL, '12.5', 'not json', 'neither');
             INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', CAST(x'ff41' AS TEXT), 13);",
        )
        .unwrap();
    let back = place.store.transcript(&session).wait().unwrap();
    assert_eq!(back[0].message.content, MessageContent::from(""));
    assert_eq!((back[0].at, back[0].message.role), (Timestamp(12.5), Role::Assistant));
    assert_eq!(back[1].message.content.text(), "\u{fffd}A");
}
