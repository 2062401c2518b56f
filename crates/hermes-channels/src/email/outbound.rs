//! Outgoing mails.

use data_encoding::HEXLOWER;
use hermes_types::{ChannelError, ChatPart, DeliveryCertainty, DeliveryReceipt, OutgoingMessage, random_hex};
use sha2::{Digest as _, Sha256};

use super::address::{message_id, normal_address};
use super::compose::{Letter, LetterFile, reply_subject};
use super::mailbox::mail_date;
use super::smtp::SmtpClient;
use super::threads::MailThread;
use super::{EmailChannel, OWN_ID_START, SUBJECT, masked};
use crate::fetch::fetch_picture;
use crate::incoming_file::read_outgoing;
use crate::media::mime_of;

impl EmailChannel {
    /// Sends a reply as one mail.
    pub(super) async fn deliver(
        &self,
        reply: &OutgoingMessage,
        certainty: DeliveryCertainty,
    ) -> Result<DeliveryReceipt, ChannelError> {
        let to = normal_address(&reply.place.chat_id).ok_or_else(|| {
            ChannelError::Refused(format!("`{}` is not a mail address", reply.place.chat_id))
        })?;
        let (text, files) = self.contents(reply).await?;
        let thread = match reply.reply_to.as_deref().and_then(message_id) {
            Some(answered) => self.threads.thread_of(answered, &*self.context.host),
            None => MailThread::default(),
        };
        let subject = match thread.references.is_empty() {
            true => SUBJECT.to_owned(),
            false if thread.subject.is_empty() => format!("Re: {SUBJECT}"),
            false => reply_subject(&thread.subject),
        };
        let id = self.own_id(reply, &to);
        let letter = Letter {
            from: &self.settings.address,
            to: &to,
            subject: &subject,
            id: &id,
            date: mail_date(self.context.clock.now()),
            references: &thread.references,
            text: &text,
            files,
        };
        let mail = letter.write(&random_hex(24));
        drop(letter);
        let client = SmtpClient::connect(&self.settings, &self.context).await?;
        client.send(&self.settings.address, &to, &mail).await.inspect_err(|error| {
            tracing::debug!(to = masked(&to), %error, "a mail was not sent");
        })?;
        Ok(DeliveryReceipt { message_ids: vec![id], certainty })
    }

    async fn contents(&self, reply: &OutgoingMessage) -> Result<(String, Vec<LetterFile>), ChannelError> {
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        for piece in &reply.pieces {
            match piece {
                ChatPart::Text { text } => texts.push(text.clone()),
                ChatPart::File(file) => match read_outgoing(file) {
                    Ok((name, bytes)) => files.push(LetterFile { mime: mime_of(&name), name, bytes }),
                    // The text that goes with it must arrive all the same.
                    Err(error) if reply.pieces.len() > 1 => {
                        texts.push(format!("[A file is missing here: {error}]"));
                    }
                    Err(error) => return Err(error),
                },
                ChatPart::Picture(picture) => {
                    match fetch_picture(&self.context.client, &*self.context.clock, &picture.url).await {
                        Ok(fetched) => {
                            texts.extend(picture.caption.clone());
                            files.push(LetterFile {
                                mime: mime_of(&fetched.name),
                                name: fetched.name.clone(),
                                bytes: fetched.bytes.to_vec(),
                            });
                        }
                        Err(why) => {
                            tracing::warn!(why, "a picture is sent as its address");
                            texts.push(picture.fallback_text());
                        }
                    }
                }
            }
        }
        Ok((texts.join("\n\n"), files))
    }

    /// Returns the id of a mail, the same for every attempt to send it.
    fn own_id(&self, reply: &OutgoingMessage, to: &str) -> String {
        let mut digest = Sha256::new();
        for part in [self.settings.address.as_str(), to, &reply.idempotency_key] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        // A database that was begun anew counts from the start; its texts differ.
        for piece in &reply.pieces {
            if let ChatPart::Text { text } = piece {
                digest.update(text.as_bytes());
            }
        }
        let hex = HEXLOWER.encode(&digest.finalize());
        format!("{OWN_ID_START}{}@{}", hermes_text::head(&hex, 12), self.settings.domain)
    }
}
