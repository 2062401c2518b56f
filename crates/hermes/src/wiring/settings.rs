//! The settings of an agent, from the configuration.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::{
    Compression, ContextFiles, RequestOptions, ReviewIntervals, TurnLimits, UnknownPricePolicy,
};
use hermes_config::settings::{BudgetSettings, CompressionSettings, MemorySettings};
use hermes_config::{Config, ProgramSurface, precedence};
use hermes_knowledge::{MemoryAuthor, MemoryLimits, MemoryStore};
use hermes_task::SystemClock;
use hermes_tools::MemoryRules;
use hermes_types::{Message, ReasoningEffort, SpendingCap};

use super::memory_services::active_honcho;
use super::program_runtime::ProgramConfig;
use crate::output::Console;

/// The memory stores that are enabled.
pub(crate) struct MemoryStores {
    pub(crate) notes: Option<MemoryStore>,
    pub(crate) profile: Option<MemoryStore>,
    pub(crate) rules: MemoryRules,
}

impl MemoryStores {
    pub(crate) fn open(rules: ContextFiles, from: ProgramConfig<'_>) -> Self {
        let settings = MemorySettings::from_config(from.config);
        let used = rules == ContextFiles::Load;
        let store = |on: bool| {
            (on && used).then(|| {
                MemoryStore::new(&from.context.home, memory_limits(from.config))
                    .recorded(MemoryAuthor::Agent, Arc::new(SystemClock::new()))
            })
        };
        let honcho = active_honcho(from);
        let elsewhere = |is_replaced: bool| is_replaced.then_some("Honcho");
        let rules = MemoryRules {
            needs_approval: settings.write_approval,
            notes_elsewhere: honcho.as_ref().and_then(|honcho| elsewhere(honcho.replaces_notes())),
            profile_elsewhere: honcho.as_ref().and_then(|honcho| elsewhere(honcho.replaces_profile())),
        };
        Self { notes: store(settings.memory_enabled), profile: store(settings.user_profile_enabled), rules }
    }
}

pub(crate) fn memory_limits(config: &Config) -> MemoryLimits {
    let settings = MemorySettings::from_config(config);
    MemoryLimits { memory: settings.memory_char_limit, user: settings.user_char_limit }
}

pub(crate) fn request_options(surface: ProgramSurface, from: ProgramConfig<'_>) -> RequestOptions {
    let ProgramConfig { context, config } = from;
    RequestOptions {
        max_tokens: config
            .int("model.max_tokens")
            .and_then(|tokens| u64::try_from(tokens).ok())
            .filter(|n| *n > 0),
        effort: precedence::reasoning_effort(config, &context.env, surface)
            .as_deref()
            .and_then(ReasoningEffort::parse),
        ephemeral: precedence::ephemeral_prompt(config, &context.env),
        prefill: prefill(from),
    }
}

pub(crate) fn limits(max_turns: Option<usize>, from: ProgramConfig<'_>, cap: SpendingCap) -> TurnLimits {
    let config = from.config;
    let iterations = precedence::max_iterations(config, &from.context.env, max_turns);
    let time = match config.count("agent.turn_time_limit") {
        // A year serves as no limit.
        0 => Duration::from_hours(24 * 365),
        seconds => Duration::from_secs(seconds as u64),
    };
    let budget = BudgetSettings::from_config(config);
    let in_dollars =
        [budget.per_turn_usd, budget.per_day_usd, budget.per_job_usd].iter().any(Option::is_some);
    let unpriced = match (in_dollars, config.flag("budget.strict")) {
        (false, _) => UnknownPricePolicy::Ignore,
        (true, false) => UnknownPricePolicy::Warn,
        (true, true) => UnknownPricePolicy::Refuse,
    };
    TurnLimits {
        iterations: u32::try_from(iterations).unwrap_or(u32::MAX),
        time,
        cap,
        unknown_price: unpriced,
    }
}

pub(crate) fn compression(from: ProgramConfig<'_>) -> Compression {
    Compression::from(CompressionSettings::resolve(from.config, &from.context.env))
}

pub(crate) fn review_intervals(config: &Config) -> ReviewIntervals {
    let settings = MemorySettings::from_config(config);
    ReviewIntervals {
        memory_every: settings.nudge_interval,
        skills_every: config.count("skills.creation_nudge_interval"),
        flush_after: settings.flush_min_turns,
    }
}

/// Reads the messages every conversation begins with; unreadable ones are reported and left out.
fn prefill(from: ProgramConfig<'_>) -> Vec<Message> {
    let ProgramConfig { context, config } = from;
    let Some(path) = precedence::prefill_file(config, &context.env, &context.home) else { return Vec::new() };
    let read = std::fs::read(&path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    match read {
        Ok(messages) => messages,
        Err(error) => {
            Console::new().notice(&format!("note: {} is not used as prefill: {error}", path.display()));
            Vec::new()
        }
    }
}
