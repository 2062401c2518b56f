//! The replies of commands that chats and the terminal share.

/// A text for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyText {
    /// Shown as it is.
    Plain(String),
    /// The first line has one part between `**`.
    Emphasized(String),
}

/// The outcome of a command about a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationReply {
    Text(ReplyText),
    /// A message to send to the model.
    Ask(String),
}

impl ReplyText {
    /// Returns the text for a chat, which renders Markdown.
    pub fn into_markdown(self) -> String {
        let (Self::Plain(text) | Self::Emphasized(text)) = self;
        text
    }

    /// Returns the text for a terminal, without the emphasis.
    pub fn into_plain(self) -> String {
        match self {
            Self::Plain(text) => text,
            Self::Emphasized(text) => without_emphasis(&text).unwrap_or(text),
        }
    }
}

impl ConversationReply {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::Text(ReplyText::Plain(text.into()))
    }

    pub(super) fn emphasized(text: String) -> Self {
        Self::Text(ReplyText::Emphasized(text))
    }
}

/// Removes the first and the last `**` of the first line; what is between them may hold others.
fn without_emphasis(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let (before, rest) = line.split_once("**")?;
    let (emphasized, after) = rest.rsplit_once("**")?;
    Some(format!("{before}{emphasized}{after}{}", text.get(line.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_no_marks_and_changes_nothing_else() {
        for (text, shown) in [
            ("Session: **My chat**", "Session: My chat"),
            ("Session: **f(**kw)**.\n2 ** 3", "Session: f(**kw).\n2 ** 3"),
            ("no marks\n**", "no marks\n**"),
            ("", ""),
        ] {
            assert_eq!(ReplyText::Emphasized(text.to_owned()).into_plain(), shown);
        }
        let diff = "+def f(**kw): return g(**kw)";
        assert_eq!(ReplyText::Plain(diff.to_owned()).into_plain(), diff);
    }
}
