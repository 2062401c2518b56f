//! `application/vnd.amazon.eventstream`: parses binary frames from chunks of any size.
//!
//! A frame consists of its length, the length of its headers, a checksum of the two, the headers, the payload, and
//! a checksum of the whole. A frame with a wrong checksum ends the stream; none of its content is used.

use hermes_types::{JsonFields, RawJson};

use super::base64;
use crate::error::{Error, ProviderFault};
use crate::wire::fields::JsonFieldsExt as _;

const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;

#[derive(Debug)]
pub(super) struct AwsEventStream {
    limit: usize,
    buffer: Vec<u8>,
    /// The number of bytes of `held` that have been read.
    consumed: usize,
}

/// One event or exception.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AwsEventFrame {
    message_type: String,
    pub(super) event_type: String,
    exception_type: String,
    error_code: String,
    error_message: String,
    payload: Vec<u8>,
}

impl AwsEventStream {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), consumed: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn next_frame(&mut self) -> Result<Option<AwsEventFrame>, Error> {
        let rest = self.buffer.get(self.consumed..).unwrap_or_default();
        let Some(prelude) = rest.get(..PRELUDE) else {
            return Ok(None);
        };
        let total = number(prelude, 0)? as usize;
        let headers = number(prelude, 4)? as usize;
        if crc32(prelude.get(..8).unwrap_or_default()) != number(prelude, 8)? {
            return Err(Error::unreadable("the checksum of a frame's start is wrong"));
        }
        if total > self.limit {
            return Err(Error::unreadable(format!("a frame of more than {} bytes", self.limit)));
        }
        let payload_end = total.checked_sub(CHECKSUM);
        let payload_start = PRELUDE + headers;
        let Some(payload_end) = payload_end.filter(|end| payload_start <= *end) else {
            return Err(Error::unreadable("the lengths of a frame contradict each other"));
        };
        let Some(frame) = rest.get(..total) else {
            return Ok(None);
        };
        if crc32(frame.get(..payload_end).unwrap_or_default()) != number(frame, payload_end)? {
            return Err(Error::unreadable("the checksum of a frame is wrong"));
        }
        let mut result = AwsEventFrame {
            payload: frame.get(payload_start..payload_end).unwrap_or_default().to_vec(),
            ..AwsEventFrame::default()
        };
        result.read_headers(frame.get(PRELUDE..payload_start).unwrap_or_default())?;
        self.consumed += total;
        Ok(Some(result))
    }
}

impl AwsEventFrame {
    /// Returns an error if the frame is an exception of the service.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.message_type != "exception" && self.message_type != "error" {
            return Ok(());
        }
        let kind = if self.exception_type.is_empty() { &self.error_code } else { &self.exception_type };
        let text = String::from_utf8_lossy(&self.payload).into_owned();
        let mut fault = match RawJson::parse(text) {
            Ok(raw) => ProviderFault::read(&raw),
            Err(_) => ProviderFault::new(self.error_message.clone()),
        };
        if fault.message.is_empty() {
            fault.message.clone_from(kind);
        }
        fault.status = match kind.to_ascii_lowercase().trim_end_matches("exception") {
            "throttling" | "servicequotaexceeded" | "toomanyrequests" => Some(429),
            "validation" => Some(400),
            "accessdenied" => Some(403),
            "resourcenotfound" => Some(404),
            "modelnotready" | "serviceunavailable" => Some(503),
            "internalserver" | "modelstreamerror" | "modeltimeout" | "modelerror" => Some(500),
            _ => fault.status,
        };
        fault.kind = Some(kind.clone());
        Err(Error::Classify(fault))
    }

    pub(super) fn fields(&self) -> Result<JsonFields, Error> {
        if self.payload.is_empty() {
            return Ok(JsonFields::default());
        }
        serde_json::from_slice(&self.payload).map_err(|error| Error::unreadable(error.to_string()))
    }

    /// Returns the event of another wire that a `chunk` carries.
    pub(super) fn wrapped_json(&self) -> Result<Option<String>, Error> {
        let Some(bytes) = self.fields()?.text("bytes") else {
            return Ok(None);
        };
        let decoded =
            base64::decode(&bytes).ok_or_else(|| Error::unreadable("a chunk that is not base64"))?;
        String::from_utf8(decoded).map(Some).map_err(|_| Error::unreadable("a chunk that is not UTF-8"))
    }

    fn read_headers(&mut self, mut rest: &[u8]) -> Result<(), Error> {
        while !rest.is_empty() {
            let (name, value, after) =
                header(rest).ok_or_else(|| Error::unreadable("a frame's headers break off"))?;
            rest = after;
            let slot = match name {
                b":message-type" => &mut self.message_type,
                b":event-type" => &mut self.event_type,
                b":exception-type" => &mut self.exception_type,
                b":error-code" => &mut self.error_code,
                b":error-message" => &mut self.error_message,
                _ => continue,
            };
            *slot = String::from_utf8_lossy(value).into_owned();
        }
        Ok(())
    }
}

/// Returns name and value of the first header, and what follows it.
fn header(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = match kind {
        0 | 1 => (0, rest),
        2 => (1, rest),
        3 => (2, rest),
        4 => (4, rest),
        5 | 8 => (8, rest),
        6 | 7 => {
            let (length, rest) = rest.split_at_checked(2)?;
            (usize::from(u16::from_be_bytes(length.try_into().ok()?)), rest)
        }
        9 => (16, rest),
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((name, value, rest))
}

fn number(bytes: &[u8], at: usize) -> Result<u32, Error> {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map(u32::from_be_bytes).ok_or_else(|| Error::unreadable("a frame that breaks off"))
}

/// Computes the checksum of IEEE 802.3, as in gzip.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let step = |crc: u32, byte: &u8| {
        let slot = usize::from((crc.to_le_bytes()[0]) ^ byte);
        TABLE.get(slot).copied().unwrap_or_default() ^ (crc >> 8)
    };
    !bytes.iter().fold(u32::MAX, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    let mut seed = 0_u32;
    while at < 256 {
        let mut value = seed;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
        seed += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn contradictions_are_errors() {
        let mut prelude = Vec::new();
        prelude.extend(16_u32.to_be_bytes());
        prelude.extend(9_u32.to_be_bytes());
        prelude.extend(crc32(&prelude).to_be_bytes());
        let mut stream = AwsEventStream::new(1000);
        stream.push(&prelude);
        assert!(stream.next_frame().is_err());
        let mut stream = AwsEventStream::new(1000);
        stream.push(&[0; 12]);
        assert!(stream.next_frame().is_err());
        let mut stream = AwsEventStream::new(1000);
        stream.push(&[0; 11]);
        assert_eq!(stream.next_frame(), Ok(None));
    }
}
