//! Pictures an answer names by their address, fetched to be uploaded.
//!
//! The address is a model's word: the client opens only those the policy allows. Invariant: what is handed on is a picture
//! by its first bytes, whatever its server calls it, and not larger than a document may be.

use std::time::Duration;

use hermes_net::header::USER_AGENT;
use hermes_net::{Bytes, Client, Error, Request};
use hermes_types::{Cancel, Clock, Deadline};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::media::LARGEST_DOCUMENT;

const PATIENCE: Duration = Duration::from_secs(30);
/// Pauses before another attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(1500), Duration::from_secs(3)];
const HOPS: usize = 5;
const AGENT: &str = concat!("HermesAgent/1.0 hermes/", env!("CARGO_PKG_VERSION"));

/// How many pictures are in memory at a time.
static ROOM: Semaphore = Semaphore::const_new(4);

/// A picture in memory, for as long as it is needed.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// `image` and the extension of what it is.
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
    _room: SemaphorePermit<'static>,
}

/// Why an attempt came to nothing.
enum Trouble {
    /// Another attempt may do better.
    Passing(String),
    Lasting(String),
}

/// Fetches a picture, or says why it cannot be had.
pub(crate) async fn fetch_picture(client: &Client, clock: &dyn Clock, url: &str) -> Result<Fetched, String> {
    let room = ROOM.acquire().await.map_err(|closed| closed.to_string())?;
    let mut pauses = PAUSES.into_iter();
    loop {
        match (attempt(client, clock, url).await, pauses.next()) {
            (Ok(bytes), _) => {
                let extension = extension_by(&bytes).ok_or("what is there is no picture")?;
                return Ok(Fetched { name: format!("image.{extension}"), bytes, _room: room });
            }
            (Err(Trouble::Passing(_)), Some(pause)) => clock.sleep(pause).await,
            (Err(Trouble::Passing(why) | Trouble::Lasting(why)), _) => return Err(why),
        }
    }
}

async fn attempt(client: &Client, clock: &dyn Clock, url: &str) -> Result<Bytes, Trouble> {
    let request = Request::get(url).and_then(|request| request.header(USER_AGENT, AGENT));
    let request = request.map_err(|error| trouble(&error))?;
    let request = request.untrusted().follow(HOPS).answer_within(PATIENCE);
    let deadline = Deadline::after(clock, PATIENCE);
    let response = client.send(request, deadline, &Cancel::new()).await.map_err(|error| trouble(&error))?;
    let status = response.status();
    if !status.is_success() {
        let why = format!("its server answered with status {}", status.as_u16());
        let passing = status.is_server_error() || status.as_u16() == 429;
        return Err(if passing { Trouble::Passing(why) } else { Trouble::Lasting(why) });
    }
    let cap = usize::try_from(LARGEST_DOCUMENT).unwrap_or(usize::MAX);
    response.bytes(cap).await.map_err(|error| trouble(&error))
}

fn trouble(error: &Error) -> Trouble {
    match error {
        Error::TimedOut { .. } => Trouble::Passing(error.to_string()),
        _ => Trouble::Lasting(error.to_string()),
    }
}

/// What a picture is, by how it begins.
fn extension_by(bytes: &[u8]) -> Option<&'static str> {
    let begins = |start: &[u8]| bytes.starts_with(start);
    match () {
        () if begins(b"\x89PNG") => Some("png"),
        () if begins(b"\xFF\xD8\xFF") => Some("jpg"),
        () if begins(b"GIF8") => Some("gif"),
        () if begins(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") => Some("webp"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        let known = [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("png")),
            (b"\xFF\xD8\xFF\xE0", Some("jpg")),
            (b"GIF89a", Some("gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("webp")),
            (b"RIFF\0\0\0\0WAVEfmt ", None),
            (b"<!doctype html>", None),
            (b"", None),
        ];
        for (bytes, extension) in known {
            assert_eq!(extension_by(bytes), extension, "{bytes:?}");
        }
    }
}
