//! Bytes on the wire: framing, splitting, cutting, and requests in every form.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use hermes_testkit::script::{Chunking, CutKind, Framing, Quirk, ReplyEvent, ScriptedToolCall};
use hermes_testkit::{ModelScript, ModelServer, RequestOutcome, ScriptedReply, http_post};
use serde_json::{Map, json};

use super::{CHAT, ask, ask_stream, post};

/// Sends raw bytes and returns the whole response, with the way the connection ended.
fn raw(server: &ModelServer, request: &[u8]) -> (Vec<u8>, Option<ErrorKind>) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(request).unwrap();
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
    (bytes, end)
}

fn request(body: &str, headers: &str) -> Vec<u8> {
    format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
        .into_bytes()
}

#[test]
fn connections_are_kept_and_requests_may_be_pipelined() {
    let server = ModelServer::start_blocking(ModelScript::always("ok")).unwrap();
    let body = ask("hi").to_string();
    let mut both = request(&body, "");
    both.extend(request(&body, "connection: close\r\n"));
    let (bytes, end) = raw(&server, &both);
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
    assert_eq!(end, None);
    server.assert_requests(2);
}

#[test]
fn chunked_bodies_and_expect_continue_are_understood() {
    let server = ModelServer::start_blocking(ModelScript::always("ok")).unwrap();
    let body = ask("hi").to_string();
    let (first, second) = body.split_at(10);
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n\
         A;ext=1\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\ntrailer: 1\r\n\r\n",
        second.len()
    );
    let (bytes, _) = raw(&server, chunked.as_bytes());
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), "{text}");
    assert_eq!(server.request(0).json(), &ask("hi"));
}

#[test]
fn bad_requests_are_refused_without_being_recorded() {
    let server = ModelServer::start_blocking(ModelScript::always("ok")).unwrap();
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(70_000));
    let cases: [(&[u8], &str); 6] = [
        (b"nonsense\r\n\r\n", "400"),
        (b"GET / HTTP/2.0\r\n\r\n", "505"),
        (b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n", "400"),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", "413"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "400"),
        (long.as_bytes(), "431"),
    ];
    for (bytes, status) in cases {
        let (answer, _) = raw(&server, bytes);
        let text = String::from_utf8_lossy(&answer);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {text}");
    }
    server.assert_requests(0);
}

#[test]
fn small_writes_change_no_byte() {
    let reply = || ScriptedReply::deltas(["größer ", "als 日本"]);
    let script = ModelScript::new().reply(reply()).reply(reply().write_size(1)).reply(reply().write_size(7));
    let server = ModelServer::start_blocking(script).unwrap();
    let bodies: Vec<String> = (0..3).map(|_| post(&server, CHAT, &ask_stream("hi")).text()).collect();
    let number = |text: &String| {
        text.replace("chatcmpl-000001", "chatcmpl-000000").replace("chatcmpl-000002", "chatcmpl-000000")
    };
    assert_eq!(number(&bodies[1]), bodies[0]);
    assert_eq!(number(&bodies[2]), bodies[0]);
}

