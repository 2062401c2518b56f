//! Voice mode as the screen shows it, and the key that records.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What voice mode does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VoiceActivity {
    #[default]
    Off,
    /// It waits for the key.
    Idle,
    /// It records; the loudness is between 0 and 7.
    Recording {
        level: u8,
    },
    Transcribing,
    /// It speaks an answer.
    Speaking,
}

impl VoiceActivity {
    pub(crate) fn is_recording(self) -> bool {
        matches!(self, Self::Recording { .. })
    }

    /// Returns the sign before the arrow of the prompt.
    pub(crate) fn sign(self) -> Option<String> {
        match self {
            Self::Off => None,
            Self::Idle => Some("🎤".to_owned()),
            Self::Recording { level } => {
                let bar = char::from_u32(u32::from('▁') + u32::from(level.min(7))).unwrap_or('▁');
                Some(format!("● {bar}"))
            }
            Self::Transcribing => Some("◉".to_owned()),
            Self::Speaking => Some("🔊".to_owned()),
        }
    }

    /// Says what can be done, in the empty input.
    pub(crate) fn placeholder(self, key: &str) -> Option<String> {
        match self {
            Self::Off => None,
            Self::Idle => Some(format!("type, or {key} to record")),
            Self::Recording { .. } => Some(format!("recording… {key} sends it, Ctrl+C throws it away")),
            Self::Transcribing => Some("transcribing…".to_owned()),
            Self::Speaking => Some(format!("speaking… {key} stops it")),
        }
    }
}

/// A key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyChord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl Default for KeyChord {
    fn default() -> Self {
        Self { code: KeyCode::Char('b'), modifiers: KeyModifiers::CONTROL }
    }
}

impl KeyChord {
    /// Parses `ctrl+b`, `c-b`, `alt+r` or `f8`. A letter without a modifier cannot be told from typing.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase();
        let (modifiers, key) = match text.rsplit_once(['+', '-']) {
            None => (KeyModifiers::NONE, text.as_str()),
            Some(("ctrl" | "control" | "c", key)) => (KeyModifiers::CONTROL, key),
            Some(("alt" | "meta" | "a" | "m", key)) => (KeyModifiers::ALT, key),
            Some(_) => return None,
        };
        let mut chars = key.chars();
        let code = match (chars.next()?, chars.as_str()) {
            (letter, "") if letter.is_ascii_alphanumeric() && !modifiers.is_empty() => KeyCode::Char(letter),
            ('f', number) if modifiers.is_empty() => {
                KeyCode::F(number.parse().ok().filter(|number| (1..=24).contains(number))?)
            }
            _ => return None,
        };
        // These keys have a meaning without which the screen cannot be used.
        let is_taken =
            modifiers == KeyModifiers::CONTROL && matches!(code, KeyCode::Char('c' | 'd' | 'z' | 'j' | 'm'));
        (!is_taken).then_some(Self { code, modifiers })
    }

    pub(crate) fn matches(self, key: &KeyEvent) -> bool {
        let modifiers = key.modifiers.intersection(KeyModifiers::CONTROL | KeyModifiers::ALT);
        key.code == self.code && modifiers == self.modifiers
    }

    /// Returns the key as people write it.
    pub(crate) fn label(self) -> String {
        let key = match self.code {
            KeyCode::Char(letter) => letter.to_ascii_uppercase().to_string(),
            KeyCode::F(number) => format!("F{number}"),
            code => code.to_string(),
        };
        match self.modifiers {
            KeyModifiers::CONTROL => format!("Ctrl+{key}"),
            KeyModifiers::ALT => format!("Alt+{key}"),
            _ => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_in_many_ways() {
        for (text, label) in [
            ("ctrl+b", Some("Ctrl+B")),
            ("Ctrl+B", Some("Ctrl+B")),
            ("c-r", Some("Ctrl+R")),
            ("alt+v", Some("Alt+V")),
            ("f8", Some("F8")),
            ("b", None),
            ("ctrl+c", None),
            ("ctrl+", None),
            ("hyper+b", None),
            ("f99", None),
            ("", None),
        ] {
            assert_eq!(KeyChord::parse(text).map(KeyChord::label).as_deref(), label, "{text}");
        }
    }
}
