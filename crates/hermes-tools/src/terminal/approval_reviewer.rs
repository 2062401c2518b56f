//! A model that reviews a dangerous command before a person is asked.

use std::sync::Arc;

use hermes_text::strip_think;
use hermes_types::{Clock, Danger, Message, ModelRequest, SideModel, ToolContext, random_hex};

use super::strip_literals::without_comments;

const MOST_TOKENS: u64 = 16;

/// The model that reviews commands.
#[derive(Clone)]
pub(super) struct ApprovalReviewer {
    pub(super) side: SideModel,
    pub(super) clock: Arc<dyn Clock>,
}

/// The verdict of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVerdict {
    Approve,
    Deny,
    /// The model was unsure, failed or gave an answer that could not be parsed.
    Unsure,
}

impl ApprovalReviewer {
    pub(super) async fn ask(
        &self,
        command: &str,
        dangers: &[Danger],
        context: ToolContext<'_>,
    ) -> ReviewVerdict {
        // The tag is random, so that a command cannot contain its closing tag.
        let mark = format!("command-{}", random_hex(8));
        let reasons: Vec<&str> = dangers.iter().map(|danger| danger.reason.as_str()).collect();
        let question = format!(
            "Flagged for: {}\n\n<{mark}>\n{}\n</{mark}>",
            reasons.join("; "),
            without_comments(command)
        );
        let request = ModelRequest {
            model: self.side.name.clone(),
            system: include_str!("../texts/smart_approval.md").trim().to_owned(),
            messages: vec![Message::user(question)],
            tools: Arc::default(),
            max_tokens: Some(MOST_TOKENS),
            temperature: Some(0.0),
            effort: None,
            session: None,
            deadline: context.deadline.at_most(&*self.clock, self.side.timeout),
            cancel: context.cancel.clone(),
        };
        match self.side.model.complete(&request, &mut |_| {}).await {
            Ok(completion) => read(strip_think(&completion.message.content.text()).trim()),
            Err(error) => {
                tracing::warn!(%error, "no opinion on a command could be had; a person is asked");
                ReviewVerdict::Unsure
            }
        }
    }
}

fn read(answer: &str) -> ReviewVerdict {
    let word = answer.trim_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_uppercase();
    match word.as_str() {
        "APPROVE" => ReviewVerdict::Approve,
        "DENY" => ReviewVerdict::Deny,
        _ => ReviewVerdict::Unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_plain_word_counts() {
        for (answer, opinion) in [
            ("APPROVE", ReviewVerdict::Approve),
            (" approve.\n", ReviewVerdict::Approve),
            ("**DENY**", ReviewVerdict::Deny),
            ("ESCALATE", ReviewVerdict::Unsure),
            ("I would APPROVE this", ReviewVerdict::Unsure),
            ("APPROVE DENY", ReviewVerdict::Unsure),
            ("", ReviewVerdict::Unsure),
        ] {
            assert_eq!(read(answer), opinion, "{answer}");
        }
    }
}
