//! The IMAP side of the emulated mail server.

use std::sync::Arc;

use data_encoding::BASE64;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{ADDRESS, MailFault, MailState};
use crate::task::start_in;
use crate::watched_value::WatchedValue;

pub(super) async fn serve(listener: TcpListener, state: Arc<WatchedValue<MailState>>) {
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let connection = ImapConnection {
                    stream: BufReader::new(stream), state: state.clone(), is_signed_in: false, is_selected: false, known: 0,
                    epoch: state.read(|state| state.epoch),
                };
                start_in(&mut work, connection.serve());
            },
            Some(_) = work.join_next() => {}
        }
    }
}

struct ImapConnection {
    stream: BufReader<TcpStream>,
    state: Arc<WatchedValue<MailState>>,
    is_signed_in: bool,
    is_selected: bool,
    /// The number of mails the client was told about.
    known: usize,
    epoch: usize,
}

impl ImapConnection {
    async fn serve(mut self) {
        self.work().await;
    }

    async fn work(&mut self) -> Option<()> {
        self.write("* OK [CAPABILITY IMAP4rev1] ready\r\n").await?;
        loop {
            let line = self.line().await?;
            if self.state.read(|state| state.epoch) != self.epoch {
                return None;
            }
            let (tag, command) = line.split_once(' ')?;
            let (tag, command) = (tag.to_owned(), command.to_owned());
            let upper = command.to_uppercase();
            match upper.as_str() {
                "CAPABILITY" => {
                    let idle = if self.state.read(|state| state.has_idle) { " IDLE" } else { "" };
                    self.write(&format!("* CAPABILITY IMAP4rev1 AUTH=PLAIN{idle}\r\n")).await?;
                    self.done(&tag, "OK").await?;
                }
                "AUTHENTICATE PLAIN" => {
                    self.write("+ \r\n").await?;
                    let given = self.line().await?;
                    let given = BASE64.decode(given.as_bytes()).unwrap_or_default();
                    let answer = self.sign_in(&given);
                    self.done(&tag, &answer).await?;
                }
                "NOOP" => {
                    self.tell_news().await?;
                    self.done(&tag, "OK").await?;
                }
                "LOGOUT" => {
                    self.write("* BYE\r\n").await?;
                    self.done(&tag, "OK").await?;
                    return None;
                }
                _ if !self.is_signed_in => self.done(&tag, "NO sign in first").await?,
                "SELECT INBOX" => {
                    let (count, validity, next) =
                        self.state.read(|state| (state.mails.len(), state.validity, state.next));
                    self.known = count;
                    self.is_selected = true;
                    self.write(&format!(
                        "* FLAGS (\\Seen)\r\n* {count} EXISTS\r\n* OK [UIDVALIDITY {validity}] ids\r\n* OK [UIDNEXT {next}] next\r\n"
                    ))
                    .await?;
                    self.done(&tag, "OK [READ-WRITE]").await?;
                }
                _ if !self.is_selected => self.done(&tag, "BAD select first").await?,
                "IDLE" => self.idle(&tag).await?,
                _ if upper.starts_with("UID FETCH ") => {
                    let body = self.fetch(&command);
                    self.stream.get_mut().write_all(&body).await.ok()?;
                    self.tell_news().await?;
                    self.done(&tag, "OK").await?;
                }
                _ if upper.starts_with("UID SEARCH UNSEEN SINCE ") => {
                    let unread = |state: &MailState| {
                        let unread = state.mails.iter().filter(|mail| !mail.is_read);
                        unread.map(|mail| mail.number.to_string()).collect::<Vec<_>>().join(" ")
                    };
                    let found = self.state.read(unread);
                    self.write(&format!("* SEARCH {found}\r\n")).await?;
                    self.done(&tag, "OK").await?;
                }
                _ if upper.starts_with("UID STORE ") => {
                    let number = command.split(' ').nth(2).and_then(|word| word.parse::<u32>().ok());
                    if !upper.ends_with("+FLAGS.SILENT (\\SEEN)") {
                        self.done(&tag, "BAD flags").await?;
                        continue;
                    }
                    self.state.update(|state| {
                        let stored = state.mails.iter_mut().find(|mail| Some(mail.number) == number);
                        if let Some(mail) = stored {
                            mail.is_read = true;
                        }
                    });
                    self.done(&tag, "OK").await?;
                }
                _ => self.done(&tag, "BAD unknown").await?,
            }
        }
    }