#[test]
fn arguments_are_cut_inside_a_character_by_the_transport() {
    // The second of three bytes of 日, which starts at byte 6.
    let arguments = r#"{"c":"日\n"}"#;
    let call = ScriptedToolCall::new("t", json!(arguments)).split(&[3, 7]);
    let server =
        ModelServer::start_blocking(ModelScript::new().reply(ScriptedReply::new().then_tool(call))).unwrap();
    let (bytes, _) = raw(&server, &request(&ask_stream("hi").to_string(), "connection: close\r\n"));
    let start = "日".as_bytes()[..1].to_vec();
    let cut = [start.as_slice(), b"\r\n"].concat();
    assert!(bytes.windows(cut.len()).any(|window| window == cut), "a chunk ends inside the character");
    let whole = String::from_utf8_lossy(&bytes).into_owned();
    assert!(whole.contains(r#"{"arguments":"{\"c"}"#), "{whole}");
}

#[test]
fn chunk_oddities_keep_the_payload() {
    let trailers = Map::from_iter([("x-checksum".to_owned(), json!("abc"))]);
    let odd = Chunking {
        size: Some(5),
        extension: ";a=b".into(),
        pad: 6,
        uppercase: true,
        trailers,
        terminate: true,
    };
    let script = ModelScript::new().reply(ScriptedReply::text("hello").framing(Framing::Chunked(odd)));
    let server = ModelServer::start_blocking(script).unwrap();
    let (bytes, _) = raw(&server, &request(&ask_stream("hi").to_string(), "connection: close\r\n"));
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\r\n000005;a=b\r\n"), "{text}");
    assert!(text.ends_with("000000;a=b\r\nx-checksum: abc\r\n\r\n"), "{text}");
}

#[test]
fn bodies_may_end_by_closing_or_not_at_all() {
    let open = Chunking { terminate: false, ..Chunking::default() };
    let script = ModelScript::new()
        .reply(ScriptedReply::text("a").framing(Framing::Close))
        .reply(ScriptedReply::text("b").framing(Framing::Length))
        .reply(ScriptedReply::text("c").framing(Framing::Chunked(open)));
    let server = ModelServer::start_blocking(script).unwrap();
    let close = post(&server, CHAT, &ask_stream("hi"));
    assert_eq!((close.header("content-length"), close.header("transfer-encoding")), (None, None));
    let length = post(&server, CHAT, &ask_stream("hi"));
    assert_eq!(length.header("content-length").unwrap(), length.body.len().to_string());
    let unterminated = post(&server, CHAT, &ask_stream("hi"));
    assert!(!unterminated.complete);
    assert!(unterminated.text().contains("[DONE]"));
}

#[test]
fn cuts_end_the_connection_as_scripted() {
    let script = ModelScript::new()
        .reply(ScriptedReply::text("so far").cut(CutKind::Fin))
        .reply(ScriptedReply::text("so far").cut(CutKind::Rst))
        .reply(ScriptedReply::text("so far").cut_after(CutKind::Fin, 10))
        .reply(ScriptedReply::text("plain").cut(CutKind::Fin));
    let server = ModelServer::start_blocking(script).unwrap();
    let fin = post(&server, CHAT, &ask_stream("hi"));
    assert!(!fin.complete);
    assert!(fin.text().contains("so far") && !fin.text().contains("[DONE]"));
    let reset = http_post(server.address(), CHAT, &ask_stream("hi")).unwrap_err();
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    let counted = post(&server, CHAT, &ask_stream("hi"));
    assert_eq!((counted.body.len(), counted.complete), (10, false));
    let plain = post(&server, CHAT, &ask("hi"));
    assert!(!plain.complete && !plain.body.is_empty());
    for request in 0..4 {
        assert_eq!(server.wait_for_end_blocking(request), RequestOutcome::Cut);
    }
}

#[test]
fn line_habits_follow_the_quirks() {
    type Holds = fn(&str) -> bool;
    let cases: [(Quirk, Holds); 5] = [
        (Quirk::Crlf, |text| text.contains("}\r\n\r\n") && !text.replace("\r\n", "").contains('\n')),
        (Quirk::NoSpace, |text| text.starts_with("data:{") && text.contains("data:[DONE]")),
        (Quirk::NoFinalBlank, |text| text.ends_with("data: [DONE]\n")),
        (Quirk::NoDone, |text| {
            text.ends_with("\n\n") && !text.contains("[DONE]") && text.contains("\"stop\"")
        }),
        (Quirk::NoRole, |text| !text.contains("\"role\"")),
    ];
    for (quirk, holds) in cases {
        let server =
            ModelServer::start_blocking(ModelScript::new().reply(ScriptedReply::text("x").quirk(quirk)))
                .unwrap();
        let text = post(&server, CHAT, &ask_stream("hi")).text();
        assert!(holds(&text), "{quirk:?}: {text}");
    }
}

#[test]
fn raw_and_malformed_events_stand_as_written() {
    let reply = ScriptedReply::new()
        .event(ReplyEvent::Comment("OPENROUTER PROCESSING".into()))
        .then_text("x")
        .event(ReplyEvent::Malformed)
        .event(ReplyEvent::Bytes(vec![0xff, 0xfe]))
        .event(ReplyEvent::Raw("data: {\"a\"\ndata: :1}\n\n".into()));
    let server = ModelServer::start_blocking(ModelScript::new().reply(reply)).unwrap();
    let reply = post(&server, CHAT, &ask_stream("hi"));
    assert!(reply.text().starts_with(": OPENROUTER PROCESSING\n\n"));
    assert!(reply.text().contains("\"content\":\"half\n\n"), "{}", reply.text());
    assert!(reply.body.windows(2).any(|window| window == [0xff, 0xfe]));
    assert!(reply.text().contains("data: {\"a\"\ndata: :1}\n\n"));
    // Raw bytes alone are a complete response: no opening, no closing.
    let bare = ScriptedReply::new().event(ReplyEvent::Raw("garbage".into())).content_type("text/html");
    let server = ModelServer::start_blocking(ModelScript::new().reply(bare)).unwrap();
    let reply = post(&server, CHAT, &ask_stream("hi"));
    assert_eq!((reply.text().as_str(), reply.header("content-type")), ("garbage", Some("text/html")));
}

#[test]
fn http_answers_go_out_word_for_word() {
    let reply = ScriptedReply::http(503, "<h1>down</h1>")
        .header("Content-Type", "text/html")
        .header("retry-after", "3");
    let server = ModelServer::start_blocking(ModelScript::new().reply(reply)).unwrap();
    let reply = post(&server, CHAT, &ask_stream("hi"));
    assert_eq!((reply.status, reply.text().as_str()), (503, "<h1>down</h1>"));
    assert_eq!((reply.header("content-type"), reply.header("retry-after")), (Some("text/html"), Some("3")));
}

#[test]
fn plain_requests_hear_only_what_is_below_the_wire() {
    let script = ModelScript::new()
        .reply(ScriptedReply::text("x").event(ReplyEvent::Malformed))
        .reply(ScriptedReply::text("x").stream_error("died"))
        .reply(ScriptedReply::new().event(ReplyEvent::Headers).wait("go").then_text("later"));
    let server = ModelServer::start_blocking(script).unwrap();
    let malformed = post(&server, CHAT, &ask("hi"));
    assert_eq!(malformed.status, 200);
    assert!(serde_json::from_slice::<serde_json::Value>(&malformed.body).is_err());
    let error = post(&server, CHAT, &ask("hi"));
    assert_eq!((error.status, &error.json()["error"]["message"]), (500, &json!("died")));
    server.release("go");
    let late = post(&server, CHAT, &ask("hi"));
    assert_eq!(late.json()["choices"][0]["message"]["content"], "later");
}
