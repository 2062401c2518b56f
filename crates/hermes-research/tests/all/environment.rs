//! Rollouts against emulated inference servers: the tokens of a conversation, the loop, the limits of results.

use std::path::Path;
use std::sync::{Arc, Mutex};

use hermes_agent::{Agent, AgentModels, PromptSource};
use hermes_config::Home;
use hermes_net::{Config, HttpClient};
use hermes_research::{
    ChatTokenizer, DataEnvironment, EnvironmentMeans, EnvironmentMode, EnvironmentObserver,
    EnvironmentReport, EnvironmentRun, Error, FlagValue, ModelServers, SettingLayers, SpecialTokens,
    TrainingEnvironment,
};
use hermes_store::Store;
use hermes_testkit::{GenerateDialect, JsonServer, PlainTool, RealClock, TestModel};
use hermes_types::{Cancel, Clock};
use serde_json::{Map, Value, json};

use super::support::StageAgents;

const FIRST: u32 = 256;
const BEGIN: u32 = 257;
const END: u32 = 258;
const MARKS: [(&str, u32); 3] = [("<bos>", FIRST), ("<|im_start|>", BEGIN), ("<|im_end|>", END)];

/// A tokenizer whose tokens are bytes, and the usual template of chats.
struct ByteTokenizer;

impl ChatTokenizer for ByteTokenizer {
    fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>, String> {
        let mut tokens = if special == SpecialTokens::Include { vec![FIRST] } else { Vec::new() };
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if let Some((mark, token)) = MARKS.iter().find(|(mark, _)| rest.starts_with(mark)) {
                tokens.push(*token);
                rest = rest.strip_prefix(mark).unwrap_or_default();
            } else {
                tokens.extend(next.to_string().bytes().map(u32::from));
                rest = rest.strip_prefix(next).unwrap_or_default();
            }
        }
        Ok(tokens)
    }

    fn decode(&self, tokens: &[u32], special: SpecialTokens) -> Result<String, String> {
        let mut bytes = Vec::new();
        for token in tokens {
            match MARKS.iter().find(|(_, known)| known == token) {
                Some((mark, _)) if special == SpecialTokens::Include => bytes.extend(mark.bytes()),
                Some(_) => {}
                None => bytes.push(u8::try_from(*token).map_err(|error| error.to_string())?),
            }
        }
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }

    fn render(&self, messages: &[Value], tools: &[Value], generation: bool) -> Result<String, String> {
        let mut text = format!("<bos>tools: {}\n", tools.len());
        for message in messages {
            let part = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
            // As many templates do, this one leaves out earlier reasoning.
            let content = part("content");
            let content = content.split_once("</think>").map_or(content.as_str(), |(_, rest)| rest);
            text += &[
                "<|im_start|>",
                &part("role"),
                "
",
                content,
                "<|im_end|>
",
            ]
            .concat();
        }
        if generation {
            text.push_str("<|im_start|>assistant\n");
        }
        Ok(text)
    }

    fn first_token(&self) -> Option<u32> {
        Some(FIRST)
    }
}

