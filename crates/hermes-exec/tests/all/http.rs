//! A minimal HTTP server for fake services.

use std::sync::Arc;

use hermes_task::{Task, spawn_named};
use hermes_types::{BoxFuture, Cancel};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A received request.
pub(crate) struct RecordedHttpRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
    head: String,
}

impl RecordedHttpRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            line.split_once(": ")
                .filter(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        })
    }
}

type Answer = Arc<dyn Fn(RecordedHttpRequest) -> BoxFuture<'static, (u16, Value)> + Send + Sync>;

/// Serves requests until the task is dropped; returns the address.
pub(crate) async fn serve(answer: Answer) -> (String, Task<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let task = spawn_named("stand-in", &Cancel::new(), async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = Arc::clone(&answer);
            drop(spawn_named("request", &Cancel::new(), async move { reply(stream, &answer).await }));
        }
    });
    (address, task)
}

async fn reply(mut stream: TcpStream, answer: &Answer) {
    let mut bytes = Vec::new();
    let (head, body_at) = loop {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break (String::from_utf8(bytes[..at].to_vec()).unwrap(), at + 4);
        }
    };
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let mut asked = RecordedHttpRequest { method, path, body: Value::Null, head };
    let length: usize = asked.header("content-length").map_or(0, |text| text.parse().unwrap());
    while bytes.len() < body_at + length {
        stream.read_buf(&mut bytes).await.unwrap();
    }
    asked.body = serde_json::from_slice(&bytes[body_at..]).unwrap_or(Value::Null);
    let (status, value) = answer(asked).await;
    let value = value.to_string();
    let text =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{value}", value.len());
    let _ = stream.write_all(text.as_bytes()).await;
}
