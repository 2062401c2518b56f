//! `mixture_of_agents` in the program: who is asked what, what is merged, and what it costs.

use hermes_testkit::{ModelScript, ModelServer, TempHome};
use serde_json::{Value, json};

use super::life::hermes;

struct MixtureHome {
    server: ModelServer,
    home: TempHome,
}

impl MixtureHome {
    fn new(replies: &Value, moa: &Value, budget: &Value) -> Self {
        let script = json!({"replies": replies, "default": "echo"}).to_string();
        let server =
            ModelServer::start_blocking(ModelScript::from_yaml("mixture", &script).unwrap()).unwrap();
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "main"},
            "platform_toolsets": {"cli": ["moa"]},
            "moa": moa,
            "budget": budget,
        });
        let env = format!("OPENROUTER_API_KEY=sk-or-0123456789\nOPENROUTER_BASE_URL={}\n", server.base_url());
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        Self { server, home }
    }

    fn ask(&self) -> String {
        let output = hermes(&self.home, &["chat", "-Q", "-q", "solve it"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    fn bodies(&self, model: &str) -> Vec<Value> {
        let requests = self.server.requests();
        let bodies = requests.iter().filter_map(|request| serde_json::from_str(&request.body_text()).ok());
        bodies.filter(|body: &Value| body["model"] == model).collect()
    }

    /// Returns the result of the call as the main model got it.
    fn result(&self) -> Value {
        let bodies = self.bodies("main");
        let messages = bodies.iter().flat_map(|body| body["messages"].as_array().unwrap().clone());
        let found = messages.into_iter().find(|message| message["tool_call_id"] == "call_m");
        serde_json::from_str(found.unwrap_or_else(|| panic!("{bodies:#?}"))["content"].as_str().unwrap())
            .unwrap()
    }
}

fn moa(min_successes: u32) -> Value {
    json!({
        "reference_models": ["a/one", "openai/gpt-two", "c/three"],
        "aggregator_model": "d/judge",
        "min_successes": min_successes,
    })
}

fn replies() -> Value {
    let call =
        json!({"name": "mixture_of_agents", "id": "call_m", "arguments": {"user_prompt": "Is 91 a prime?"}});
    json!([
        {"when": {"model": "a/one"}, "text": "<think>hm</think>No: 7 times 13.", "usage": {"input": 100, "output": 50}},
        {"when": {"model": "openai/gpt-two"}, "text": "Yes.", "usage": {"input": 100, "output": 50}},
        {"when": {"model": "c/three"}, "http": {"status": 404, "body": {"error": {"message": "no such model"}}}, "repeat": "forever"},
        {"when": {"model": "d/judge"}, "text": "No, 91 is 7 times 13.", "usage": {"input": 100, "output": 50}},
        {"when": {"tool_result": "call_m"}, "text": "Not a prime."},
        {"when": {"user_contains": "solve it"}, "tool": call},
    ])
}

#[test]
fn several_models_answer_and_one_merges_what_they_said() {
    let fixture = MixtureHome::new(&replies(), &moa(2), &json!({}));
    let said = fixture.ask();
    assert!(said.contains("Not a prime."), "{said}");
    let names = ["a/one", "openai/gpt-two", "c/three"];
    assert_eq!(
        fixture.result(),
        json!({
            "success": true,
            "response": "No, 91 is 7 times 13.",
            "models_used": {"reference_models": names, "aggregator_model": "d/judge"},
        })
    );
    for (model, temperature) in
        [("a/one", json!(0.6)), ("openai/gpt-two", Value::Null), ("d/judge", json!(0.4))]
    {
        let [body] = fixture.bodies(model).try_into().unwrap_or_else(|bodies| panic!("{model}: {bodies:?}"));
        let given =
            body["temperature"].as_f64().map_or(Value::Null, |number| json!((number * 10.0).round() / 10.0));
        assert_eq!(given, temperature, "{model}");
        assert!(body.get("tools").is_none(), "{model}");
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        assert!(last.to_string().contains("Is 91 a prime?"), "{model}: {last}");
    }
    let judge = fixture.bodies("d/judge")[0]["messages"][0].to_string();
    assert!(judge.contains("1. No: 7 times 13.") && judge.contains("2. Yes."), "{judge}");
    assert!(!judge.contains("hm") && !judge.contains("3. "), "{judge}");
}

#[test]
fn too_few_answers_are_an_error_that_names_the_reasons() {
    let fixture = MixtureHome::new(&replies(), &moa(3), &json!({}));
    fixture.ask();
    let result = fixture.result();
    assert_eq!(result["success"], false);
    let error = result["error"].as_str().unwrap();
    assert!(
        error.starts_with("Error in MoA processing: 2 of 3 models answered, 3 are needed. c/three:"),
        "{error}"
    );
    assert!(fixture.bodies("d/judge").is_empty());
}

#[test]
fn the_price_is_within_the_budget_of_the_turn() {
    // The question of the turn and the references use it up.
    let fixture = MixtureHome::new(&replies(), &moa(1), &json!({"per_turn_tokens": 250}));
    let said = fixture.ask();
    assert!(fixture.bodies("d/judge").is_empty(), "the merge is not paid for");
    assert!(said.contains("of its limit of 250 tokens"), "the turn ends, too: {said}");
    let plenty = MixtureHome::new(&replies(), &moa(1), &json!({"per_turn_tokens": 100_000}));
    assert!(plenty.ask().contains("Not a prime."));
}

#[test]
fn it_is_offered_only_with_a_key_and_when_it_is_switched_on() {
    let script = r#"{"default": "echo"}"#;
    for (toolsets, env, offered) in [
        (json!(["moa"]), "OPENROUTER_API_KEY=sk-or-0123456789\n", true),
        (json!(["moa"]), "", false),
        (json!(["hermes-cli"]), "OPENROUTER_API_KEY=sk-or-0123456789\n", false),
    ] {
        let server = ModelServer::start_blocking(ModelScript::from_yaml("offer", script).unwrap()).unwrap();
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "main"},
            "platform_toolsets": {"cli": toolsets},
        });
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(env).build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        hermes(&home, &["chat", "-Q", "-q", "hello"]).output().unwrap();
        let body = server.requests().last().unwrap().body_text().into_owned();
        assert_eq!(body.contains("mixture_of_agents"), offered, "{toolsets} {env}");
    }
}
