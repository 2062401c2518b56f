//! Ages on the command line, such as `2h`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Parses `30s`, `10m`, `2h`, `1d` or `3w`.
pub(crate) fn parse(text: &str) -> Result<Duration> {
    let unit = text.chars().last().unwrap_or_default();
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => bail!("`{text}` is not an age; write for example 30m, 2h or 1d"),
    };
    let number: u64 = text
        .trim_end_matches(unit)
        .parse()
        .with_context(|| format!("`{text}` is not an age; write for example 30m, 2h or 1d"))?;
    Ok(Duration::from_secs(number.saturating_mul(factor)))
}
