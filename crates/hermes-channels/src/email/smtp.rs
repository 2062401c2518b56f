//! A client of SMTP submission (RFC 6409): one connection for one mail.
//!
//! Invariants: nothing is sent before the connection is encrypted, or to a server on this machine when configured so; a
//! connection that is lost after the whole mail was sent is told apart from all others, because the mail may have been taken.

use std::time::Duration;

use data_encoding::BASE64;
use hermes_net::{Error, LineStream, StreamSecurity};
use hermes_types::{Cancel, ChannelError, Deadline};

use super::settings::{EmailSettings, MailSecurity};
use crate::host::ChannelContext;

const TIMEOUT: Duration = Duration::from_mins(1);
/// Some servers look into a mail before they take it.
const DATA_TIMEOUT: Duration = Duration::from_mins(5);
const LIFETIME: Duration = Duration::from_mins(30);
const LONGEST_LINE: usize = 8 * 1024;
const MAX_LINES: usize = 200;

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SmtpReply {
    code: u16,
    lines: Vec<String>,
}

pub(super) struct SmtpClient {
    stream: LineStream,
    /// The abilities of the server, in upper case.
    extensions: Vec<String>,
}

impl SmtpClient {
    /// Connects and signs in.
    pub(super) async fn connect(
        settings: &EmailSettings,
        context: &ChannelContext,
    ) -> Result<Self, ChannelError> {
        let server = &settings.smtp;
        let security = match server.security {
            MailSecurity::Tls => StreamSecurity::Tls,
            MailSecurity::StartTls | MailSecurity::Plain => StreamSecurity::Plain,
        };
        let deadline = Deadline::after(&*context.clock, LIFETIME);
        let opened = context
            .client
            .open_lines(&server.host, server.port, security, TIMEOUT, deadline, &Cancel::new())
            .await;
        let mut client = Self { stream: opened.map_err(|error| failure(&error))?, extensions: Vec::new() };
        client.read(TIMEOUT).await?.expect(220, "the connection")?;
        client.greet().await?;
        if server.security == MailSecurity::StartTls {
            if !client.has("STARTTLS") {
                return Err(ChannelError::Refused(format!(
                    "{} has no STARTTLS on port {}; use the port for TLS (EMAIL_SMTP_PORT=465)",
                    server.host, server.port
                )));
            }
            client.run("STARTTLS").await?.expect(220, "STARTTLS")?;
            let stream = client.stream.start_tls(TIMEOUT).await.map_err(|error| failure(&error))?;
            // What was said before the encryption does not count.
            client = Self { stream, extensions: Vec::new() };
            client.greet().await?;
        }
        client.sign_in(settings).await?;
        Ok(client)
    }

    async fn greet(&mut self) -> Result<(), ChannelError> {
        // The name of this computer is nobody's business.
        let reply = self.run("EHLO [127.0.0.1]").await?;
        let reply = reply.expect(250, "EHLO")?;
        self.extensions = reply.lines.iter().skip(1).map(|line| line.to_uppercase()).collect();
        Ok(())
    }

    fn has(&self, extension: &str) -> bool {
        self.extensions.iter().any(|known| known.split(' ').next() == Some(extension))
    }

    fn has_mechanism(&self, name: &str) -> bool {
        let offers = self.extensions.iter().filter(|known| known.starts_with("AUTH"));
        offers.flat_map(|known| known.split([' ', '='])).any(|known| known == name)
    }

    async fn sign_in(&mut self, settings: &EmailSettings) -> Result<(), ChannelError> {
        if !self.stream.is_encrypted() && settings.smtp.security != MailSecurity::Plain {
            return Err(ChannelError::Refused("the connection is not encrypted".to_owned()));
        }
        let (user, password) = (&settings.address, settings.password.expose());
        let encode = |text: &str| BASE64.encode(text.as_bytes());
        let reply = if self.has_mechanism("PLAIN") {
            self.run(&format!("AUTH PLAIN {}", encode(&format!("\0{user}\0{password}")))).await?
        } else if self.has_mechanism("LOGIN") {
            let asked = self.run("AUTH LOGIN").await?;
            if asked.code == 334 {
                self.run(&encode(user)).await?.expect(334, "AUTH LOGIN")?;
                self.run(&encode(password)).await?
            } else {
                asked
            }
        } else if settings.smtp.security == MailSecurity::Plain {
            // A server on this machine may need no password.
            return Ok(());
        } else {
            return Err(ChannelError::Refused("the SMTP server takes no password".to_owned()));
        };
        match reply.code {
            235 => Ok(()),
            code if code >= 500 => {
                let why = reply.shown().replace(password, "***");
                Err(ChannelError::Reauthorise(format!(
                    "the SMTP server does not take the password ({why}); set EMAIL_PASSWORD, for many providers to \
                     an app password"
                )))
            }
            _ => Err(retry(format!("the SMTP server: {}", reply.shown().replace(password, "***")))),
        }
    }

