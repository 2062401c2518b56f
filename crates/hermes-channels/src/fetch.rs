//! Downloads images that an answer names by URL, so that they can be uploaded.
//!
//! The URL comes from a model: the client opens only those the policy allows. Invariant: the result is an image by
//! its first bytes, whatever content type the server names, and not larger than a document may be.

use std::time::Duration;

use hermes_net::header::USER_AGENT;
use hermes_net::{Bytes, Error, HttpClient, HttpRequest};
use hermes_types::{Cancel, Clock, Deadline};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::media::LARGEST_DOCUMENT;

const TIMEOUT: Duration = Duration::from_secs(30);
/// The delays before further attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(1500), Duration::from_secs(3)];
const HOPS: usize = 5;
const AGENT: &str = concat!("HermesAgent/1.0 hermes/", env!("CARGO_PKG_VERSION"));

/// Limits the images in memory at a time.
static PICTURE_PERMITS: Semaphore = Semaphore::const_new(4);

/// An image in memory; its permit is released when this is dropped.
#[derive(Debug)]
pub(crate) struct FetchedPicture {
    /// The file name: `image` and the extension of its format.
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
    _permit: SemaphorePermit<'static>,
}

/// The reason why an attempt failed.
enum FetchError {
    /// A failure that another attempt may avoid.
    Temporary(String),
    Permanent(String),
}

/// Downloads an image, or returns the reason why it cannot.
pub(crate) async fn fetch_picture(
    client: &HttpClient,
    clock: &dyn Clock,
    url: &str,
) -> Result<FetchedPicture, String> {
    let room = PICTURE_PERMITS.acquire().await.map_err(|closed| closed.to_string())?;
    let mut pauses = PAUSES.into_iter();
    loop {
        match (attempt(client, clock, url).await, pauses.next()) {
            (Ok(bytes), _) => {
                let extension = sniff_extension(&bytes).ok_or("what is there is no picture")?;
                return Ok(FetchedPicture { name: format!("image.{extension}"), bytes, _permit: room });
            }
            (Err(FetchError::Temporary(_)), Some(pause)) => clock.sleep(pause).await,
            (Err(FetchError::Temporary(why) | FetchError::Permanent(why)), _) => return Err(why),
        }
    }
}

async fn attempt(client: &HttpClient, clock: &dyn Clock, url: &str) -> Result<Bytes, FetchError> {
    let request = HttpRequest::get(url).and_then(|request| request.header(USER_AGENT, AGENT));
    let request = request.map_err(|error| classify_error(&error))?;
    let request = request.untrusted().follow_redirects(HOPS).response_timeout(TIMEOUT);
    let deadline = Deadline::after(clock, TIMEOUT);
    let response =
        client.send(request, deadline, &Cancel::new()).await.map_err(|error| classify_error(&error))?;
    let status = response.status();
    if !status.is_success() {
        let why = format!("its server answered with status {}", status.as_u16());
        let passing = status.is_server_error() || status.as_u16() == 429;
        return Err(if passing { FetchError::Temporary(why) } else { FetchError::Permanent(why) });
    }
    let cap = usize::try_from(LARGEST_DOCUMENT).unwrap_or(usize::MAX);
    response.bytes(cap).await.map_err(|error| classify_error(&error))
}

fn classify_error(error: &Error) -> FetchError {
    match error {
        Error::TimedOut { .. } => FetchError::Temporary(error.to_string()),
        _ => FetchError::Permanent(error.to_string()),
    }
}

/// Returns the extension of an image format, recognised by the first bytes.
pub(crate) fn sniff_extension(bytes: &[u8]) -> Option<&'static str> {
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
            assert_eq!(sniff_extension(bytes), extension, "{bytes:?}");
        }
    }
}
