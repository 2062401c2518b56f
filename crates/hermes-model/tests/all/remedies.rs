//! The remedy for each refusal.

use std::time::Duration;

use hermes_model::wire::{
    FailureCause, FailureContext, FallbackAvailability, PoolAvailability, ProviderFailure, Remedy,
    RequestField, TokenRefresh, classify,
};

fn small() -> FailureContext {
    FailureContext { prompt_tokens: 1_000, context_length: 128_000, messages: 4, ..FailureContext::default() }
}

fn refuse(status: u16, message: &str) -> ProviderFailure {
    let body = serde_json::json!({"error": {"message": message}}).to_string();
    ProviderFailure::http(status, &[], body.as_bytes())
}

#[track_caller]
fn check(status: u16, message: &str, cause: FailureCause, remedy: &Remedy) {
    let verdict = classify(&refuse(status, message), &small());
    assert_eq!((verdict.cause, &verdict.remedy), (cause, remedy), "{status} {message}");
}

const RETRY: Remedy = Remedy::Retry { after: None };

#[test]
fn the_table_in_its_order() {
    check(429, "slow down", FailureCause::RateLimit, &RETRY);
    check(400, "You exceeded your current quota", FailureCause::RateLimit, &RETRY);
    check(503, "Rate limit reached", FailureCause::RateLimit, &RETRY);
    check(413, "too big", FailureCause::TooLarge, &Remedy::Compress { limit: None });
    check(400, "Payload Too Large", FailureCause::TooLarge, &Remedy::Compress { limit: None });
    check(
        400,
        "This model's maximum context length is 8192 tokens.",
        FailureCause::ContextOverflow,
        &Remedy::Compress { limit: Some(8_192) },
    );
    check(
        400,
        "This model's maximum context length is 900000 tokens.",
        FailureCause::ContextOverflow,
        &Remedy::Compress { limit: None },
    );
    check(
        500,
        "prompt is too long: 210000 tokens > 100000 maximum",
        FailureCause::ContextOverflow,
        &Remedy::Compress { limit: Some(100_000) },
    );
    check(400, "", FailureCause::Request, &RETRY);
    check(400, "Error", FailureCause::Request, &RETRY);
    check(500, "boom", FailureCause::Server, &RETRY);
    check(529, "Overloaded", FailureCause::Server, &RETRY);
    check(408, "timeout", FailureCause::Server, &RETRY);
}

#[test]
fn hopeless_requests_end_with_words_for_a_person() {
    for (status, message, cause) in [
        (401, "Incorrect API key provided", FailureCause::Credential),
        (403, "no access", FailureCause::Credential),
        (404, "model not found", FailureCause::Request),
        (422, "bad schema", FailureCause::Request),
        (402, "Insufficient credits", FailureCause::Billing),
        (500, "xyz is not a valid model ID", FailureCause::Request),
    ] {
        let verdict = classify(&refuse(status, message), &small());
        let Remedy::GiveUp { message: words } = &verdict.remedy else { panic!("{verdict:?}") };
        assert_eq!(verdict.cause, cause);
        assert!(words.contains(message) && words.contains(&format!("HTTP {status}")), "{words}");
        let with_fallback = FailureContext { fallback: FallbackAvailability::Available, ..small() };
        assert_eq!(classify(&refuse(status, message), &with_fallback).remedy, Remedy::SwitchToFallback);
    }
}

#[test]
fn keys_and_tokens_come_first() {
    let known = FailureContext {
        refresh: TokenRefresh::Possible,
        keys: PoolAvailability::HasAnother,
        fallback: FallbackAvailability::Available,
        ..small()
    };
    assert_eq!(classify(&refuse(401, "expired"), &known).remedy, Remedy::RefreshToken);
    assert_eq!(classify(&refuse(429, "slow"), &known).remedy, Remedy::RotateKey { after: None });
    assert_eq!(classify(&refuse(402, "pay"), &known).remedy, Remedy::RotateKey { after: None });
    let refreshed = FailureContext { refresh: TokenRefresh::Impossible, ..known.clone() };
    assert_eq!(classify(&refuse(401, "expired"), &refreshed).remedy, Remedy::RotateKey { after: None });
    let last_key = FailureContext { keys: PoolAvailability::Exhausted, ..known };
    assert_eq!(classify(&refuse(429, "slow"), &last_key).remedy, Remedy::SwitchToFallback);
}

