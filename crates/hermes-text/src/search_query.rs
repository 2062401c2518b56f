//! Makes a user's search text safe for the full-text engine.

use crate::truncate::head;

/// The longest query; longer ones are truncated, because users do not type them and they should not reach the
/// engine's parser.
const MAX_CHARS: usize = 2048;

const OPERATORS: [&str; 3] = ["AND", "OR", "NOT"];

/// A query in the full-text engine's own syntax that the engine accepts.
///
/// Balanced `"phrases"`, prefixes (`word*`) and `AND`/`OR`/`NOT` between terms keep their meaning; everything else
/// is a word to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    syntax: String,
    words: Vec<String>,
}

impl SearchQuery {
    /// Converts a text; returns `None` when there is nothing to search for.
    pub fn sanitise(input: &str) -> Option<Self> {
        let mut terms = drop_stray_operators(split_terms(head(input, MAX_CHARS)));
        let words: Vec<String> = terms.iter().filter_map(Term::word).collect();
        if words.is_empty() {
            return None;
        }
        let syntax = terms.drain(..).map(Term::into_syntax).collect::<Vec<_>>().join(" ");
        Some(Self { syntax, words })
    }

    /// Returns the text that goes after `MATCH`.
    pub fn as_str(&self) -> &str {
        &self.syntax
    }

    /// Returns the words themselves, for a search without the index.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Term {
    Phrase(String),
    Word { text: String, prefix: bool },
    Operator(&'static str),
}

impl Term {
    fn word(&self) -> Option<String> {
        match self {
            Self::Phrase(text) | Self::Word { text, .. } => Some(text.clone()),
            Self::Operator(_) => None,
        }
    }

    fn into_syntax(self) -> String {
        match self {
            Self::Phrase(text) => format!("\"{text}\""),
            Self::Word { text, prefix } => {
                // The engine accepts only letters, digits and underscores outside quotes; quoting the rest keeps
                // `chat-send`, `a.b` and `C#` one term each.
                let is_operator = OPERATORS.contains(&text.as_str());
                let bare = !is_operator
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii());
                let quoted = if bare { text } else { format!("\"{text}\"") };
                if prefix { format!("{quoted}*") } else { quoted }
            }
            Self::Operator(name) => name.to_owned(),
        }
    }
}

fn split_terms(input: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut rest = input;
    // Quotes are paired from the left; a last, unpaired one is dropped.
    while let Some((before, after)) = rest.split_once('"') {
        let Some((phrase, tail)) = after.split_once('"') else {
            push_words(&mut terms, before);
            rest = after;
            continue;
        };
        push_words(&mut terms, before);
        if phrase.chars().any(char::is_alphanumeric) {
            // The engine reads a NUL as the end of the query.
            terms.push(Term::Phrase(phrase.replace('\0', " ")));
        }
        rest = tail;
    }
    push_words(&mut terms, rest);
    terms
}

fn push_words(terms: &mut Vec<Term>, text: &str) {
    let text = text.replace(['+', '{', '}', '(', ')', '^', ':', '\0'], " ");
    for word in text.split_whitespace() {
        if let Some(name) = OPERATORS.into_iter().find(|name| *name == word) {
            terms.push(Term::Operator(name));
            continue;
        }
        let prefix = word.ends_with('*');
        let plain = word.replace('*', "");
        // A word without a letter or digit matches no token, and alone it would be a syntax error.
        if plain.chars().any(char::is_alphanumeric) {
            terms.push(Term::Word { text: plain, prefix });
        }
    }
}

/// Removes operators that have no term on one side: at either end, or one after another.
fn drop_stray_operators(terms: Vec<Term>) -> Vec<Term> {
    let mut kept: Vec<Term> = Vec::with_capacity(terms.len());
    for term in terms {
        let after_term = kept.last().is_some_and(|last| !matches!(last, Term::Operator(_)));
        if after_term || !matches!(term, Term::Operator(_)) {
            kept.push(term);
        }
    }
    if matches!(kept.last(), Some(Term::Operator(_))) {
        kept.pop();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: Option<&str>) {
        let query = SearchQuery::sanitise(input);
        assert_eq!(query.as_ref().map(SearchQuery::as_str), expected, "{input:?}");
    }

    #[test]
    fn queries_keep_their_meaning_and_lose_their_danger() {
        check("hello world", Some("hello world"));
        check("\"exact phrase\" more", Some("\"exact phrase\" more"));
        check("chat-send", Some("\"chat-send\""));
        check("config.yaml my_var", Some("\"config.yaml\" my_var"));
        check("C++", Some("C"));
        check("\"unclosed", Some("unclosed"));
        check("a \"b c\" \"d", Some("a \"b c\" d"));
        check("***", None);
        check("AND", None);
        check("AND x OR", Some("x"));
        check("x AND OR y", Some("x AND y"));
        check("x NOT y", Some("x NOT y"));
        check("dock*", Some("dock*"));
        check("*dock", Some("dock"));
        check("do**ck", Some("dock"));
        check("chat-se*", Some("\"chat-se\"*"));
        check("title:secret", Some("title secret"));
        check("{a b} ^c (d)", Some("a b c d"));
        check("it's 50% [x] ~ ; --", Some("\"it's\" \"50%\" \"[x]\""));
        check("\"\" \"--\" ok", Some("ok"));
        check("schön 日本", Some("schön 日本"));
        check("\"a\0b\"", Some("\"a b\""));
        check("x *AND", Some("x \"AND\""));
        check("x NOT*", Some("x \"NOT\"*"));
        check("", None);
        check(" \t\n", None);
    }

    #[test]
    fn words_serve_a_search_without_the_index() {
        let query = SearchQuery::sanitise("\"two words\" AND chat-send dock*").unwrap();
        assert_eq!(query.words(), ["two words", "chat-send", "dock"]);
    }

    #[test]
    fn overlong_queries_are_cut() {
        let query = SearchQuery::sanitise(&"x".repeat(5000)).unwrap();
        assert_eq!(query.as_str().len(), MAX_CHARS);
    }
}
