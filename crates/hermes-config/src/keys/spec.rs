//! The type of a row of the key table.

/// The type of a key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Flag,
    Int,
    Number,
    Text,
    /// One of a few words.
    Choice(&'static [&'static str]),
    List,
    /// A mapping whose own keys the user chooses.
    Map,
    /// Several forms are accepted; the reader distinguishes them.
    Any,
}

impl KeyKind {
    /// Returns the name of the type, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag => "true/false",
            Self::Int => "a whole number",
            Self::Number => "a number",
            Self::Text => "text",
            Self::Choice(_) => "one word of a list",
            Self::List => "a list",
            Self::Map => "a mapping",
            Self::Any => "any value",
        }
    }
}

/// The releases that know a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRelease {
    Baseline,
    /// Later releases of the incumbent: read and kept, but not necessarily used.
    Later,
    /// Added by this program; other releases ignore it.
    Ours,
}

/// Tells whether this release uses a key or a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    ActedOn,
    /// The key is accepted and kept for other releases.
    Kept,
}

impl Support {
    /// Returns the text in the reference page.
    pub fn words(self) -> &'static str {
        match self {
            Self::ActedOn => "acted on",
            Self::Kept => "kept",
        }
    }
}

/// A documented key. `*` in the path stands for any one segment.
#[derive(Debug, Clone, Copy)]
pub struct KeySpec {
    pub path: &'static str,
    pub kind: KeyKind,
    /// The default as YAML; empty when there is none or it is computed.
    pub default: &'static str,
    pub about: &'static str,
    pub release: KeyRelease,
    pub secret: bool,
    /// Tells whether a full save writes the default into the user's file.
    pub in_full_save: bool,
    /// Tells whether an empty text is allowed in addition to the listed words.
    pub allows_empty: bool,
    /// The word a YAML boolean `true` stands for, where it is not `on`.
    pub true_word: &'static str,
    pub support: Support,
}

impl KeySpec {
    pub(super) const fn later(mut self) -> Self {
        self.release = KeyRelease::Later;
        self.in_full_save = false;
        self
    }

    pub(super) const fn ours(mut self) -> Self {
        self.release = KeyRelease::Ours;
        self.in_full_save = false;
        self
    }

    /// Marks a key that other releases use and this one does not.
    pub(super) const fn kept(mut self) -> Self {
        self.support = Support::Kept;
        self
    }

    pub(super) const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    pub(super) const fn not_in_full_save(mut self) -> Self {
        self.in_full_save = false;
        self
    }

    pub(super) const fn allow_empty(mut self) -> Self {
        self.allows_empty = true;
        self
    }

    pub(super) const fn true_word(mut self, word: &'static str) -> Self {
        self.true_word = word;
        self
    }

    /// Tells whether the path matches, segment by segment.
    pub(super) fn matches<'a>(&self, mut segments: impl Iterator<Item = &'a str>) -> bool {
        self.path.split('.').all(|own| segments.next().is_some_and(|given| own == "*" || own == given))
            && segments.next().is_none()
    }
}

const fn row(path: &'static str, kind: KeyKind, default: &'static str, about: &'static str) -> KeySpec {
    KeySpec {
        path,
        kind,
        default,
        about,
        release: KeyRelease::Baseline,
        secret: false,
        in_full_save: true,
        allows_empty: false,
        true_word: "on",
        support: Support::ActedOn,
    }
}

pub(super) const fn flag(path: &'static str, default: &'static str, about: &'static str) -> KeySpec {
    row(path, KeyKind::Flag, default, about)
}

pub(super) const fn int(path: &'static str, default: &'static str, about: &'static str) -> KeySpec {
    row(path, KeyKind::Int, default, about)
}

pub(super) const fn num(path: &'static str, default: &'static str, about: &'static str) -> KeySpec {
    row(path, KeyKind::Number, default, about)
}

pub(super) const fn text(path: &'static str, default: &'static str, about: &'static str) -> KeySpec {
    row(path, KeyKind::Text, default, about)
}

pub(super) const fn list(path: &'static str, default: &'static str, about: &'static str) -> KeySpec {
    row(path, KeyKind::List, default, about)
}

pub(super) const fn map(path: &'static str, default: &'static str, about: &'static str) -> KeySpec {
    row(path, KeyKind::Map, default, about)
}

pub(super) const fn any(path: &'static str, default: &'static str, about: &'static str) -> KeySpec {
    row(path, KeyKind::Any, default, about)
}

pub(super) const fn choice(
    path: &'static str,
    default: &'static str,
    words: &'static [&'static str],
    about: &'static str,
) -> KeySpec {
    row(path, KeyKind::Choice(words), default, about)
}
