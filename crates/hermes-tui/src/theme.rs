//! Colours by purpose, and what a terminal can show of them.
//!
//! Holds the built-in themes and builds one from the colour names of a skin. Invariant: a theme made for a depth uses only
//! colours of that depth, so that nothing after it has to ask.

use std::collections::BTreeMap;

use ratatui_core::style::{Color, Modifier, Style};

/// The colours a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorDepth {
    None,
    Sixteen,
    Indexed,
    True,
}

impl ColorDepth {
    /// Tells the depth from the values of `TERM`, `COLORTERM` and `NO_COLOR`.
    pub fn detect(term: Option<&str>, colorterm: Option<&str>, no_color: Option<&str>) -> Self {
        let term = term.unwrap_or_default();
        if no_color.is_some_and(|value| !value.is_empty()) || term == "dumb" || term.is_empty() {
            Self::None
        } else if colorterm.is_some_and(|value| matches!(value, "truecolor" | "24bit"))
            || term.contains("direct")
        {
            Self::True
        } else if term.contains("256color") {
            Self::Indexed
        } else {
            Self::Sixteen
        }
    }
}

/// The brightness of the terminal's background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Background {
    #[default]
    Dark,
    Light,
}

/// The styles of the screen, by purpose.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    pub text: Style,
    pub dim: Style,
    pub accent: Style,
    pub heading: Style,
    pub code: Style,
    pub link: Style,
    pub ok: Style,
    pub warn: Style,
    pub error: Style,
    /// The context bar when it is nearly full.
    pub critical: Style,
    pub border: Style,
    pub rule: Style,
    pub prompt: Style,
    pub label: Style,
    pub added: Style,
    pub removed: Style,
    pub selection: Style,
    pub keyword: Style,
    pub string: Style,
    pub number: Style,
    pub comment: Style,
    pub function: Style,
    pub type_name: Style,
    pub banner_border: Style,
    pub banner_title: Style,
    pub banner_accent: Style,
    pub banner_text: Style,
    pub banner_dim: Style,
    /// The colours it was made for.
    depth: ColorDepth,
    /// The label of an answer.
    pub response_label: String,
    pub prompt_symbol: String,
    /// The sign at the beginning of a tool line.
    pub tool_prefix: String,
    pub agent_name: String,
    /// The signs of tools that differ from the tools' own, by tool.
    pub tool_emojis: BTreeMap<String, String>,
    /// What the agent is said to do while it waits for the model; empty for the built-in word.
    pub thinking_verbs: Vec<String>,
}

/// The colour names of the built-in skin, for a dark background.
const DARK: [(&str, &str); 21] = [
    ("banner_border", "#CD7F32"),
    ("banner_title", "#FFD700"),
    ("banner_accent", "#FFBF00"),
    ("banner_text", "#FFF8DC"),
    ("banner_dim", "#8B8682"),
    ("ui_accent", "#FFBF00"),
    ("ui_label", "#4dd0e1"),
    ("ui_ok", "#8FBC8F"),
    ("ui_error", "#ef5350"),
    ("ui_warn", "#FFD700"),
    ("ui_critical", "#FF6B6B"),
    ("prompt", "#FFF8DC"),
    ("input_rule", "#6b5a45"),
    ("response_border", "#CD7F32"),
    ("code", "#d7ba7d"),
    ("syntax_keyword", "#c586c0"),
    ("syntax_string", "#a5c98b"),
    ("syntax_number", "#b5cea8"),
    ("syntax_function", "#82aaff"),
    ("syntax_type", "#4ec9b0"),
    ("selection_bg", "#3a3a4e"),
];

const LIGHT: [(&str, &str); 21] = [
    ("banner_border", "#9a5b1f"),
    ("banner_title", "#7a4a00"),
    ("banner_accent", "#9a6700"),
    ("banner_text", "#3b2f1e"),
    ("banner_dim", "#767676"),
    ("ui_accent", "#9a6700"),
    ("ui_label", "#00687a"),
    ("ui_ok", "#2e7d32"),
    ("ui_error", "#c62828"),
    ("ui_warn", "#a15c00"),
    ("ui_critical", "#b00020"),
    ("prompt", "#3b2f1e"),
    ("input_rule", "#b8a78f"),
    ("response_border", "#9a5b1f"),
    ("code", "#7a4a00"),
    ("syntax_keyword", "#7b2d8b"),
    ("syntax_string", "#2f6f2f"),
    ("syntax_number", "#1a6b54"),
    ("syntax_function", "#1f4fa8"),
    ("syntax_type", "#00696b"),
    ("selection_bg", "#e3ddd0"),
];