#[test]
fn a_bare_400_means_overflow_only_on_a_big_session() {
    let big = FailureContext { prompt_tokens: 60_000, ..small() };
    let long = FailureContext { messages: 81, ..small() };
    for known in [big, long] {
        assert_eq!(classify(&refuse(400, "Bad Request"), &known).remedy, Remedy::Compress { limit: None });
    }
    assert!(matches!(classify(&refuse(400, "Bad Request"), &small()).remedy, Remedy::GiveUp { .. }));
}

#[test]
fn output_limits_are_lowered() {
    let known = FailureContext { max_tokens: Some(64_000), ..small() };
    let remedy = |status, message: &str| classify(&refuse(status, message), &known).remedy;
    assert_eq!(
        remedy(400, "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens"),
        Remedy::LowerMaxTokens { to: 8_192 }
    );
    assert_eq!(
        remedy(400, "input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000"),
        Remedy::LowerMaxTokens { to: 50_000 }
    );
    assert_eq!(
        remedy(402, "You requested up to 64000 tokens, but can only afford 3519."),
        Remedy::LowerMaxTokens { to: 3_519 }
    );
    let lowered = FailureContext { max_tokens: Some(8_192), ..small() };
    let again = classify(&refuse(400, "max_tokens: 64000 > 8192, which is the maximum allowed"), &lowered);
    assert!(!matches!(again.remedy, Remedy::LowerMaxTokens { .. }), "no endless lowering: {again:?}");
}

#[test]
fn fields_are_dropped_once() {
    let check = |message: &str, field: RequestField| {
        assert_eq!(classify(&refuse(400, message), &small()).remedy, Remedy::DropField(field), "{message}");
        let dropped = FailureContext { dropped: vec![field], ..small() };
        assert!(
            matches!(classify(&refuse(400, message), &dropped).remedy, Remedy::GiveUp { .. }),
            "{message}"
        );
    };
    check(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        RequestField::MaxTokensName,
    );
    check(
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
        RequestField::Temperature,
    );
    check("Unrecognized request argument supplied: reasoning", RequestField::Reasoning);
    check(
        "messages.1.assistant.reasoning_content: Extra inputs are not permitted",
        RequestField::ReasoningReplay,
    );
    check("messages.1.content.0: Invalid `signature` in `thinking` block", RequestField::ReasoningReplay);
    check(
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        RequestField::ReasoningReplay,
    );
    check("Unknown parameter: 'stream_options'.", RequestField::StreamOptions);
    check(
        "User is not authorized to perform: bedrock:InvokeModelWithResponseStream",
        RequestField::Streaming,
    );
    check("registry.ollama.ai/library/x does not support tools", RequestField::Tools);
    check("Unknown parameter: 'service_tier'.", RequestField::ServiceTier);
    for refusal in [
        "No endpoints found that support image input",
        "Invalid content type. image_url is only supported by certain models.",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "unknown variant `image_url`, expected `text`",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        "At most 0 image(s) may be provided in one request.",
        "Could not process image",
    ] {
        check(refusal, RequestField::Pictures);
    }
    let param = ProviderFailure::http(
        400,
        &[],
        br#"{"error":{"message":"Unsupported parameter for tools and max_tokens.","param":"temperature"}}"#,
    );
    assert_eq!(classify(&param, &small()).remedy, Remedy::DropField(RequestField::Temperature));
}

