//! The SMTP side of the emulated mail server: submission of mails by the owner of the mailbox.

use std::sync::Arc;

use data_encoding::BASE64;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{ADDRESS, MailFault, MailState, SentMail};
use crate::task::start_in;
use crate::watched_value::WatchedValue;

pub(super) async fn serve(listener: TcpListener, state: Arc<WatchedValue<MailState>>) {
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let connection = SmtpConnection {
                    stream: BufReader::new(stream), state: state.clone(), is_signed_in: false, mail: SentMail::default(),
                };
                start_in(&mut work, connection.serve());
            },
            Some(_) = work.join_next() => {}
        }
    }
}

struct SmtpConnection {
    stream: BufReader<TcpStream>,
    state: Arc<WatchedValue<MailState>>,
    is_signed_in: bool,
    mail: SentMail,
}

impl SmtpConnection {
    async fn serve(mut self) {
        self.work().await;
    }

    async fn work(&mut self) -> Option<()> {
        self.write("220 fake.test ESMTP").await?;
        loop {
            let line = self.line().await?;
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_uppercase();
            let wanted = |fault: &MailFault| matches!(fault, MailFault::Reply(name, _) if *name == verb);
            if let Some(MailFault::Reply(_, reply)) = self.state.update(|state| state.take_fault(wanted)) {
                self.write(&reply).await?;
                continue;
            }
            match verb.as_str() {
                "EHLO" => self.write("250-fake.test\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN").await?,
                "AUTH" => {
                    let given = line.rsplit(' ').next().unwrap_or_default();
                    let given = BASE64.decode(given.as_bytes()).unwrap_or_default();
                    let right = self.state.read(|state| format!("\0{ADDRESS}\0{}", state.password));
                    self.is_signed_in = given == right.as_bytes();
                    let reply = if self.is_signed_in { "235 2.7.0 fine" } else { "535 5.7.8 wrong password" };
                    self.write(reply).await?;
                }
                "QUIT" => return self.write("221 bye").await,
                _ if !self.is_signed_in => self.write("530 5.7.0 sign in first").await?,
                "MAIL" => {
                    self.mail = SentMail { from: path(&line)?, ..SentMail::default() };
                    let right = self.mail.from == ADDRESS;
                    self.write(if right { "250 2.1.0 ok" } else { "553 5.7.1 not yours" }).await?;
                }
                "RCPT" => {
                    let to = path(&line)?;
                    let known = to.rsplit('.').next().is_some_and(|end| matches!(end, "test" | "org"));
                    self.mail.to = to;
                    self.write(if known { "250 2.1.5 ok" } else { "550 5.1.1 no such user" }).await?;
                }
                "DATA" => {
                    self.write("354 go on").await?;
                    self.read_mail().await?;
                }
                _ => self.write("500 5.5.1 unknown").await?,
            }
        }
    }

    async fn read_mail(&mut self) -> Option<()> {
        let mut raw = Vec::new();
        loop {
            let mut line = Vec::new();
            if self.stream.read_until(b'\n', &mut line).await.ok()? == 0 {
                return None;
            }
            // Lines end as the protocol wants it, and are not longer than it allows.
            if !line.ends_with(b"\r\n") || line.len() > 1000 {
                self.write("554 5.6.0 malformed").await?;
                return None;
            }
            if line == b".\r\n" {
                break;
            }
            raw.extend(line.strip_prefix(b".").unwrap_or(&line));
        }
        self.mail.raw = raw;
        let wanted = |fault: &MailFault| matches!(fault, MailFault::Cut | MailFault::TakeAndCut);
        let fault = self.state.update(|state| state.take_fault(wanted));
        if fault == Some(MailFault::Cut) {
            return None;
        }
        let mail = std::mem::take(&mut self.mail);
        self.state.update(|state| state.sent.push(mail));
        if fault == Some(MailFault::TakeAndCut) {
            return None;
        }
        self.write("250 2.0.0 queued").await
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    async fn write(&mut self, text: &str) -> Option<()> {
        self.stream.get_mut().write_all(format!("{text}\r\n").as_bytes()).await.ok()
    }
}

/// Returns what stands in angle brackets.
fn path(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path.to_owned())
}