impl Theme {
    /// Returns the built-in theme for a background.
    pub fn built_in(background: Background, depth: ColorDepth) -> Self {
        Self::from_colors(&BTreeMap::new(), background, depth)
    }

    /// Returns the theme without colours: bold, dim and underline only.
    pub fn mono() -> Self {
        Self::built_in(Background::Dark, ColorDepth::None)
    }

    /// Builds a theme from the colour names of a skin (`ui_accent: #FFBF00`). Names that are missing or hold no colour
    /// keep the built-in colour.
    pub fn from_colors(colors: &BTreeMap<String, String>, background: Background, depth: ColorDepth) -> Self {
        let base = match background {
            Background::Dark => &DARK,
            Background::Light => &LIGHT,
        };
        let color = |name: &str| {
            let own = colors.get(name).and_then(|value| parse_hex(value));
            let built_in =
                || base.iter().find(|(key, _)| *key == name).and_then(|(_, value)| parse_hex(value));
            own.or_else(built_in).and_then(|rgb| at_depth(rgb, depth))
        };
        let fg = |name: &str| color(name).map_or_else(Style::new, |color| Style::new().fg(color));
        let plain = depth == ColorDepth::None;
        let dim = if plain || depth == ColorDepth::Sixteen {
            Style::new().add_modifier(Modifier::DIM)
        } else {
            fg("banner_dim")
        };
        let selection = match color("selection_bg").filter(|_| depth != ColorDepth::Sixteen) {
            Some(background) => Style::new().bg(background),
            None => Style::new().add_modifier(Modifier::REVERSED),
        };
        Self {
            text: Style::new(),
            dim,
            accent: fg("ui_accent").add_modifier(Modifier::BOLD),
            heading: fg("ui_accent").add_modifier(Modifier::BOLD),
            code: fg("code"),
            link: fg("ui_label").add_modifier(Modifier::UNDERLINED),
            ok: fg("ui_ok"),
            warn: fg("ui_warn"),
            error: fg("ui_error"),
            critical: fg("ui_critical").add_modifier(Modifier::BOLD),
            border: if plain { dim } else { fg("response_border") },
            rule: if plain { dim } else { fg("input_rule") },
            prompt: fg("prompt").add_modifier(Modifier::BOLD),
            label: fg("ui_label"),
            added: fg("ui_ok"),
            removed: fg("ui_error"),
            selection,
            keyword: fg("syntax_keyword"),
            string: fg("syntax_string"),
            number: fg("syntax_number"),
            comment: dim.add_modifier(Modifier::ITALIC),
            function: fg("syntax_function"),
            type_name: fg("syntax_type"),
            banner_border: if plain { dim } else { fg("banner_border") },
            banner_title: fg("banner_title").add_modifier(Modifier::BOLD),
            banner_accent: fg("banner_accent"),
            banner_text: fg("banner_text"),
            banner_dim: dim,
            depth,
            response_label: "⚕ Hermes".to_owned(),
            prompt_symbol: "❯".to_owned(),
            tool_prefix: "┊".to_owned(),
            agent_name: "Hermes".to_owned(),
            tool_emojis: BTreeMap::new(),
            thinking_verbs: Vec::new(),
        }
    }
}

impl Theme {
    /// Returns the colour that a hexadecimal text names, as far as the terminal can show it. Nothing if it names none.
    #[expect(clippy::option_option, reason = "a colour that cannot be shown is still one")]
    pub(crate) fn color(&self, text: &str) -> Option<Option<Color>> {
        parse_hex(text).map(|rgb| at_depth(rgb, self.depth))
    }
}

fn parse_hex(text: &str) -> Option<(u8, u8, u8)> {
    let digits = text.trim().strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    let [_, red, green, blue] = number.to_be_bytes();
    Some((red, green, blue))
}

fn at_depth((red, green, blue): (u8, u8, u8), depth: ColorDepth) -> Option<Color> {
    match depth {
        ColorDepth::None => None,
        ColorDepth::True => Some(Color::Rgb(red, green, blue)),
        ColorDepth::Indexed => Some(Color::Indexed(nearest_indexed(red, green, blue))),
        ColorDepth::Sixteen => Some(nearest_named(red, green, blue)),
    }
}