#[test]
fn a_disliked_schema_does_not_cost_the_tools() {
    let verdict =
        classify(&refuse(400, "tools.0.custom.input_schema: Extra inputs are not permitted"), &small());
    assert!(matches!(verdict.remedy, Remedy::GiveUp { .. }), "{verdict:?}");
}

#[test]
fn waits_are_taken_from_the_provider() {
    let headers = [("Retry-After".to_owned(), "12".to_owned())];
    let verdict = classify(&ProviderFailure::http(429, &headers, b"{}"), &small());
    assert_eq!(verdict.remedy, Remedy::Retry { after: Some(Duration::from_secs(12)) });
    let verdict = classify(&refuse(429, "Please try again in 1.5s."), &small());
    assert_eq!(verdict.remedy, Remedy::Retry { after: Some(Duration::from_millis(1_500)) });
}

#[test]
fn network_trouble_is_retried_whatever_it_says() {
    let verdict = classify(&ProviderFailure::network("dns error: host not found"), &small());
    assert_eq!((verdict.cause, verdict.remedy), (FailureCause::Network, RETRY));
}

#[test]
fn summaries() {
    let summary = |status, body: &str| ProviderFailure::http(status, &[], body.as_bytes()).summary();
    assert_eq!(
        summary(
            502,
            "<!DOCTYPE html><html><head><TITLE>Bad\n gateway</TITLE></head>Ray ID: <strong>8a1b2c</strong>"
        ),
        "HTTP 502 — Bad gateway — Ray 8a1b2c"
    );
    assert_eq!(summary(500, ""), "HTTP 500");
    assert_eq!(summary(400, r#"{"detail":[{"msg":"x"}]}"#), r#"HTTP 400: [{"msg":"x"}]"#);
    assert_eq!(summary(400, r#"{"message":"aws"}"#), "HTTP 400: aws");
    assert_eq!(
        summary(400, r#"[{"error":{"code":400,"message":"google","status":"INVALID_ARGUMENT"}}]"#),
        "HTTP 400: google"
    );
    assert_eq!(
        summary(
            502,
            r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"error\":{\"message\":\"upstream says no\"}}"}}}"#
        ),
        "HTTP 502: Provider returned error: upstream says no"
    );
    assert!(
        !summary(401, r#"{"error":{"message":"Incorrect API key provided: sk-abcdefghijklmnop1234."}}"#)
            .contains("abcdef")
    );
    assert!(summary(400, &"x".repeat(5_000)).chars().count() < 320);
}

#[test]
fn no_key_is_shown_wherever_it_stands() {
    #[track_caller]
    fn check(body: &str, shown: &str) {
        assert_eq!(ProviderFailure::http(400, &[], body.as_bytes()).summary(), shown);
    }
    check("key sk-abcdefghijklmnop1234 is wrong", "HTTP 400: key [key] is wrong");
    check(
        "GET https://h.example/v1?key=sk-abcdefghijklmnop1234&alt=sse failed",
        "HTTP 400: GET https://h.example/v1?key=[key]&alt=sse failed",
    );
    check("https://h/v1?key=0123456789abcdef", "HTTP 400: https://h/v1?key=[key]");
    check("access_token=abcdefgh1234;x=1", "HTTP 400: access_token=[key];x=1");
    check(r#"{"error": {"message": "bad (AIzaSyA-1234567890abcdef)."}}"#, "HTTP 400: bad ([key]).");
    check("eyJhbGciOi.eyJzdWIiOiI.c2lnbmF0dXJl.", "HTTP 400: [key].");
    check(
        "monkey=short key=none keyboard=abcdefghijkl",
        "HTTP 400: monkey=short key=none keyboard=abcdefghijkl",
    );
    check("sk-short and risk-abcdefghijklmnopqrst", "HTTP 400: sk-short and risk-abcdefghijklmnopqrst");
    check("<html><title>Denied: sk-abcdefghijklmnop1234</title></html>", "HTTP 400 — Denied: [key]");
}