    fn sign_in(&mut self, given: &[u8]) -> String {
        self.state.update(|state| {
            let fault = state.take_fault(|fault| matches!(fault, MailFault::ImapSignIn(_)));
            if let Some(MailFault::ImapSignIn(answer)) = fault {
                return answer;
            }
            let right = format!("\0{ADDRESS}\0{}", state.password);
            if given != right.as_bytes() {
                return "NO [AUTHENTICATIONFAILED] Authentication failed.".to_owned();
            }
            state.sign_ins += 1;
            self.is_signed_in = true;
            "OK".to_owned()
        })
    }

    /// Answers `UID FETCH 7:* (UID RFC822.SIZE)` and `UID FETCH 7 (UID BODY.PEEK[])`.
    fn fetch(&self, command: &str) -> Vec<u8> {
        let mut words = command.splitn(4, ' ').skip(2);
        let (set, items) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        self.state.read(|state| {
            let newest = state.mails.last().map_or(0, |mail| mail.number);
            let number = |text: &str| if text == "*" { newest } else { text.parse().unwrap_or_default() };
            let is_in = |wanted: u32| {
                set.split(',').any(|range| {
                    let (from, to) = range.split_once(':').unwrap_or((range, range));
                    let (from, to) = (number(from), number(to));
                    (from.min(to)..=from.max(to)).contains(&wanted)
                })
            };
            let mut out = Vec::new();
            for (at, mail) in state.mails.iter().enumerate().filter(|(_, mail)| is_in(mail.number)) {
                let (sequence, uid) = (at + 1, mail.number);
                if items.contains("BODY.PEEK[]") {
                    let start = format!("* {sequence} FETCH (UID {uid} BODY[] {{{}}}\r\n", mail.raw.len());
                    out.extend(start.as_bytes());
                    out.extend(&mail.raw);
                    out.extend(b")\r\n");
                } else {
                    let line = format!("* {sequence} FETCH (RFC822.SIZE {} UID {uid})\r\n", mail.raw.len());
                    out.extend(line.as_bytes());
                }
            }
            out
        })
    }

    async fn idle(&mut self, tag: &str) -> Option<()> {
        self.write("+ idling\r\n").await?;
        self.state.update(|state| state.waits += 1);
        loop {
            let (known, epoch) = (self.known, self.epoch);
            let news = self.state.until(|state| {
                if state.epoch != epoch {
                    return Some(None);
                }
                (state.mails.len() != known).then_some(Some(state.mails.len()))
            });
            let mut line = String::new();
            tokio::select! {
                news = news => {
                    let count = news?;
                    self.known = count;
                    self.stream.get_mut().write_all(format!("* {count} EXISTS\r\n").as_bytes()).await.ok()?;
                }
                read = self.stream.read_line(&mut line) => {
                    let read = read.ok()?;
                    if read == 0 {
                        return None;
                    }
                    if line.trim().eq_ignore_ascii_case("DONE") {
                        return self.done(tag, "OK").await;
                    }
                    return self.done(tag, "BAD expected DONE").await;
                }
            }
        }
    }

    async fn tell_news(&mut self) -> Option<()> {
        let count = self.state.read(|state| state.mails.len());
        if count != self.known {
            self.known = count;
            self.write(&format!("* {count} EXISTS\r\n")).await?;
        }
        Some(())
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    async fn done(&mut self, tag: &str, result: &str) -> Option<()> {
        self.write(&format!("{tag} {result} done\r\n")).await
    }

    async fn write(&mut self, text: &str) -> Option<()> {
        self.stream.get_mut().write_all(text.as_bytes()).await.ok()
    }
}
