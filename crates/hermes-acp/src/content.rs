//! What an editor sends with a prompt, as the model reads it.

use agent_client_protocol::v1::schema::{ContentBlock, EmbeddedResourceResource};
use hermes_agent::TurnInput;
use hermes_types::{ContentPart, MessageContent};

/// Returns the input of a turn, or nothing for an empty prompt.
pub(crate) fn input_of(blocks: &[ContentBlock]) -> Option<TurnInput> {
    let mut texts: Vec<String> = Vec::new();
    let mut images = Vec::new();
    for block in blocks {
        match block {
            ContentBlock::Text(text) => texts.push(text.text.clone()),
            ContentBlock::ResourceLink(link) => texts.push(format!("[{}]({})", link.name, link.uri)),
            ContentBlock::Resource(resource) => {
                if let EmbeddedResourceResource::TextResourceContents(file) = &resource.resource {
                    // A fence longer than any in the text ends where it should.
                    let fence = "`".repeat(longest_fence(&file.text).max(2) + 1);
                    texts.push(format!("{}:\n{fence}\n{}\n{fence}", file.uri, file.text));
                }
            }
            ContentBlock::Image(image) => {
                let url = format!("data:{};base64,{}", image.mime_type, image.data);
                images.push(ContentPart::Image { url });
            }
            _ => {}
        }
    }
    let text = texts.join("\n");
    if text.trim().is_empty() && images.is_empty() {
        return None;
    }
    if images.is_empty() {
        return Some(TurnInput::text(text));
    }
    let mut parts = vec![ContentPart::Text(text)];
    parts.append(&mut images);
    Some(TurnInput { content: MessageContent::Parts(parts), ..TurnInput::text("") })
}

/// Returns the text of a prompt that is nothing but text.
pub(crate) fn plain_text(blocks: &[ContentBlock]) -> Option<&str> {
    match blocks {
        [ContentBlock::Text(text)] => Some(text.text.trim()),
        _ => None,
    }
}

fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
