//! Frames of AWS's event stream, with checksums that fit: without them the fuzzer would never get past the first check.

/// One frame from raw header bytes and a payload.
pub(crate) fn frame(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = 12 + headers.len() + payload.len() + 4;
    let mut bytes = Vec::with_capacity(total);
    bytes.extend((total as u32).to_be_bytes());
    bytes.extend((headers.len() as u32).to_be_bytes());
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes.extend(headers);
    bytes.extend(payload);
    bytes.extend(crc32(&bytes).to_be_bytes());
    bytes
}

/// One event with text headers.
pub(crate) fn event(kind: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut headers = Vec::new();
    let message: &[u8] = if kind.ends_with(b"xception") { b"exception" } else { b"event" };
    let named: &[u8] = if message == b"exception" { b":exception-type" } else { b":event-type" };
    for (name, value) in [(&b":message-type"[..], message), (named, kind)] {
        let value = value.get(..value.len().min(200)).unwrap_or_default();
        headers.push(name.len() as u8);
        headers.extend(name);
        headers.push(7);
        headers.extend((value.len() as u16).to_be_bytes());
        headers.extend(value);
    }
    frame(&headers, payload)
}

/// A `chunk` event that carries an event of another wire.
pub(crate) fn chunk(inner: &[u8]) -> Vec<u8> {
    event(b"chunk", format!(r#"{{"bytes":"{}"}}"#, base64(inner)).as_bytes())
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * at)) as usize & 63]));
        }
        out.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}
