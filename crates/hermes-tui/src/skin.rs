//! Skins: the colours, words and signs of a screen, by name.
//!
//! Holds the built-in skins and how a screen takes the look of one. Reads no file. Invariant: a skin that lacks something
//! looks like the default there.

use std::collections::BTreeMap;

use crate::theme::{Background, ColorDepth, Theme};

/// The look of a screen as a skin file describes it. What is empty is the default's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skin {
    pub name: String,
    pub description: String,
    /// Hexadecimal colours by purpose, for a dark background.
    pub colors: BTreeMap<String, String>,
    /// The same for a light background.
    pub colors_light: BTreeMap<String, String>,
    pub agent_name: String,
    pub welcome: String,
    pub goodbye: String,
    pub response_label: String,
    pub prompt_symbol: String,
    /// The sign at the beginning of a tool line.
    pub tool_prefix: String,
    pub tool_emojis: BTreeMap<String, String>,
    /// What the agent is said to do while it waits for the model.
    pub thinking_verbs: Vec<String>,
    /// Markup art above the banner's panel.
    pub banner_logo: String,
    /// Markup art in the banner's panel.
    pub banner_hero: String,
}

/// A built-in skin. The colours are those of [`COLOR_NAMES`], in that order.
struct BuiltInSkin {
    name: &'static str,
    description: &'static str,
    colors: [&'static str; COLOR_NAMES.len()],
    agent_name: &'static str,
    symbol: &'static str,
    tool_prefix: &'static str,
}

const COLOR_NAMES: [&str; 13] = [
    "banner_border",
    "banner_title",
    "banner_accent",
    "banner_text",
    "banner_dim",
    "ui_accent",
    "ui_label",
    "ui_ok",
    "ui_error",
    "ui_warn",
    "prompt",
    "input_rule",
    "response_border",
];

/// The built-in skins besides `default`, whose colours are the theme's own.
const BUILT_IN: [BuiltInSkin; 6] = [
    BuiltInSkin {
        name: "ares",
        description: "Crimson and bronze",
        colors: [
            "#9F1C1C", "#C7A96B", "#DD4A3A", "#F1E6CF", "#8f4a4a", "#DD4A3A", "#C7A96B", "#4caf50",
            "#ef5350", "#ffa726", "#F1E6CF", "#9F1C1C", "#C7A96B",
        ],
        agent_name: "Ares Agent",
        symbol: "⚔",
        tool_prefix: "╎",
    },
    BuiltInSkin {
        name: "mono",
        description: "Shades of grey",
        colors: [
            "#555555", "#e6edf3", "#aaaaaa", "#c9d1d9", "#7a7a7a", "#cccccc", "#888888", "#aaaaaa",
            "#cccccc", "#999999", "#c9d1d9", "#444444", "#aaaaaa",
        ],
        agent_name: "Hermes Agent",
        symbol: "",
        tool_prefix: "┊",
    },
    BuiltInSkin {
        name: "slate",
        description: "Cool blue for long sessions",
        colors: [
            "#4169e1", "#7eb8f6", "#8EA8FF", "#c9d1d9", "#6b7280", "#7eb8f6", "#8EA8FF", "#63D0A6",
            "#F7A072", "#e6a855", "#c9d1d9", "#4169e1", "#7eb8f6",
        ],
        agent_name: "Hermes Agent",
        symbol: "",
        tool_prefix: "┊",
    },
    BuiltInSkin {
        name: "poseidon",
        description: "Deep sea and foam",
        colors: [
            "#2A6FB9", "#A9DFFF", "#5DB8F5", "#EAF7FF", "#4f74a8", "#5DB8F5", "#A9DFFF", "#4caf50",
            "#ef5350", "#ffa726", "#EAF7FF", "#2A6FB9", "#5DB8F5",
        ],
        agent_name: "Poseidon Agent",
        symbol: "Ψ",
        tool_prefix: "│",
    },
    BuiltInSkin {
        name: "sisyphus",
        description: "Stone, without colour",
        colors: [
            "#B7B7B7", "#F5F5F5", "#E7E7E7", "#D3D3D3", "#7c7c7c", "#E7E7E7", "#D3D3D3", "#919191",
            "#E7E7E7", "#B7B7B7", "#F5F5F5", "#656565", "#B7B7B7",
        ],
        agent_name: "Sisyphus Agent",
        symbol: "◉",
        tool_prefix: "│",
    },
    BuiltInSkin {
        name: "charizard",
        description: "Ember and flame",
        colors: [
            "#C75B1D", "#FFD39A", "#F29C38", "#FFF0D4", "#a0693f", "#F29C38", "#FFD39A", "#4caf50",
            "#ef5350", "#ffa726", "#FFF0D4", "#C75B1D", "#F29C38",
        ],
        agent_name: "Charizard Agent",
        symbol: "✦",
        tool_prefix: "│",
    },
];

impl Skin {
    /// Returns the names of the built-in skins with what they look like.
    pub fn built_in_names() -> impl Iterator<Item = (&'static str, &'static str)> {
        let default = ("default", "Gold and bronze, light or dark as the terminal is");
        std::iter::once(default).chain(BUILT_IN.iter().map(|skin| (skin.name, skin.description)))
    }

