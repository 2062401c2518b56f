//! Hermes inside another program: a provider, a custom tool, a conversation of two turns.
//!
//! Run it with `cargo run -p hermes --example embed`. It talks to a scripted model server on this machine; to use a
//! real endpoint, change the address, the model name and the key.
#![allow(
    clippy::print_stdout,
    dead_code,
    reason = "an example shows what it does; a test uses it without its `main`"
)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use hermes_agent::{Agent, AgentModels, Chat, PromptSource};
use hermes_config::{Config, Env, Home, ProgramSurface};
use hermes_model::client::{ModelClient, RetryPolicy};
use hermes_model::credential::CredentialContext;
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_net::{Config as NetConfig, HttpClient};
use hermes_store::Store;
use hermes_task::SystemClock;
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply};
use hermes_types::{
    BoxFuture, Cancel, Clock, Frontend, Model, RawJson, Tool, ToolContext, ToolInvocation, ToolOutcome,
    ToolSpec, TurnEvent, UserAnswer, UserQuestion,
};

/// A tool that always reports sunny weather.
struct Weather(ToolSpec);

impl Tool for Weather {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let city = call.arguments.get("city").and_then(|city| city.as_str()).unwrap_or("somewhere");
        Box::pin(std::future::ready(ToolOutcome::done(format!("sunny in {city}"))))
    }
}

/// A frontend that prints which tools run, and answers no questions.
struct Screen;

impl Frontend for Screen {
    fn show(&self, event: TurnEvent) {
        if let TurnEvent::ToolStarted { name, .. } = event {
            println!("(using {name})");
        }
    }

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

/// Builds a client for a custom endpoint.
fn model(home: &Home, address: &str, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Model>, Box<dyn Error>> {
    let env = Env::default();
    let text = format!("model:\n  provider: custom\n  base_url: {address}\n  default: test-model\n");
    let facts =
        ProviderInputs::read(home, Config::from_text(Path::new("config.yaml"), &text, &env), env.clone());
    let ResolvedModel::Target(target) = resolve(&facts, &ProviderChoice::default(), ProgramSurface::Cli)?
    else {
        return Err("no endpoint".into());
    };
    let net = HttpClient::new(NetConfig::new(clock.clone()))?;
    let means = CredentialContext::new(net.clone(), clock.clone(), home, env);
    let client = ModelClient::new(net, clock.clone(), vec![target.endpoint(&means)], RetryPolicy::default());
    Ok(Arc::new(client.ok_or("no endpoint")?))
}

/// Runs two turns in a folder and returns the answers.
pub(crate) async fn talk(folder: &Path, address: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let home = Home::new(folder);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Store::open(&folder.join("state.db"))?;
    let prompt = PromptSource::new(home.clone(), folder.to_owned());
    let weather = Weather(ToolSpec {
        name: "weather".to_owned(),
        description: "Tells the weather in a city.".to_owned(),
        parameters: RawJson::from_value(&serde_json::json!({
            "type": "object",
            "properties": {"city": {"type": "string"}},
        })),
    });
    let models = AgentModels::new(model(&home, address, &clock)?, "test-model");
    let agent = Agent::builder(models, store, clock, prompt).tool(Arc::new(weather)).build();
    let mut chat = Chat::new(Arc::new(agent), Arc::new(Screen), "example");
    let mut answers = Vec::new();
    for words in ["How is the weather in Oslo?", "Thank you!"] {
        println!("> {words}");
        let answer = chat.say(words).await?.unwrap_or_default();
        println!("{answer}");
        answers.push(answer);
    }
    let messages = chat.conversation().messages().len();
    println!("{messages} messages are stored as session {}", chat.conversation().session());
    chat.close().await?;
    Ok(answers)
}

/// Returns the scripted replies of the model.
pub(crate) fn script() -> ModelScript {
    ModelScript::new()
        .reply(ScriptedReply::tool("weather", serde_json::json!({"city": "Oslo"})))
        .reply(ScriptedReply::text("Sunny, so take your sunglasses."))
        .reply(ScriptedReply::text("You are welcome."))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ModelServer::start(script()).await?;
    let folder = tempfile::tempdir()?;
    talk(folder.path(), &server.base_url()).await?;
    Ok(())
}
