//! A server whose answers a test computes from the requests, and emulated inference servers on top of it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::Error;
use crate::http::HttpConnection;
use crate::server_thread::ServerThread;
use crate::task::start_in;

/// A request to a [`JsonServer`].
#[derive(Debug, Clone)]
pub struct JsonRequest {
    pub method: String,
    pub path: String,
    /// `null` where the body is no JSON.
    pub body: Value,
}

type Responder = dyn Fn(&JsonRequest) -> (u16, Value) + Send + Sync;

struct JsonServerState {
    responder: Box<Responder>,
    requests: Mutex<Vec<JsonRequest>>,
}

/// A server on this machine, until it is dropped.
pub struct JsonServer {
    address: SocketAddr,
    state: Arc<JsonServerState>,
    _thread: ServerThread,
}

impl std::fmt::Debug for JsonServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonServer").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The way an inference server takes and returns tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerateDialect {
    Vllm,
    Sglang,
}

impl JsonServer {
    /// Starts a server that answers with what the function returns: a status and a body.
    pub fn start(
        responder: impl Fn(&JsonRequest) -> (u16, Value) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let state = Arc::new(JsonServerState { responder: Box::new(responder), requests: Mutex::default() });
        let shared = state.clone();
        let (address, thread) = ServerThread::start("json", 0, |listener| serve(listener, shared))?;
        Ok(Self { address, state, _thread: thread })
    }

    /// Starts an inference server whose tokens are bytes. Each answer is the next of these texts, and then the token
    /// `end`; every token has the same log probability.
    pub fn generate(dialect: GenerateDialect, texts: &[&str], end: u32) -> Result<Self, Error> {
        let waiting: Mutex<Vec<String>> =
            Mutex::new(texts.iter().rev().map(|text| (*text).to_owned()).collect());
        Self::start(move |request| {
            if request.path == "/health" {
                return (200, json!({}));
            }
            let text = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(text) = text.filter(|_| request.path == "/generate") else {
                return (400, json!({"error": "nothing is left to say"}));
            };
            let tokens: Vec<u32> = text.bytes().map(u32::from).chain([end]).collect();
            (
                200,
                match dialect {
                    GenerateDialect::Vllm => {
                        let each: Vec<Value> =
                            tokens.iter().map(|token| json!([{token.to_string(): -0.25}])).collect();
                        json!({"text": [text], "token_ids": [tokens], "logprobs": [each], "finish_reasons": ["stop"]})
                    }
                    GenerateDialect::Sglang => {
                        let each: Vec<Value> =
                            tokens.iter().map(|token| json!([-0.25, token, null])).collect();
                        json!({"text": text, "meta_info": {"output_token_logprobs": each, "finish_reason": {"type": "stop"}}})
                    }
                },
            )
        })
    }

    /// Returns the address of the server, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, in order.
    pub fn requests(&self) -> Vec<JsonRequest> {
        self.state.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, state: Arc<JsonServerState>) {
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut work, serve_connection(stream, state.clone()));
            },
            Some(_) = work.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, state: Arc<JsonServerState>) {
    let mut connection = HttpConnection::new(stream);
    while let Ok(message) = connection.read().await {
        let request = JsonRequest {
            method: message.method.clone(),
            path: message.target.split('?').next().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&message.body).unwrap_or(Value::Null),
        };
        let (status, body) = (state.responder)(&request);
        state.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if connection.write(&[head.into_bytes(), body.into_bytes()].concat()).await.is_err()
            || message.wants_close()
        {
            return;
        }
    }
}
