//! Toolsets: names for groups of tools, and the resolution of such names to tools.
//!
//! This module holds a table and its resolution; the registry knows which tools exist. Invariant: every name is
//! followed once, so that toolsets that include each other do not recurse forever.

use std::collections::{BTreeMap, BTreeSet};

/// The members of a toolset.
enum Members {
    /// Tools, and toolsets whose tools are included.
    Own(&'static [&'static str], &'static [&'static str]),
    /// The core tools that every platform gets, except these.
    Core(&'static [&'static str]),
}

const CORE: &[&str] = &[
    "web_search",
    "web_extract",
    "terminal",
    "process",
    "read_file",
    "write_file",
    "patch",
    "search_files",
    "vision_analyze",
    "image_generate",
    "mixture_of_agents",
    "skills_list",
    "skill_view",
    "skill_manage",
    "browser_navigate",
    "browser_snapshot",
    "browser_click",
    "browser_type",
    "browser_scroll",
    "browser_back",
    "browser_press",
    "browser_close",
    "browser_get_images",
    "browser_vision",
    "browser_console",
    "text_to_speech",
    "todo",
    "memory",
    "session_search",
    "clarify",
    "execute_code",
    "delegate_task",
    "cronjob",
    "send_message",
    "honcho_context",
    "honcho_profile",
    "honcho_search",
    "honcho_conclude",
    "ha_list_entities",
    "ha_get_state",
    "ha_list_services",
    "ha_call_service",
];

const BROWSER: &[&str] = &[
    "browser_navigate",
    "browser_snapshot",
    "browser_click",
    "browser_type",
    "browser_scroll",
    "browser_back",
    "browser_press",
    "browser_close",
    "browser_get_images",
    "browser_vision",
    "browser_console",
];

const FILE: &[&str] = &["read_file", "write_file", "patch", "search_files"];
const WEB: &[&str] = &["web_search", "web_extract"];
const SKILLS: &[&str] = &["skills_list", "skill_view", "skill_manage"];
const HOME_ASSISTANT: &[&str] = &["ha_list_entities", "ha_get_state", "ha_list_services", "ha_call_service"];
const HONCHO: &[&str] = &["honcho_context", "honcho_profile", "honcho_search", "honcho_conclude"];
const RL: &[&str] = &[
    "rl_list_environments",
    "rl_select_environment",
    "rl_get_current_config",
    "rl_edit_config",
    "rl_start_training",
    "rl_check_status",
    "rl_stop_training",
    "rl_get_results",
    "rl_list_runs",
    "rl_test_inference",
];

/// Tools that need a person to ask, to show something to or to speak to; editors do not get them.
const NOT_FOR_EDITORS: &[&str] = &[
    "clarify",
    "cronjob",
    "send_message",
    "text_to_speech",
    "image_generate",
    "mixture_of_agents",
    "ha_list_entities",
    "ha_get_state",
    "ha_list_services",
    "ha_call_service",
    "honcho_context",
    "honcho_profile",
    "honcho_search",
    "honcho_conclude",
];
const NOT_FOR_API: &[&str] = &["clarify", "send_message", "text_to_speech"];

const MESSENGERS: &[&str] = &[
    "hermes-telegram",
    "hermes-discord",
    "hermes-whatsapp",
    "hermes-slack",
    "hermes-signal",
    "hermes-homeassistant",
    "hermes-email",
    "hermes-sms",
    "hermes-mattermost",
    "hermes-matrix",
    "hermes-dingtalk",
    "hermes-webhook",
];

const TABLE: &[(&str, Members)] = &[
    ("web", Members::Own(WEB, &[])),
    ("search", Members::Own(&["web_search"], &[])),
    ("terminal", Members::Own(&["terminal", "process"], &[])),
    ("file", Members::Own(FILE, &[])),
    ("browser", Members::Own(&["web_search"], &["browser_tools"])),
    ("vision", Members::Own(&["vision_analyze"], &[])),
    ("image_gen", Members::Own(&["image_generate"], &[])),
    ("moa", Members::Own(&["mixture_of_agents"], &[])),
    ("skills", Members::Own(SKILLS, &[])),
    ("tts", Members::Own(&["text_to_speech"], &[])),
    ("todo", Members::Own(&["todo"], &[])),
    ("memory", Members::Own(&["memory"], &[])),
    ("session_search", Members::Own(&["session_search"], &[])),
    ("clarify", Members::Own(&["clarify"], &[])),
    ("code_execution", Members::Own(&["execute_code"], &[])),
    ("delegation", Members::Own(&["delegate_task"], &[])),
    ("cronjob", Members::Own(&["cronjob"], &[])),
    ("messaging", Members::Own(&["send_message"], &[])),
    ("homeassistant", Members::Own(HOME_ASSISTANT, &[])),
    ("honcho", Members::Own(HONCHO, &[])),
    ("rl", Members::Own(RL, &[])),
    ("debugging", Members::Own(&["terminal", "process"], &["web", "file"])),
    ("safe", Members::Own(&["mixture_of_agents"], &["web", "vision", "image_gen"])),
    ("hermes-cli", Members::Core(&[])),
    ("hermes-telegram", Members::Core(&[])),
    ("hermes-discord", Members::Core(&[])),
    ("hermes-whatsapp", Members::Core(&[])),
    ("hermes-slack", Members::Core(&[])),
    ("hermes-signal", Members::Core(&[])),
    ("hermes-homeassistant", Members::Core(&[])),
    ("hermes-email", Members::Core(&[])),
    ("hermes-sms", Members::Core(&[])),
    ("hermes-mattermost", Members::Core(&[])),
    ("hermes-matrix", Members::Core(&[])),
    ("hermes-dingtalk", Members::Core(&[])),
    ("hermes-webhook", Members::Core(&[])),
    ("hermes-cron", Members::Core(&[])),
    ("hermes-acp", Members::Core(NOT_FOR_EDITORS)),
    ("hermes-api-server", Members::Core(NOT_FOR_API)),
    ("hermes-gateway", Members::Own(&[], MESSENGERS)),
];

