//! A client's connection: reads requests, writes bytes.
//!
//! Bytes that arrive while a response is being sent are kept for the next request; the end of the stream shows that
//! the client disconnected.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::parse::{BodyLength, body_length, chunk_length, parse_head};
use super::{ReceivedRequest, RequestReadError};
use crate::script::CutKind;

const HEAD_LIMIT: usize = 64 * 1024;
const BODY_LIMIT: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: TcpStream,
    /// The received bytes; those before `used` are consumed.
    buffer: Vec<u8>,
    used: usize,
}

impl HttpConnection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Without this a small write waits for the acknowledgement of the one before it. A failure costs only
        // speed.
        stream.set_nodelay(true).ok();
        Self { stream, buffer: Vec::with_capacity(16 * 1024), used: 0 }
    }

    /// Returns the stream and its unread bytes, for another protocol to continue with.
    pub(crate) fn into_parts(mut self) -> (TcpStream, Vec<u8>) {
        self.forget_used();
        (self.stream, self.buffer)
    }

    /// Reads the next request with its whole body.
    pub(crate) async fn read(&mut self) -> Result<ReceivedRequest, RequestReadError> {
        self.forget_used();
        let head = self.read_until(b"\r\n\r\n", HEAD_LIMIT, 431).await?;
        let mut message = parse_head(&head)?;
        let length = body_length(&message, BODY_LIMIT)?;
        if message.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|_| RequestReadError::Closed)?;
        }
        message.body = match length {
            BodyLength::Known(length) => self.take(length).await?,
            BodyLength::Chunked => self.read_chunks().await?,
        };
        Ok(message)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Completes when the client disconnects. The future may be dropped and the method called again.
    pub(crate) async fn until_gone(&mut self) {
        loop {
            if self.buffer.len() - self.used > HEAD_LIMIT {
                // A client that sends this much ahead is reading too; its end is noticed on the next write.
                std::future::pending::<()>().await;
            }
            if self.fill().await.is_err() {
                return;
            }
        }
    }

    /// Ends the connection the way the script says.
    pub(crate) async fn cut(mut self, how: CutKind) {
        // Both fail only when the client has already disconnected.
        match how {
            CutKind::Fin => self.stream.shutdown().await.ok(),
            CutKind::Rst => self.stream.set_zero_linger().ok(),
        };
    }

    async fn read_chunks(&mut self) -> Result<Vec<u8>, RequestReadError> {
        let mut body = Vec::new();
        loop {
            let line = self.read_until(b"\r\n", 1024, 400).await?;
            let length = chunk_length(&line)?;
            if body.len() + length > BODY_LIMIT {
                return Err(RequestReadError::Refused(413, "the body is too large"));
            }
            if length == 0 {
                break;
            }
            body.extend(self.take(length).await?);
            if self.take(2).await? != b"\r\n" {
                return Err(RequestReadError::Refused(400, "a chunk is longer than it says"));
            }
        }
        while !self.read_until(b"\r\n", HEAD_LIMIT, 431).await?.is_empty() {}
        Ok(body)
    }

    /// Reads everything up to `end`, which is consumed too.
    async fn read_until(
        &mut self,
        end: &[u8],
        limit: usize,
        status: u16,
    ) -> Result<Vec<u8>, RequestReadError> {
        let mut searched = self.used;
        loop {
            let unsearched = self.buffer.get(searched..).unwrap_or_default();
            let found = unsearched.windows(end.len()).position(|window| window == end);
            let length = found.map_or(self.buffer.len(), |at| searched + at) - self.used;
            if length > limit {
                return Err(RequestReadError::Refused(status, "a line or head is too long"));
            }
            if let Some(at) = found {
                let from = self.used;
                self.used = searched + at + end.len();
                return Ok(self.buffer.get(from..searched + at).unwrap_or_default().to_vec());
            }
            // The end mark may span two reads.
            searched = self.used.max(self.buffer.len().saturating_sub(end.len() - 1));
            self.fill().await?;
        }
    }

    async fn take(&mut self, length: usize) -> Result<Vec<u8>, RequestReadError> {
        while self.buffer.len() - self.used < length {
            self.fill().await?;
        }
        let from = self.used;
        self.used += length;
        Ok(self.buffer.get(from..self.used).unwrap_or_default().to_vec())
    }

    async fn fill(&mut self) -> Result<(), RequestReadError> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(RequestReadError::Closed),
            Ok(_) => Ok(()),
        }
    }

    fn forget_used(&mut self) {
        self.buffer.drain(..self.used);
        self.used = 0;
    }
}
