//! The meaning of plain scalars under YAML 1.1, and the spelling that keeps a value's meaning.
//!
//! Homes were written for a 1.1 reader, so `off` is false and `017` is fifteen. The writer quotes every text that
//! either version of YAML would read as something else, so that written files mean the same to every reader.

use super::YamlValue;

/// Returns the meaning of an unquoted, untagged scalar.
pub(crate) fn resolve(text: &str) -> YamlValue {
    if is_null(text) {
        return YamlValue::Null;
    }
    if let Some(value) = read_bool(text) {
        return YamlValue::Bool(value);
    }
    read_int(text)
        .or_else(|| read_float(text).map(YamlValue::Float))
        .unwrap_or_else(|| YamlValue::Str(text.to_owned()))
}

pub(super) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Parses a boolean in lower, Title and UPPER casing only: `yEs` is text.
pub(super) fn read_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => Some(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => Some(false),
        _ => None,
    }
}

/// Parses decimal, `0b`, `0x`, `0o` and leading-zero octal, and base-60 `1:30`, with underscores between digits. A
/// number too long for any machine integer stays text, digit for digit.
pub(super) fn read_int(text: &str) -> Option<YamlValue> {
    let (negative, digits) = split_sign(text);
    let magnitude = if let Some(rest) = digits.strip_prefix("0b") {
        read_radix(rest, 2)?
    } else if let Some(rest) = digits.strip_prefix("0x") {
        read_radix(rest, 16)?
    } else if let Some(rest) = digits.strip_prefix("0o") {
        read_radix(rest, 8)?
    } else if digits.starts_with('0') {
        read_radix(digits, 8)?
    } else if digits.contains(':') {
        read_base_sixty(digits)?
    } else {
        if !digits.starts_with(|c: char| ('1'..='9').contains(&c))
            || !digits.chars().all(|c| c.is_ascii_digit() || c == '_')
        {
            return None;
        }
        let plain = digits.replace('_', "");
        match plain.parse::<i128>() {
            Ok(value) => value,
            Err(_) => return Some(YamlValue::Str(text.to_owned())),
        }
    };
    Some(YamlValue::Int(if negative { -magnitude } else { magnitude }))
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn read_radix(digits: &str, radix: u32) -> Option<i128> {
    let plain = digits.replace('_', "");
    // `from_str_radix` would accept a second sign.
    if !plain.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    i128::from_str_radix(&plain, radix).ok()
}

fn read_base_sixty(digits: &str) -> Option<i128> {
    let mut parts = digits.split(':');
    let head = parts.next()?;
    if !head.starts_with(|c: char| ('1'..='9').contains(&c)) {
        return None;
    }
    let mut total = read_radix(head, 10)?;
    for part in parts {
        total = total.checked_mul(60)?.checked_add(read_sixtieth(part)?)?;
    }
    Some(total)
}

fn read_sixtieth(part: &str) -> Option<i128> {
    let fits = (1..=2).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit());
    part.parse::<i128>().ok().filter(|value| fits && *value < 60)
}

/// Parses a floating-point number. It needs a dot, and an exponent needs a sign: `1e5` is text in YAML 1.1.
pub(super) fn read_float(text: &str) -> Option<f64> {
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(f64::NAN);
    }
    let (negative, digits) = split_sign(text);
    let sign = if negative { -1.0 } else { 1.0 };
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Some(sign * f64::INFINITY);
    }
    let (whole, tail) = digits.split_once('.')?;
    if whole.contains(':') {
        return read_base_sixty_fraction(whole, tail).map(|value| sign * value);
    }
    let (fraction, exponent) = match tail.find(['e', 'E']).and_then(|at| tail.split_at_checked(at)) {
        Some((fraction, exponent)) => (fraction, Some(exponent)),
        None => (tail, None),
    };
    let digit_or_underscore = |c: char| c.is_ascii_digit() || c == '_';
    let starts_well = if whole.is_empty() {
        // `.5` is a number, but `-.5` is not one to a 1.1 reader.
        digits.len() == text.len() && fraction.starts_with(|c: char| c.is_ascii_digit())
    } else {
        whole.starts_with(|c: char| c.is_ascii_digit())
    };
    let exponent_ok = exponent.is_none_or(|exponent| {
        let mut chars = exponent.chars().skip(1);
        matches!(chars.next(), Some('+' | '-'))
            && chars.clone().next().is_some()
            && chars.all(|c| c.is_ascii_digit())
    });
    if !starts_well || !exponent_ok || !whole.chars().chain(fraction.chars()).all(digit_or_underscore) {
        return None;
    }
    digits.replace('_', "").parse::<f64>().ok().map(|value| sign * value)
}

fn read_base_sixty_fraction(whole: &str, fraction: &str) -> Option<f64> {
    let mut parts = whole.split(':');
    let head = parts.next()?;
    if !head.starts_with(|c: char| c.is_ascii_digit())
        || !fraction.chars().all(|c| c.is_ascii_digit() || c == '_')
    {
        return None;
    }
    let mut total = read_radix(head, 10)?;
    for part in parts {
        total = total.checked_mul(60)?.checked_add(read_sixtieth(part)?)?;
    }
    let fraction = format!("0.{}", fraction.replace('_', "")).parse::<f64>().ok()?;
    YamlValue::Int(total).as_float().map(|whole| whole + fraction)
}

/// Formats a floating-point number so that both YAML versions read back the same number.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = format!("{value:?}");
    match text.split_once('e') {
        None => text,
        Some((mantissa, exponent)) => {
            let mantissa = if mantissa.contains('.') { mantissa.to_owned() } else { format!("{mantissa}.0") };
            let sign = if exponent.starts_with('-') { "" } else { "+" };
            format!("{mantissa}e{sign}{exponent}")
        }
    }
}

/// Tells whether `text` may be written unquoted, in block and in flow, and still be text to YAML 1.1 and 1.2
/// readers.
pub(crate) fn is_safe_plain(text: &str) -> bool {
    !text.is_empty()
        && is_plain_syntax(text)
        && matches!(resolve(text), YamlValue::Str(_))
        && !looks_typed_elsewhere(text)
}

/// Tells whether `text` can be written without quotes at all, whatever it would then mean.
pub(crate) fn is_plain_syntax(text: &str) -> bool {
    let first_ok = text.starts_with(|c: char| c.is_alphanumeric() || "_./~$+(^\\-<".contains(c))
        && text
            .strip_prefix('-')
            .is_none_or(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
        && !text.starts_with("---")
        && !text.starts_with("...")
        && !text.starts_with("<<");
    first_ok
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(|c| !"[]{},\"'`".contains(c) && !needs_escape(c) && c != '\t')
}

/// Tells whether another reader may not read a spelling as text although this one does: 1.2 numbers, dates, other
/// base-60 forms, and words whose casing some readers ignore.
fn looks_typed_elsewhere(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let word = matches!(
        lower.as_str(),
        "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "=" | "~"
    );
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "+-.:_eEoOxXbBtTzZ ".contains(c));
    word || numeric || matches!(lower.as_str(), ".inf" | "+.inf" | "-.inf" | ".nan")
}

/// Tells whether only a double-quoted scalar can hold a character safely.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Returns the shortest one-line spelling that keeps a text exactly.
pub(crate) fn quote(text: &str) -> String {
    if is_safe_plain(text) {
        return text.to_owned();
    }
    if !text.chars().any(needs_escape) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    quote_double(text)
}

fn quote_double(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if needs_escape(c) => {
                let code = u32::from(c);
                let escape = if code <= 0xff { format!("\\x{code:02x}") } else { format!("\\u{code:04x}") };
                out.push_str(&escape);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
