//! The values of arguments that depend on the installation: sessions, profiles, models, jobs and the like.

use hermes_channels::PLATFORMS;
use hermes_config::provider::registry::{self, ProviderKind, REGISTRY};
use hermes_config::{Config, keys};
use hermes_schedule::{JobFilter, JobStore, Zone};
use hermes_serve::{WebhookSettings, WebhookSubscriptions};
use hermes_store::{SessionFilter, Store};
use hermes_tools::TOOLSETS;

use super::Candidate;
use crate::command::profile::{profile_homes, requested_home};
use crate::context::ProgramContext;
use crate::wiring::skills::SkillCommands;

/// The most sessions that are offered.
const MAX_SESSIONS: usize = 100;

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    ConfigKey,
    Job,
    Log,
    McpServer,
    Model,
    Platform,
    Profile,
    Provider,
    Route,
    Session,
    Skill,
    Toolset,
}

/// The arguments that name something new: command, subcommand, argument.
const NEW_NAMES: [(&str, &str, &str); 6] = [
    ("profile", "create", "name"),
    ("profile", "import", "name"),
    ("profile", "install", "name"),
    ("cron", "create", "name"),
    ("mcp", "add", "name"),
    ("skills", "install", "name"),
];

/// Returns what an argument of a command names, if it is a thing of the installation.
pub(super) fn value_kind(path: &[String], argument: &str) -> Option<ValueKind> {
    let word = |at: usize| path.get(at).map_or("", String::as_str);
    let (command, action) = (word(0), word(1));
    if NEW_NAMES.contains(&(command, action, argument)) {
        return None;
    }
    Some(match (command, argument) {
        ("logs", "session") | ("sessions", "id" | "ids") | (_, "resume" | "go_on" | "session_id") => {
            ValueKind::Session
        }
        ("model", "name") | ("fallback" | "setup" | "chat" | "", "model") => ValueKind::Model,
        ("profile", "name" | "clone_from") => ValueKind::Profile,
        ("cron", "id") => ValueKind::Job,
        ("mcp", "name") => ValueKind::McpServer,
        ("webhook", "name") => ValueKind::Route,
        ("config", "key") => ValueKind::ConfigKey,
        ("logs", "name") => ValueKind::Log,
        ("tools", "names") | (_, "toolsets") => ValueKind::Toolset,
        ("skills", "name" | "disable" | "enable") | (_, "skills" | "add_skills" | "remove_skills") => {
            ValueKind::Skill
        }
        (_, "provider") => ValueKind::Provider,
        (_, "platform" | "source" | "deliver") => ValueKind::Platform,
        _ => return None,
    })
}

/// Returns the context of the profile that the typed words select.
pub(super) fn profile_context(typed: &[String], current: &ProgramContext) -> anyhow::Result<ProgramContext> {
    let words = std::iter::once("hermes").chain(typed.iter().map(String::as_str)).map(Into::into);
    let (_, profile) = crate::argv::take_profile(words);
    let home = requested_home(profile.as_deref(), &hermes_config::Env::process())?;
    let Some(home) = home.map(hermes_config::Home::new).filter(|_| profile.is_some()) else {
        return Ok(current.clone());
    };
    let env = hermes_config::Env::process().with_files(&home, None);
    Ok(ProgramContext { home, env })
}

/// Lists the values. What cannot be read offers nothing.
pub(super) fn list(kind: ValueKind, context: &ProgramContext) -> Vec<Candidate> {
    let config = || Config::load_file(&context.home.config(), &context.env);
    let plain = |words: Vec<String>| words.into_iter().map(|word| Candidate::new(word, "")).collect();
    match kind {
        ValueKind::ConfigKey => keys::all()
            .filter(|key| !key.path.contains('*'))
            .map(|key| Candidate::new(key.path, key.about))
            .collect(),
        ValueKind::Job => {
            let jobs = JobStore::new(context.home.clone(), Zone::configured(&config(), &context.env));
            let jobs = jobs.list(JobFilter::All);
            jobs.into_iter()
                .map(|job| Candidate::new(job.id.as_str(), job.name.clone().unwrap_or_default()))
                .collect()
        }
        ValueKind::Log => {
            plain(["all", "errors", "gateway", "agent", "gateway.error"].map(str::to_owned).to_vec())
        }
        ValueKind::McpServer => {
            plain(config().map("mcp_servers").iter().map(|(name, _)| name.to_owned()).collect())
        }
        ValueKind::Model => models(&config()),
        ValueKind::Platform => {
            let mut found = vec![Candidate::new("cli", "The terminal")];
            found.extend(PLATFORMS.iter().map(|platform| Candidate::new(platform.name, platform.label())));
            found
        }
        ValueKind::Profile => profile_homes(context)
            .unwrap_or_default()
            .into_iter()
            .map(|profile| Candidate::new(profile.name, profile.home.path().display().to_string()))
            .collect(),
        ValueKind::Provider => {
            let offered = REGISTRY.iter().filter(|provider| provider.kind != ProviderKind::Offline);
            offered.map(|provider| Candidate::new(provider.id, provider.label)).collect()
        }
        ValueKind::Route => {
            let fixed = WebhookSettings::resolve(&config(), &context.env).map(|settings| settings.routes);
            let own = WebhookSubscriptions::new(context.home.join("webhook_subscriptions.json")).all();
            plain(fixed.unwrap_or_default().into_keys().chain(own.into_keys()).collect())
        }
        ValueKind::Session => sessions(context),
        ValueKind::Skill => {
            let skills = SkillCommands::for_platform(&context.home, &config(), &context.env, "cli");
            let commands = skills.commands(hermes_gateway::slash::CommandSurface::Terminal);
            commands.into_iter().map(|(name, about)| Candidate::new(name, about)).collect()
        }
        ValueKind::Toolset => TOOLSETS.iter().map(|set| Candidate::new(set.name, "")).collect(),
    }
}

/// Lists the models that this release knows of the configured provider, and the providers to name one of.
fn models(config: &Config) -> Vec<Candidate> {
    let provider = config.text("model.provider");
    let mut found: Vec<Candidate> =
        registry::models(&provider).iter().map(|model| Candidate::new(*model, provider.clone())).collect();
    let others = REGISTRY.iter().filter(|other| other.id != provider && other.kind != ProviderKind::Offline);
    found.extend(others.map(|other| Candidate::new(format!("{}:", other.id), other.label)));
    found
}

fn sessions(context: &ProgramContext) -> Vec<Candidate> {
    if !context.database().exists() {
        return Vec::new();
    }
    let Ok(store) = Store::open(&context.database()) else { return Vec::new() };
    let listed = store.list_conversations(SessionFilter::default(), MAX_SESSIONS).wait();
    let found = listed.unwrap_or_default().into_iter().map(|session| {
        let about = session.title.unwrap_or(session.preview);
        Candidate::new(session.id.as_str(), about)
    });
    let found = found.collect();
    // The answer is read; what closing reports is of no use to a shell.
    let _ = store.close().wait();
    found
}
