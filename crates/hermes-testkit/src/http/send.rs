//! Sends a response plan on a connection.
//!
//! Bytes are collected and written together until the plan has to wait, so an instant reply is one write; with a
//! write size, each write has that many bytes.

use std::time::Duration;

use hermes_types::BoxFuture;
use serde_json::{Map, Value};

use super::HttpConnection;
use crate::request_log::RequestOutcome;
use crate::script::{Chunking, CutKind, Framing};
use crate::wire::{ResponsePiece, ResponsePlan};

/// Says how the delays of a plan pass.
pub(crate) trait DelayStrategy: Send + Sync {
    fn delay(&self, span: Duration) -> BoxFuture<'_, ()>;
    fn wait<'a>(&'a self, gate: &'a str) -> BoxFuture<'a, ()>;
}

/// The state of the connection after a plan was sent.
pub(crate) enum SendResult {
    /// The connection can serve another request.
    Whole(HttpConnection),
    Ended(RequestOutcome),
}

pub(crate) async fn send(
    connection: HttpConnection,
    plan: ResponsePlan,
    close: bool,
    pause: &dyn DelayStrategy,
) -> SendResult {
    let mut sender = PlanSender::new(connection, &plan, close);
    sender.head(&plan, close);
    match sender.body(plan, pause).await {
        Ok(()) if sender.closes => {
            sender.connection.cut(CutKind::Fin).await;
            SendResult::Ended(RequestOutcome::Complete)
        }
        Ok(()) => SendResult::Whole(sender.connection),
        Err(SendStop::Gone) => SendResult::Ended(RequestOutcome::Disconnected),
        Err(SendStop::Cut(how)) => {
            sender.connection.cut(how).await;
            SendResult::Ended(RequestOutcome::Cut)
        }
    }
}

enum SendStop {
    Gone,
    Cut(CutKind),
}

struct PlanSender {
    connection: HttpConnection,
    buffer: Vec<u8>,
    write_size: Option<usize>,
    chunking: Option<Chunking>,
    /// The number of body bytes before the scripted cut.
    allowance: Option<(usize, CutKind)>,
    closes: bool,
    /// True once any of the body has been queued.
    spoke: bool,
}

impl PlanSender {
    fn new(connection: HttpConnection, plan: &ResponsePlan, close: bool) -> Self {
        let chunking = match &plan.framing {
            Framing::Chunked(chunking) => Some(chunking.clone()),
            _ => None,
        };
        let unterminated = chunking.as_ref().is_some_and(|chunking| !chunking.terminate);
        Self {
            connection,
            buffer: Vec::new(),
            write_size: plan.write_size.filter(|size| *size > 0),
            chunking,
            allowance: plan.cut_after,
            closes: close || unterminated || matches!(plan.framing, Framing::Close),
            spoke: false,
        }
    }

    fn head(&mut self, plan: &ResponsePlan, close: bool) {
        let mut head = format!("HTTP/1.1 {} {}\r\n", plan.status, reason(plan.status));
        for (name, value) in &plan.headers {
            push_header(&mut head, name, value);
        }
        let scripted = |name: &str| plan.headers.iter().any(|(known, _)| known == name);
        match &plan.framing {
            Framing::Chunked(_) if !scripted("transfer-encoding") => {
                push_header(&mut head, "transfer-encoding", "chunked");
            }
            Framing::Length | Framing::Auto if !scripted("content-length") => {
                let length: usize = plan.pieces.iter().map(body_bytes).sum();
                // A cut in the middle of a body must leave the client waiting for the rest.
                let missing =
                    usize::from(plan.pieces.iter().any(|piece| matches!(piece, ResponsePiece::Cut(_))))
                        * length.max(1);
                push_header(&mut head, "content-length", &(length + missing).to_string());
            }
            _ => {}
        }
        if (close || self.closes) && !scripted("connection") {
            push_header(&mut head, "connection", "close");
        }
        head.push_str("\r\n");
        self.buffer.extend(head.into_bytes());
    }

