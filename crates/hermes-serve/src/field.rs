//! Reads a JSON body field by field, so that an error can name the field.

use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use hermes_types::{ContentPart, MessageContent};
use serde_json::{Map, Value};

use crate::error::ApiError;
use axum::http::StatusCode;

pub(crate) type BodyObject = Map<String, Value>;

/// The id in a path; one that is not valid text is rejected like any other invalid value.
pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(id) = Path::<String>::from_request_parts(parts, state).await.map_err(|rejection| {
            ApiError::invalid_field("id", format!("The id in the path cannot be read: {rejection}"))
        })?;
        Ok(Self(id))
    }
}

/// Parses a body that must be a JSON object.
pub(crate) fn object(body: &Bytes) -> Result<BodyObject, ApiError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(ApiError::invalid_field("body", "The body must be a JSON object")),
        Err(error) => Err(ApiError {
            code: Some("invalid_json".into()),
            ..ApiError::invalid_field("body", format!("The body is not valid JSON: {error}"))
        }),
    }
}

/// Reads a text that may be absent or null.
pub(crate) fn text<'a>(object: &'a BodyObject, name: &str) -> Result<Option<&'a str>, ApiError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => {
            Err(ApiError::invalid_field(name, format!("`{name}` must be a string, not {}", kind(other))))
        }
    }
}

/// Reads a boolean; some clients send it as text.
pub(crate) fn flag(object: &BodyObject, name: &str, default: bool) -> Result<bool, ApiError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if matches!(text.to_lowercase().as_str(), "true" | "1" | "yes") => Ok(true),
        Some(Value::String(text)) if matches!(text.to_lowercase().as_str(), "false" | "0" | "no" | "") => {
            Ok(false)
        }
        Some(other) => {
            Err(ApiError::invalid_field(name, format!("`{name}` must be true or false, not {}", kind(other))))
        }
    }
}

/// Reads the content of a message: a text, or a list of texts and images.
pub(crate) fn content(value: Option<&Value>, at: &str) -> Result<MessageContent, ApiError> {
    let parts = match value {
        None | Some(Value::Null) => return Ok(MessageContent::default()),
        Some(Value::String(text)) => return Ok(MessageContent::Text(text.clone())),
        Some(Value::Array(parts)) => parts,
        Some(other) => {
            return Err(ApiError::invalid_field(
                at,
                format!("`{at}` must be a string or a list of parts, not {}", kind(other)),
            ));
        }
    };
    let read: Vec<ContentPart> = parts
        .iter()
        .enumerate()
        .map(|(index, value)| part(value, &format!("{at}[{index}]")))
        .collect::<Result<_, _>>()?;
    // A list of only texts becomes one text; parts are needed only for images.
    if read.iter().all(|part| part.text().is_some()) {
        let texts: Vec<&str> = read.iter().filter_map(ContentPart::text).collect();
        return Ok(MessageContent::Text(texts.join("\n")));
    }
    Ok(MessageContent::Parts(read))
}

fn part(value: &Value, at: &str) -> Result<ContentPart, ApiError> {
    if let Value::String(text) = value {
        return Ok(ContentPart::Text(text.clone()));
    }
    let Value::Object(part) = value else {
        return Err(ApiError::invalid_field(at, format!("`{at}` must be an object, not {}", kind(value))));
    };
    match part.get("type").and_then(Value::as_str) {
        Some("text" | "input_text" | "output_text") => match part.get("text") {
            Some(Value::String(text)) => Ok(ContentPart::Text(text.clone())),
            _ => Err(ApiError::invalid_field(format!("{at}.text"), format!("`{at}.text` must be a string"))),
        },
        Some("image_url" | "input_image") => {
            let image = part.get("image_url");
            let url = match image {
                Some(Value::String(url)) => Some(url.as_str()),
                Some(Value::Object(image)) => image.get("url").and_then(Value::as_str),
                _ => None,
            };
            let known = |url: &&str| {
                ["http://", "https://", "data:image/"].iter().any(|start| url.starts_with(start))
            };
            match url.filter(known) {
                Some(url) => Ok(ContentPart::Image { url: url.to_owned() }),
                None => Err(ApiError::invalid_field(
                    format!("{at}.image_url"),
                    format!("`{at}.image_url` must be an http(s) or data:image URL"),
                )),
            }
        }
        Some(other) => Err(ApiError {
            code: Some("unsupported_content_type".into()),
            status: StatusCode::BAD_REQUEST,
            ..ApiError::invalid_field(
                format!("{at}.type"),
                format!("Content of the type `{other}` is not supported"),
            )
        }),
        None => Err(ApiError::invalid_field(
            format!("{at}.type"),
            format!("`{at}.type` must say what the part is"),
        )),
    }
}

pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
