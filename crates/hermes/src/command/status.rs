//! `hermes status`: a summary of the installation. Shows no part of any secret, so that it can be shared.

use std::process::ExitCode;

use hermes_channels::PLATFORMS;
use hermes_config::auth::AuthFile;
use hermes_config::env::bridge::exported_variables;
use hermes_config::env::variables;
use hermes_config::provider::registry::{ProviderKind, REGISTRY};
use hermes_config::settings::TerminalSettings;
use hermes_config::{Config, Env, ProgramSurface, user_home};
use hermes_exec::SandboxState;
use hermes_gateway::process;
use hermes_model::discovery::ListFreshness;
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_schedule::{JobFilter, JobStore, Zone};
use hermes_serve::{ServerSettings, WebhookSettings};
use serde_json::Value;

use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::channels::options;
use crate::wiring::model_lists::{list_models, target_of};
use crate::wiring::sandbox;

/// Selects the keys to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyFilter {
    Set,
    All,
}

pub(crate) fn run(keys: KeyFilter, deep: bool, context: &ProgramContext, output: &Console) -> ExitCode {
    let config = context.config(output);
    let env = context.env.with_variables(exported_variables(
        &config,
        &context.env,
        ProgramSurface::Gateway,
        std::path::Path::new("/"),
    ));
    let sections = [
        ("Environment", environment(context, &config)),
        ("Model providers", providers(keys, deep, context, &config)),
        ("API keys", api_keys(keys, &env)),
        ("Sign-ins", sign_ins(context)),
        ("Terminal backend", terminal(context, &config, &env)),
        ("Messaging platforms", platforms(context, &config, &env)),
        ("Gateway", gateway(context, &config, &env, deep)),
        ("Scheduled jobs", vec![jobs(context, &config)]),
        ("Chats", vec![chats(context)]),
    ];
    output.line("Hermes Agent Status");
    for (title, lines) in sections {
        output.line(&format!("\n{title}"));
        for line in lines {
            output.line(&format!("  {line}"));
        }
    }
    output.line("\n`hermes doctor` checks everything, `hermes setup` changes it.");
    ExitCode::SUCCESS
}

/// Lists the providers that could be used, the configured one first. Asks that one for its models if `deep`.
fn providers(keys: KeyFilter, deep: bool, context: &ProgramContext, config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let inputs = ProviderInputs::read(&context.home, config.clone(), context.env.clone());
    if let Ok(Some(target)) = target_of(&inputs, &ProviderChoice::default()) {
        lines.push(row(true, target.provider(), "in use"));
        if deep {
            lines.push(match list_models(&target, context, ListFreshness::Current) {
                Ok(models) => row(true, "  reachable", &format!("lists {} models", models.len())),
                Err(error) => row(false, "  reachable", &format!("{error:#}")),
            });
        }
    }
    let auth = AuthFile::new(&context.home).read();
    for provider in REGISTRY.iter().filter(|provider| provider.kind != ProviderKind::Offline) {
        let variable = provider.keys.iter().find(|name| context.env.is_set(name));
        let is_signed_in = auth.provider(provider.id).is_some();
        let words = match variable {
            Some(name) => format!("key in {name}"),
            None if is_signed_in => "signed in".to_owned(),
            None if keys == KeyFilter::All => "not set up".to_owned(),
            None => continue,
        };
        lines.push(row(variable.is_some() || is_signed_in, provider.id, &words));
    }
    or_none(lines, "none is set up; `hermes setup model` connects one")
}

fn mark(good: bool) -> &'static str {
    if good { "✓" } else { "✗" }
}

fn row(good: bool, name: &str, what: &str) -> String {
    format!("{} {name:<14} {what}", mark(good))
}

fn environment(context: &ProgramContext, config: &Config) -> Vec<String> {
    let file = |name: &str| {
        let path = context.home.join(name);
        row(path.exists(), name, &path.display().to_string())
    };
    let facts = ProviderInputs::read(&context.home, config.clone(), context.env.clone());
    let (good, model) = match resolve(&facts, &ProviderChoice::default(), ProgramSurface::Cli) {
        Ok(ResolvedModel::Offline) => (false, "offline (built in; not a language model)".to_owned()),
        Ok(ResolvedModel::Target(target)) => (true, format!("{} at {}", target.model, target.provider())),
        Err(error) => (false, error.to_string()),
    };
    vec![
        row(context.home.path().exists(), "home", &context.home.path().display().to_string()),
        file("config.yaml"),
        file(".env"),
        row(good, "model", &model),
    ]
}

fn api_keys(keys: KeyFilter, env: &Env) -> Vec<String> {
    let chat = |name: &str| PLATFORMS.iter().any(|platform| name.starts_with(&platform.name.to_uppercase()));
    let rows = variables::all()
        .iter()
        .filter(|variable| variable.secret && !chat(variable.name))
        .filter(|variable| keys == KeyFilter::All || env.is_set(variable.name))
        .map(|variable| {
            let set = env.is_set(variable.name);
            format!("{} {:<28} {}", mark(set), variable.name, if set { "set" } else { "not set" })
        });
    or_none(rows.collect(), "none is set; `hermes status --all` lists those there are")
}

