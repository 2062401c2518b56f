//! A server that sends exactly the bytes a test wants, and counts connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hermes_task::TaskGroup;
use hermes_types::Cancel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The action of the server after a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterResponse {
    Keep,
    Close,
}

type Answer = (Vec<u8>, AfterResponse);

pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: TaskGroup,
}

impl RawServer {
    /// Starts a server; `answer` gets the whole request as text.
    pub(crate) async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let tasks = TaskGroup::new(&Cancel::new());
        let answer = Arc::new(answer);
        let (count, record, cancel) = (connections.clone(), requests.clone(), tasks.cancel_token().clone());
        tasks.spawn("raw server", async move {
            let inner = TaskGroup::new(&cancel);
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                inner.spawn("raw connection", serve(stream, answer.clone(), record.clone()));
            }
        });
        Self { address, connections, requests, _tasks: tasks }
    }

    /// Starts a server that sends the same answer to every request, on connections that stay open.
    pub(crate) async fn answering(answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::start(move |_| (answer.clone().into_bytes(), AfterResponse::Keep)).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn named(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub(crate) fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

async fn serve(
    mut stream: TcpStream,
    answer: Arc<impl Fn(&str) -> Answer + Send + Sync + 'static>,
    record: Arc<Mutex<Vec<String>>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        record.lock().unwrap().push(request.clone());
        let (bytes, then) = answer(&request);
        if stream.write_all(&bytes).await.is_err() || then == AfterResponse::Close {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, length)| length.parse().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(piece.get(..count)?);
    }
}
