//! Decimal numbers as integers of a smaller unit, without conversion to floats.

/// Returns `text` times ten to the power of `places`, rounded half up. Negative and malformed numbers give `None`.
pub(super) fn scaled(text: &str, places: i32) -> Option<u64> {
    let text = text.trim();
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = whole.len().checked_add(fraction.len())?;
    if digits > 40 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut value: u128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        value = value.checked_mul(10)?.checked_add(u128::from(byte - b'0'))?;
    }
    let shift = exponent.checked_add(places)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scale = 10_u128.checked_pow(shift.unsigned_abs());
    let result = match (shift >= 0, scale) {
        (true, Some(scale)) => value.checked_mul(scale)?,
        (false, Some(scale)) => value.checked_add(scale / 2)? / scale,
        (true, None) => return (value == 0).then_some(0),
        (false, None) => 0,
    };
    u64::try_from(result).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(scaled(text, 12), expected, "{text}");
        check("0.000003", Some(3_000_000));
        check("3e-6", Some(3_000_000));
        check("0", Some(0));
        check("1", Some(1_000_000_000_000));
        check("0.00000000000049", Some(0));
        check("0.0000000000005", Some(1));
        check("-1", None);
        check("", None);
        check(".", None);
        check("1e999", None);
        check("1e-999", Some(0));
        check("abc", None);
        check("99999999999999999999999999999999999999999", None);
    }
}