/// Returns the nearest of the 216 colours of the cube and the 24 greys.
fn nearest_indexed(red: u8, green: u8, blue: u8) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |value: u8| (0..6_u8).min_by_key(|at| STEPS[usize::from(*at)].abs_diff(value)).unwrap_or(0);
    let (r, g, b) = (nearest(red), nearest(green), nearest(blue));
    let cube = [r, g, b].map(|at| STEPS[usize::from(at)]);
    let mean = (u16::from(red) + u16::from(green) + u16::from(blue)) / 3;
    let grey = u8::try_from(mean.saturating_sub(3) / 10).unwrap_or(23).min(23);
    let level = 8 + grey * 10;
    let wanted = [red, green, blue];
    if distance([level; 3], wanted) < distance(cube, wanted) { 232 + grey } else { 16 + 36 * r + 6 * g + b }
}

fn nearest_named(red: u8, green: u8, blue: u8) -> Color {
    const NAMED: [(Color, [u8; 3]); 14] = [
        (Color::Red, [170, 0, 0]),
        (Color::Green, [0, 150, 0]),
        (Color::Yellow, [170, 120, 0]),
        (Color::Blue, [0, 0, 200]),
        (Color::Magenta, [170, 0, 170]),
        (Color::Cyan, [0, 150, 150]),
        (Color::DarkGray, [100, 100, 100]),
        (Color::Gray, [170, 170, 170]),
        (Color::LightRed, [255, 100, 100]),
        (Color::LightGreen, [130, 220, 130]),
        (Color::LightYellow, [255, 200, 60]),
        (Color::LightBlue, [110, 150, 255]),
        (Color::LightMagenta, [240, 130, 240]),
        (Color::LightCyan, [90, 220, 230]),
    ];
    NAMED
        .iter()
        .min_by_key(|(_, rgb)| distance(*rgb, [red, green, blue]))
        .map_or(Color::Reset, |(color, _)| *color)
}

fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
}

/// Reads the background from a terminal's answer to the question for its background colour (OSC 11).
pub(crate) fn background_of_answer(answer: &str) -> Option<Background> {
    let (_, color) = answer.split_once("]11;rgb:")?;
    let mut parts = color.split(['/', '\u{7}', '\u{1b}']).map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_hexdigit).take(4).collect();
        let full =
            16_u32.checked_pow(u32::try_from(digits.len()).ok()?)?.checked_sub(1).filter(|full| *full > 0)?;
        u32::from_str_radix(&digits, 16).ok().map(|value| value * 255 / full)
    });
    let (red, green, blue) = (parts.next()??, parts.next()??, parts.next()??);
    let light = 299 * red + 587 * green + 114 * blue > 127_500;
    Some(if light { Background::Light } else { Background::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_follows_the_variables() {
        for (term, colorterm, no_color, depth) in [
            (Some("xterm-256color"), None, None, ColorDepth::Indexed),
            (Some("xterm-256color"), Some("truecolor"), None, ColorDepth::True),
            (Some("xterm-256color"), Some("truecolor"), Some("1"), ColorDepth::None),
            (Some("xterm-256color"), None, Some(""), ColorDepth::Indexed),
            (Some("linux"), None, None, ColorDepth::Sixteen),
            (None, None, None, ColorDepth::None),
        ] {
            assert_eq!(
                ColorDepth::detect(term, colorterm, no_color),
                depth,
                "{term:?} {colorterm:?} {no_color:?}"
            );
        }
    }

    #[test]
    fn the_answer_of_a_terminal_tells_light_from_dark() {
        for (answer, background) in [
            ("\u{1b}]11;rgb:ffff/ffff/ffff\u{7}", Some(Background::Light)),
            ("\u{1b}]11;rgb:1e1e/1e1e/2e2e\u{1b}\\", Some(Background::Dark)),
            ("\u{1b}]11;rgb:f/f/f\u{7}", Some(Background::Light)),
            ("\u{1b}]11;rgb:zz", None),
            ("\u{1b}[?62c", None),
        ] {
            assert_eq!(background_of_answer(answer), background, "{answer:?}");
        }
    }

    #[test]
    fn a_skin_names_colors_and_a_bad_one_keeps_the_built_in() {
        let colors = |value: &str| BTreeMap::from([("ui_ok".to_owned(), value.to_owned())]);
        let theme = |value: &str, depth| Theme::from_colors(&colors(value), Background::Dark, depth);
        assert_eq!(theme("#010203", ColorDepth::True).ok.fg, Some(Color::Rgb(1, 2, 3)));
        assert_eq!(theme("#ff0000", ColorDepth::Indexed).ok.fg, Some(Color::Indexed(196)));
        assert_eq!(theme("#808080", ColorDepth::Indexed).ok.fg, Some(Color::Indexed(244)));
        assert_eq!(theme("green", ColorDepth::True).ok.fg, Some(Color::Rgb(0x8f, 0xbc, 0x8f)));
        assert_eq!(theme("#010203", ColorDepth::None).ok.fg, None);
    }
}
