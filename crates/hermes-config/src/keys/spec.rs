//! One row of the key table.

/// What a key's value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Flag,
    Int,
    Number,
    Text,
    /// One of a few words.
    Choice(&'static [&'static str]),
    List,
    /// A mapping whose own keys are the user's.
    Map,
    /// Several shapes are accepted; the reader sorts them out.
    Any,
}

impl KeyKind {
    /// What a person would call it.
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

/// Which releases know a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRelease {
    Baseline,
    /// Later releases of the incumbent: read and kept, not necessarily acted on.
    Later,
    /// Added by us; other releases ignore it.
    Ours,
}

/// Whether this release does something about a key or a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    ActedOn,
    /// Tolerated and kept for other releases.
    Kept,
}

impl Support {
    /// What the reference says about it.
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
    /// As YAML; empty when there is none or it is computed.
    pub default: &'static str,
    pub about: &'static str,
    pub release: KeyRelease,
    pub secret: bool,
    /// Whether a full save writes the default into the user's file.
    pub in_full_save: bool,
    /// Whether an empty text stands beside the listed words.
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

    /// Marks a key other releases act on and this one does not.
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

    /// Whether the path matches, segment by segment.
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
