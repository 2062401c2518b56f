//! Golden request bodies of every wire.

use hermes_model::caching::CachePolicy;
use hermes_model::wire::{
    ApiMode, CredentialKind, Guardrail, ParameterSupport, RequestField, StreamingMode, ToolChoice,
    UpstreamRouting, WireOptions, build_body, headers,
};
use hermes_types::{Message, ReasoningEffort, ToolCall};
use serde_json::{Value, json};

use super::support::{body, bytes, message, options, raw, request, tool};

const RICH: &str = r#"{"role":"assistant","content":"Looking.","tool_calls":[{"id":"call_1","call_id":"call_1","response_item_id":"fc_1","type":"function","function":{"name":"terminal","arguments":"{\"command\": \"ls\"}","strict":1},"extra_content":{"google": {"thought_signature":"a\/b=="}},"index":0}],"reasoning":"Hm.","reasoning_details":[ {"type":"reasoning.text","text":"Hm.", "n": 1.10e0} ],"codex_reasoning_items":[{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA\u0041\/","status":"completed"}],"finish_reason":"tool_calls","_private":true}"#;

fn conversation() -> Vec<Message> {
    let call = ToolCall::new(Some("call_1"), "terminal", "{}");
    vec![Message::user("List files."), message(RICH), Message::tool(&call, "a.txt")]
}

fn openrouter() -> WireOptions {
    WireOptions::new(ApiMode::Chat, "openrouter", "https://openrouter.ai/api/v1")
}

#[test]
fn chat_sends_only_what_every_server_knows() {
    let mut asked = request("m", conversation());
    asked.tools = [tool()].into();
    let text = bytes(&asked, &options(ApiMode::Chat));
    assert_eq!(
        text,
        concat!(
            r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"List files."},"#,
            r#"{"role":"assistant","content":"Looking.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"terminal","arguments":"{\"command\": \"ls\"}"},"extra_content":{"google": {"thought_signature":"a\/b=="}}}],"#,
            r#""reasoning_content":"Hm.","reasoning_details":[ {"type":"reasoning.text","text":"Hm.", "n": 1.10e0} ]},"#,
            r#"{"role":"tool","content":"a.txt","tool_call_id":"call_1"}],"#,
            r#""tools":[{"type":"function","function":{"name":"terminal","description":"Runs a command.","parameters":{"type":"object", "properties":{"command":{"type":"string"}}}}}]}"#,
        )
    );
    let before = asked.messages.clone();
    let _ = bytes(&asked, &options(ApiMode::Chat));
    assert_eq!(asked.messages, before, "history is never touched");
}

