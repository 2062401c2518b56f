//! Turns what a server answers into the JSON a model reads.

use std::path::{Path, PathBuf};

use data_encoding::{BASE64, BASE64_MIME_PERMISSIVE, HEXLOWER};
use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptResult, ListPromptsResult, ListResourcesResult,
    ReadResourceResult, ResourceContents,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The largest picture that is saved, in bytes.
const LARGEST_IMAGE: usize = 20 * 1024 * 1024;

/// The result of a tool: what it said, and whether it said that it failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolText {
    pub(crate) text: String,
    pub(crate) structured: Option<Value>,
    pub(crate) failed: bool,
}

/// Joins the parts of a result. Pictures are saved below `images`, where the model can look at them.
pub(crate) fn tool_text(result: CallToolResult, images: Option<&Path>) -> ToolText {
    let parts: Vec<String> = result.content.iter().map(|block| block_text(block, images)).collect();
    ToolText {
        text: parts.join("\n"),
        structured: result.structured_content,
        failed: result.is_error.unwrap_or(false),
    }
}

pub(crate) fn resources(listed: &[ListResourcesResult]) -> Value {
    let entries = listed.iter().flat_map(|page| &page.resources).map(|resource| {
        let mut entry = Map::new();
        entry.insert("uri".into(), resource.uri.clone().into());
        entry.insert("name".into(), resource.name.clone().into());
        insert_some(&mut entry, "description", resource.description.as_deref());
        insert_some(&mut entry, "mimeType", resource.mime_type.as_deref());
        Value::Object(entry)
    });
    json!({ "resources": entries.collect::<Vec<_>>() })
}

pub(crate) fn resource_text(result: &ReadResourceResult) -> String {
    result.contents.iter().map(contents_text).collect::<Vec<_>>().join("\n")
}

pub(crate) fn prompts(listed: &[ListPromptsResult]) -> Value {
    let entries = listed.iter().flat_map(|page| &page.prompts).map(|prompt| {
        let mut entry = Map::new();
        entry.insert("name".into(), prompt.name.clone().into());
        insert_some(&mut entry, "description", prompt.description.as_deref());
        if let Some(arguments) = &prompt.arguments {
            let arguments = arguments.iter().map(|argument| {
                let mut fields = Map::new();
                fields.insert("name".into(), argument.name.clone().into());
                insert_some(&mut fields, "description", argument.description.as_deref());
                if let Some(required) = argument.required {
                    fields.insert("required".into(), required.into());
                }
                Value::Object(fields)
            });
            entry.insert("arguments".into(), arguments.collect());
        }
        Value::Object(entry)
    });
    json!({ "prompts": entries.collect::<Vec<_>>() })
}

pub(crate) fn prompt_messages(result: &GetPromptResult) -> Value {
    let messages: Vec<Value> = result
        .messages
        .iter()
        .map(|message| {
            let role = serde_json::to_value(&message.role).unwrap_or_else(|_| "user".into());
            json!({"role": role, "content": block_text(&message.content, None)})
        })
        .collect();
    let mut answer = Map::new();
    answer.insert("messages".into(), messages.into());
    insert_some(&mut answer, "description", result.description.as_deref());
    Value::Object(answer)
}

fn insert_some(map: &mut Map<String, Value>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), value.into());
    }
}

fn block_text(block: &ContentBlock, images: Option<&Path>) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => image_text(&image.data, &image.mime_type, images),
        ContentBlock::Audio(audio) => binary_text(&audio.data),
        ContentBlock::Resource(embedded) => contents_text(&embedded.resource),
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.name, link.uri),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

fn contents_text(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => text.clone(),
        ResourceContents::BlobResourceContents { blob, .. } => binary_text(blob),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

fn binary_text(encoded: &str) -> String {
    let bytes = decode(encoded).map_or_else(|| encoded.len() / 4 * 3, |bytes| bytes.len());
    format!("[binary data, {bytes} bytes]")
}

fn image_text(encoded: &str, mime: &str, images: Option<&Path>) -> String {
    let saved = images.and_then(|folder| save_image(encoded, mime, folder));
    match saved {
        Some(path) => format!("[image saved as {}]", path.display()),
        None => binary_text(encoded),
    }
}

/// Saves a picture under a name that follows from its bytes, so that the same picture is one file.
fn save_image(encoded: &str, mime: &str, folder: &Path) -> Option<PathBuf> {
    let extension = match mime {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return None,
    };
    let bytes = decode(encoded).filter(|bytes| bytes.len() <= LARGEST_IMAGE)?;
    let hash = HEXLOWER.encode(&Sha256::digest(&bytes));
    let path = folder.join(format!("mcp_{}.{extension}", hash.chars().take(16).collect::<String>()));
    if !path.exists()
        && let Err(error) = hermes_config::write::replace(&path, &bytes)
    {
        tracing::warn!(%error, "a picture of an MCP server was not saved");
        return None;
    }
    Some(path)
}

fn decode(encoded: &str) -> Option<Vec<u8>> {
    BASE64.decode(encoded.as_bytes()).or_else(|_| BASE64_MIME_PERMISSIVE.decode(encoded.as_bytes())).ok()
}
