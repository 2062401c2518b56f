//! Numbers as text.

/// The exponents between which a number is written without one.
const PLAIN: std::ops::Range<i32> = -4..16;

/// Returns the canonical text of a number that JSON's grammar allows; `None` for one too large for a float.
pub(super) fn canonical(digits: &str) -> Option<String> {
    if digits.contains(['.', 'e', 'E']) {
        return float_text(digits.parse().ok()?);
    }
    Some(if digits == "-0" { "0".to_owned() } else { digits.to_owned() })
}

/// Returns the shortest text that reads back as this float, always recognizable as one; `None` if it is not finite.
pub(super) fn float_text(value: f64) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if PLAIN.contains(&exponent) {
        let plain = value.to_string();
        return Some(if plain.contains('.') { plain } else { format!("{plain}.0") });
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs()))
}
