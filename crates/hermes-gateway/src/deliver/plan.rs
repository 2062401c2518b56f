//! Splits an answer into the messages it is sent in: text in parts, then images and files.

use hermes_text::split;
use hermes_types::{ChannelCapabilities, ChatAddress, ChatPart, Envelope, OutgoingMessage};

use super::media::{self, ExtractedMedia, WebPictures};

/// An answer and its destination.
pub(crate) struct OutgoingAnswer<'a> {
    pub(crate) text: &'a str,
    pub(crate) envelope: &'a Envelope,
    pub(crate) abilities: ChannelCapabilities,
    /// The ids of messages that already show its beginning.
    pub(crate) drafts: Vec<String>,
    /// The prefix of the idempotency keys of all its messages.
    pub(crate) key: &'a str,
}

/// Returns the messages, in order. Each has its own key, so that each is sent once.
pub(crate) fn plan_replies(spoken: &OutgoingAnswer<'_>) -> Vec<OutgoingMessage> {
    let Envelope { platform, place, message_id, .. } = spoken.envelope;
    let mut replies = plan_replies_at(platform, place, spoken.text, spoken.abilities, spoken.key);
    for (reply, draft) in replies.iter_mut().zip(&spoken.drafts) {
        if matches!(reply.pieces.first(), Some(ChatPart::Text { .. })) {
            reply.draft = Some(draft.clone());
        }
    }
    // Only the first part is a reply to the question.
    if let Some(first) = replies.first_mut() {
        first.reply_to.clone_from(message_id);
    }
    replies
}

/// Plans the messages for a text that replies to no message.
pub(crate) fn plan_replies_at(
    platform: &str,
    place: &ChatAddress,
    text: &str,
    abilities: ChannelCapabilities,
    key: &str,
) -> Vec<OutgoingMessage> {
    let of_the_web = if abilities.web_images { WebPictures::Extract } else { WebPictures::Keep };
    let ExtractedMedia { text, pictures, files } = media::extract(text, of_the_web);
    let mut pieces = Vec::new();
    if !text.is_empty() {
        let parts = split(&text, abilities.max_length, abilities.unit);
        pieces.extend(parts.into_iter().map(|text| ChatPart::Text { text }));
    }
    pieces.extend(pictures.into_iter().map(ChatPart::Picture));
    pieces.extend(files.into_iter().map(ChatPart::File));
    let reply = |(at, piece): (usize, ChatPart)| OutgoingMessage {
        platform: platform.to_owned(),
        place: place.clone(),
        pieces: vec![piece],
        reply_to: None,
        choices: Vec::new(),
        draft: None,
        idempotency_key: format!("{key}:{at}"),
    };
    pieces.into_iter().enumerate().map(reply).collect()
}

/// Splits a reply into as many messages as its text needs. The first keeps its key and what it replies to, the
/// last its choices.
pub(crate) fn split_reply(reply: OutgoingMessage, abilities: ChannelCapabilities) -> Vec<OutgoingMessage> {
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
