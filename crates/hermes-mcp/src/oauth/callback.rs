//! The address on this machine to which the browser returns after a sign-in.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// The longest request that is read.
const LONGEST_REQUEST: usize = 16 * 1024;
/// The most requests that are answered: browsers also ask for an icon.
const MOST_REQUESTS: usize = 50;

/// Waits for the browser.
pub(crate) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

impl CallbackListener {
    /// Listens on the given port, or on any free one.
    pub(crate) async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    pub(crate) fn redirect(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// Waits until the browser comes back with the code of this sign-in. Other requests are refused.
    pub(crate) async fn code(&self, state: &str) -> Result<String, String> {
        for _ in 0..MOST_REQUESTS {
            let (mut stream, _) = self.listener.accept().await.map_err(|error| error.to_string())?;
            let Some(target) = read_target(&mut stream).await else { continue };
            match parse(&target, state) {
                Redirected::Elsewhere => reply(&mut stream, "404 Not Found", "Not found.").await,
                Redirected::Refused(reason) => {
                    reply(&mut stream, "200 OK", "The sign-in failed. You can close this window.").await;
                    return Err(reason);
                }
                Redirected::Code(code) => {
                    reply(&mut stream, "200 OK", "Signed in. You can close this window.").await;
                    return Ok(code);
                }
            }
        }
        Err("too many other requests arrived".to_owned())
    }
}

/// What a redirect of the browser says.
#[derive(Debug, PartialEq, Eq)]
enum Redirected {
    Code(String),
    Refused(String),
    Elsewhere,
}

/// Reads the code from what a person pasted: the address the browser was sent to, or the code alone.
pub(crate) fn pasted_code(pasted: &str, state: &str) -> Result<String, String> {
    let pasted = pasted.trim();
    if !pasted.contains("://") {
        return if pasted.is_empty() { Err("no code was given".to_owned()) } else { Ok(pasted.to_owned()) };
    }
    let target = Url::parse(pasted).map_err(|_| "not a valid URL".to_owned())?;
    match parse(&format!("{}?{}", target.path(), target.query().unwrap_or_default()), state) {
        Redirected::Code(code) => Ok(code),
        Redirected::Refused(reason) => Err(reason),
        Redirected::Elsewhere => Err("this address is not that of the sign-in".to_owned()),
    }
}

fn parse(target: &str, state: &str) -> Redirected {
    let Ok(url) = Url::parse("http://127.0.0.1").and_then(|base| base.join(target)) else {
        return Redirected::Elsewhere;
    };
    let value =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    // A page that does not know the state cannot end the sign-in.
    if url.path() != "/callback" || value("state").as_deref() != Some(state) {
        return Redirected::Elsewhere;
    }
    match (value("code"), value("error")) {
        (_, Some(error)) => {
            let reason = crate::foreign_text::clean(&value("error_description").unwrap_or(error), 200);
            Redirected::Refused(format!("the server refused it: {reason}"))
        }
        (Some(code), None) => Redirected::Code(code),
        (None, None) => Redirected::Elsewhere,
    }
}

/// Reads the target of a request's first line.
async fn read_target(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0_u8; 2048];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        request.extend_from_slice(buffer.get(..count)?);
    }
    let text = String::from_utf8_lossy(&request);
    let mut words = text.lines().next()?.split(' ');
    (words.next()? == "GET").then(|| words.next().map(str::to_owned))?
}

async fn reply(stream: &mut TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n\
         {text}",
        text.len()
    );
    // The browser may be gone; the sign-in does not depend on what it shows.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_redirect_with_the_state_counts() {
        for (target, wanted) in [
            ("/callback?code=c1&state=s", Redirected::Code("c1".to_owned())),
            ("/callback?code=c1&state=other", Redirected::Elsewhere),
            ("/callback?code=c1", Redirected::Elsewhere),
            ("/favicon.ico", Redirected::Elsewhere),
            (
                "/callback?state=s&error=access_denied",
                Redirected::Refused("the server refused it: access_denied".to_owned()),
            ),
        ] {
            assert_eq!(parse(target, "s"), wanted, "{target}");
        }
        assert_eq!(pasted_code(" abc ", "s"), Ok("abc".to_owned()));
        assert_eq!(pasted_code("http://127.0.0.1:1/callback?code=x&state=s", "s"), Ok("x".to_owned()));
        assert!(pasted_code("http://127.0.0.1:1/callback?code=x&state=t", "s").is_err());
    }
}
