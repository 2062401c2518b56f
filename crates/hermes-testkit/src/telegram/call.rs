//! An API call, however its parameters were sent, and its errors.

use serde_json::{Map, Value, json};

use crate::http::{FormPart, ReceivedRequest, parse_form};

/// A received API call.
#[derive(Debug, Clone, Default)]
pub(super) struct FakeTelegramCall {
    pub(super) method: String,
    pub(super) fields: Map<String, Value>,
    pub(super) files: Vec<FormPart>,
}

/// An error in the API's format.
#[derive(Debug, Clone)]
pub(super) struct FakeTelegramError {
    pub(super) code: u16,
    pub(super) description: String,
    pub(super) parameters: Value,
}

impl FakeTelegramError {
    pub(super) fn new(code: u16, description: impl Into<String>) -> Self {
        Self { code, description: description.into(), parameters: Value::Null }
    }

    pub(super) fn bad(why: impl std::fmt::Display) -> Self {
        Self::new(400, format!("Bad Request: {why}"))
    }

    pub(super) fn too_many(seconds: u64) -> Self {
        let description = format!("Too Many Requests: retry after {seconds}");
        Self { code: 429, description, parameters: json!({"retry_after": seconds}) }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut body = json!({"ok": false, "error_code": self.code, "description": self.description});
        if let (Value::Object(body), false) = (&mut body, self.parameters.is_null()) {
            body.insert("parameters".to_owned(), self.parameters.clone());
        }
        body
    }
}

pub(super) type Result<T> = std::result::Result<T, FakeTelegramError>;

impl FakeTelegramCall {
    /// Reads the parameters from the query and from a body of any encoding the API accepts.
    pub(super) fn read(method: &str, query: &str, request: &ReceivedRequest) -> Result<Self> {
        let mut call = Self { method: method.to_owned(), ..Self::default() };
        call.take_pairs(query);
        let kind = request.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("application/json") && !request.body.is_empty() {
            match serde_json::from_slice(&request.body) {
                Ok(Value::Object(fields)) => call.fields.extend(fields),
                _ => return Err(FakeTelegramError::bad("can't parse JSON object")),
            }
        } else if kind.starts_with("multipart/form-data") {
            let kind = request.header("content-type").unwrap_or_default();
            let parts = parse_form(kind, &request.body)
                .ok_or_else(|| FakeTelegramError::bad("can't parse the form"))?;
            for part in parts {
                if part.file_name.is_some() {
                    call.files.push(part);
                } else {
                    let text = String::from_utf8_lossy(&part.bytes).into_owned();
                    call.fields.insert(part.name, Value::String(text));
                }
            }
        } else if kind.starts_with("application/x-www-form-urlencoded") {
            call.take_pairs(&String::from_utf8_lossy(&request.body));
        }
        Ok(call)
    }

    fn take_pairs(&mut self, pairs: &str) {
        for (name, value) in pairs.split('&').filter_map(|pair| pair.split_once('=')) {
            self.fields.insert(decode(name), Value::String(decode(value)));
        }
    }

    /// Returns a parameter; a missing or empty one does not count.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        let value = self.fields.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.fields.get(name), Some(Value::Bool(true)))
            || self.text(name).is_some_and(|text| text == "true" || text == "True" || text == "1")
    }

    /// Returns a parameter that is a JSON document; forms and queries send it as text.
    pub(super) fn document(&self, name: &str) -> Result<Option<Value>> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => serde_json::from_str(text)
                .map(Some)
                .map_err(|_| FakeTelegramError::bad(format!("can't parse {name} JSON object"))),
            Some(value) => Ok(Some(value.clone())),
        }
    }

    /// Returns the uploaded file of a parameter.
    pub(super) fn file(&self, name: &str) -> Option<&FormPart> {
        let attached = self.text(name).and_then(|text| text.strip_prefix("attach://"));
        self.files.iter().find(|part| part.name == attached.unwrap_or(name))
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
