//! Refusals: from status, headers and body to the one thing to do next.

use std::time::Duration;

use hermes_model::wire::{
    FailureContext, FallbackAvailability, PoolAvailability, ProviderFailure, Remedy, RequestField,
    TokenRefresh, classify, is_connection_loss, limit_in_text,
};

const FIELDS: [RequestField; 4] =
    [RequestField::MaxTokens, RequestField::Temperature, RequestField::Streaming, RequestField::Tools];
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// `status circumstances`, headers line by line, an empty line, the body: much like HTTP itself.
pub fn remedies(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let (status, bits) = first.split_once(' ').unwrap_or((first, "0"));
    let status = status.parse().unwrap_or(400);
    let known = circumstances(bits.trim().parse().unwrap_or(0));
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let failure = ProviderFailure::http(status, &headers, body.as_bytes());
    check(&failure, &known);
    assert_eq!(
        failure,
        ProviderFailure::http(status, &headers, body.as_bytes()),
        "the same words, the same failure"
    );
    let lost = ProviderFailure::network(body);
    assert!(matches!(classify(&lost, &known).remedy, Remedy::Retry { .. }));
    check(&lost, &known);
    let _ = is_connection_loss(body);
    let _ = limit_in_text(body);
}

fn circumstances(bits: u32) -> FailureContext {
    let has = |bit: u32| bits >> bit & 1 == 1;
    FailureContext {
        refresh: if has(0) { TokenRefresh::Possible } else { TokenRefresh::Impossible },
        keys: if has(1) { PoolAvailability::HasAnother } else { PoolAvailability::Exhausted },
        fallback: if has(2) { FallbackAvailability::Available } else { FallbackAvailability::Unavailable },
        prompt_tokens: if has(3) { u64::from(bits) } else { u64::MAX },
        context_length: if has(4) { 8192 } else { u64::from(bits >> 16) },
        messages: if has(5) { 200 } else { 2 },
        max_tokens: has(6).then_some(u64::from(bits >> 12)),
        dropped: FIELDS
            .into_iter()
            .enumerate()
            .filter(|(at, _)| has(7 + *at as u32))
            .map(|(_, field)| field)
            .collect(),
    }
}

/// Nothing is advised that the caller does not have, or that would be the same request again without an end.
fn check(failure: &ProviderFailure, known: &FailureContext) {
    let verdict = classify(failure, known);
    assert!(verdict.summary.chars().count() <= 600, "{}", verdict.summary);
    assert!(!verdict.summary.contains(['\n', '\r']), "{:?}", verdict.summary);
    match verdict.remedy {
        Remedy::Retry { after } => assert!(after.is_none_or(|wait| wait <= WEEK), "{after:?}"),
        Remedy::RotateKey { after } => {
            assert_eq!(known.keys, PoolAvailability::HasAnother);
            assert!(after.is_none_or(|wait| wait <= WEEK), "{after:?}");
        }
        Remedy::RefreshToken => assert_eq!(known.refresh, TokenRefresh::Possible),
        Remedy::Compress { limit: Some(limit) } => {
            assert!(limit > 0);
            assert!(known.context_length == 0 || limit < known.context_length, "{limit}");
        }
        Remedy::Compress { limit: None } => {}
        Remedy::LowerMaxTokens { to } => {
            assert!(to > 0 && known.max_tokens.is_none_or(|sent| to < sent), "{to}");
        }
        Remedy::SwitchToFallback => assert_eq!(known.fallback, FallbackAvailability::Available),
        Remedy::DropField(field) => assert!(!known.dropped.contains(&field), "{field:?} again"),
        Remedy::GiveUp { message } => {
            assert!(!message.trim().is_empty());
            assert!(message.chars().count() <= 800, "{message}");
        }
    }
}
