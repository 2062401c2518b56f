//! Bodies of type `multipart/form-data`.

/// A part of a form.
#[derive(Debug, Clone, Default)]
pub(super) struct DiscordFormPart {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
    pub(super) mime: Option<String>,
    pub(super) bytes: Vec<u8>,
}

/// Parses a body whose content type names the boundary; returns `None` when it is malformed.
pub(super) fn parse(content_type: &str, body: &[u8]) -> Option<Vec<DiscordFormPart>> {
    let boundary = content_type.split("boundary=").nth(1)?.trim_matches('"');
    let separator = format!("--{boundary}");
    let mut parts = Vec::new();
    let mut rest = after(body, separator.as_bytes())?;
    while let Some(section) = rest.strip_prefix(b"\r\n") {
        let end = find(section, format!("\r\n{separator}").as_bytes())?;
        let (inside, following) = section.split_at_checked(end)?;
        parts.push(part(inside)?);
        rest = following.get(separator.len() + 2..)?;
    }
    rest.starts_with(b"--").then_some(parts)
}

fn part(section: &[u8]) -> Option<DiscordFormPart> {
    let end = find(section, b"\r\n\r\n")?;
    let (head, bytes) = section.split_at_checked(end)?;
    let mut part = DiscordFormPart { bytes: bytes.get(4..)?.to_vec(), ..DiscordFormPart::default() };
    for line in std::str::from_utf8(head).ok()?.split("\r\n") {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-disposition" => {
                part.name = quoted(value, " name=")?;
                part.file_name = quoted(value, " filename=");
            }
            "content-type" => part.mime = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    Some(part)
}

fn quoted(value: &str, key: &str) -> Option<String> {
    let rest = value.split_once(key)?.1.strip_prefix('"')?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn after<'a>(body: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    body.get(find(body, mark)? + mark.len()..)
}

fn find(body: &[u8], mark: &[u8]) -> Option<usize> {
    body.windows(mark.len()).position(|window| window == mark)
}
