//! Estimates what parsing markup would cost, before it is parsed.
//!
//! An HTML parser repairs markup, and the repair of hostile markup grows with the square of its size: each open
//! element is looked at for each new one, and open formatting is repeated in each new block. Such markup is read
//! without a parser instead.

/// The deepest nesting that is parsed: the converter to Markdown is recursive.
const DEEPEST: usize = 400;
/// The most elements that repeated formatting may add.
const MOST_REPEATED: usize = 200_000;

/// Elements that have no end tag, or end by themselves when the next one begins.
const SELF_ENDING: [&[u8]; 31] = [
    b"area",
    b"base",
    b"br",
    b"col",
    b"embed",
    b"hr",
    b"img",
    b"input",
    b"link",
    b"meta",
    b"param",
    b"source",
    b"track",
    b"wbr",
    b"p",
    b"li",
    b"dt",
    b"dd",
    b"tr",
    b"td",
    b"th",
    b"thead",
    b"tbody",
    b"tfoot",
    b"option",
    b"optgroup",
    b"colgroup",
    b"rp",
    b"rt",
    b"html",
    b"body",
];

/// Formatting that the parser repeats in each block in which it is still open.
const FORMATTING: [&[u8]; 14] = [
    b"a", b"b", b"big", b"code", b"em", b"font", b"i", b"nobr", b"s", b"small", b"strike", b"strong", b"tt",
    b"u",
];

/// Tells whether markup can be parsed at a cost in proportion to its size.
pub(crate) fn is_affordable(markup: &str) -> bool {
    let mut depth = 0usize;
    let mut formatting = 0usize;
    let mut repeated = 0usize;
    let mut rest = markup.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        rest = rest.get(at + 1..).unwrap_or_default();
        let is_end = rest.first() == Some(&b'/');
        let name = rest.get(usize::from(is_end)..).unwrap_or_default();
        let length = name.iter().take(12).position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(12);
        let name = name.get(..length.min(name.len())).unwrap_or_default().to_ascii_lowercase();
        if name.first().is_none_or(|byte| !byte.is_ascii_alphabetic()) {
            continue;
        }
        let is_formatting = FORMATTING.contains(&name.as_slice());
        if is_formatting {
            formatting = if is_end { formatting.saturating_sub(1) } else { formatting + 1 };
        } else if !is_end {
            repeated += formatting;
        }
        if !SELF_ENDING.contains(&name.as_slice()) {
            depth = if is_end { depth.saturating_sub(1) } else { depth + 1 };
        }
        if depth > DEEPEST || repeated > MOST_REPEATED {
            return false;
        }
    }
    true
}
