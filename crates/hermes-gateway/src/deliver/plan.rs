//! An answer as the messages it is sent in: text in parts, then pictures and files.

use hermes_text::split;
use hermes_types::{Abilities, Envelope, Piece, Reply};

use super::media::{self, Found};

/// An answer and where it goes.
pub(crate) struct Spoken<'a> {
    pub(crate) text: &'a str,
    pub(crate) envelope: &'a Envelope,
    pub(crate) abilities: Abilities,
    /// Messages that already show the beginning.
    pub(crate) drafts: Vec<String>,
    /// What the keys of all its messages begin with.
    pub(crate) key: &'a str,
}

/// The messages, in order. Each has a key of its own, so that each is sent once.
pub(crate) fn plan(spoken: &Spoken<'_>) -> Vec<Reply> {
    let Found { text, files, links } = media::extract(spoken.text);
    let mut replies = Vec::new();
    let mut drafts = spoken.drafts.iter();
    if !text.is_empty() {
        for part in split(&text, spoken.abilities.limit, spoken.abilities.unit) {
            let draft = drafts.next().cloned();
            let at = replies.len();
            replies.push(Reply { draft, ..reply(spoken, at, Piece::Text { text: part }) });
        }
    }
    for link in links {
        let at = replies.len();
        replies.push(reply(spoken, at, Piece::Text { text: link }));
    }
    for file in files {
        let at = replies.len();
        replies.push(reply(spoken, at, Piece::File(file)));
    }
    replies
}

fn reply(spoken: &Spoken<'_>, at: usize, piece: Piece) -> Reply {
    Reply {
        platform: spoken.envelope.platform.clone(),
        place: spoken.envelope.place.clone(),
        pieces: vec![piece],
        // Only the first part points at the question.
        reply_to: spoken.envelope.message_id.clone().filter(|_| at == 0),
        choices: Vec::new(),
        draft: None,
        idempotency_key: format!("{}:{at}", spoken.key),
    }
}
