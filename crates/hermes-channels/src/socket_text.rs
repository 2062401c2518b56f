//! Text frames of a WebSocket that must not fall silent.

use std::time::Duration;

use hermes_net::{Error, SocketFrame, WebSocket};

pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits for the next text frame; returns `None` at the end. A connection that is silent is pinged, and ends after the
/// same time without an answer.
pub(crate) async fn next_text(socket: &mut WebSocket, silence: Duration) -> Result<Option<String>, Error> {
    let mut asked = false;
    loop {
        match socket.recv(silence).await {
            Ok(Some(SocketFrame::Text(text))) => return Ok(Some(text)),
            Ok(Some(SocketFrame::Close(_)) | None) => return Ok(None),
            Ok(Some(_)) => asked = false,
            Err(Error::Stalled { .. }) if !asked => {
                asked = true;
                socket.send(SocketFrame::Ping("alive".into()), WRITE_TIMEOUT).await?;
            }
            Err(error) => return Err(error),
        }
    }
}
