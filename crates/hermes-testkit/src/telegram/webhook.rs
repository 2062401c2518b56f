//! Delivers updates to a webhook.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::FakeTelegramServer;

/// The delay before a retry; the real one is longer.
const AGAIN: Duration = Duration::from_millis(20);

/// Sends pending updates, the oldest first, until each is accepted.
pub(super) async fn deliver(stage: Arc<FakeTelegramServer>) {
    loop {
        let (hook, id, update) = stage
            .world
            .until(|world| {
                let (id, update) = world.pending.front()?;
                Some((world.hook.clone()?, *id, update.to_string()))
            })
            .await;
        let status = post(&hook.url, hook.secret.as_deref(), &update).await.unwrap_or(0);
        stage.world.update(|world| {
            world.delivered.push(status);
            if (200..300).contains(&status) {
                world.pending.retain(|(waiting, _)| *waiting != id);
            }
        });
        if !(200..300).contains(&status) {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Returns the status of the response, if there is one.
async fn post(url: &str, secret: Option<&str>, body: &str) -> Option<u16> {
    let rest = url.strip_prefix("http://")?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(address).await.ok()?;
    let secret =
        secret.map(|secret| format!("X-Telegram-Bot-Api-Secret-Token: {secret}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{secret}connection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}