    /// Sends a mail.
    pub(super) async fn send(mut self, from: &str, to: &str, mail: &[u8]) -> Result<(), ChannelError> {
        let needs_utf8 = !from.is_ascii() || !to.is_ascii();
        if needs_utf8 && !self.has("SMTPUTF8") {
            return Err(ChannelError::Refused(format!("the SMTP server does not take the address {to}")));
        }
        let extra = if needs_utf8 { " SMTPUTF8" } else { "" };
        self.run(&format!("MAIL FROM:<{from}>{extra}")).await?.expect(250, "MAIL FROM")?;
        let accepted = self.run(&format!("RCPT TO:<{to}>")).await?;
        if accepted.code != 251 {
            accepted.expect(250, "RCPT TO")?;
        }
        self.run("DATA").await?.expect(354, "DATA")?;
        self.stream.write(&stuffed(mail), TIMEOUT).await.map_err(|error| failure(&error))?;
        // From here on the server may have taken it.
        let unsure = |error: ChannelError| match error {
            ChannelError::Retry { reason, .. } => ChannelError::DeliveryUnknown(reason),
            error => error,
        };
        self.stream.write(b".\r\n", TIMEOUT).await.map_err(|error| unsure(failure(&error)))?;
        self.read(DATA_TIMEOUT).await.map_err(unsure)?.expect(250, "the mail")?;
        self.stream.write(b"QUIT\r\n", TIMEOUT).await.ok();
        Ok(())
    }

    async fn run(&mut self, command: &str) -> Result<SmtpReply, ChannelError> {
        let line = format!("{command}\r\n");
        self.stream.write(line.as_bytes(), TIMEOUT).await.map_err(|error| failure(&error))?;
        self.read(TIMEOUT).await
    }

    async fn read(&mut self, patience: Duration) -> Result<SmtpReply, ChannelError> {
        let mut lines = Vec::new();
        loop {
            let line =
                self.stream.read_line(LONGEST_LINE, patience).await.map_err(|error| failure(&error))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let code = line.get(..3).and_then(|code| code.parse::<u16>().ok());
            let Some(code) = code.filter(|_| lines.len() < MAX_LINES) else {
                return Err(retry("the SMTP server sent something that is no reply".to_owned()));
            };
            lines.push(line.get(4..).unwrap_or_default().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(SmtpReply { code, lines });
            }
        }
    }
}

impl SmtpReply {
    /// Names a refusal for what can be done about it.
    fn expect(self, code: u16, step: &str) -> Result<Self, ChannelError> {
        if self.code == code {
            return Ok(self);
        }
        let reason = format!("the SMTP server refused {step}: {}", self.shown());
        Err(match self.code {
            530 | 534 | 535 => ChannelError::Reauthorise(reason),
            code if code < 500 => retry(reason),
            _ => ChannelError::Refused(reason),
        })
    }

    fn shown(&self) -> String {
        let text: String = self.lines.join(" ").chars().filter(|c| !c.is_control()).collect();
        format!("{} {}", self.code, hermes_text::head(&text, 200))
    }
}

/// Doubles the dots at the starts of lines, which would end the mail.
fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(mail.len() + 64);
    let mut starts = true;
    for byte in mail {
        if starts && *byte == b'.' {
            out.push(b'.');
        }
        out.push(*byte);
        starts = *byte == b'\n';
    }
    if !starts {
        out.extend(b"\r\n");
    }
    out
}

fn retry(reason: String) -> ChannelError {
    ChannelError::Retry { after: None, reason }
}

fn failure(error: &Error) -> ChannelError {
    match error {
        Error::Tls { .. } => retry(format!(
            "{error}; for a server with a certificate of your own, set SSL_CERT_FILE to the certificate of its authority"
        )),
        Error::InvalidUrl => ChannelError::Refused("EMAIL_SMTP_HOST is not the name of a server".to_owned()),
        _ => retry(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_do_not_end_a_mail() {
        assert_eq!(stuffed(b".a\r\nb.\r\n.\r\n"), b"..a\r\nb.\r\n..\r\n");
        assert_eq!(stuffed(b"a"), b"a\r\n");
    }

    #[test]
    fn refusals_are_told_apart() {
        let of =
            |code: u16| SmtpReply { code, lines: vec!["x".to_owned()] }.expect(250, "RCPT TO").unwrap_err();
        assert!(matches!(of(450), ChannelError::Retry { .. }));
        assert!(matches!(of(550), ChannelError::Refused(_)));
        assert!(matches!(of(530), ChannelError::Reauthorise(_)));
    }
}
