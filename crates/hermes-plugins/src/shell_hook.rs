//! Shell hooks as the configuration describes them: `hooks.EVENT`, a list of programs.

use std::time::Duration;

use hermes_config::yaml::{YamlMap, YamlValue};
use hermes_config::{Config, Env, expand_tilde};
use hermes_text::{closest_match, split_words};
use hermes_types::{HOOK_FACTS, HookEvent};
use regex::Regex;

const USUAL_TIMEOUT: Duration = Duration::from_mins(1);
const LONGEST_TIMEOUT: Duration = Duration::from_mins(5);
const MIN_SIMILARITY: f64 = 0.7;

/// The steps that are about one tool, to which `matcher` applies.
pub const TOOL_EVENTS: &[HookEvent] = &[
    HookEvent::PreToolCall,
    HookEvent::PostToolCall,
    HookEvent::TransformToolResult,
    HookEvent::TransformTerminalOutput,
];

/// One program that runs at a step.
#[derive(Debug, Clone)]
pub struct ShellHook {
    pub event: HookEvent,
    /// The command line as it was written; it names the hook in the list of approvals.
    pub command: String,
    pub timeout: Duration,
    /// The tools it runs for, as it was written; all if absent.
    pub matcher: Option<String>,
    tools: ToolMatcher,
}

/// Decides for which tools a hook runs.
#[derive(Debug, Clone)]
enum ToolMatcher {
    All,
    Pattern(Regex),
    /// The text was no pattern.
    Exactly(String),
}

impl ShellHook {
    /// Tells whether the hook runs for a tool.
    pub fn is_for_tool(&self, tool: &str) -> bool {
        match &self.tools {
            ToolMatcher::All => true,
            ToolMatcher::Pattern(pattern) => pattern.is_match(tool),
            ToolMatcher::Exactly(name) => name == tool,
        }
    }

    /// Returns the program and its arguments. No shell reads them; `~` is expanded.
    pub fn words(&self, env: &Env) -> Option<Vec<String>> {
        let expand = |word: String| match expand_tilde(&word, env) {
            Ok(path) if word.starts_with('~') => path.to_string_lossy().into_owned(),
            _ => word,
        };
        let words: Vec<String> = split_words(&self.command)?.into_iter().map(expand).collect();
        (!words.is_empty()).then_some(words)
    }
}

/// The shell hooks of a configuration.
#[derive(Debug, Clone, Default)]
pub struct ShellHookSettings {
    pub hooks: Vec<ShellHook>,
    /// What is wrong with entries; those are left out, or read otherwise than they were meant.
    pub problems: Vec<String>,
    /// Set by `hooks_auto_accept`: hooks run without an approval.
    pub auto_accept: bool,
}

impl ShellHookSettings {
    pub fn from_config(config: &Config) -> Self {
        let mut settings = Self { auto_accept: config.flag("hooks_auto_accept"), ..Self::default() };
        for (name, entries) in config.map("hooks").iter() {
            let Some(event) = HookEvent::parse(name) else {
                settings.problems.push(unknown_event(name));
                continue;
            };
            let entries = match entries {
                YamlValue::Seq(entries) => entries.as_slice(),
                YamlValue::Null => &[],
                single => std::slice::from_ref(single),
            };
            for entry in entries {
                settings.add(event, entry);
            }
        }
        settings
    }

    fn add(&mut self, event: HookEvent, entry: &YamlValue) {
        let empty = YamlMap::new();
        let (command, entry) = match entry {
            YamlValue::Map(map) => (map.get("command").and_then(YamlValue::scalar_text), map),
            other => (other.scalar_text(), &empty),
        };
        let name = event.name();
        let Some(command) = command.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) else {
            self.problems.push(format!("hooks.{name}: an entry has no `command`; it is left out"));
            return;
        };
        if split_words(&command).is_none() {
            self.problems.push(format!("hooks.{name}: a quote is not closed in `{command}`; it is left out"));
            return;
        }
        let timeout = entry.get("timeout").and_then(YamlValue::as_float).filter(|seconds| *seconds > 0.0);
        let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let matcher = entry.get("matcher").and_then(YamlValue::scalar_text).filter(|text| !text.is_empty());
        if matcher.is_some() && !TOOL_EVENTS.contains(&event) {
            self.problems
                .push(format!("hooks.{name}: `matcher` has no effect, because this is not about a tool"));
        }
        let tools = match matcher.as_deref() {
            None => ToolMatcher::All,
            Some(_) if !TOOL_EVENTS.contains(&event) => ToolMatcher::All,
            Some(text) => Regex::new(&format!("^(?:{text})$")).map_or_else(
                |_| {
                    let problem =
                        format!("hooks.{name}: `{text}` is no regular expression; it is compared as a name");
                    self.problems.push(problem);
                    ToolMatcher::Exactly(text.to_owned())
                },
                ToolMatcher::Pattern,
            ),
        };
        let timeout = timeout.unwrap_or(USUAL_TIMEOUT).min(LONGEST_TIMEOUT);
        self.hooks.push(ShellHook { event, command, timeout, matcher, tools });
    }
}

fn unknown_event(name: &str) -> String {
    let names = HOOK_FACTS.iter().map(|facts| facts.name);
    let near = closest_match(name, names, MIN_SIMILARITY);
    let near = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    format!("hooks.{name}: there is no such event{near}")
}
