//! Connections of an emulated platform, and the requests it sends itself.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{EmulatedPlatform, EmulatedReply, PlatformCall, PlatformFault, PlatformServerState, SentWebhook};
use crate::http::{HttpConnection, ReceivedRequest, RequestReadError};
use crate::task::start_in;

/// The delay before the next webhook after one that failed; the real ones are longer.
const AFTER_FAILURE: std::time::Duration = std::time::Duration::from_millis(20);

pub(super) async fn serve<P: EmulatedPlatform>(listener: TcpListener, shared: Arc<PlatformServerState<P>>) {
    let mut work = JoinSet::new();
    start_in(&mut work, send_webhooks(shared.clone()));
    loop {
        tokio::select! {
            // A failed accept concerns one client that has already disconnected.
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut work, serve_connection(stream, shared.clone()));
            },
            Some(_) = work.join_next() => {}
        }
    }
}

async fn serve_connection<P: EmulatedPlatform>(stream: TcpStream, shared: Arc<PlatformServerState<P>>) {
    let mut connection = HttpConnection::new(stream);
    loop {
        let request = match connection.read().await {
            Ok(request) => request,
            Err(RequestReadError::Closed) => return,
            Err(RequestReadError::Refused(status, why)) => {
                let refused = EmulatedReply::bytes(status, "text/plain", why.as_bytes());
                connection.write(&encode(&refused)).await.ok();
                return;
            }
        };
        let fault = take_fault(&shared, &request);
        if fault.is_none() && shared.world.read(|world| world.is_stream(&request)) {
            note(&shared, &request, 101);
            return P::stream(shared, connection, request).await;
        }
        let reply = match fault {
            Some(PlatformFault::Cut) => {
                note(&shared, &request, 0);
                return;
            }
            Some(PlatformFault::DoAndCut) => {
                shared.world.update(|world| world.respond(&request));
                note(&shared, &request, 0);
                return;
            }
            Some(PlatformFault::Refuse(status, body)) => EmulatedReply::json(status, &body),
            Some(PlatformFault::Garbage) => EmulatedReply::bytes(200, "text/html", b"<html>"),
            Some(PlatformFault::Limit(seconds)) => {
                let mut reply =
                    EmulatedReply::json(429, &serde_json::json!({"message": "too many requests"}));
                reply.headers.push(("retry-after", seconds.to_string()));
                reply
            }
            None => shared.world.update(|world| world.respond(&request)),
        };
        note(&shared, &request, reply.status);
        if connection.write(&encode(&reply)).await.is_err() || request.wants_close() {
            return;
        }
    }
}

fn take_fault<P>(shared: &PlatformServerState<P>, request: &ReceivedRequest) -> Option<PlatformFault> {
    shared.record.update(|record| {
        let hit = |(method, part, _): &(String, String, PlatformFault)| {
            *method == request.method && request.target.contains(part.as_str())
        };
        let at = record.faults.iter().position(hit)?;
        record.faults.remove(at).map(|(_, _, fault)| fault)
    })
}

fn note<P>(shared: &PlatformServerState<P>, request: &ReceivedRequest, status: u16) {
    let ReceivedRequest { method, target, headers, body } = request.clone();
    shared.record.update(|record| record.calls.push(PlatformCall { method, target, headers, body, status }));
}

pub(crate) fn encode(reply: &EmulatedReply) -> Vec<u8> {
    let EmulatedReply { status, mime, headers, body } = reply;
    let mut head =
        format!("HTTP/1.1 {status} -\r\ncontent-type: {mime}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        // Writing to a `String` cannot fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

async fn send_webhooks<P: EmulatedPlatform>(shared: Arc<PlatformServerState<P>>) {
    loop {
        let hook = shared.world.until(P::next_webhook).await;
        let (status, body) = send(&hook).await.unwrap_or_default();
        shared.world.update(|world| world.webhook_answered(hook.id, status, &body));
        if !(200..300).contains(&status) {
            tokio::time::sleep(AFTER_FAILURE).await;
        }
    }
}

/// Returns the status and the body of the response, if there is one.
async fn send(hook: &SentWebhook) -> Option<(u16, String)> {
    let rest = hook.url.strip_prefix("http://")?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(address).await.ok()?;
    let mut head = format!(
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: {}\r\ncontent-length: {}\r\n",
        hook.mime,
        hook.body.len()
    );
    for (name, value) in &hook.headers {
        // Writing to a `String` cannot fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(&[head.as_bytes(), &hook.body].concat()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1)?.parse().ok()?;
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Some((status, body))
}
