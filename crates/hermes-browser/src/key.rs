//! Keys by their names, as the protocol wants them.

use crate::error::BrowserError;

/// A key press, with what is held down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPress {
    pub(crate) key: String,
    pub(crate) code: String,
    pub(crate) number: u32,
    /// The text that the key types.
    pub(crate) text: Option<String>,
    /// Alt 1, Control 2, Meta 4, Shift 8.
    pub(crate) modifiers: u32,
    /// What editors do on this key; the browser derives it from keys only on some systems.
    pub(crate) command: Option<&'static str>,
}

/// Keys with a name: the name, its code, its number, its text.
const NAMED: [(&str, &str, u32, &str); 18] = [
    ("Enter", "Enter", 13, "\r"),
    ("Tab", "Tab", 9, ""),
    ("Escape", "Escape", 27, ""),
    ("Backspace", "Backspace", 8, ""),
    ("Delete", "Delete", 46, ""),
    ("Insert", "Insert", 45, ""),
    ("ArrowUp", "ArrowUp", 38, ""),
    ("ArrowDown", "ArrowDown", 40, ""),
    ("ArrowLeft", "ArrowLeft", 37, ""),
    ("ArrowRight", "ArrowRight", 39, ""),
    ("Home", "Home", 36, ""),
    ("End", "End", 35, ""),
    ("PageUp", "PageUp", 33, ""),
    ("PageDown", "PageDown", 34, ""),
    ("Space", "Space", 32, " "),
    ("Shift", "ShiftLeft", 16, ""),
    ("Control", "ControlLeft", 17, ""),
    ("Alt", "AltLeft", 18, ""),
];

/// Other names for the same keys.
const ALIASES: [(&str, &str); 12] = [
    ("return", "Enter"),
    ("esc", "Escape"),
    ("del", "Delete"),
    ("up", "ArrowUp"),
    ("down", "ArrowDown"),
    ("left", "ArrowLeft"),
    ("right", "ArrowRight"),
    ("pgup", "PageUp"),
    ("pgdn", "PageDown"),
    ("spacebar", "Space"),
    ("ctrl", "Control"),
    ("option", "Alt"),
];

impl KeyPress {
    /// Parses `Enter`, `a`, `Control+a` and the like.
    pub(crate) fn parse(given: &str) -> Result<Self, BrowserError> {
        let given = if given == " " { "Space" } else { given.trim() };
        // A plus sign at the end is the key itself.
        let (held, name) = match given.strip_suffix('+') {
            Some(before) => (before.trim_end_matches('+'), "+"),
            None => given.rsplit_once('+').unwrap_or(("", given)),
        };
        let mut modifiers = 0;
        for name in held.split('+').filter(|name| !name.is_empty()) {
            modifiers |= match name.trim().to_ascii_lowercase().as_str() {
                "alt" | "option" => 1,
                "control" | "ctrl" => 2,
                "meta" | "cmd" | "command" | "super" => 4,
                "shift" => 8,
                _ => return Err(unknown(given)),
            };
        }
        let mut key = Self::named(name).or_else(|| Self::function(name)).or_else(|| Self::character(name));
        if let Some(key) = &mut key {
            key.modifiers = modifiers;
            if modifiers & 0b111 != 0 {
                key.text = None;
            }
            if modifiers & 0b110 != 0 {
                key.command = match key.key.as_str() {
                    "a" => Some("selectAll"),
                    "c" => Some("copy"),
                    "x" => Some("cut"),
                    "v" => Some("paste"),
                    "z" => Some("undo"),
                    _ => None,
                };
            }
        }
        key.ok_or_else(|| unknown(given))
    }

    fn named(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let name = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(lower.as_str(), |(_, name)| name);
        let (name, code, number, text) = NAMED.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))?;
        let text = Some((*text).to_owned()).filter(|text| !text.is_empty());
        let key = if *name == "Space" { " " } else { name };
        Some(Self {
            key: key.to_owned(),
            code: (*code).to_owned(),
            number: *number,
            text,
            modifiers: 0,
            command: None,
        })
    }

    fn function(name: &str) -> Option<Self> {
        let number: u32 =
            name.strip_prefix(['F', 'f'])?.parse().ok().filter(|number| (1..=12).contains(number))?;
        let key = format!("F{number}");
        Some(Self { code: key.clone(), key, number: 111 + number, text: None, modifiers: 0, command: None })
    }

    fn character(name: &str) -> Option<Self> {
        let mut characters = name.chars();
        let (Some(c), None) = (characters.next(), characters.next()) else { return None };
        let upper = c.to_ascii_uppercase();
        let code = match upper {
            'A'..='Z' => format!("Key{upper}"),
            '0'..='9' => format!("Digit{upper}"),
            _ => String::new(),
        };
        let number = if upper.is_ascii_alphanumeric() { u32::from(upper) } else { 0 };
        Some(Self {
            key: c.to_string(),
            code,
            number,
            text: Some(c.to_string()).filter(|_| !c.is_control()),
            modifiers: 0,
            command: None,
        })
    }
}

fn unknown(given: &str) -> BrowserError {
    BrowserError::Refused(format!(
        "there is no key '{given}'. Keys are Enter, Tab, Escape, ArrowDown, PageDown, a single character, or one of these \
         after Control+, Shift+, Alt+ or Meta+"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_the_names_people_use() {
        for (given, key, number, text, modifiers) in [
            ("Enter", "Enter", 13, Some("\r"), 0),
            ("enter", "Enter", 13, Some("\r"), 0),
            ("esc", "Escape", 27, None, 0),
            ("ArrowDown", "ArrowDown", 40, None, 0),
            ("a", "a", 65, Some("a"), 0),
            ("Control+a", "a", 65, None, 2),
            ("ctrl+shift+Tab", "Tab", 9, None, 10),
            ("Shift+A", "A", 65, Some("A"), 8),
            ("F5", "F5", 116, None, 0),
            (" ", " ", 32, Some(" "), 0),
            ("+", "+", 0, Some("+"), 0),
            ("Control++", "+", 0, None, 2),
            ("é", "é", 0, Some("é"), 0),
        ] {
            let press = KeyPress::parse(given).unwrap();
            assert_eq!(
                (press.key.as_str(), press.number, press.text.as_deref(), press.modifiers),
                (key, number, text, modifiers),
                "{given}"
            );
        }
        for given in ["", "Foo", "F13", "Hyper+a", "ab"] {
            assert!(KeyPress::parse(given).is_err(), "{given}");
        }
    }
}
