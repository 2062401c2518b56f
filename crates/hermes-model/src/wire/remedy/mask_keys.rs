//! Masks keys that a provider repeats in its refusal, before the text is shown.
//!
//! Checks the format of words only; it does not know the key in use.

/// The prefixes of common providers' keys.
const PREFIXES: [&str; 14] = [
    "sk-",
    "sk_",
    "key-",
    "gho_",
    "ghp_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "AKIA",
    "ASIA",
    "eyJ",
    "hf_",
    "AIza",
    "xai-",
];

/// Names whose value is always a secret.
const NAMES: [&str; 9] =
    ["key", "api_key", "apikey", "api-key", "token", "access_token", "refresh_token", "secret", "password"];

const MIN_KEY_LENGTH: usize = 16;
const MIN_NAMED_KEY_LENGTH: usize = 8;

/// Returns the text with `[key]` in place of everything that looks like one.
pub(super) fn mask_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = String::new();
    // True right after an equals sign that follows one of the names.
    let mut named = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '+') || (named && c == '%') {
            word.push(c);
            continue;
        }
        let name = word.to_ascii_lowercase();
        push_masked(&mut out, &mut word, named);
        named = c == '=' && NAMES.contains(&name.as_str());
        out.push(c);
        // Elsewhere an escaped character separates words, like the character it stands for.
        if c == '%' {
            out.extend(chars.by_ref().take(2));
        }
    }
    push_masked(&mut out, &mut word, named);
    out
}

fn push_masked(out: &mut String, word: &mut String, named: bool) {
    let core = word.trim_end_matches('.');
    let tail = word.len() - core.len();
    if named && core.len() >= MIN_NAMED_KEY_LENGTH {
        out.push_str("[key]");
    } else if let Some((before, _)) = split_at_key(core) {
        out.push_str(before);
        out.push_str("[key]");
    } else {
        out.push_str(core);
    }
    out.extend(std::iter::repeat_n('.', tail));
    word.clear();
}

/// Splits a word into the text before a key and the key, which begins the word or follows a punctuation mark.
fn split_at_key(word: &str) -> Option<(&str, &str)> {
    let begins = |at: &usize| {
        word.split_at_checked(*at).is_some_and(|(before, key)| {
            let free = !before.ends_with(|c: char| c.is_ascii_alphanumeric());
            free && key.len() >= MIN_KEY_LENGTH && PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        })
    };
    let at = word.char_indices().map(|(at, _)| at).find(begins)?;
    word.split_at_checked(at)
}
