//! `hermes webhook`: manages routes while the gateway runs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_schedule::JobScript;
use hermes_serve::{WebhookRoute, WebhookSettings, WebhookSubscriptions, is_valid_route_name, sign};
use serde_json::{Map, Value, json};

use crate::cli::{SubscribeArguments, WebhookCommand};
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;

pub(crate) fn run(command: WebhookCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.config(output);
    let Some(settings) = WebhookSettings::resolve(&config, &context.env) else {
        let hint = "Webhooks are not enabled. To enable them, run\n  hermes config set WEBHOOK_ENABLED true\n  \
                    hermes config set WEBHOOK_SECRET …      a secret for all routes\nand restart the gateway.";
        output.line(hint);
        return Ok(ExitCode::SUCCESS);
    };
    let subscriptions = WebhookSubscriptions::new(context.home.join("webhook_subscriptions.json"));
    match command {
        WebhookCommand::Subscribe(arguments) => {
            subscribe(&arguments, &settings, &subscriptions, context, output)?;
        }
        WebhookCommand::List => list(&settings, &subscriptions, output),
        WebhookCommand::Remove { name } => {
            let mut routes = subscriptions.all();
            if routes.remove(&name).is_none() {
                bail!("there is no subscription `{name}`; `hermes webhook list` shows them");
            }
            subscriptions.save(&routes)?;
            output.line(&format!("✓ Removed {name}"));
        }
        WebhookCommand::Test { name, payload } => {
            let route = settings.routes.get(&name).cloned().or_else(|| subscriptions.find(&name));
            let Some(route) = route else {
                bail!("there is no route `{name}`; `hermes webhook list` shows them")
            };
            let secret = route.secret.or_else(|| settings.secret.clone()).unwrap_or_default();
            let body = payload.unwrap_or_else(|| json!({"test": true, "event_type": "test"}).to_string());
            let answer = post(&settings, &name, &body, &sign(&secret, body.as_bytes()))?;
            output.line(&answer);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds a route or changes one; a route that is changed keeps its secret.
fn subscribe(
    arguments: &SubscribeArguments,
    settings: &WebhookSettings,
    subscriptions: &WebhookSubscriptions,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let name = arguments.name.to_lowercase().replace(' ', "-");
    if !is_valid_route_name(&name) {
        bail!("`{name}` cannot be a route: letters, digits, `-` and `_`, beginning with a letter or digit");
    }
    let deliver = arguments.deliver.clone().unwrap_or_else(|| "log".to_owned());
    if arguments.deliver_only && deliver == "log" {
        bail!(
            "--deliver-only needs somewhere to deliver to, such as --deliver telegram; nothing was changed"
        );
    }
    if let Some(script) = &arguments.script {
        JobScript::find(&context.home, script)?;
    }
    let mut deliver_extra = Map::new();
    if let Some(chat) = &arguments.deliver_chat_id {
        deliver_extra.insert("chat_id".to_owned(), Value::String(chat.clone()));
    }
    let mut routes = subscriptions.all();
    let present = routes.get(&name).and_then(|route| route.secret.clone());
    let secret = arguments.secret.clone().or(present).map_or_else(random_secret, Ok)?;
    let route = WebhookRoute {
        events: listed(arguments.events.as_deref()),
        secret: Some(secret.clone()),
        prompt: arguments.prompt.clone(),
        skills: listed(arguments.skills.as_deref()),
        deliver,
        deliver_extra,
        deliver_only: arguments.deliver_only,
        script: arguments.script.clone(),
        description: arguments.description.clone(),
        created_at: Some(local_time(now()).to_string()),
        enabled: true,
        more: Map::new(),
    };
    routes.insert(name.clone(), route);
    subscriptions.save(&routes)?;
    output.line(&format!("✓ Subscribed {name}"));
    let host = if settings.host == "0.0.0.0" { "localhost" } else { settings.host.as_str() };
    output.line(&format!("  URL:    http://{host}:{}/webhooks/{name}", settings.port));
    output.line(&format!("  Secret: {secret}"));
    Ok(())
}

fn listed(text: Option<&str>) -> Vec<String> {
    text.map(hermes_config::env::split_list).unwrap_or_default()
}

fn list(settings: &WebhookSettings, subscriptions: &WebhookSubscriptions, output: &Console) {
    let dynamic = subscriptions.all();
    if settings.routes.is_empty() && dynamic.is_empty() {
        output.line("There are no routes. `hermes webhook subscribe NAME --prompt …` adds one.");
        return;
    }
    for (name, route, origin) in settings
        .routes
        .iter()
        .map(|(name, route)| (name, route, "config.yaml"))
        .chain(dynamic.iter().map(|(name, route)| (name, route, "subscription")))
    {
        let events = if route.events.is_empty() { "all events".to_owned() } else { route.events.join(", ") };
        output.line(&format!("{name}  ({origin})  {events} → {}", route.deliver));
        if let Some(about) = &route.description {
            output.line(&format!("  {about}"));
        }
    }
}

/// Returns 32 random bytes from the system, encoded so that they fit into a URL.
fn random_secret() -> Result<String> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bytes = crate::random::bytes::<43>()?;
    Ok(bytes
        .iter()
        .filter_map(|byte| DIGITS.get(usize::from(byte % 64)))
        .map(|digit| char::from(*digit))
        .collect())
}

/// Sends a test event to the gateway on this machine.
fn post(settings: &WebhookSettings, name: &str, body: &str, signature: &str) -> Result<String> {
    let address = format!("127.0.0.1:{}", settings.port);
    let mut stream = TcpStream::connect(&address)
        .with_context(|| format!("nothing listens for webhooks at {address}; is the gateway running?"))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "POST /webhooks/{name} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         X-GitHub-Event: test\r\nX-Hub-Signature-256: {signature}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.lines().next().unwrap_or_default().to_owned();
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    Ok(format!("{status}\n{body}"))
}