fn sign_ins(context: &ProgramContext) -> Vec<String> {
    let state = AuthFile::new(&context.home).read();
    let rows = state.providers().into_iter().map(|name| {
        let expiry = state.provider(name).and_then(|state| state.get("expires_at")).and_then(Value::as_str);
        row(true, name, &expiry.map_or_else(|| "signed in".to_owned(), |at| format!("signed in, until {at}")))
    });
    or_none(rows.collect(), "none")
}

fn terminal(context: &ProgramContext, config: &Config, env: &Env) -> Vec<String> {
    let backend = env.get("TERMINAL_ENV").map_or_else(|| config.text("terminal.backend"), str::to_owned);
    let sudo = if env.is_set("SUDO_PASSWORD") { "with a password for sudo" } else { "no password for sudo" };
    let mut rows = vec![row(true, &backend, sudo)];
    if backend == "local"
        && let Ok(user_home) = user_home(&context.env)
    {
        let settings = TerminalSettings::resolve(config, &context.env);
        let (state, words) = sandbox::sandbox(&settings, &user_home, context).state();
        rows.push(row(state == SandboxState::Full, "sandbox", words));
    }
    rows
}

fn platforms(context: &ProgramContext, config: &Config, env: &Env) -> Vec<String> {
    let state = state_file(context);
    let mut lines: Vec<String> = PLATFORMS
        .iter()
        .map(|platform| {
            let configured = platform.is_configured(&options(platform, config, env));
            if !configured {
                return row(false, platform.label(), "not configured");
            }
            let upper = platform.name.to_uppercase();
            let home = env.get(&format!("{upper}_HOME_CHANNEL")).map(str::to_owned);
            let home = home.or_else(|| {
                config.non_empty_text(&format!("platforms.{}.home_channel.chat_id", platform.name))
            });
            let home =
                home.map_or_else(|| "no home channel".to_owned(), |home| format!("home channel {home}"));
            row(
                true,
                platform.label(),
                &format!("configured, {home}{}", platform_state(&state, platform.name)),
            )
        })
        .collect();
    let api = ServerSettings::resolve(config, env);
    let words = api.as_ref().map_or("not configured".to_owned(), |api| format!("port {}", api.port));
    lines.push(row(api.is_some(), "API server", &format!("{words}{}", platform_state(&state, "api_server"))));
    let hooks = WebhookSettings::resolve(config, env).is_some();
    let words = if hooks { "configured" } else { "not configured" };
    lines.push(row(hooks, "Webhooks", &format!("{words}{}", platform_state(&state, "webhook"))));
    lines
}

/// Returns the state of a platform as the running gateway reports it.
fn platform_state(state: &Value, name: &str) -> String {
    let entry = state.pointer(&format!("/platforms/{name}"));
    let text = |key: &str| entry.and_then(|entry| entry.get(key)).and_then(Value::as_str);
    match (text("state"), text("error_message")) {
        (Some(state), Some(error)) => format!(" ({state}: {error})"),
        (Some(state), None) => format!(" ({state})"),
        (None, _) => String::new(),
    }
}

/// Reads the state file of the running gateway; returns null when none runs.
fn state_file(context: &ProgramContext) -> Value {
    if process::running_pid(&context.home).is_none() {
        return Value::Null;
    }
    let text = std::fs::read_to_string(context.home.gateway_state()).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn gateway(context: &ProgramContext, config: &Config, env: &Env, deep: bool) -> Vec<String> {
    let running = process::running_pid(&context.home);
    let mut lines = vec![match running {
        Some(pid) => row(true, "running", &format!("PID {pid}")),
        None => row(false, "not running", "`hermes gateway run`, or `hermes gateway install`"),
    }];
    if deep && let Some(api) = ServerSettings::resolve(config, env) {
        let open = std::net::TcpStream::connect(("127.0.0.1", api.port)).is_ok();
        lines.push(row(
            open,
            "API port",
            &format!("{} {}", api.port, if open { "answers" } else { "does not answer" }),
        ));
    }
    lines
}

fn jobs(context: &ProgramContext, config: &Config) -> String {
    let jobs = JobStore::new(context.home.clone(), Zone::configured(config, &context.env));
    let (active, total) = (jobs.list(JobFilter::Enabled).len(), jobs.list(JobFilter::All).len());
    format!("{active} active, {total} total")
}

fn chats(context: &ProgramContext) -> String {
    let text = std::fs::read_to_string(context.home.sessions().join("sessions.json")).unwrap_or_default();
    let count =
        serde_json::from_str::<Value>(&text).ok().and_then(|file| file.as_object().map(serde_json::Map::len));
    format!("{} in sessions.json", count.unwrap_or(0))
}

fn or_none(lines: Vec<String>, words: &str) -> Vec<String> {
    if lines.is_empty() { vec![words.to_owned()] } else { lines }
}
