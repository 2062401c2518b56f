//! The read-aloud service of Microsoft Edge, which needs no key.
//!
//! The service is not documented and may change. Invariant: nothing else depends on it; when it fails, the caller hears why
//! and can speak by other means.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXUPPER;
use hermes_net::{HeaderMap, HeaderValue, HttpClient, SocketFrame, SocketLimits, Url, header};
use hermes_types::{Cancel, Clock, Deadline, Timestamp, random_hex};
use sha2::{Digest as _, Sha256};

/// The token that every client of the service sends.
const CLIENT_TOKEN: &str = "6A5AA1D4EAFF4E9FB37E23D68491D6F4";
/// The version of the browser whose service this is.
const VERSION: &str = "1-143.0.3650.75";
const ORIGIN: &str = "chrome-extension://jdiccldimpdaibmpdkjnbmckianbfold";
/// The seconds between 1601, where the service's clock begins, and 1970.
const CLOCK_OFFSET: u64 = 11_644_473_600;
/// The steps of the token, in seconds.
const TOKEN_STEP: u64 = 300;
const TICKS_PER_SECOND: u64 = 10_000_000;
/// The longest text of one request, in bytes after escaping.
const LONGEST_REQUEST: usize = 3_000;
const TIMEOUT: Duration = Duration::from_mins(1);
const SILENCE: Duration = Duration::from_secs(20);
const LARGEST: usize = 64 * 1024 * 1024;
const FORMAT: &str = r#"{"context":{"synthesis":{"audio":{"metadataoptions":{"sentenceBoundaryEnabled":"false","wordBoundaryEnabled":"false"},"outputFormat":"audio-24khz-48kbitrate-mono-mp3"}}}}"#;

/// Speaks a text, and returns it as MP3.
pub(crate) async fn speak(
    words: &str,
    voice: &str,
    address: &str,
    http: &HttpClient,
    clock: &Arc<dyn Clock>,
    cancel: &Cancel,
) -> Result<Vec<u8>, String> {
    if !voice.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | ' ' | '(' | ')' | ',')) {
        return Err(format!("tts.edge.voice: '{voice}' is no name of a voice"));
    }
    let mut sound = Vec::new();
    for piece in pieces(words) {
        let bytes = speak_piece(&piece, voice, address, http, clock, cancel).await?;
        sound.extend_from_slice(&bytes);
        if sound.len() > LARGEST {
            return Err("the speech is too long".to_owned());
        }
    }
    Ok(sound)
}

async fn speak_piece(
    words: &str,
    voice: &str,
    address: &str,
    http: &HttpClient,
    clock: &Arc<dyn Clock>,
    cancel: &Cancel,
) -> Result<Vec<u8>, String> {
    let url = Url::parse_with_params(
        address,
        [
            ("TrustedClientToken", CLIENT_TOKEN),
            ("Sec-MS-GEC", &access_token(clock.now())),
            ("Sec-MS-GEC-Version", VERSION),
            ("ConnectionId", &random_hex(32)),
        ],
    )
    .map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    headers.insert(header::ORIGIN, HeaderValue::from_static(ORIGIN));
    let deadline = Deadline::after(&**clock, TIMEOUT);
    let limits = SocketLimits::default();
    let text = |error: hermes_net::Error| error.to_string();
    let mut socket = http.connect(&url, headers, limits, deadline, cancel).await.map_err(text)?;
    let configuration =
        format!("Content-Type:application/json; charset=utf-8\r\nPath:speech.config\r\n\r\n{FORMAT}");
    let request = format!(
        "X-RequestId:{}\r\nContent-Type:application/ssml+xml\r\nPath:ssml\r\n\r\n{}",
        random_hex(32),
        markup(words, voice)
    );
    for message in [configuration, request] {
        socket.send(SocketFrame::Text(message), SILENCE).await.map_err(text)?;
    }
    let mut sound = Vec::new();
    loop {
        match socket.recv(SILENCE).await.map_err(text)? {
            Some(SocketFrame::Binary(bytes)) => {
                sound.extend_from_slice(audio_of(&bytes).unwrap_or_default());
                if sound.len() > LARGEST {
                    return Err("the speech is too long".to_owned());
                }
            }
            Some(SocketFrame::Text(message)) if path_of(&message) == Some("turn.end") => break,
            Some(SocketFrame::Close(reason)) => {
                let reason = reason.map(|(_, reason)| reason).unwrap_or_default();
                return Err(format!("the service of Edge refused: {reason}"));
            }
            None => return Err("the service of Edge ended the connection".to_owned()),
            Some(_) => {}
        }
    }
    if sound.is_empty() {
        return Err("the service of Edge returned no sound; check tts.edge.voice".to_owned());
    }
    // It has said everything.
    let _ = socket.close(SILENCE).await;
    Ok(sound)
}

