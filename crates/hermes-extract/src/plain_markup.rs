//! The text of markup that is not parsed: tags removed, entities decoded, a line per block.

/// Elements whose content is no text.
const HIDDEN: [&str; 5] = ["script", "style", "template", "noscript", "title"];
/// Elements that do not end a line.
const INLINE: [&str; 22] = [
    "a", "abbr", "b", "big", "cite", "code", "em", "font", "i", "kbd", "mark", "nobr", "q", "s", "small",
    "span", "strike", "strong", "sub", "sup", "tt", "u",
];

/// Returns the text of markup.
pub(crate) fn text_of(markup: &str) -> String {
    let mut text = String::with_capacity(markup.len() / 2);
    let mut rest = markup;
    while let Some((before, tag)) = rest.split_once('<') {
        push(&mut text, before);
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let is_end = tag.starts_with('/');
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .take(12)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        if name.is_empty() && !is_end && !tag.starts_with('!') && !tag.starts_with('?') {
            // Not a tag: a lone angle bracket.
            text.push('<');
            rest = tag;
            continue;
        }
        let Some((_, after)) = tag.split_once('>') else {
            rest = "";
            break;
        };
        rest = after;
        if !is_end && HIDDEN.contains(&name.as_str()) {
            rest = after_end_tag(after, &name);
        }
        if !INLINE.contains(&name.as_str()) && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    push(&mut text, rest);
    crate::tidy::lines(&text)
}

/// Returns what follows the end tag of an element.
fn after_end_tag<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some((_, tag)) = rest.split_once("</") {
        if tag.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
            return tag.split_once('>').map_or("", |(_, after)| after);
        }
        rest = tag;
    }
    ""
}

/// Adds text with its blanks joined and the common entities decoded.
fn push(text: &mut String, raw: &str) {
    let mut rest = raw;
    while let Some((before, entity)) = rest.split_once('&') {
        push_blanks_joined(text, before);
        let decoded = entity.split_once(';').filter(|(name, _)| name.len() <= 10);
        if let Some((c, after)) = decoded.and_then(|(name, after)| Some((decode(name)?, after))) {
            text.push(c);
            rest = after;
        } else {
            text.push('&');
            rest = entity;
        }
    }
    push_blanks_joined(text, rest);
}

fn push_blanks_joined(text: &mut String, raw: &str) {
    for c in raw.chars() {
        if !c.is_whitespace() {
            text.push(c);
        } else if !text.ends_with([' ', '\n']) {
            text.push(' ');
        }
    }
}

fn decode(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|c| !c.is_control())
        }
    }
}
