//! The inbox: which mails are new, and the way of each to the intake.
//!
//! New is what has a higher number than the last mail that was dealt with, whether somebody read it meanwhile or not. That
//! point is on disk and moves only past mails that the intake has accepted, or that are not for the agent. When the server
//! numbers the mailbox anew, the unread mails since the point's day are read again; the intake knows by their ids which of
//! them it has.

use std::time::Duration;

use hermes_net::Bytes;
use hermes_types::{
    Cancel, ChannelError, ChatAddress, ChatKind, ChatPart, CivilTime, ConnectionStatus, Envelope, Intake,
    Sender, Timestamp,
};
use serde_json::{Value, json};

use super::imap::{ImapClient, LARGEST_MAIL, MailboxState};
use super::incoming::{IncomingMail, MailFile};
use super::settings::SenderCheck;
use super::smtp::SmtpClient;
use super::{EmailChannel, NAME, authentication, automatic, masked};
use crate::backoff::Backoff;
use crate::host::ChannelHost;
use crate::incoming_file::{DescribedFile, SubmitOutcome, submit};

const DOCUMENT: &str = "email_seen.json";
/// What is read of a mail that is too large.
const BEGINNING: usize = 256 * 1024;
/// Clocks differ, and days begin elsewhere earlier.
const DAY_MARGIN: Duration = Duration::from_hours(48);
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The point up to which mails are dealt with.
#[derive(Debug, Clone, PartialEq)]
struct SeenMails {
    account: String,
    validity: u32,
    last: u32,
    at: Timestamp,
}

impl SeenMails {
    fn load(host: &dyn ChannelHost, account: &str) -> Option<Self> {
        let document = host.load_document(DOCUMENT)?;
        let number = |key: &str| document.get(key)?.as_u64().and_then(|number| u32::try_from(number).ok());
        let of = document.get("account").and_then(Value::as_str)?;
        (of == account).then_some(())?;
        Some(Self {
            account: account.to_owned(),
            validity: number("uidvalidity")?,
            last: number("last_uid")?,
            at: Timestamp(document.get("at").and_then(Value::as_f64).unwrap_or_default()),
        })
    }

    fn save(&self, host: &dyn ChannelHost) {
        let Self { account, validity, last, at } = self;
        let document =
            json!({"account": account, "uidvalidity": validity, "last_uid": last, "at": at.seconds()});
        host.save_document(DOCUMENT, &document);
    }
}

/// What became of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MailOutcome {
    /// It is in the intake.
    Stored,
    /// It is not for the agent.
    Ignored,
    /// It may not be in the intake: the channel ends.
    Cancelled,
}

impl EmailChannel {
    pub(super) async fn run(&self, intake: &dyn Intake, cancel: &Cancel) -> Result<(), ChannelError> {
        if self.settings.check == SenderCheck::Impossible {
            return Err(ChannelError::Refused(
                "EMAIL_AUTHSERV_ID is not set: without the name under which your mail server writes its results, anybody \
                 could send mail in the name of others. Open the source of a mail you received and set it to the first \
                 word after \"Authentication-Results:\". If there is no such line, the server checks nothing; \
                 EMAIL_TRUST_FROM_HEADER=true then takes every sender at their word"
                    .to_owned(),
            ));
        }
        let mut pauses = Backoff::new(Duration::from_secs(2), Duration::from_mins(5));
        let mut is_first = true;
        loop {
            let ended = tokio::select! {
                ended = self.serve(intake, cancel, &mut pauses, &mut is_first) => ended,
                () = cancel.cancelled() => return Ok(()),
            };
            let (after, reason) = match ended {
                Ok(()) => return Ok(()),
                Err(ChannelError::Retry { after, reason }) => (after, reason),
                Err(error) => return Err(error),
            };
            tracing::info!(reason, "the connection to the mailbox ended");
            intake.report_connection(NAME, ConnectionStatus::Down(reason));
            let pause = pauses.next_with_jitter().max(after.unwrap_or_default());
            tokio::select! {
                () = self.context.clock.sleep(pause) => {}
                () = cancel.cancelled() => return Ok(()),
            }
        }
    }

