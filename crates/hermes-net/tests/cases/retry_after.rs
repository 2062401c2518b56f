use std::time::Duration;

use hermes_net::{HeaderMap, HeaderName, HeaderValue, retry_after};
use hermes_types::Timestamp;

/// 2026-01-02 03:04:05 UTC.
const NOW: Timestamp = Timestamp(1_767_323_045.0);

#[track_caller]
fn check(headers: &[(&str, &str)], milliseconds: Option<u64>) {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    assert_eq!(retry_after(&map, NOW), milliseconds.map(Duration::from_millis), "{headers:?}");
}

#[test]
fn what_a_server_asks_for() {
    check(&[], None);
    check(&[("retry-after", "7")], Some(7000));
    check(&[("retry-after", " 0.5 ")], Some(500));
    check(&[("retry-after", "0")], Some(0));
    check(&[("retry-after", "Fri, 02 Jan 2026 03:05:05 GMT")], Some(60_000));
    check(&[("retry-after", "Fri, 02 Jan 2026 03:00:00 GMT")], Some(0));
    check(&[("retry-after", "-3")], None);
    check(&[("retry-after", "NaN")], None);
    check(&[("retry-after", "soon")], None);
    check(&[("retry-after", "1e300")], Some(0));
    check(&[("retry-after-ms", "250"), ("retry-after", "7")], Some(250));
    check(&[("retry-after-ms", "x"), ("retry-after", "7")], Some(7000));
}

#[test]
fn limits_that_are_used_up() {
    check(&[("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-reset-tokens", "6m0s")], Some(360_000));
    check(
        &[
            ("x-ratelimit-reset-requests", "20ms"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
            ("x-ratelimit-remaining-tokens", "900"),
        ],
        Some(20),
    );
    check(&[("x-ratelimit-reset-requests", "1h2m3.5s")], Some(3_723_500));
    check(&[("x-ratelimit-reset", "1767323055")], Some(10_000));
    check(&[("x-ratelimit-reset", "1767323055000")], Some(10_000));
    check(&[("x-ratelimit-reset", "30")], Some(30_000));
    check(&[("x-ratelimit-reset-after", "1.5")], Some(1500));
    check(
        &[
            ("anthropic-ratelimit-requests-reset", "2026-01-02T03:04:35Z"),
            ("anthropic-ratelimit-requests-remaining", "0"),
        ],
        Some(30_000),
    );
    check(&[("x-ratelimit-reset", "1x")], None);
    check(&[("x-ratelimit-reset", "")], None);
    check(&[("x-ratelimit-reset", "1s"), ("retry-after", "7")], Some(7000));
}
