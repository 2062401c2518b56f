//! The sources of an agent's system prompt, from the configuration.

use std::path::PathBuf;

use hermes_agent::{ContextFiles, HintChange, PromptSource, SkillList, ToolUseEnforcement};
use hermes_config::Config;
use hermes_config::settings::TerminalSettings;
use hermes_config::yaml::YamlValue;
use hermes_knowledge::{SkillFilter, SkillSet, create_soul};
use hermes_tools::ToolRegistry;

use super::agent_spec::AgentSpec;
use super::program_runtime::ProgramConfig;
use super::settings::MemoryStores;
use crate::context::ProgramContext;

/// Returns the sources of the prompt of an agent with these tools.
pub(crate) fn source(
    spec: &AgentSpec,
    folder: PathBuf,
    from: ProgramConfig<'_>,
    memory_stores: &MemoryStores,
    tools: &ToolRegistry,
) -> PromptSource {
    let ProgramConfig { context, config } = from;
    let platform = spec.platform.as_str();
    // If the home is not writable, the file is not created; the built-in text is the same.
    let _ = create_soul(&context.home);
    let mut source = PromptSource::new(context.home.clone(), folder);
    platform.clone_into(&mut source.platform);
    source.memory.clone_from(&memory_stores.notes);
    source.user_profile.clone_from(&memory_stores.profile);
    source.enforcement = enforcement(config);
    source.platform_hint = platform_hint(config, platform);
    source.environment_hint = context
        .env
        .get("HERMES_ENVIRONMENT_HINT")
        .map(str::to_owned)
        .or_else(|| config.non_empty_text("agent.environment_hint"))
        .or_else(|| remote_hint(context, config));
    source.session_id = spec.session_id;
    source.files = spec.rules;
    if spec.rules == ContextFiles::Load {
        let mut filter = SkillFilter::from_config(config, &context.env, platform);
        filter.tools = tools.names().map(str::to_owned).collect();
        filter.toolsets = tools.list_toolsets().into_iter().map(|set| set.name).collect();
        let (home, config, env) = (context.home.clone(), config.clone(), context.env.clone());
        source.skills = Some(SkillList::new(move || SkillSet::load(&home, &config, &env, &filter).index()));
    }
    source
}

/// Returns the hint for the model that its commands do not run in the working folder of this machine.
fn remote_hint(context: &ProgramContext, config: &Config) -> Option<String> {
    let settings = TerminalSettings::resolve(config, &context.env);
    (!settings.is_local()).then(|| {
        format!(
            "Commands and file tools work in another place ({}), not in the working folder named above; look around there \
             first.",
            settings.backend
        )
    })
}

fn enforcement(config: &Config) -> ToolUseEnforcement {
    match config.get("agent.tool_use_enforcement") {
        Some(YamlValue::Bool(true)) => ToolUseEnforcement::Always,
        Some(YamlValue::Bool(false)) => ToolUseEnforcement::Never,
        Some(YamlValue::Seq(_)) => ToolUseEnforcement::Names(config.list("agent.tool_use_enforcement")),
        Some(YamlValue::Str(text)) => match text.trim().to_lowercase().as_str() {
            "true" | "always" | "yes" | "on" => ToolUseEnforcement::Always,
            "false" | "never" | "no" | "off" => ToolUseEnforcement::Never,
            _ => announcing_models(),
        },
        _ => announcing_models(),
    }
}

/// Names the models that tend to announce work instead of doing it.
fn announcing_models() -> ToolUseEnforcement {
    const NAMES: [&str; 8] = ["gpt", "codex", "gemini", "gemma", "grok", "glm", "qwen", "deepseek"];
    ToolUseEnforcement::Names(NAMES.map(str::to_owned).to_vec())
}

fn platform_hint(config: &Config, platform: &str) -> HintChange {
    let key = format!("platform_hints.{platform}");
    match config.get(&key) {
        Some(YamlValue::Str(text)) if !text.trim().is_empty() => HintChange::Append(text),
        Some(YamlValue::Map(map)) => {
            let text = |name: &str| map.get(name).and_then(YamlValue::as_str).map(str::to_owned);
            match (text("replace"), text("append")) {
                (Some(text), _) => HintChange::Replace(text),
                (None, Some(text)) => HintChange::Append(text),
                (None, None) => HintChange::None,
            }
        }
        _ => HintChange::None,
    }
}
