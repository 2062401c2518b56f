//! The head of a request and the lines of a chunked body. Pure.

use super::{ReceivedRequest, RequestReadError};

/// Parses a head without its final blank line.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<ReceivedRequest, RequestReadError> {
    let bad = |why| RequestReadError::Refused(400, why);
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the head is not UTF-8"))?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (first.next(), first.next(), first.next(), first.next())
    else {
        return Err(bad("the request line needs a method, a target and a version"));
    };
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err(bad("the method is not a word"));
    }
    if version != "HTTP/1.1" && version != "HTTP/1.0" {
        return Err(RequestReadError::Refused(505, "only HTTP/1.0 and HTTP/1.1 are spoken here"));
    }
    // Both forms occur: a client that uses a proxy sends the whole URL.
    let target = match target.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => target,
    };
    let mut headers = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| bad("a header line has no colon"))?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(bad("a header has a blank in its name"));
        }
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(ReceivedRequest { method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() })
}

/// Says how a body is delimited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Known(usize),
    Chunked,
}

pub(crate) fn body_length(head: &ReceivedRequest, limit: usize) -> Result<BodyLength, RequestReadError> {
    let encoding = head.header("transfer-encoding");
    let length = head.header("content-length");
    match (encoding, length) {
        (Some(_), Some(_)) => Err(RequestReadError::Refused(400, "both a length and a transfer encoding")),
        (Some(encoding), None) if encoding.eq_ignore_ascii_case("chunked") => Ok(BodyLength::Chunked),
        (Some(_), None) => {
            Err(RequestReadError::Refused(501, "only chunked transfer encoding is spoken here"))
        }
        (None, Some(length)) => match length.parse::<usize>() {
            Ok(length) if length <= limit => Ok(BodyLength::Known(length)),
            Ok(_) => Err(RequestReadError::Refused(413, "the body is too large")),
            Err(_) => Err(RequestReadError::Refused(400, "content-length is not a number")),
        },
        (None, None) => Ok(BodyLength::Known(0)),
    }
}

/// Returns the length of a chunk from its line, ignoring extensions.
pub(crate) fn chunk_length(line: &[u8]) -> Result<usize, RequestReadError> {
    let bad = RequestReadError::Refused(400, "a chunk length is not a number");
    let Ok(line) = std::str::from_utf8(line) else {
        return Err(bad);
    };
    let digits = line.split(';').next().unwrap_or_default().trim();
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad);
    }
    usize::from_str_radix(digits, 16).map_err(|_| bad)
}
