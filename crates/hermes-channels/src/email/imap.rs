//! A client of IMAP (RFC 3501, IDLE of RFC 2177) for one mailbox.
//!
//! Invariants: nothing secret is sent before the connection is encrypted, or to a server on this machine when configured
//! so; what the server sends is bounded; a connection that does not answer is given up.

use std::time::Duration;

use data_encoding::BASE64;
use hermes_net::{Error, LineStream, StreamSecurity};
use hermes_types::{Cancel, ChannelError, Clock, Deadline};

use super::imap_response::{ImapResponse, TaggedResult};
use super::settings::{EmailSettings, MailSecurity};
use crate::host::ChannelContext;

const TIMEOUT: Duration = Duration::from_mins(1);
/// After this long, waiting is begun anew, so that a connection that broke silently is noticed.
const IDLE_SPAN: Duration = Duration::from_mins(5);
const LIFETIME: Duration = Duration::from_hours(24 * 365);
const LONGEST_LINE: usize = 256 * 1024;
/// What a line and its literals may have in all: a mail of the largest size, and what surrounds it.
pub(super) const LARGEST_MAIL: usize = 40 * 1024 * 1024;
const LARGEST_RESPONSE: usize = LARGEST_MAIL + 64 * 1024;

pub(super) struct ImapClient {
    stream: LineStream,
    clock: std::sync::Arc<dyn Clock>,
    count: u32,
    capabilities: Vec<String>,
    /// Set when the server has spoken of new mail since the last look.
    has_news: bool,
}

/// The state of a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MailboxState {
    pub(super) validity: u32,
    /// The number the next mail will get.
    pub(super) next: u32,
}

impl ImapClient {
    /// Connects and signs in.
    pub(super) async fn connect(
        settings: &EmailSettings,
        context: &ChannelContext,
    ) -> Result<Self, ChannelError> {
        let server = &settings.imap;
        let security = match server.security {
            MailSecurity::Tls => StreamSecurity::Tls,
            MailSecurity::StartTls | MailSecurity::Plain => StreamSecurity::Plain,
        };
        let deadline = Deadline::after(&*context.clock, LIFETIME);
        let opened = context
            .client
            .open_lines(&server.host, server.port, security, TIMEOUT, deadline, &Cancel::new())
            .await;
        let stream = opened.map_err(|error| failure(&error))?;
        let clock = context.clock.clone();
        let mut client = Self { stream, clock, count: 0, capabilities: Vec::new(), has_news: false };
        let greeting = client.read().await?;
        if !greeting.is_untagged("OK") {
            return Err(retry(format!("the IMAP server refuses connections: {}", greeting.shown())));
        }
        if server.security == MailSecurity::StartTls {
            let begun = client.run("STARTTLS").await?;
            if begun.1 != TaggedResult::Ok {
                return Err(ChannelError::Refused(format!(
                    "{} has no STARTTLS on port {}; use the port for TLS (EMAIL_IMAP_PORT=993)",
                    server.host, server.port
                )));
            }
            let stream = client.stream.start_tls(TIMEOUT).await.map_err(|error| failure(&error))?;
            client = Self { stream, ..client };
        }
        client.load_capabilities().await?;
        client.sign_in(settings).await?;
        Ok(client)
    }

    /// Asks for the abilities of the server; what it says unasked may be from before the encryption.
    async fn load_capabilities(&mut self) -> Result<(), ChannelError> {
        let (responses, _) = self.run("CAPABILITY").await?;
        let listed = responses.iter().filter_map(|response| response.after("CAPABILITY"));
        self.capabilities = listed
            .flat_map(|text| text.split_whitespace().map(str::to_uppercase).collect::<Vec<_>>())
            .collect();
        Ok(())
    }

    fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    async fn sign_in(&mut self, settings: &EmailSettings) -> Result<(), ChannelError> {
        if !self.stream.is_encrypted() && settings.imap.security != MailSecurity::Plain {
            return Err(ChannelError::Refused("the connection is not encrypted".to_owned()));
        }
        let (user, password) = (&settings.address, settings.password.expose());
        let result = if self.has("AUTH=PLAIN") {
            let tag = self.send("AUTHENTICATE PLAIN").await?;
            let next = self.read().await?;
            if next.is_continuation() {
                let pair = format!("\0{user}\0{password}");
                self.write(&format!("{}\r\n", BASE64.encode(pair.as_bytes()))).await?;
                self.finish(&tag).await?.1
            } else {
                next.tagged(&tag).unwrap_or(TaggedResult::No(next.shown()))
            }
        } else if self.has("LOGINDISABLED") {
            return Err(ChannelError::Refused("the IMAP server takes no password".to_owned()));
        } else {
            self.run(&format!("LOGIN {} {}", quoted(user), quoted(password))).await?.1
        };
        match result {
            TaggedResult::Ok => self.load_capabilities().await,
            TaggedResult::No(why) | TaggedResult::Bad(why) => {
                let why = why.replace(password, "***");
                let upper = why.to_uppercase();
                let passes = ["[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[SERVERBUG]", "TOO MANY", "TRY AGAIN"];
                if passes.iter().any(|word| upper.contains(word)) {
                    return Err(retry(format!("the IMAP server: {why}")));
                }
                Err(ChannelError::Reauthorise(format!(
                    "the IMAP server does not take the password ({why}); set EMAIL_PASSWORD, for many providers \
                     to an app password"
                )))
            }
        }
    }

    /// Opens the inbox.
    pub(super) async fn select_inbox(&mut self) -> Result<MailboxState, ChannelError> {
        let responses = self.expect("SELECT INBOX").await?;
        let number = |name: &str| responses.iter().find_map(|response| response.code_number(name));
        let validity = number("UIDVALIDITY").unwrap_or_default();
        if let Some(next) = number("UIDNEXT") {
            return Ok(MailboxState { validity, next });
        }
        let newest = self.expect("UID FETCH * (UID)").await?;
        let newest = newest.iter().filter_map(|response| response.fetched_number("UID")).max();
        Ok(MailboxState { validity, next: newest.unwrap_or_default().saturating_add(1) })
    }

    /// Returns the numbers and sizes of the mails from this number on.
    pub(super) async fn mails_from(&mut self, first: u32) -> Result<Vec<(u32, usize)>, ChannelError> {
        self.has_news = false;
        let responses = self.expect(&format!("UID FETCH {first}:* (UID RFC822.SIZE)")).await?;
        Ok(sizes(&responses, |number| number >= first))
    }

    /// Returns the numbers and sizes of the unread mails since a day, written as IMAP does.
    pub(super) async fn unread_since(&mut self, day: &str) -> Result<Vec<(u32, usize)>, ChannelError> {
        self.has_news = false;
        let responses = self.expect(&format!("UID SEARCH UNSEEN SINCE {day}")).await?;
        let found = responses.iter().filter_map(|response| response.after("SEARCH"));
        let numbers: Vec<u32> = found
            .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
            .collect();
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let responses = self.expect(&format!("UID FETCH {} (UID RFC822.SIZE)", list.join(","))).await?;
        Ok(sizes(&responses, |number| numbers.contains(&number)))
    }

    /// Returns the bytes of a mail, or its first ones; `None` when it is gone. It does not become read.
    pub(super) async fn fetch(
        &mut self,
        number: u32,
        limit: Option<usize>,
    ) -> Result<Option<Vec<u8>>, ChannelError> {
        let range = limit.map(|limit| format!("<0.{limit}>")).unwrap_or_default();
        let responses = self.expect(&format!("UID FETCH {number} (UID BODY.PEEK[]{range})")).await?;
        let is_this = |response: &ImapResponse| response.fetched_number("UID") == Some(number);
        Ok(responses.into_iter().filter(is_this).find_map(ImapResponse::into_body))
    }

    /// Marks a mail as read, for people who look into the mailbox.
    pub(super) async fn mark_read(&mut self, number: u32) -> Result<(), ChannelError> {
        let (_, result) = self.run(&format!("UID STORE {number} +FLAGS.SILENT (\\Seen)")).await?;
        if result != TaggedResult::Ok {
            tracing::debug!("a mail could not be marked as read");
        }
        Ok(())
    }

    /// Waits until there may be new mail.
    pub(super) async fn wait(&mut self, poll_interval: Duration) -> Result<(), ChannelError> {
        if self.has_news {
            return Ok(());
        }
        if !self.has("IDLE") {
            self.clock.sleep(poll_interval).await;
            return self.expect("NOOP").await.map(drop);
        }
        let tag = self.send("IDLE").await?;
        loop {
            let response = self.read().await?;
            if response.is_continuation() {
                break;
            }
            if let Some(result) = response.tagged(&tag) {
                tracing::debug!(?result, "the IMAP server has no IDLE after all");
                self.capabilities.retain(|known| known != "IDLE");
                return Ok(());
            }
        }
        let end = Deadline::after(&*self.clock, IDLE_SPAN);
        while !self.has_news {
            let patience = end.remaining(&*self.clock);
            if patience.is_zero() {
                break;
            }
            match self.read_within(patience).await {
                Err(Error::Stalled { .. }) => break,
                read => self.note(read.map_err(|error| failure(&error))?).map(drop)?,
            }
        }
        self.write("DONE\r\n").await?;
        self.finish(&tag).await.map(drop)
    }