/// Returns the token for this moment.
fn access_token(now: Timestamp) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds since 1970")]
    let seconds = now.seconds().max(0.0) as u64 + CLOCK_OFFSET;
    let ticks = (seconds - seconds % TOKEN_STEP) * TICKS_PER_SECOND;
    HEXUPPER.encode(&Sha256::digest(format!("{ticks}{CLIENT_TOKEN}").as_bytes()))
}

/// Returns the sound in a frame: two bytes with the length of the headers, the headers, the sound.
fn audio_of(frame: &[u8]) -> Option<&[u8]> {
    let (length, rest) = frame.split_first_chunk::<2>()?;
    let (headers, sound) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    (path_of(std::str::from_utf8(headers).ok()?) == Some("audio")).then_some(sound)
}

/// Returns the path that the headers of a message name.
fn path_of(message: &str) -> Option<&str> {
    let headers = message.split("\r\n\r\n").next()?;
    headers.lines().find_map(|line| line.strip_prefix("Path:")).map(str::trim)
}

fn markup(words: &str, voice: &str) -> String {
    let language: Vec<&str> = voice.splitn(3, '-').take(2).collect();
    let language = if language.len() == 2 { language.join("-") } else { "en-US".to_owned() };
    format!(
        "<speak version='1.0' xmlns='http://www.w3.org/2001/10/synthesis' xml:lang='{language}'><voice name='{voice}'>\
         <prosody pitch='+0Hz' rate='+0%' volume='+0%'>{words}</prosody></voice></speak>"
    )
}

/// Splits a text into escaped pieces that fit into a request, at blanks where there are any.
fn pieces(words: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in words.split_inclusive(char::is_whitespace) {
        for part in chunks(&escaped(word)) {
            let last = pieces.last().map_or(0, String::len);
            if last + part.len() > LONGEST_REQUEST {
                pieces.push(String::new());
            }
            if let Some(last) = pieces.last_mut() {
                last.push_str(&part);
            }
        }
    }
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces
}

/// Splits a word that fits into no request. An escape stays whole.
fn chunks(word: &str) -> Vec<String> {
    if word.len() <= LONGEST_REQUEST {
        return vec![word.to_owned()];
    }
    let mut chunks = vec![String::new()];
    let mut escape = false;
    for c in word.chars() {
        escape = c == '&' || (escape && c != ';');
        if !escape && chunks.last().is_some_and(|chunk| chunk.len() > LONGEST_REQUEST - 16) {
            chunks.push(String::new());
        }
        if let Some(last) = chunks.last_mut() {
            last.push(c);
        }
    }
    chunks
}

/// Escapes what has a meaning in the markup, and leaves out characters that it may not contain.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\'' => escaped.push_str("&apos;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => {
                // Writing to a `String` cannot fail.
                let _ = escaped.write_char(c);
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_changes_every_five_minutes() {
        let at = |seconds: f64| access_token(Timestamp(seconds));
        assert_eq!(at(1_700_000_100.0), at(1_700_000_399.9));
        assert_ne!(at(1_700_000_399.9), at(1_700_000_400.0));
        assert_eq!(at(0.0).len(), 64);
        // Ticks of 1970, as anybody can compute them: 116444736000000000.
        let expected = Sha256::digest(b"1164447360000000006A5AA1D4EAFF4E9FB37E23D68491D6F4");
        assert_eq!(at(0.0), HEXUPPER.encode(&expected));
    }

    #[test]
    fn no_text_leaves_its_place_in_the_markup_and_no_frame_panics() {
        assert_eq!(pieces("a < b & \"c\"\u{0}\n"), ["a &lt; b &amp; &quot;c&quot; "]);
        assert_eq!(pieces(" \n"), Vec::<String>::new());
        let long = "x<".repeat(4_000);
        let split = pieces(&long);
        assert!(split.len() > 1 && split.iter().all(|piece| piece.len() <= LONGEST_REQUEST + 16));
        assert_eq!(split.concat(), escaped(&long));
        assert!(
            split.iter().all(|piece| !piece.ends_with('&') && !piece.ends_with("&lt")),
            "escapes stay whole"
        );
        for frame in [&b""[..], b"\0", b"\xff\xff", b"\0\x05Path:", b"\0\x02\xff\xff"] {
            assert_eq!(audio_of(frame), None);
        }
        assert_eq!(audio_of(b"\0\x0aPath:audio"), Some(&b""[..]));
    }
}
