//! Properties of the decoder for any bytes, split in any way.

use hermes_model::wire::{
    ApiMode, FailureContext, ProviderFailure, WireOptions, classify, decode_plain, limit_in_text,
};
use hermes_model::{context_window, price};
use hermes_types::RawJson;
use proptest::prelude::*;

use super::support::{decode_stream, message, options, request};
use super::{converse, support};

const CHAT: &[&str] = &[
    r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"<think>hm"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"</think>Größe, 日本"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":": 1}"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"g","arguments":"{}"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
    "[DONE]",
];

const RESPONSES: &[&str] = &[
    r#"{"type":"response.created","response":{"id":"r","model":"m"}}"#,
    r#"{"type":"response.reasoning_summary_text.delta","delta":"hm"}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"}}"#,
    r#"{"type":"response.output_text.delta","delta":"Größe"}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Größe"}]}}"#,
    r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}"#,
    r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}","status":"completed"}}"#,
    r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":2,"output_tokens":1}}}"#,
];

const ANTHROPIC: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":5}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Größe"}}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\": 1}"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}"#,
    r#"{"type":"message_stop"}"#,
];

fn whole(mode: ApiMode) -> Vec<u8> {
    match mode {
        ApiMode::Chat => support::sse(CHAT),
        ApiMode::Responses => support::sse(RESPONSES),
        ApiMode::Anthropic => support::sse(ANTHROPIC),
        ApiMode::Converse => converse::stream(),
    }
}

fn any_mode() -> impl Strategy<Value = ApiMode> {
    prop::sample::select(ApiMode::ALL.to_vec())
}

fn any_options() -> impl Strategy<Value = WireOptions> {
    let aws =
        WireOptions::new(ApiMode::Anthropic, "bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com");
    prop_oneof![any_mode().prop_map(options), Just(aws)]
}

/// Generates text that resembles the wires' JSON often enough to pass the first check.
fn events() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop::sample::select(vec![
        "data: ",
        "\n\n",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "null",
        "1",
        "-1e999",
        "\"choices\"",
        "\"delta\"",
        "\"type\"",
        "\"content_block_delta\"",
        "\"index\"",
        "\"item\"",
        "\"output\"",
        "\"tool_calls\"",
        "\"function\"",
        "\"x\"",
        "{\"choices\":[{\"delta\":{\"content\":\"",
        "\"}}]}",
        "event: error\n",
        "[DONE]",
        "\\ud800",
        "é",
        "{\"type\":\"response.completed\",\"response\":",
        "{\"type\":\"message_delta\",\"delta\":",
    ]);
    prop_oneof![
        prop::collection::vec(fragment, 0..40).prop_map(|parts| parts.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..300),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_cut_gives_the_same(mode in any_mode(), sizes in prop::collection::vec(1_usize..60, 1..20), keep in 0.0_f64..1.2) {
        let bytes = whole(mode);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a short text")]
        let end = ((bytes.len() as f64 * keep) as usize).min(bytes.len());
        let bytes = &bytes[..end];
        let mut pieces = Vec::new();
        let mut rest = bytes;
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        let known = options(mode);
        prop_assert_eq!(decode_stream(&known, pieces).essence(), decode_stream(&known, [bytes]).essence());
    }

    #[test]
    fn garbage_never_panics(known in any_options(), bytes in events()) {
        let _ = decode_stream(&known, [bytes.as_slice()]);
        let _ = decode_plain(&known, &bytes);
        let _ = classify(&ProviderFailure::http(400, &[], &bytes), &FailureContext::default());
        let text = String::from_utf8_lossy(&bytes);
        let _ = classify(&ProviderFailure::http(500, &[("retry-after".into(), text.clone().into_owned())], &bytes), &FailureContext::default());
        let _ = limit_in_text(&text);
        let _ = price::read_models(&bytes);
        let _ = price::micro_usd(&text);
        let _ = context_window::from_models(&bytes, &text);
        let _ = context_window::from_ollama(&bytes);
    }

    #[test]
    fn numbers_in_words_never_panic(text in "[a-z0-9,_.> ]{0,80}") {
        let _ = limit_in_text(&text);
        let message = format!("max_tokens {text} exceed context limit {text} can only afford {text} try again in {text}");
        let body = serde_json::json!({"error": message}).to_string();
        let _ = classify(&ProviderFailure::http(400, &[], body.as_bytes()), &FailureContext::default());
    }

    #[test]
    fn opaque_values_survive_a_round_trip(signature in "[ -~]{1,40}", number in "(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?(e[0-9])?", space in " {0,3}") {
        let quoted = serde_json::json!(signature).to_string();
        let details = format!(r#"[{space}{{"type":"reasoning.encrypted","data":{quoted},{space}"n":{number}}}]"#);
        let body = format!(r#"{{"choices":[{{"message":{{"content":"x","reasoning_details":{details}}}}}]}}"#);
        let known = options(ApiMode::Chat);
        let answer = decode_plain(&known, body.as_bytes()).unwrap();
        let asked = request("m", vec![message(&serde_json::to_string(&answer.message).unwrap())]);
        let replayed = format!(r#""reasoning_details":{details}"#);
        prop_assert!(support::bytes(&asked, &known).contains(&replayed));

        let item = format!(r#"{{"type":"reasoning","id":"rs_1","summary":[],{space}"encrypted_content":{quoted}}}"#);
        let body = format!(r#"{{"status":"completed","output":[{item},{{"type":"message","content":"x"}}]}}"#);
        let known = options(ApiMode::Responses);
        let answer = decode_plain(&known, body.as_bytes()).unwrap();
        let kept = format!("[{item}]");
        prop_assert_eq!(answer.message.codex_reasoning_items.as_ref().map(RawJson::as_str), Some(kept.as_str()));
        let asked = request("m", vec![message(&serde_json::to_string(&answer.message).unwrap())]);
        let replayed = format!(r#""encrypted_content":{quoted}"#);
        prop_assert!(support::bytes(&asked, &known).contains(&replayed));

        let block = format!(r#"{{"type":"thinking",{space}"thinking":"t","signature":{quoted}}}"#);
        let body = format!(r#"{{"content":[{block},{{"type":"text","text":"x"}}],"stop_reason":"end_turn"}}"#);
        let known = options(ApiMode::Anthropic);
        let answer = decode_plain(&known, body.as_bytes()).unwrap();
        let asked = request("m", vec![message(&serde_json::to_string(&answer.message).unwrap())]);
        prop_assert!(support::bytes(&asked, &known).contains(&block));
    }

    #[test]
    fn no_key_survives_in_a_summary(
        before in r#"[a-z]{0,5}[ "'()/:?&=,;<>._-]"#,
        prefix in prop::sample::select(vec!["sk-", "gho_", "github_pat_", "AIza", "hf_", "eyJ"]),
        tail in "[A-Za-z0-9]{20,40}",
        after in r#"[ "'()/:?&=,;<>.]?[a-z]{0,5}"#,
    ) {
        let text = format!("{before}{prefix}{tail}{after}");
        for body in [text.clone(), format!("<html><title>{text}</title>")] {
            let summary = ProviderFailure::http(400, &[], body.as_bytes()).summary();
            prop_assert!(!summary.contains(&tail), "{summary}");
        }
    }

    #[test]
    fn what_strangers_left_on_disk_is_read_or_ignored(text in any::<Vec<u8>>()) {
        hermes_model::provider::ModelFactsFile::parse(&text);
        let lossy = String::from_utf8_lossy(&text);
        hermes_model::provider::LearntWindows::parse(&lossy);
        hermes_model::credential::ProgramInvocation::split(&lossy);
    }
}