    /// Says goodbye.
    pub(super) async fn close(mut self) {
        self.write("bye LOGOUT\r\n").await.ok();
    }

    /// Runs a command that must succeed.
    async fn expect(&mut self, command: &str) -> Result<Vec<ImapResponse>, ChannelError> {
        match self.run(command).await? {
            (responses, TaggedResult::Ok) => Ok(responses),
            (_, TaggedResult::No(why) | TaggedResult::Bad(why)) => {
                let verb = command.split(' ').take(2).collect::<Vec<_>>().join(" ");
                Err(retry(format!("the IMAP server refused {verb}: {why}")))
            }
        }
    }

    async fn run(&mut self, command: &str) -> Result<(Vec<ImapResponse>, TaggedResult), ChannelError> {
        let tag = self.send(command).await?;
        self.finish(&tag).await
    }

    async fn send(&mut self, command: &str) -> Result<String, ChannelError> {
        self.count += 1;
        let tag = format!("h{}", self.count);
        self.write(&format!("{tag} {command}\r\n")).await?;
        Ok(tag)
    }

    /// Reads up to the end of a command.
    async fn finish(&mut self, tag: &str) -> Result<(Vec<ImapResponse>, TaggedResult), ChannelError> {
        let mut responses = Vec::new();
        loop {
            let response = self.read().await?;
            if let Some(result) = response.tagged(tag) {
                return Ok((responses, result));
            }
            responses.push(response);
        }
    }

    async fn write(&mut self, text: &str) -> Result<(), ChannelError> {
        self.stream.write(text.as_bytes(), TIMEOUT).await.map_err(|error| failure(&error))
    }

    async fn read(&mut self) -> Result<ImapResponse, ChannelError> {
        let read = self.read_within(TIMEOUT).await.map_err(|error| failure(&error))?;
        self.note(read)
    }

    /// Takes notice of what a response says about the connection and the mailbox.
    fn note(&mut self, response: ImapResponse) -> Result<ImapResponse, ChannelError> {
        self.has_news |= response.tells_of_mail();
        if response.is_untagged("BYE") {
            return Err(retry(format!("the IMAP server ended the connection: {}", response.shown())));
        }
        Ok(response)
    }

    /// Reads a response with its literals.
    async fn read_within(&mut self, patience: Duration) -> Result<ImapResponse, Error> {
        let mut response = ImapResponse::default();
        let mut line = self.stream.read_line(LONGEST_LINE, patience).await?;
        loop {
            let Some(size) = response.push_line(&line) else { return Ok(response) };
            if size.saturating_add(response.size()) > LARGEST_RESPONSE {
                let host = "the IMAP server".to_owned();
                return Err(Error::TooLarge { host, limit: LARGEST_RESPONSE });
            }
            response.push_literal(self.stream.read_bytes(size, TIMEOUT).await?);
            line = self.stream.read_line(LONGEST_LINE, TIMEOUT).await?;
        }
    }
}

fn sizes(responses: &[ImapResponse], wanted: impl Fn(u32) -> bool) -> Vec<(u32, usize)> {
    let read = |response: &ImapResponse| {
        let number = response.fetched_number("UID").filter(|number| wanted(*number))?;
        let size = response.fetched_number("RFC822.SIZE").unwrap_or_default();
        Some((number, usize::try_from(size).unwrap_or(usize::MAX)))
    };
    let mut found: Vec<(u32, usize)> = responses.iter().filter_map(read).collect();
    found.sort_unstable();
    found.dedup_by_key(|(number, _)| *number);
    found
}

/// Returns a text as a quoted string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn retry(reason: String) -> ChannelError {
    ChannelError::Retry { after: None, reason }
}

fn failure(error: &Error) -> ChannelError {
    match error {
        Error::Tls { .. } => retry(format!(
            "{error}; for a server with a certificate of your own, set SSL_CERT_FILE to the certificate of its authority"
        )),
        Error::InvalidUrl => ChannelError::Refused("EMAIL_IMAP_HOST is not the name of a server".to_owned()),
        _ => retry(error.to_string()),
    }
}