#[test]
fn chat_streams_with_usage() {
    let asked = request("m", vec![Message::user("hi")]);
    let known = options(ApiMode::Chat);
    let value = build_body(&asked, &known, StreamingMode::Streamed).to_value();
    assert_eq!((&value["stream"], &value["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    assert!(
        value.get("tools").is_none() && value.get("max_tokens").is_none() && value.get("reasoning").is_none()
    );
}

#[test]
fn max_tokens_has_a_name_for_every_host() {
    let mut asked = request("gpt-5", vec![Message::user("hi")]);
    asked.max_tokens = Some(10);
    asked.temperature = Some(0.7);
    let value = body(&asked, &options(ApiMode::Chat));
    assert_eq!((&value["max_tokens"], &value["temperature"]), (&json!(10), &json!(0.7)));
    let openai = WireOptions::new(ApiMode::Chat, "openai", "https://api.openai.com/v1");
    let value = body(&asked, &openai);
    assert_eq!((&value["max_completion_tokens"], value.get("max_tokens")), (&json!(10), None));
    assert_eq!(value["messages"][0]["role"], "developer");
    asked.max_tokens = None;
    asked.model = "anthropic/claude-opus-4.5".to_owned();
    assert_eq!(body(&asked, &openrouter())["max_tokens"], 64_000);
}

#[test]
fn openrouter_gets_routing_and_reasoning() {
    let mut known = openrouter();
    known.routing = UpstreamRouting {
        order: vec!["a".into()],
        sort: Some("price".into()),
        parameters: ParameterSupport::Required,
        ..UpstreamRouting::default()
    };
    let mut asked = request("openai/gpt-5", vec![Message::user("hi")]);
    let value = body(&asked, &known);
    assert_eq!(value["provider"], json!({"order": ["a"], "sort": "price", "require_parameters": true}));
    assert_eq!(value["reasoning"], json!({"enabled": true, "effort": "medium"}));
    asked.effort = Some(ReasoningEffort::None);
    assert_eq!(body(&asked, &known)["reasoning"], json!({"enabled": false}));
    known.dropped = vec![RequestField::Reasoning];
    assert_eq!(body(&asked, &known).get("reasoning"), None);
}

#[test]
fn nous_and_ollama_have_fields_of_their_own() {
    let mut nous = WireOptions::new(ApiMode::Chat, "nous", "https://inference-api.nousresearch.com/v1");
    nous.tags = vec!["t".into()];
    let mut asked = request("Hermes-4", vec![Message::user("hi")]);
    asked.effort = Some(ReasoningEffort::None);
    let value = body(&asked, &nous);
    assert_eq!((value.get("reasoning"), &value["tags"]), (None, &json!(["t"])));
    let mut ollama = options(ApiMode::Chat);
    ollama.ollama_num_ctx = Some(32_768);
    assert_eq!(body(&asked, &ollama)["options"], json!({"num_ctx": 32_768}));
}

#[test]
fn cache_markers_are_at_most_four() {
    let mut known = openrouter();
    known.cache = CachePolicy::FiveMinutes;
    let mut asked = request("anthropic/claude-sonnet-4", conversation());
    asked.messages.push(Message::assistant("Done."));
    asked.messages.push(Message::user("More."));
    let text = bytes(&asked, &known);
    assert_eq!(text.matches("cache_control").count(), 4);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["messages"][3].get("cache_control"), None, "tool messages stay unmarked");
    assert_eq!(value["messages"][3]["content"], "a.txt");
    let native = WireOptions { cache: CachePolicy::OneHour, ..options(ApiMode::Anthropic) };
    let text = bytes(&asked, &native);
    assert_eq!(text.matches(r#""ttl":"1h""#).count(), 4);
    asked.messages = vec![message(r#"{"role":"user","content":[]}"#)];
    assert_eq!(bytes(&asked, &known).matches("cache_control").count(), 2);
}

#[test]
fn responses_body() {
    let mut asked = request("gpt-5", conversation());
    asked.tools = [tool()].into();
    asked.max_tokens = Some(99);
    let text = bytes(&asked, &options(ApiMode::Responses));
    assert_eq!(
        text,
        concat!(
            r#"{"model":"gpt-5","instructions":"Be brief.","input":[{"role":"user","content":"List files."},"#,
            r#"{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA\u0041\/","summary":[]},"#,
            r#"{"role":"assistant","content":"Looking."},"#,
            r#"{"type":"function_call","call_id":"call_1","name":"terminal","arguments":"{\"command\": \"ls\"}"},"#,
            r#"{"type":"function_call_output","call_id":"call_1","output":"a.txt"}],"#,
            r#""tools":[{"type":"function","name":"terminal","description":"Runs a command.","strict":false,"parameters":{"type":"object", "properties":{"command":{"type":"string"}}}}],"#,
            r#""tool_choice":"auto","parallel_tool_calls":true,"store":false,"prompt_cache_key":"session_1","#,
            r#""reasoning":{"effort":"medium","summary":"auto"},"include":["reasoning.encrypted_content"],"max_output_tokens":99}"#,
        )
    );
}

#[test]
fn responses_permits_no_other_fields() {
    let allowed = [
        "model",
        "instructions",
        "input",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "store",
        "prompt_cache_key",
        "reasoning",
        "include",
        "max_output_tokens",
        "temperature",
        "stream",
    ];
    let mut asked = request("gpt-5", conversation());
    asked.tools = [tool()].into();
    (asked.max_tokens, asked.temperature, asked.effort) = (Some(9), Some(0.5), Some(ReasoningEffort::High));
    for (provider, base) in [
        ("openai", "https://api.openai.com/v1"),
        ("openai-codex", "https://chatgpt.com/backend-api/codex"),
        ("copilot", "https://api.githubcopilot.com"),
    ] {
        let known = WireOptions::new(ApiMode::Responses, provider, base);
        let body = build_body(&asked, &known, StreamingMode::Streamed);
        assert!(body.names().all(|name| allowed.contains(&name)), "{:?}", body.names().collect::<Vec<_>>());
        let has = |name: &str| body.get(name).is_some();
        assert_eq!(
            (has("max_output_tokens"), has("temperature")),
            (provider != "openai-codex", provider != "openai-codex")
        );
        assert_eq!((has("include"), has("prompt_cache_key")), (provider != "copilot", provider != "copilot"));
    }
}

#[test]
fn responses_reasoning_always_has_a_follower() {
    let lonely = r#"{"role":"assistant","content":"","codex_reasoning_items":[{"id":"rs_1","encrypted_content":"e","summary":[{"a":1}]},{"id":"rs_2","encrypted_content":""},{"id":"rs_1","encrypted_content":"e"}]}"#;
    let asked = request("gpt-5", vec![Message::user("hi"), message(lonely), message(lonely)]);
    let value = body(&asked, &options(ApiMode::Responses));
    assert_eq!(
        value["input"],
        json!([{"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "e", "summary": [{"a": 1}]},
            {"role": "assistant", "content": ""}])
    );
    let off = WireOptions { dropped: vec![RequestField::ReasoningReplay], ..options(ApiMode::Responses) };
    assert_eq!(body(&asked, &off)["input"].as_array().unwrap().len(), 1);
}

#[test]
fn responses_pictures_ids_and_effort() {
    let mut result = Message::tool(&ToolCall::new(Some("call_9"), "t", ""), "r");
    result.tool_call_id = None;
    let asked = request(
        "gpt-5",
        vec![
            message(
                r#"{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"image_url","image_url":{"url":"u","detail":"low"}}]}"#,
            ),
            result,
            message(
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_x|fc_y","type":"function","function":{"name":"t","arguments":"{}"}}]}"#,
            ),
            message(r#"{"role":"tool","tool_call_id":"call_x|fc_y","content":"ok"}"#),
        ],
    );
    let mut known = options(ApiMode::Responses);
    let value = body(&asked, &known);
    assert_eq!(
        value["input"][0]["content"],
        json!([{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,AA"},
            {"type": "input_image", "image_url": "u", "detail": "low"}])
    );
    assert_eq!(value["input"].as_array().unwrap().len(), 3, "a result without an id is left out");
    assert_eq!(value["input"][1]["call_id"], "call_x");
    assert_eq!(value["input"][2]["call_id"], "call_x");
    let asked =
        hermes_types::ModelRequest { effort: Some(ReasoningEffort::None), system: " ".into(), ..asked };
    let value = body(&asked, &known);
    assert_eq!((value.get("reasoning"), &value["include"]), (None, &json!([])));
    assert!(value["instructions"].as_str().unwrap().contains("Hermes"));
    known.effort_levels = Some(vec![ReasoningEffort::Low, ReasoningEffort::High]);
    let asked = hermes_types::ModelRequest { effort: Some(ReasoningEffort::Xhigh), ..asked };
    assert_eq!(body(&asked, &known)["reasoning"]["effort"], "high");
}

#[test]
fn anthropic_body() {
    let mut assistant = message(RICH);
    assistant.reasoning_details = Some(raw(
        r#"[{"type":"thinking","thinking":"Hm.", "signature":"s\/="},{"type":"redacted_thinking","data":"d"}]"#,
    ));
    let call = ToolCall::new(Some("call_1"), "terminal", "{}");
    let mut asked = request(
        "anthropic/claude-sonnet-4.5",
        vec![Message::user("List files."), assistant, Message::tool(&call, ""), Message::user("And?")],
    );
    asked.tools = [tool()].into();
    let text = bytes(&asked, &options(ApiMode::Anthropic));
    assert_eq!(
        text,
        concat!(
            r#"{"model":"claude-sonnet-4-5","max_tokens":64000,"system":"Be brief.","messages":["#,
            r#"{"role":"user","content":[{"type":"text","text":"List files."}]},"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.", "signature":"s\/="},{"type":"redacted_thinking","data":"d"},"#,
            r#"{"type":"text","text":"Looking."},{"type":"tool_use","id":"call_1","name":"terminal","input":{"command": "ls"}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"(no output)"},{"type":"text","text":"And?"}]}],"#,
            r#""tools":[{"name":"terminal","description":"Runs a command.","input_schema":{"type":"object", "properties":{"command":{"type":"string"}}}}],"#,
            r#""tool_choice":{"type":"auto"}}"#,
        )
    );
    let minimax = WireOptions::new(ApiMode::Anthropic, "minimax", "https://api.minimax.io/anthropic");
    assert!(!bytes(&asked, &minimax).contains("signature"), "another family cannot check the signature");
    assert!(!bytes(&asked, &options(ApiMode::Chat)).contains("signature\":\"s"), "nor can a chat server");
}

#[test]
fn anthropic_repairs_what_the_api_refuses() {
    let asked = request(
        "claude-sonnet-4",
        vec![
            message(r#"{"role":"user","content":""}"#),
            message(
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"lost!","type":"function","function":{"name":"t","arguments":"{"}}],"reasoning_details":[{"type":"thinking","thinking":"x","signature":"s"}]}"#,
            ),
            message(r#"{"role":"tool","tool_call_id":"stray","content":"r"}"#),
            message(r#"{"role":"assistant","content":""}"#),
            message(
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"a:b","type":"function","function":{"name":"t","arguments":"broken"}}]}"#,
            ),
            message(r#"{"role":"tool","tool_call_id":"a:b","content":"r"}"#),
            message(
                r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}"#,
            ),
        ],
    );
    let value = body(&asked, &options(ApiMode::Anthropic));
    assert_eq!(
        value["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "(empty message)"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "(tool call removed)"}]},
            {"role": "user", "content": [{"type": "text", "text": "(tool result removed)"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "(empty)"}, {"type": "tool_use", "id": "a_b", "name": "t", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a_b", "content": "r"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]},
        ])
    );
}

#[test]
fn anthropic_thinking() {
    let check = |model: &str, effort: Option<ReasoningEffort>, expected: Value| {
        let mut asked = request(model, vec![Message::user("hi")]);
        (asked.effort, asked.max_tokens, asked.temperature) = (effort, Some(5_000), Some(0.2));
        let value = body(&asked, &options(ApiMode::Anthropic));
        let seen = json!([
            value.get("thinking"),
            value.get("output_config"),
            value.get("temperature"),
            value["max_tokens"]
        ]);
        assert_eq!(seen, expected, "{model} {effort:?}");
    };
    check(
        "claude-sonnet-4-6",
        Some(ReasoningEffort::Xhigh),
        json!([{"type": "adaptive"}, {"effort": "max"}, null, 5_000]),
    );
    check(
        "claude-opus-4-6",
        Some(ReasoningEffort::Minimal),
        json!([{"type": "adaptive"}, {"effort": "low"}, null, 5_000]),
    );
    check(
        "claude-sonnet-4",
        Some(ReasoningEffort::High),
        json!([{"type": "enabled", "budget_tokens": 16_000}, null, 1, 20_096]),
    );
    check(
        "claude-sonnet-4",
        Some(ReasoningEffort::Minimal),
        json!([{"type": "enabled", "budget_tokens": 8_000}, null, 1, 12_096]),
    );
    check("claude-haiku-4-5", Some(ReasoningEffort::High), json!([null, null, 0.2, 5_000]));
    check("claude-sonnet-4", None, json!([null, null, 0.2, 5_000]));
    check("claude-sonnet-4", Some(ReasoningEffort::None), json!([null, null, 0.2, 5_000]));
}

#[test]
fn anthropic_limits_choices_and_aws() {
    let mut asked = request("us.anthropic.claude-sonnet-4-6", vec![Message::user("hi")]);
    asked.tools = [tool()].into();
    let mut aws =
        WireOptions::new(ApiMode::Anthropic, "bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com");
    aws.context_length = Some(50_000);
    aws.tool_choice = ToolChoice::Required;
    let body = build_body(&asked, &aws, StreamingMode::Streamed).to_value();
    assert_eq!((body.get("model"), body.get("stream")), (None, None));
    assert_eq!(
        (&body["anthropic_version"], &body["max_tokens"]),
        (&json!("bedrock-2023-05-31"), &json!(49_999))
    );
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    aws.tool_choice = ToolChoice::Named("terminal".into());
    assert_eq!(
        super::support::body(&asked, &aws)["tool_choice"],
        json!({"type": "tool", "name": "terminal"})
    );
    aws.tool_choice = ToolChoice::None;
    assert_eq!(super::support::body(&asked, &aws).get("tools"), None);
    asked.model = "qwen3.5-plus".into();
    let dashscope =
        WireOptions::new(ApiMode::Anthropic, "alibaba", "https://dashscope.aliyuncs.com/apps/anthropic");
    assert_eq!(super::support::body(&asked, &dashscope)["model"], "qwen3.5-plus");
}

#[test]
fn converse_body() {
    let mut messages = conversation();
    messages.insert(0, Message::assistant("Welcome."));
    messages.push(message(
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,AA"}}]}"#,
    ));
    messages.push(Message::assistant(""));
    let mut asked = request("amazon.nova-pro-v1:0", messages);
    asked.tools = [tool()].into();
    asked.messages[2].reasoning_details =
        Some(raw(r#"[{"reasoningContent":{"reasoningText":{"text":"Hm.", "signature":"s"}}}]"#));
    let mut known = options(ApiMode::Converse);
    known.guardrail = Some(Guardrail {
        identifier: "g".into(),
        version: "1".into(),
        stream_processing_mode: Some("async".into()),
        trace: None,
    });
    let value = body(&asked, &known);
    assert_eq!(
        value["messages"],
        json!([
            {"role": "user", "content": [{"text": "(conversation start)"}]},
            {"role": "assistant", "content": [{"text": "Welcome."}]},
            {"role": "user", "content": [{"text": "List files."}]},
            {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}, {"text": "Looking."},
                {"toolUse": {"toolUseId": "call_1", "name": "terminal", "input": {"command": "ls"}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "call_1", "content": [{"text": "a.txt"}]}},
                {"image": {"format": "jpeg", "source": {"bytes": "AA"}}}]},
            {"role": "assistant", "content": [{"text": "(empty)"}]},
            {"role": "user", "content": [{"text": "Continue."}]},
        ])
    );
    assert_eq!(value["system"], json!([{"text": "Be brief."}]));
    assert_eq!(value["inferenceConfig"], json!({"maxTokens": 4_096}));
    assert_eq!(value["toolConfig"]["tools"][0]["toolSpec"]["name"], "terminal");
    assert_eq!(value["guardrailConfig"], json!({"guardrailIdentifier": "g", "guardrailVersion": "1"}));
    asked.model = "deepseek.r1-v1:0".into();
    let value = body(&asked, &known);
    assert_eq!(value.get("toolConfig"), None);
    assert!(!value.to_string().contains("toolUse"), "calls are told as text where tools are not offered");
}

#[test]
fn headers_stay_with_their_vendor() {
    let names = |known: &WireOptions, model: &str| -> Vec<String> {
        headers(known, &request(model, vec![]))
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect()
    };
    let claude = names(&openrouter(), "anthropic/claude-sonnet-4");
    assert!(claude.iter().any(|line| line.starts_with("x-anthropic-beta: fine-grained")), "{claude:?}");
    assert_eq!(names(&openrouter(), "openai/gpt-5").len(), 3);
    assert!(
        names(&WireOptions::new(ApiMode::Chat, "nous", "https://inference-api.nousresearch.com/v1"), "m")
            .is_empty()
    );
    let mut anthropic = options(ApiMode::Anthropic);
    anthropic.credential = CredentialKind::OAuth;
    anthropic.extra_headers = vec![("Anthropic-Beta".into(), "mine".into()), ("x-a".into(), "1".into())];
    assert_eq!(
        names(&anthropic, "claude"),
        [
            "anthropic-version: 2023-06-01",
            "anthropic-beta: interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14,oauth-2025-04-20,mine",
            "x-a: 1",
        ]
    );
}
