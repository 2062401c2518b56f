//! Bodies of type `multipart/form-data`.

/// A field of a form.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormPart {
    pub name: String,
    pub file_name: Option<String>,
    pub mime: Option<String>,
    pub bytes: Vec<u8>,
}

/// Returns the fields of a body, or `None` when it does not match the boundary of its content type.
pub(crate) fn parse_form(content_type: &str, body: &[u8]) -> Option<Vec<FormPart>> {
    let boundary = content_type.split_once("boundary=")?.1.trim_matches('"');
    let line = format!("\r\n--{boundary}").into_bytes();
    // The first boundary has no line break before it.
    let body = [b"\r\n", body].concat();
    let mut sections = split(&body, &line).into_iter();
    if !sections.next()?.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    for section in sections {
        if section.starts_with(b"--") {
            return Some(parts);
        }
        parts.push(read_part(section.strip_prefix(b"\r\n")?)?);
    }
    None
}

fn read_part(section: &[u8]) -> Option<FormPart> {
    let end = section.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(section.get(..end)?).ok()?;
    let mut part = FormPart { bytes: section.get(end + 4..)?.to_vec(), ..FormPart::default() };
    for line in head.split("\r\n") {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-type") {
            part.mime = Some(value.trim().to_owned());
        } else if name.eq_ignore_ascii_case("content-disposition") {
            part.name = attribute(value, "name")?;
            part.file_name = attribute(value, "filename");
        }
    }
    Some(part)
}

fn attribute(value: &str, name: &str) -> Option<String> {
    let fields = value.split(';').skip(1);
    let mut found = fields.filter_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
    found.next().map(|text| text.trim_matches('"').to_owned())
}

fn split<'a>(body: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut sections = Vec::new();
    let mut rest = body;
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        sections.push(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + separator.len()..).unwrap_or_default();
    }
    sections.push(rest);
    sections
}