#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl EnvironmentObserver for Notices {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Runs an environment whose verifier is a tool that always answers the same, and returns the groups it wrote.
async fn process(
    folder: &Path,
    terminal: &str,
    env: Value,
    openai: Value,
) -> Result<(EnvironmentReport, Vec<Value>), Error> {
    let yaml = folder.join("environment.yaml");
    std::fs::write(
        &yaml,
        "name: sample\nitems: [{question: 'What?', answer: x}]\nprompt: '{{question}} It is {{answer}}.'\n\
         verify: {command: 'test {{answer}}', reward: stdout}\n",
    )
    .unwrap();
    let environment = Arc::new(DataEnvironment::read(&yaml)?);
    let layers = SettingLayers {
        defaults: vec![environment.defaults(), EnvironmentMode::Process.defaults("sample")],
        file: json!({"env": env, "openai": openai}),
        env_flags: vec![
            ("group_size".to_owned(), FlagValue::Text("1".to_owned())),
            ("total_steps".to_owned(), FlagValue::Text("1".to_owned())),
            (
                "data_path_to_save_groups".to_owned(),
                FlagValue::Text(folder.join("g.jsonl").display().to_string()),
            ),
        ],
        server_flags: Vec::new(),
    };
    let settings = layers.environment(&environment.own_keys())?;
    let servers = layers.servers()?;
    let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
    let net = HttpClient::new(Config::new(clock.clone())).unwrap();
    let store = Store::open(&folder.join("scratch.db")).unwrap();
    let prompt = PromptSource::new(Home::new(folder), folder.to_owned());
    let models = AgentModels::new(TestModel::echo(), "test-model");
    let agent = Agent::builder(models, store, clock.clone(), prompt)
        .tool(Arc::new(PlainTool::named("terminal").saying(terminal)))
        .build();
    let tasks = Arc::new(Mutex::default());
    let means = EnvironmentMeans {
        agents: Arc::new(StageAgents { agent, tasks: Arc::clone(&tasks) }),
        toolsets: vec!["terminal".to_owned()],
        servers: ModelServers::new(servers, net.clone(), clock.clone()),
        net,
        tokenizer: Some(Arc::new(ByteTokenizer)),
        clock,
        images: None,
    };
    let run = EnvironmentRun::new(
        environment,
        settings,
        means,
        Arc::new(Notices::default()),
        folder,
        Arc::new(|| "now".to_owned()),
    )?;
    let report = run.process(&Cancel::new()).await?;
    let tasks = tasks.lock().unwrap();
    assert!(tasks.len() == 2 && tasks[1] == format!("-{}", tasks[0]), "prepared and released: {tasks:?}");
    let text = std::fs::read_to_string(folder.join("g.jsonl")).unwrap();
    Ok((report, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()))
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

const CALL: &str = "<think>Let me see.</think>\n<tool_call>\n{\"name\": \"terminal\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>";

async fn tokens_are_exact(dialect: GenerateDialect, kind: &str) {
    let server = JsonServer::generate(dialect, &[CALL, "It is x."], END).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let openai = json!({"server_type": kind, "base_url": format!("{}/v1", server.url()), "health_check": kind == "vllm"});
    let done = process(
        folder.path(),
        r#"{"output": "0.75", "exit_code": 0}"#,
        json!({"extra_body": {"x": 1}}),
        openai,
    );
    let (report, groups) = done.await.unwrap();
    assert!((report.mean_score - 0.75).abs() < 1e-9, "{report:?}");
    let (tokens, masks) = (numbers(&groups[0]["tokens"][0]), numbers(&groups[0]["masks"][0]));
    let logprobs = groups[0]["inference_logprobs"][0].as_array().unwrap();
    assert!(tokens.len() == masks.len() && tokens.len() == logprobs.len());
    // What counts is what the model wrote, with the token that ended it.
    let written: Vec<u32> = tokens
        .iter()
        .zip(&masks)
        .filter(|(token, mask)| token == mask)
        .map(|(token, _)| u32::try_from(*token).unwrap())
        .collect();
    let text = ByteTokenizer.decode(&written, SpecialTokens::Include).unwrap();
    assert_eq!(text, format!("{CALL}<|im_end|>It is x.<|im_end|>"));
    for ((token, mask), logprob) in tokens.iter().zip(&masks).zip(logprobs) {
        let expected = if token == mask { -0.25 } else { 1.0 };
        assert!((logprob.as_f64().unwrap() - expected).abs() < 1e-9 && (token == mask || *mask == -100));
    }
    // The second request repeats the tokens of the first and of its answer, and adds to them.
    let requests: Vec<_> =
        server.requests().into_iter().filter(|request| request.path == "/generate").collect();
    let of_prompt = |at: usize| {
        let body: &Value = &requests[at].body;
        numbers(if kind == "vllm" { &body["prompt"]["prompt_token_ids"] } else { &body["input_ids"] })
    };
    let (first, second) = (of_prompt(0), of_prompt(1));
    let answered: Vec<i64> = CALL.bytes().map(i64::from).chain([i64::from(END)]).collect();
    assert!(second.starts_with(&[first.as_slice(), &answered].concat()) && tokens.starts_with(&second));
    assert!(first[0] == i64::from(FIRST) && first[1] != i64::from(FIRST), "one beginning, not two");
    assert!(requests[0].body.to_string().find("\"x\"").is_none(), "extra_body is for chats only");
    let roles: Vec<&str> = groups[0]["messages"][0]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
}

#[tokio::test]
async fn tokens_of_vllm_are_exact() {
    tokens_are_exact(GenerateDialect::Vllm, "vllm").await;
}

#[tokio::test]
async fn tokens_of_sglang_are_exact() {
    tokens_are_exact(GenerateDialect::Sglang, "sglang").await;
}

#[tokio::test]
async fn a_proxy_keeps_the_tokens_where_there_is_no_tokenizer() {
    let server = JsonServer::start(|request| match (request.method.as_str(), request.path.as_str()) {
        ("POST", "/sessions/create") => (200, json!({"uuid": "s-1", "model_name": "m"})),
        ("POST", "/s-1/v1/chat/completions") => (200, json!({"choices": [{"message": {"role": "assistant", "content": "x"}}]})),
        ("GET", "/s-1/nodes") => (200, json!({"nodes": [{"full_text": "ab", "tokens": [1, 2], "masked_tokens": [-100, 2], "logprobs": [1.0, -0.5]}]})),
        ("DELETE", "/s-1") => (200, json!({})),
        _ => (404, json!({"error": {"message": "no"}})),
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let openai = json!({"server_type": "vllm", "base_url": "http://127.0.0.1:1/v1", "proxy_url": server.url(), "health_check": false});
    let (_, groups) =
        process(folder.path(), r#"{"output": "1", "exit_code": 0}"#, json!({}), openai).await.unwrap();
    assert_eq!(groups[0]["tokens"], json!([[1, 2]]));
    assert_eq!(
        (&groups[0]["masks"], &groups[0]["inference_logprobs"]),
        (&json!([[-100, 2]]), &json!([[1.0, -0.5]]))
    );
    let paths: Vec<String> =
        server.requests().iter().map(|request| format!("{} {}", request.method, request.path)).collect();
    assert_eq!(
        paths,
        ["POST /sessions/create", "POST /s-1/v1/chat/completions", "GET /s-1/nodes", "DELETE /s-1"]
    );
}

/// Returns a server of chats that answers in turn, as the last message is the user's or a tool's.
fn chat_server(calls: Value) -> JsonServer {
    JsonServer::start(move |request| {
        let last = request.body["messages"]
            .as_array()
            .and_then(|messages| messages.last())
            .cloned()
            .unwrap_or_default();
        let message = if last["role"] == "user" {
            json!({"role": "assistant", "content": null, "reasoning": "hm", "tool_calls": calls})
        } else {
            json!({"role": "assistant", "content": "Done."})
        };
        (200, json!({"choices": [{"message": message}]}))
    })
    .unwrap()
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[tokio::test]
async fn every_call_gets_one_result_and_wrong_ones_an_error() {
    let calls = json!([
        call("a", "nothing", "{}"),
        call("b", "terminal", "{oops"),
        call("c", "terminal", "{}"),
        call("../d", "terminal", "")
    ]);
    let server = chat_server(calls);
    let folder = tempfile::tempdir().unwrap();
    let openai = json!({"base_url": server.url(), "health_check": false, "model_name": "m"});
    let env = json!({"default_result_size_chars": 100, "preview_size_chars": 10, "extra_body": {"x": 1}});
    let terminal = json!({"output": "1", "exit_code": 0, "more": "much more ".repeat(20)}).to_string();
    let (_, groups) = process(folder.path(), &terminal, env, openai).await.unwrap();
    let messages = groups[0]["messages"][0].as_array().unwrap();
    assert_eq!(messages[1]["reasoning_content"], "hm");
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(results.len(), 4);
    assert!(results[0].contains("unknown tool `nothing`; there are terminal"), "{}", results[0]);
    assert!(results[1].contains("not a JSON object"), "{}", results[1]);
    // Longer than the limit: stored where commands run, with a preview. The folder is what the terminal printed.
    assert!(
        results[2].contains("<persisted-output>") && results[2].contains("1/hermes-results/c.txt"),
        "{}",
        results[2]
    );
    assert!(results[3].contains("hermes-results/_") && !results[3].contains("/../"), "{}", results[3]);
    let request = &server.requests()[0].body;
    assert_eq!((&request["x"], &request["n"], &request["model"]), (&json!(1), &json!(1), &json!("m")));
    assert_eq!(request["messages"], json!([{"role": "user", "content": "What? It is x."}]));
    let metrics = std::fs::read_to_string(folder.path().join("sample_metrics.jsonl")).unwrap();
    assert!(metrics.contains("\"sample_train/tool_errors_count\":2"), "{metrics}");
}

#[tokio::test]
async fn a_server_that_fails_leaves_nothing_to_judge() {
    let server = JsonServer::start(|_| (400, json!({"error": "no"}))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let openai = json!({"base_url": server.url(), "health_check": false});
    let (report, groups) =
        process(folder.path(), r#"{"output": "1", "exit_code": 0}"#, json!({}), openai).await.unwrap();
    assert!(report.mean_score.abs() < 1e-9 && groups[0]["scores"] == json!([0.0]), "{report:?}");
    assert_eq!(server.requests().len(), 1, "a request that is wrong is not repeated");
}

#[test]
fn settings_come_from_four_layers_and_wrong_ones_are_named() {
    let flag = |key: &str, text: &str| (key.to_owned(), FlagValue::Text(text.to_owned()));
    let default: Map<String, Value> =
        json!({"group_size": 3, "max_agent_turns": 10, "extra_body": {"a": 1, "b": 1}})
            .as_object()
            .cloned()
            .unwrap();
    let layers = SettingLayers {
        defaults: vec![default],
        file: json!({"env": {"max_agent_turns": 20, "total_steps": 5, "extra_body": {"b": 2}}, "openai": {"timeout": 3}}),
        env_flags: vec![
            flag("total_steps", "6"),
            flag("system_prompt", "42"),
            flag("wandb_name", "None"),
            flag("extra_body", r#"{"c": 3}"#),
            flag("enabled_toolsets", r#"["web"]"#),
            ("thinking_mode".to_owned(), FlagValue::Bare),
        ],
        server_flags: vec![flag("model_name", "7b"), flag("health_check", "False")],
    };
    let settings = layers.environment(&[]).unwrap();
    assert_eq!((settings.group_size, settings.max_agent_turns, settings.total_steps), (3, 20, 6));
    assert_eq!(
        (settings.system_prompt.as_deref(), settings.wandb_name, settings.thinking_mode),
        (Some("42"), None, true)
    );
    assert_eq!(json!(settings.extra_body), json!({"a": 1, "b": 2, "c": 3}));
    let servers = layers.servers().unwrap();
    assert_eq!(
        (servers[0].model_name.as_str(), servers[0].health_check, servers[0].base_url.as_str()),
        ("7b", false, "https://api.openai.com/v1")
    );
    let check = |env: Value, openai: Value, words: &str| {
        let layers = SettingLayers {
            file: json!({"env": env, "openai": openai}),
            server_flags: vec![flag("timeout", "1")],
            ..SettingLayers::default()
        };
        let error = layers.environment(&[]).err().or_else(|| layers.servers().err()).unwrap().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(json!({"group_size": "x"}), Value::Null, "env.group_size: invalid type");
    check(json!({"grup_size": 1}), Value::Null, "env.grup_size is not a setting");
    check(json!({"group_size": 0}), Value::Null, "env.group_size must be at least 1");
    check(json!([]), Value::Null, "`env` in the file must be a mapping");
    check(json!({}), json!([{}, {}]), "cannot be used with several servers");
    check(json!({}), json!({"modle": 1}), "openai.modle");
    assert_eq!(SettingLayers::default().servers().unwrap().len(), 4, "local ports");
}
