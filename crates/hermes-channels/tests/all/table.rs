//! The table of platforms.

use hermes_channels::PLATFORMS;
use hermes_types::LengthUnit;

#[test]
fn what_platforms_can_do_is_known_without_a_connection() {
    let known: Vec<_> = PLATFORMS
        .iter()
        .map(|platform| (platform.name, platform.abilities.max_length, platform.abilities.unit))
        .collect();
    let expected = [
        ("telegram", 4096, LengthUnit::Utf16),
        // 2000, less the space for fences around tables.
        ("discord", 1984, LengthUnit::Scalars),
        ("slack", 39_000, LengthUnit::Scalars),
        ("whatsapp", 4096, LengthUnit::Scalars),
        ("whatsapp_cloud", 4096, LengthUnit::Scalars),
        ("signal", 8000, LengthUnit::Utf16),
        ("matrix", 4000, LengthUnit::Scalars),
        ("mattermost", 4000, LengthUnit::Scalars),
        ("homeassistant", 4096, LengthUnit::Scalars),
        ("dingtalk", 20_000, LengthUnit::Scalars),
        ("email", 50_000, LengthUnit::Scalars),
        ("sms", 1600, LengthUnit::Scalars),
    ];
    assert_eq!(known, expected);
}