    async fn serve(
        &self,
        intake: &dyn Intake,
        cancel: &Cancel,
        pauses: &mut Backoff,
        is_first: &mut bool,
    ) -> Result<(), ChannelError> {
        let mut imap = ImapClient::connect(&self.settings, &self.context).await?;
        let state = imap.select_inbox().await?;
        if std::mem::take(is_first) {
            self.check_sending().await?;
        }
        let mut seen = self.reconcile(&mut imap, state, intake, cancel).await?;
        intake.report_connection(NAME, ConnectionStatus::Up);
        pauses.reset();
        loop {
            let mails = imap.mails_from(seen.last.saturating_add(1)).await?;
            if !self.take_all(&mut imap, &mails, &mut seen, intake, cancel).await? {
                imap.close().await;
                return Ok(());
            }
            imap.wait(self.settings.poll_interval).await?;
        }
    }

    /// Signs in at both servers.
    pub(super) async fn check_sign_in(&self) -> Result<(), ChannelError> {
        ImapClient::connect(&self.settings, &self.context).await?.close().await;
        SmtpClient::connect(&self.settings, &self.context).await.map(drop)
    }

    /// Signs in where mails are sent, so that a wrong password is known before the first answer.
    async fn check_sending(&self) -> Result<(), ChannelError> {
        match SmtpClient::connect(&self.settings, &self.context).await {
            Ok(_) => Ok(()),
            Err(ChannelError::Retry { reason, .. }) => {
                tracing::warn!(reason, "no mail can be sent at present");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the point for a mailbox in this state. Without an earlier one, everything that is there counts as dealt with.
    async fn reconcile(
        &self,
        imap: &mut ImapClient,
        state: MailboxState,
        intake: &dyn Intake,
        cancel: &Cancel,
    ) -> Result<SeenMails, ChannelError> {
        let account = format!("{}@{}", self.settings.address, self.settings.imap.host);
        let host = &*self.context.host;
        let now = self.context.clock.now();
        let here = SeenMails {
            account: account.clone(),
            validity: state.validity,
            last: state.next.saturating_sub(1),
            at: now,
        };
        match SeenMails::load(host, &account) {
            Some(known) if known.validity == state.validity => Ok(known),
            Some(known) => {
                tracing::warn!("the server numbered the mailbox anew; unread mails are read again");
                let mails = imap.unread_since(&imap_day(known.at.minus(DAY_MARGIN))).await?;
                let mails: Vec<_> = mails.into_iter().filter(|(number, _)| *number <= here.last).collect();
                // Not saved before all of them are dealt with.
                let mut passing = SeenMails { last: 0, ..known };
                for mail in &mails {
                    if self.take_numbered(imap, *mail, &mut passing, intake, cancel).await?
                        == MailOutcome::Cancelled
                    {
                        return Err(ChannelError::Retry {
                            after: None,
                            reason: "it was cancelled".to_owned(),
                        });
                    }
                }
                here.save(host);
                Ok(here)
            }
            None => {
                here.save(host);
                Ok(here)
            }
        }
    }

    /// Deals with mails in their order. Returns false when the channel ends.
    async fn take_all(
        &self,
        imap: &mut ImapClient,
        mails: &[(u32, usize)],
        seen: &mut SeenMails,
        intake: &dyn Intake,
        cancel: &Cancel,
    ) -> Result<bool, ChannelError> {
        for mail in mails {
            if cancel.is_cancelled()
                || self.take_numbered(imap, *mail, seen, intake, cancel).await? == MailOutcome::Cancelled
            {
                return Ok(false);
            }
            seen.save(&*self.context.host);
        }
        Ok(true)
    }

    async fn take_numbered(
        &self,
        imap: &mut ImapClient,
        (number, size): (u32, usize),
        seen: &mut SeenMails,
        intake: &dyn Intake,
        cancel: &Cancel,
    ) -> Result<MailOutcome, ChannelError> {
        let limit = (size > LARGEST_MAIL).then_some(BEGINNING);
        let outcome = match imap.fetch(number, limit).await? {
            Some(raw) => self.take(&raw, limit, intake, cancel).await,
            // Somebody removed it meanwhile.
            None => MailOutcome::Ignored,
        };
        if outcome == MailOutcome::Cancelled {
            return Ok(outcome);
        }
        seen.last = seen.last.max(number);
        seen.at = self.context.clock.now();
        if outcome == MailOutcome::Stored {
            imap.mark_read(number).await?;
        }
        Ok(outcome)
    }

    async fn take(
        &self,
        raw: &[u8],
        limit: Option<usize>,
        intake: &dyn Intake,
        cancel: &Cancel,
    ) -> MailOutcome {
        let Some(mail) = IncomingMail::parse(raw) else {
            tracing::warn!("a mail could not be read; it is left in the mailbox");
            return MailOutcome::Ignored;
        };
        let Some(sender) = mail.sender.clone() else {
            tracing::info!("a mail without a single sender was not taken");
            return MailOutcome::Ignored;
        };
        if let Some(why) = automatic::reason(&sender, &self.settings.address, |name| mail.field(name)) {
            tracing::info!(from = masked(&sender), why, "a mail was not taken");
            return MailOutcome::Ignored;
        }
        if let SenderCheck::Results(servers) = &self.settings.check
            && let Some(why) =
                authentication::refusal(mail.fields("authentication-results"), servers, &sender)
        {
            tracing::warn!(from = masked(&sender), why, "a mail was not taken: its sender may be forged");
            return MailOutcome::Ignored;
        }
        let parts = self.parts(&mail, limit).await;
        self.threads.remember(&mail, &*self.context.host);
        let envelope = self.envelope(mail, sender, parts);
        match submit(intake, envelope, &*self.context.clock, cancel).await {
            SubmitOutcome::Stored => MailOutcome::Stored,
            SubmitOutcome::Cancelled => MailOutcome::Cancelled,
        }
    }

    async fn parts(&self, mail: &IncomingMail, limit: Option<usize>) -> Vec<ChatPart> {
        let mut texts = vec![mail.message_text()];
        if limit.is_some() {
            texts.push("[The mail is too large; only its beginning was read.]".to_owned());
        }
        let left_out = if self.settings.skip_attachments { mail.files.len() } else { mail.more_files };
        if left_out > 0 {
            texts.push(format!("[{left_out} attached files were left out.]"));
        }
        texts.retain(|text| !text.is_empty());
        let mut parts = Vec::new();
        if !texts.is_empty() {
            parts.push(ChatPart::Text { text: texts.join("\n\n") });
        }
        // Of a part of a mail, the files are parts, too.
        if !self.settings.skip_attachments && limit.is_none() {
            for file in &mail.files {
                parts.push(self.take_file(file).await);
            }
        }
        if parts.is_empty() {
            parts.push(ChatPart::Text { text: "(empty email)".to_owned() });
        }
        parts
    }

    async fn take_file(&self, file: &MailFile) -> ChatPart {
        let described = DescribedFile {
            name: file.name.as_deref(),
            mime: file.mime.as_deref(),
            size: u64::try_from(file.bytes.len()).ok(),
            kind: None,
        };
        let bytes = Bytes::from(file.bytes.clone());
        described.take(&*self.context.host, &*self.context.clock, async { Ok(bytes) }).await
    }

    fn envelope(&self, mail: IncomingMail, sender: String, parts: Vec<ChatPart>) -> Envelope {
        let mut place = ChatAddress::new(ChatKind::Dm, &sender);
        place.chat_name.clone_from(&mail.sender_name);
        Envelope {
            platform: NAME.to_owned(),
            platform_key: format!("{}|{sender}", mail.id),
            place,
            sender: Sender { user_id: Some(sender), user_name: mail.sender_name, alt_id: None, handle: None },
            parts,
            message_id: Some(mail.id).filter(|_| mail.has_id),
            reply_to: mail.in_reply_to,
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            received_at: self.context.clock.now(),
        }
    }
}

fn imap_day(at: Timestamp) -> String {
    let day = CivilTime::utc(at);
    format!("{}-{}-{}", day.day, month(&day), day.year)
}

/// Returns the English abbreviation of the month.
fn month(day: &CivilTime) -> &'static str {
    let at = usize::try_from(day.month).unwrap_or_default().saturating_sub(1);
    MONTHS.get(at).copied().unwrap_or("Jan")
}

/// Returns a time for the head of a mail.
pub(super) fn mail_date(at: Timestamp) -> String {
    let day = CivilTime::utc(at);
    format!(
        "{} {} {} {:02}:{:02}:{:02} +0000",
        day.day,
        month(&day),
        day.year,
        day.hour,
        day.minute,
        day.second
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_as_imap_and_mails_write_them() {
        let at = Timestamp(1_762_250_405.0);
        assert_eq!(imap_day(at), "4-Nov-2025");
        assert_eq!(mail_date(at), "4 Nov 2025 10:00:05 +0000");
    }
}
