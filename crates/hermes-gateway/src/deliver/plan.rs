//! Splits an answer into the messages it is sent in: text in parts, then images and files.

use std::path::Path;

use hermes_text::split;
use hermes_types::{
    ChannelCapabilities, ChatAddress, ChatPart, Envelope, OutgoingMessage, PlatformTrait, platform_has,
};

use super::media::{self, ExtractedMedia, WebPictures};

/// The chat a reply goes to, and the message it answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyTarget<'a> {
    pub(crate) platform: &'a str,
    pub(crate) place: &'a ChatAddress,
    /// The platform's id of the answered message.
    pub(crate) answers: Option<&'a str>,
}

impl<'a> ReplyTarget<'a> {
    /// Returns the target of a reply to a message.
    pub(crate) fn of(envelope: &'a Envelope) -> Self {
        let Envelope { platform, place, message_id, .. } = envelope;
        Self { platform, place, answers: message_id.as_deref() }
    }

    /// Returns the target of a text that answers nothing.
    pub(crate) fn chat(platform: &'a str, place: &'a ChatAddress) -> Self {
        Self { platform, place, answers: None }
    }

    /// Creates a reply of one text.
    pub(crate) fn reply(self, text: String, idempotency_key: String) -> OutgoingMessage {
        self.message(ChatPart::Text { text }, idempotency_key)
    }

    fn message(self, piece: ChatPart, idempotency_key: String) -> OutgoingMessage {
        OutgoingMessage {
            platform: self.platform.to_owned(),
            place: self.place.clone(),
            pieces: vec![piece],
            reply_to: self.answers.map(str::to_owned),
            choices: Vec::new(),
            draft: None,
            idempotency_key,
        }
    }
}

/// Returns the messages, in order. Each has its own key, so that each is sent once. Only the first replies to the
/// answered message.
pub(super) fn plan_replies(
    target: ReplyTarget<'_>,
    text: &str,
    abilities: ChannelCapabilities,
    key: &str,
    refuses: &dyn Fn(&Path) -> bool,
) -> Vec<OutgoingMessage> {
    let of_the_web = if abilities.web_images { WebPictures::Extract } else { WebPictures::Keep };
    let ExtractedMedia { text, pictures, files } = media::extract(text, of_the_web, refuses);
    let mut pieces = Vec::new();
    if !text.is_empty() {
        let parts = split(&text, abilities.max_length, abilities.unit);
        pieces.extend(parts.into_iter().map(|text| ChatPart::Text { text }));
    }
    pieces.extend(pictures.into_iter().map(ChatPart::Picture));
    pieces.extend(files.into_iter().map(ChatPart::File));
    if platform_has(target.platform, PlatformTrait::FilesWithText) {
        return plan_with_files(target, pieces, key);
    }
    let message = |(at, piece): (usize, ChatPart)| {
        let target = if at == 0 { target } else { ReplyTarget { answers: None, ..target } };
        target.message(piece, format!("{key}:{at}"))
    };
    pieces.into_iter().enumerate().map(message).collect()
}

/// Puts the first text and all files into one message; further texts follow it.
fn plan_with_files(target: ReplyTarget<'_>, pieces: Vec<ChatPart>, key: &str) -> Vec<OutgoingMessage> {
    let mut replies: Vec<OutgoingMessage> = Vec::new();
    for piece in pieces {
        let is_text = matches!(piece, ChatPart::Text { .. });
        match replies.first_mut() {
            Some(first) if !is_text => first.pieces.push(piece),
            _ => {
                let at = replies.len();
                replies.push(target.message(piece, format!("{key}:{at}")));
            }
        }
    }
    replies
}

/// Makes the first replies the final text of messages that already show the beginning of the answer.
pub(crate) fn replace_drafts(replies: &mut [OutgoingMessage], drafts: &[String]) {
    for (reply, draft) in replies.iter_mut().zip(drafts) {
        if matches!(reply.pieces.first(), Some(ChatPart::Text { .. })) {
            reply.draft = Some(draft.clone());
        }
    }
}

/// Splits a reply into as many messages as its text needs. The first keeps its key and what it replies to, the
/// last its choices.
pub(super) fn split_reply(reply: OutgoingMessage, abilities: ChannelCapabilities) -> Vec<OutgoingMessage> {
    let [ChatPart::Text { text }] = reply.pieces.as_slice() else { return vec![reply] };
    let parts = split(text, abilities.max_length, abilities.unit);
    if parts.len() < 2 {
        return vec![reply];
    }
    let last = parts.len() - 1;
    let part = |(at, text): (usize, String)| OutgoingMessage {
        pieces: vec![ChatPart::Text { text }],
        reply_to: reply.reply_to.clone().filter(|_| at == 0),
        choices: if at == last { reply.choices.clone() } else { Vec::new() },
        draft: reply.draft.clone().filter(|_| at == 0),
        idempotency_key: if at == 0 {
            reply.idempotency_key.clone()
        } else {
            format!("{}:part{at}", reply.idempotency_key)
        },
        ..reply.clone()
    };
    parts.into_iter().enumerate().map(part).collect()
}
