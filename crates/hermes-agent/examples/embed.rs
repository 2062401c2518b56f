//! Hermes inside another program: a model of one's own, a tool of one's own, a conversation of two turns.
//!
//! Run it with `cargo run -p hermes-agent --example embed`. The model here is a stand-in that asks for the tool once; any
//! type that implements `Model` takes its place, such as a client for a provider.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use hermes_agent::{Agent, Chat, PromptSource};
use hermes_config::Home;
use hermes_store::Store;
use hermes_testkit::TestClock;
use hermes_types::{
    Answer, BoxFuture, Call, Cancel, Completion, Cost, Delta, DeltaSink, Event, Frontend, Message, Model,
    ModelError, Outcome, Question, Raw, Request, Role, Tool, ToolCall, ToolContext, ToolSpec, Usage,
};

/// Asks for the weather when the word falls, and repeats what it learns.
struct StandIn;

impl Model for StandIn {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let last = request.messages.last();
        let text = last.map(|message| message.content.text().into_owned()).unwrap_or_default();
        let message = match last.map(|message| message.role) {
            Some(Role::Tool) => Message::assistant(format!("It says: {text}")),
            _ if text.contains("weather") => {
                Message::assistant("").with_calls(vec![ToolCall::new(None, "weather", r#"{"city":"Oslo"}"#)])
            }
            _ => Message::assistant("You are welcome."),
        };
        sink(Delta::Text(message.content.text().into_owned()));
        Box::pin(std::future::ready(Ok(Completion {
            message,
            usage: Some(Usage { input: 20, output: 5, ..Usage::default() }),
            cost: Cost::UNKNOWN,
            model: "stand-in".to_owned(),
            provider: "example".to_owned(),
            response_id: None,
            provider_items: None,
        })))
    }

    fn context_window(&self, _: &str) -> u64 {
        32_000
    }
}

/// Always sunny.
struct Weather(ToolSpec);

impl Tool for Weather {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, call: &'a Call, _: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        let city = call.arguments.get("city").and_then(|city| city.as_str()).unwrap_or("somewhere");
        Box::pin(std::future::ready(Outcome::done(format!("sunny in {city}"))))
    }
}

/// Prints which tools run.
struct Screen;

impl Frontend for Screen {
    fn show(&self, event: Event) {
        if let Event::ToolStarted { name, .. } = event {
            println!("(using {name})");
        }
    }

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let prompt = PromptSource::new(Home::at(folder.path()), folder.path().to_owned());
    let store = Store::open(&folder.path().join("state.db"))?;
    let mut agent = Agent::new(Arc::new(StandIn), "stand-in", store, Arc::new(TestClock::new()), prompt);
    agent.tools.push(Arc::new(Weather(ToolSpec {
        name: "weather".to_owned(),
        description: "Tells the weather in a city.".to_owned(),
        parameters: Raw::from_value(&serde_json::json!({
            "type": "object",
            "properties": {"city": {"type": "string"}},
        })),
    })));
    let mut chat = Chat::new(Arc::new(agent), Arc::new(Screen), "example");
    for words in ["How is the weather?", "Thank you!"] {
        println!("> {words}");
        println!("{}", chat.say(words).await?.unwrap_or_default());
    }
    let messages = chat.conversation().messages().len();
    println!("{messages} messages are stored as session {}", chat.conversation().session());
    chat.close().await?;
    Ok(())
}
