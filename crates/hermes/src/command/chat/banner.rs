//! What the banner of a chat says.

use std::collections::BTreeMap;

use hermes_tui::{Banner, BannerSection, BannerSize, Skin};

use super::chat_loop::ChatLoop;
use crate::cli;
use crate::wiring::skills::SkillCommands;
use crate::wiring::working_folder;

/// The most names of one row.
const MOST_NAMES: usize = 8;

/// Describes the program as it is for this chat.
pub(super) fn describe(chat: &ChatLoop<'_>, skin: &Skin) -> Banner {
    let agent = &chat.runtime.agent;
    let model = &agent.models().name;
    let window = agent.window(&chat.opened.conversation);
    let folder = working_folder(chat.context, &chat.runtime.config).unwrap_or_default();
    let mut toolsets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tool in agent.tools() {
        let names = toolsets.entry(tool.descriptor().toolset.to_owned()).or_default();
        names.push(tool.spec().name.clone());
    }
    let servers: Vec<(String, String)> =
        chat.runtime.mcp().status().into_iter().map(|server| (server.name, String::new())).collect();
    let skills =
        SkillCommands::for_platform(&chat.context.home, &chat.runtime.config, &chat.context.env, "cli")
            .names_by_category();
    let count = |number: usize, what: &str| match number {
        0 => String::new(),
        1 => format!("1 {what} · "),
        number => format!("{number} {what}s · "),
    };
    let tools = agent.tools().len();
    let summary = format!(
        "{}{}{}/help for commands",
        count(tools, "tool"),
        count(skills.values().map(Vec::len).sum(), "skill"),
        count(servers.len(), "MCP server")
    );
    Banner {
        title: title(skin),
        facts: vec![
            format!("{model} · {}K context", window / 1000),
            folder.display().to_string(),
            format!("Session: {}", chat.opened.conversation.session()),
        ],
        sections: vec![
            section("Available tools", toolsets),
            BannerSection { title: "MCP servers".to_owned(), rows: servers },
            section("Available skills", skills),
        ],
        summary,
        short: format!(
            "● {model} · {tools} tools · provider: {} · /help for commands",
            agent.models().provider
        ),
        logo: skin.banner_logo.clone(),
        hero: skin.banner_hero.clone(),
        size: if chat.runtime.config.flag("display.compact") { BannerSize::Small } else { BannerSize::Full },
    }
}

/// Returns the name of the agent with the version of the program.
pub(super) fn title(skin: &Skin) -> String {
    let version = cli::version();
    match skin.agent_name.as_str() {
        "" => version,
        name => version.replacen("Hermes Agent", name, 1),
    }
}

fn section(title: &str, groups: BTreeMap<String, Vec<String>>) -> BannerSection {
    let rows = groups.into_iter().map(|(group, names)| {
        let rest = names.len().saturating_sub(MOST_NAMES);
        let text = names.into_iter().take(MOST_NAMES).collect::<Vec<_>>().join(", ");
        let more = if rest > 0 { format!(" +{rest} more") } else { String::new() };
        (group, text + &more)
    });
    BannerSection { title: title.to_owned(), rows: rows.collect() }
}
