//! Prices that vendors published, for models whose provider does not publish any in its API.
// table: exempt from the length limit

use super::ModelPrices;

/// Prices per million tokens in ten-thousandths of a dollar: input, output, cache read, cache write; zero where the
/// vendor names none.
const SNAPSHOT: [(&str, [u64; 4]); 18] = [
    ("claude-opus-4", [150_000, 750_000, 15_000, 187_500]),
    ("claude-3-opus", [150_000, 750_000, 15_000, 187_500]),
    ("claude-sonnet-4", [30_000, 150_000, 3_000, 37_500]),
    ("claude-3-5-sonnet", [30_000, 150_000, 3_000, 37_500]),
    ("claude-3-5-haiku", [8_000, 40_000, 800, 10_000]),
    ("claude-3-haiku", [2_500, 12_500, 300, 3_000]),
    ("gpt-4o", [25_000, 100_000, 12_500, 0]),
    ("gpt-4o-mini", [1_500, 6_000, 750, 0]),
    ("gpt-4.1", [20_000, 80_000, 5_000, 0]),
    ("gpt-4.1-mini", [4_000, 16_000, 1_000, 0]),
    ("gpt-4.1-nano", [1_000, 4_000, 250, 0]),
    ("o3", [100_000, 400_000, 25_000, 0]),
    ("o3-mini", [11_000, 44_000, 5_500, 0]),
    ("deepseek-chat", [1_400, 2_800, 0, 0]),
    ("deepseek-reasoner", [5_500, 21_900, 0, 0]),
    ("gemini-2.5-pro", [12_500, 100_000, 0, 0]),
    ("gemini-2.5-flash", [1_500, 6_000, 0, 0]),
    ("gemini-2.0-flash", [1_000, 4_000, 0, 0]),
];

/// Returns the prices of exactly that model. A later model of the same family has other prices, so names are not
/// matched loosely.
pub fn snapshot(model: &str) -> Option<ModelPrices> {
    let name = plain_name(model);
    let (_, [input, output, read, write]) = SNAPSHOT.iter().find(|(key, _)| *key == name)?;
    let known = |price: u64| (price > 0).then_some(price * 100);
    Some(ModelPrices {
        input: known(*input),
        output: known(*output),
        cache_read: known(*read),
        cache_write: known(*write),
        request: None,
    })
}

/// Returns the name without vendor, date and `latest`; dots in Claude's names become hyphens.
fn plain_name(model: &str) -> String {
    let model = model.trim().to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or_default();
    let mut name = if name.starts_with("claude") { name.replace('.', "-") } else { name.to_owned() };
    let is_number =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(rest) = name.strip_suffix("-latest") {
        name.truncate(rest.len());
    }
    if let Some((rest, date)) = name.rsplit_once('-')
        && is_number(date, 8)
    {
        name.truncate(rest.len());
    }
    // `-2024-08-06`
    let parts: Vec<&str> = name.rsplitn(4, '-').collect();
    if let [day, month, year, rest] = parts.as_slice()
        && is_number(day, 2)
        && is_number(month, 2)
        && is_number(year, 4)
    {
        name.truncate(rest.len());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_models_only() {
        let input = |model: &str| snapshot(model).and_then(|prices| prices.input);
        assert_eq!(input("claude-opus-4-20250514"), Some(15_000_000));
        assert_eq!(input("anthropic/claude-3.5-sonnet"), Some(3_000_000));
        assert_eq!(input("gpt-4o-2024-08-06"), Some(2_500_000));
        assert_eq!(input("gpt-4o-mini"), Some(150_000));
        assert_eq!(input("claude-3-5-haiku-latest"), Some(800_000));
        assert_eq!(input("claude-opus-4-6"), None);
        assert_eq!(input("gpt-4o-audio"), None);
        assert_eq!(snapshot("gpt-4o").unwrap().cache_write, None);
    }
}
