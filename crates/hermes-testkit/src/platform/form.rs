//! Forms and queries: pairs with percent escapes.

/// Returns the pairs of a form body, in their order.
pub(crate) fn form_fields(body: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(body).into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape_form(name), unescape_form(value))
        })
        .collect()
}

/// Returns the pairs of a target's query.
pub(crate) fn query_fields(target: &str) -> Vec<(String, String)> {
    form_fields(target.split_once('?').map(|(_, query)| query).unwrap_or_default().as_bytes())
}

fn unescape_form(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                let number =
                    std::str::from_utf8(&digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.push(number.unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
