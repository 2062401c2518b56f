//! Keys that show by their first letters who issued them. (Table.)

use super::mask::{Hit, Mask};

/// What may follow a prefix.
#[derive(Clone, Copy)]
enum Body {
    /// Letters and digits.
    Alphanumeric,
    /// Also underscores.
    Word,
    /// Also dashes.
    Token,
    /// Sixteen capital letters and digits.
    Sixteen,
}

const KEYS: &[(&str, Body, usize)] = &[
    ("sk-", Body::Token, 10),
    ("sk_live_", Body::Alphanumeric, 10),
    ("sk_test_", Body::Alphanumeric, 10),
    ("rk_live_", Body::Alphanumeric, 10),
    ("rk_test_", Body::Alphanumeric, 10),
    ("sk_", Body::Alphanumeric, 16),
    ("ghp_", Body::Alphanumeric, 10),
    ("gho_", Body::Alphanumeric, 10),
    ("ghu_", Body::Alphanumeric, 10),
    ("ghs_", Body::Alphanumeric, 10),
    ("ghr_", Body::Alphanumeric, 10),
    ("github_pat_", Body::Word, 10),
    ("glpat-", Body::Token, 10),
    ("xoxa-", Body::Token, 10),
    ("xoxb-", Body::Token, 10),
    ("xoxp-", Body::Token, 10),
    ("xoxr-", Body::Token, 10),
    ("xoxs-", Body::Token, 10),
    ("xoxe-", Body::Token, 10),
    ("xapp-", Body::Token, 10),
    ("AIza", Body::Token, 30),
    ("AKIA", Body::Sixteen, 16),
    ("ASIA", Body::Sixteen, 16),
    ("pplx-", Body::Token, 10),
    ("fal_", Body::Token, 10),
    ("fc-", Body::Token, 10),
    ("bb_live_", Body::Token, 10),
    ("gAAAA", Body::Token, 20),
    ("hf_", Body::Alphanumeric, 10),
    ("r8_", Body::Alphanumeric, 10),
    ("npm_", Body::Alphanumeric, 10),
    ("pypi-", Body::Token, 10),
    ("dop_v1_", Body::Alphanumeric, 10),
    ("doo_v1_", Body::Alphanumeric, 10),
    ("am_", Body::Token, 10),
    ("tvly-", Body::Token, 10),
    ("exa_", Body::Alphanumeric, 10),
    ("gsk_", Body::Alphanumeric, 10),
    ("syt_", Body::Word, 10),
    ("retaindb_", Body::Token, 10),
    ("hsk-", Body::Token, 10),
    ("mem0_", Body::Token, 10),
    ("brv_", Body::Token, 10),
    ("xai-", Body::Token, 10),
    ("ntn_", Body::Alphanumeric, 10),
    ("fw-", Body::Token, 10),
    ("fw_", Body::Alphanumeric, 10),
    ("fpk_", Body::Alphanumeric, 10),
    ("nvapi-", Body::Token, 10),
    ("lin_api_", Body::Alphanumeric, 10),
    ("shpat_", Body::Alphanumeric, 10),
];

/// The shortest run that can be a key: anything below is passed over without looking at the table.
const SHORTEST: usize = 13;

pub(super) fn known_key(text: &str, from: usize) -> Option<Hit> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        if !is_token(bytes[at]) {
            at += 1;
            continue;
        }
        let end = run_end(bytes, at);
        let hit = starts(bytes, at, end).find_map(|start| key_at(text, start, end));
        if hit.is_some() {
            return hit;
        }
        at = end;
    }
    None
}

/// Where inside a run a key may begin: at its start, or behind an escape (`\n`, `\u003d`, `%3D`) that only looks like
/// part of the run.
fn starts(bytes: &[u8], start: usize, end: usize) -> impl Iterator<Item = usize> {
    let before = start.checked_sub(1).map(|at| bytes[at]);
    let behind_escape = match (before, bytes.get(start)) {
        (Some(b'\\'), Some(b'u')) => Some(start + 5),
        (Some(b'\\'), _) => Some(start + 1),
        (Some(b'%'), _) => Some(start + 2),
        _ => None,
    };
    [Some(start), behind_escape.filter(|at| *at < end)].into_iter().flatten()
}

fn key_at(text: &str, start: usize, end: usize) -> Option<Hit> {
    let run = text.get(start..end)?;
    let hit = |end| Some(Hit { start, end, with: Mask::Token });
    if let Some(end) = dotted_end(text, run, end) {
        return hit(end);
    }
    if run.len() < SHORTEST {
        return None;
    }
    let fits = |(prefix, body, least): &(&str, Body, usize)| {
        run.strip_prefix(prefix).is_some_and(|rest| rest.len() >= *least && body.holds(rest))
    };
    KEYS.iter().any(fits).then_some(())?;
    // Fernet tokens are padded.
    let padding = text.get(end..)?.bytes().take_while(|byte| *byte == b'=').count();
    hit(if run.starts_with("gAAAA") { end + padding } else { end })
}

/// The end of a key made of parts with dots between: SendGrid, Google OAuth, JSON web tokens.
fn dotted_end(text: &str, run: &str, end: usize) -> Option<usize> {
    let least: &[usize] = match run {
        "SG" => &[10, 0],
        "ya29" => &[10],
        _ if run.starts_with("eyJ") && run.len() >= 13 => &[4, 0],
        _ => return None,
    };
    let bytes = text.as_bytes();
    let mut at = end;
    for (index, least) in least.iter().enumerate() {
        let part = if bytes.get(at) == Some(&b'.') { run_end(bytes, at + 1) } else { at };
        if part < at + 1 + least {
            return (index > 0).then_some(at);
        }
        // A sentence's full stop is not part of a key.
        at = if part == at + 1 { at } else { part };
    }
    Some(at)
}

impl Body {
    fn holds(self, text: &str) -> bool {
        text.bytes().all(|byte| match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Token => is_token(byte),
            Self::Sixteen => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }) && (!matches!(self, Self::Sixteen) || text.len() == 16)
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn run_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| is_token(**byte)).count()
}