/// Toolset names of older configurations.
const LEGACY: &[(&str, Members)] = &[
    ("hermes", Members::Core(NOT_FOR_API)),
    ("web_tools", Members::Own(WEB, &[])),
    ("terminal_tools", Members::Own(&["terminal"], &[])),
    ("vision_tools", Members::Own(&["vision_analyze"], &[])),
    ("moa_tools", Members::Own(&["mixture_of_agents"], &[])),
    ("image_tools", Members::Own(&["image_generate"], &[])),
    ("skills_tools", Members::Own(SKILLS, &[])),
    ("browser_tools", Members::Own(BROWSER, &[])),
    ("cronjob_tools", Members::Own(&["cronjob"], &[])),
    ("rl_tools", Members::Own(RL, &[])),
    ("file_tools", Members::Own(FILE, &[])),
    ("tts_tools", Members::Own(&["text_to_speech"], &[])),
];

/// Tools grouped by the toolset they were registered under.
pub(super) type ToolsByToolset = BTreeMap<String, BTreeSet<String>>;

/// The result of resolving a list of toolset names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedToolsets {
    pub tools: BTreeSet<String>,
    /// Names that are not in the table.
    pub unknown: Vec<String>,
}

/// Lists the names of all toolsets in the table, without the legacy ones.
pub fn toolset_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

/// Resolves toolsets to tools. The toolsets of MCP servers and plugins are found by the tools registered under
/// them.
pub(super) fn resolve<'a>(
    names: impl IntoIterator<Item = &'a str>,
    owned: &ToolsByToolset,
) -> ResolvedToolsets {
    let mut resolved = ResolvedToolsets::default();
    let mut seen = BTreeSet::new();
    for name in names {
        if !follow(name.trim(), owned, &mut seen, &mut resolved.tools) {
            resolved.unknown.push(name.to_owned());
        }
    }
    resolved
}

/// Adds the tools of a toolset. Returns false if the toolset does not exist.
fn follow(
    name: &str,
    owned: &ToolsByToolset,
    seen: &mut BTreeSet<String>,
    tools: &mut BTreeSet<String>,
) -> bool {
    if !seen.insert(name.to_owned()) {
        return true;
    }
    if matches!(name, "all" | "*") {
        for name in toolset_names() {
            follow(name, owned, seen, tools);
        }
        for name in owned.keys() {
            follow(name, owned, seen, tools);
        }
        return true;
    }
    let known = TABLE.iter().chain(LEGACY).find(|(known, _)| *known == name);
    if let Some((_, members)) = known {
        match members {
            Members::Own(own, includes) => {
                tools.extend(own.iter().map(|tool| (*tool).to_owned()));
                for name in *includes {
                    follow(name, owned, seen, tools);
                }
            }
            Members::Core(without) => {
                let core = CORE.iter().filter(|tool| !without.contains(tool));
                tools.extend(core.map(|tool| (*tool).to_owned()));
            }
        }
    }
    let runtime = owned.get(name).or_else(|| owned.get(&format!("mcp-{name}")));
    if let Some(runtime) = runtime {
        tools.extend(runtime.iter().cloned());
    }
    known.is_some() || runtime.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[&str]) -> Vec<String> {
        resolve(names.iter().copied(), &ToolsByToolset::new()).tools.into_iter().collect()
    }

    #[test]
    fn sets_come_to_their_tools() {
        assert_eq!(tools(&["search"]), ["web_search"]);
        assert_eq!(tools(&["safe"]).len(), 5);
        assert_eq!(tools(&["browser"]).len(), 12);
        assert_eq!(tools(&["browser_tools"]).len(), 11);
        assert_eq!(tools(&["terminal_tools"]), ["terminal"]);
        assert_eq!(tools(&["hermes-cli"]).len(), CORE.len());
        assert_eq!(tools(&["hermes-gateway"]), tools(&["hermes-cli"]));
        assert_eq!(tools(&["hermes"]), tools(&["hermes-api-server"]));
        assert_eq!(tools(&["hermes-api-server"]).len(), CORE.len() - 3);
        assert_eq!(tools(&["all"]).len(), CORE.len() + RL.len());
        assert_eq!(tools(&["*"]), tools(&["all"]));
        assert_eq!(tools(&["debugging", "file", "web"]), tools(&["debugging"]));
    }

    #[test]
    fn what_nobody_knows_is_said() {
        let owned = ToolsByToolset::from([(
            "mcp-github".to_owned(),
            BTreeSet::from(["mcp_github_issues".to_owned()]),
        )]);
        let resolved = resolve(["github", "nonsense", "todo"], &owned);
        assert_eq!(resolved.unknown, ["nonsense"]);
        assert_eq!(resolved.tools.into_iter().collect::<Vec<_>>(), ["mcp_github_issues", "todo"]);
    }
}
