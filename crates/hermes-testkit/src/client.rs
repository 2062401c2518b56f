//! A minimal blocking HTTP client, for tests of servers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

/// A response with its body decoded.
#[derive(Debug, Clone)]
pub struct HttpReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// True when the body ended as its framing says, rather than by the end of the connection.
    pub complete: bool,
}

impl HttpReply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON; panics with its text when it is not.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("not JSON ({error}), status {}:\n{}", self.status, self.text()),
        }
    }
}

pub fn http_get(address: SocketAddr, path: &str) -> io::Result<HttpReply> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"), b"")
}

pub fn http_post(address: SocketAddr, path: &str, body: &Value) -> io::Result<HttpReply> {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    exchange(address, &head, body.as_bytes())
}

fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> io::Result<HttpReply> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer"))
}

fn parse(bytes: &[u8]) -> Option<HttpReply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let split =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let headers: Vec<_> = lines.filter_map(split).collect();
    let rest = bytes.get(end + 4..)?;
    let mut reply = HttpReply { status, headers, body: Vec::new(), complete: true };
    if reply.header("transfer-encoding") == Some("chunked") {
        (reply.body, reply.complete) = unchunk(rest);
    } else {
        reply.body = rest.to_vec();
        let promised = reply.header("content-length").and_then(|length| length.parse().ok());
        reply.complete = promised.is_none_or(|length: usize| length == rest.len());
    }
    Some(reply)
}

/// Returns the payload, and whether the last chunk was present.
fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else {
            return (body, false);
        };
        let (line, tail) = rest.split_at(end);
        let digits: String =
            line.iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_hexdigit).collect();
        let Ok(length) = usize::from_str_radix(&digits, 16) else {
            return (body, false);
        };
        if length == 0 {
            return (body, true);
        }
        let tail = tail.get(2..).unwrap_or_default();
        body.extend(tail.iter().take(length));
        let Some(next) = tail.get(length + 2..) else {
            return (body, false);
        };
        rest = next;
    }
}
