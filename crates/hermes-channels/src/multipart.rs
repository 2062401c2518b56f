//! Bodies of type `multipart/form-data`.

use bytes::Bytes;

/// A form under construction.
#[derive(Debug)]
pub(crate) struct MultipartForm {
    boundary: String,
    body: Vec<u8>,
}

impl MultipartForm {
    pub(crate) fn new() -> Self {
        Self { boundary: format!("hermes-{}", hermes_types::random_hex(24)), body: Vec::new() }
    }

    /// Adds a text field.
    #[must_use]
    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.begin(name, None, None);
        self.body.extend_from_slice(value.as_bytes());
        self.body.extend_from_slice(b"\r\n");
        self
    }

    /// Adds a JSON document as a field.
    #[must_use]
    pub(crate) fn json(mut self, name: &str, value: &serde_json::Value) -> Self {
        self.begin(name, None, Some("application/json"));
        self.body.extend_from_slice(value.to_string().as_bytes());
        self.body.extend_from_slice(b"\r\n");
        self
    }

    /// Adds a file.
    #[must_use]
    pub(crate) fn file(mut self, name: &str, file_name: &str, mime: &str, bytes: &[u8]) -> Self {
        self.begin(name, Some(file_name), Some(mime));
        self.body.extend_from_slice(bytes);
        self.body.extend_from_slice(b"\r\n");
        self
    }

    fn begin(&mut self, name: &str, file_name: Option<&str>, mime: Option<&str>) {
        let mut head = format!(
            "--{}\r\nContent-Disposition: form-data; name=\"{}\"",
            self.boundary,
            escape_header_value(name)
        );
        if let Some(file_name) = file_name {
            head.extend(["; filename=\"", &escape_header_value(file_name), "\""]);
        }
        head.push_str("\r\n");
        if let Some(mime) = mime {
            head.extend(["Content-Type: ", &escape_header_value(mime), "\r\n"]);
        }
        head.push_str("\r\n");
        self.body.extend_from_slice(head.as_bytes());
    }

    /// Returns the content type and the body.
    pub(crate) fn finish(mut self) -> (String, Bytes) {
        self.body.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        (format!("multipart/form-data; boundary={}", self.boundary), self.body.into())
    }
}

/// Escapes a value for a quoted string in a header.
fn escape_header_value(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '"' || c == '\\' { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_out_of_its_header() {
        let (kind, body) =
            MultipartForm::new().file("f", "a\"\r\nX-Evil: 1\r\n\r\n.png", "image/png", b"bytes").finish();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(kind.starts_with("multipart/form-data; boundary=hermes-"));
        assert!(
            body.contains("filename=\"a___X-Evil: 1____.png\"\r\nContent-Type: image/png\r\n\r\nbytes\r\n"),
            "{body}"
        );
    }
}