    /// Returns a built-in skin.
    pub fn built_in(name: &str) -> Option<Self> {
        if name == "default" {
            return Some(Self { name: name.to_owned(), ..Self::default() });
        }
        let skin = BUILT_IN.iter().find(|skin| skin.name == name)?;
        let colors = COLOR_NAMES.iter().zip(skin.colors);
        let word = skin.agent_name.split(' ').next().unwrap_or_default();
        let is_plain = skin.symbol.is_empty();
        Some(Self {
            name: skin.name.to_owned(),
            description: skin.description.to_owned(),
            colors: colors.map(|(name, color)| ((*name).to_owned(), color.to_owned())).collect(),
            agent_name: skin.agent_name.to_owned(),
            response_label: if is_plain { String::new() } else { format!("{} {word}", skin.symbol) },
            prompt_symbol: if is_plain { String::new() } else { format!("{} ❯", skin.symbol) },
            tool_prefix: skin.tool_prefix.to_owned(),
            ..Self::default()
        })
    }

    /// Returns the theme of this skin for a terminal.
    pub fn theme(&self, background: Background, depth: ColorDepth) -> Theme {
        let colors = match background {
            Background::Dark => &self.colors,
            Background::Light => &self.colors_light,
        };
        let mut theme = Theme::from_colors(colors, background, depth);
        for (own, word) in [
            (&self.response_label, &mut theme.response_label),
            (&self.prompt_symbol, &mut theme.prompt_symbol),
            (&self.tool_prefix, &mut theme.tool_prefix),
            (&self.agent_name, &mut theme.agent_name),
        ] {
            if !own.trim().is_empty() {
                own.trim().clone_into(word);
            }
        }
        theme.tool_emojis.clone_from(&self.tool_emojis);
        theme.thinking_verbs.clone_from(&self.thinking_verbs);
        theme
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_for_a_skin_of_its_own() {
        let themes: Vec<Theme> = Skin::built_in_names()
            .map(|(name, _)| Skin::built_in(name).unwrap().theme(Background::Dark, ColorDepth::True))
            .collect();
        for (at, theme) in themes.iter().enumerate() {
            assert!(themes.iter().skip(at + 1).all(|other| other != theme));
        }
        assert!(Skin::built_in("no-such-skin").is_none());
    }

    #[test]
    fn colors_for_a_dark_background_are_not_used_on_a_light_one() {
        let theme = |background| Skin::built_in("ares").unwrap().theme(background, ColorDepth::True);
        assert_ne!(theme(Background::Light).prompt, theme(Background::Dark).prompt);
        assert_eq!(
            theme(Background::Light).prompt,
            Theme::built_in(Background::Light, ColorDepth::True).prompt
        );
        assert_eq!(theme(Background::Light).prompt_symbol, "⚔ ❯");
    }
}
