//! JSON documents, indented where they came on one line; JSON feeds as feeds.

use serde_json::Value;

use crate::feed;

/// The longest document that is indented. Indenting can make a text several times longer.
const LONGEST_INDENTED: usize = 1_000_000;
/// The deepest level that is indented further.
const DEEPEST_INDENTED: usize = 20;

pub(crate) fn read(text: &str, url: &str) -> (String, String) {
    let as_it_is = || (String::new(), crate::plain(text));
    if text.len() > LONGEST_INDENTED {
        return as_it_is();
    }
    // Invalid JSON, such as one object per line, is still readable.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return as_it_is() };
    if let Some(read) = feed::read_json(&value, url) {
        return read;
    }
    if text.trim().contains('\n') { as_it_is() } else { (String::new(), indented(text.trim())) }
}

/// Indents valid JSON without touching its values: numbers keep every digit.
fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut in_string = false;
    let mut is_escaped = false;
    let mut previous = ' ';
    for c in json.chars() {
        if in_string {
            text.push(c);
            in_string = c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            previous = '"';
            continue;
        }
        match c {
            c if c.is_whitespace() => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !matches!(previous, '{' | '[') {
                    new_line(&mut text, depth);
                }
            }
            _ if matches!(previous, '{' | '[' | ',') => new_line(&mut text, depth),
            _ => {}
        }
        text.push(c);
        match c {
            '{' | '[' => depth += 1,
            ':' => text.push(' '),
            '"' => in_string = true,
            _ => {}
        }
        previous = c;
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth.min(DEEPEST_INDENTED)));
}