    async fn body(&mut self, plan: ResponsePlan, pause: &dyn DelayStrategy) -> Result<(), SendStop> {
        for piece in plan.pieces {
            match piece {
                ResponsePiece::Bytes(bytes) => self.payload(&bytes).await?,
                ResponsePiece::Flush => self.flush().await?,
                ResponsePiece::Delay(span) => self.rest(pause.delay(span)).await?,
                ResponsePiece::Wait(gate) => self.rest(pause.wait(&gate)).await?,
                ResponsePiece::Cut(how) => {
                    self.flush().await?;
                    return Err(SendStop::Cut(how));
                }
            }
        }
        if let Some(chunking) = self.chunking.clone().filter(|chunking| chunking.terminate) {
            let mut last = format!("{}\r\n", chunk_head(&chunking, 0));
            push_headers(&mut last, &chunking.trailers);
            last.push_str("\r\n");
            self.buffer.extend(last.into_bytes());
        }
        self.flush().await
    }

    /// Queues body bytes in the framing of the reply, up to the scripted cut.
    async fn payload(&mut self, bytes: &[u8]) -> Result<(), SendStop> {
        self.spoke = true;
        let Some((allowed, how)) = self.allowance else {
            self.frame(bytes);
            return Ok(());
        };
        if bytes.len() < allowed {
            self.frame(bytes);
            self.allowance = Some((allowed - bytes.len(), how));
            return Ok(());
        }
        self.frame(bytes.get(..allowed).unwrap_or(bytes));
        self.flush().await?;
        Err(SendStop::Cut(how))
    }

    fn frame(&mut self, bytes: &[u8]) {
        let Some(chunking) = &self.chunking else {
            self.buffer.extend_from_slice(bytes);
            return;
        };
        // An empty chunk would end the body.
        let size = chunking.size.unwrap_or(bytes.len()).max(1);
        for chunk in bytes.chunks(size) {
            self.buffer.extend(chunk_head(chunking, chunk.len()).into_bytes());
            self.buffer.extend_from_slice(b"\r\n");
            self.buffer.extend_from_slice(chunk);
            self.buffer.extend_from_slice(b"\r\n");
        }
    }

    /// Waits, unless the client disconnects first. Sends the queued bytes before; only a head without body is held
    /// back.
    async fn rest(&mut self, wait: BoxFuture<'_, ()>) -> Result<(), SendStop> {
        if self.spoke {
            self.flush().await?;
        }
        tokio::select! {
            biased;
            () = wait => Ok(()),
            () = self.connection.until_gone() => Err(SendStop::Gone),
        }
    }

    async fn flush(&mut self) -> Result<(), SendStop> {
        let buffer = std::mem::take(&mut self.buffer);
        let Some(size) = self.write_size else {
            return self.connection.write(&buffer).await.map_err(|_| SendStop::Gone);
        };
        for part in buffer.chunks(size) {
            self.connection.write(part).await.map_err(|_| SendStop::Gone)?;
            // Lets a client on the same thread read before the next bytes are written.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

fn body_bytes(piece: &ResponsePiece) -> usize {
    if let ResponsePiece::Bytes(bytes) = piece { bytes.len() } else { 0 }
}

fn chunk_head(chunking: &Chunking, length: usize) -> String {
    let width = chunking.pad;
    let digits = if chunking.uppercase { format!("{length:0width$X}") } else { format!("{length:0width$x}") };
    digits + &chunking.extension
}

fn push_headers(into: &mut String, headers: &Map<String, Value>) {
    for (name, value) in headers {
        push_header(into, name, value.as_str().unwrap_or(&value.to_string()));
    }
}

fn push_header(into: &mut String, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        into.push_str(part);
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        529 => "Overloaded",
        _ => "Scripted",
    }
}
