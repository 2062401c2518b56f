//! Finds text that tries to instruct the agent, and invisible characters.
//!
//! For texts that reach the model without a user having typed them: project files, memory entries. It only finds;
//! the caller decides what to do. A keyword is searched for before a pattern is tried, so that an ordinary text
//! costs one pass and no pattern is compiled.

use std::fmt;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// The kind of text that is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextOrigin {
    /// A file of the project or the home.
    ContextFile,
    /// An entry that the agent wants to store in memory.
    Memory,
}

/// A suspicious passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InjectionFinding {
    Pattern(&'static str),
    Invisible(char),
}

impl fmt::Display for InjectionFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(id) => f.write_str(id),
            Self::Invisible(c) => write!(f, "invisible unicode U+{:04X}", u32::from(*c)),
        }
    }
}

struct InjectionRule {
    id: &'static str,
    /// A lower-case keyword without which the pattern cannot match.
    word: &'static str,
    pattern: &'static str,
    material: &'static [TextOrigin],
    compiled: OnceLock<Option<Regex>>,
}

const fn rule(
    id: &'static str,
    word: &'static str,
    pattern: &'static str,
    material: &'static [TextOrigin],
) -> InjectionRule {
    InjectionRule { id, word, pattern, material, compiled: OnceLock::new() }
}

impl InjectionRule {
    fn matches(&self, text: &str) -> bool {
        let build = || RegexBuilder::new(self.pattern).case_insensitive(true).build().ok();
        self.compiled.get_or_init(build).as_ref().is_some_and(|pattern| pattern.is_match(text))
    }
}

const BOTH: &[TextOrigin] = &[TextOrigin::ContextFile, TextOrigin::Memory];
const FILES: &[TextOrigin] = &[TextOrigin::ContextFile];
const MEMORY: &[TextOrigin] = &[TextOrigin::Memory];

/// The rules. Up to eight other words may stand between the words of an instruction.
static RULES: [InjectionRule; 16] = [
    rule(
        "prompt_injection",
        "instructions",
        r"ignore\s+(?:\w+\s+){0,8}?(?:previous|all|above|prior)\s+(?:\w+\s+){0,8}?instructions",
        BOTH,
    ),
    rule("role_hijack", "you", r"you\s+are\s+now\s+", MEMORY),
    rule("deception_hide", "tell", r"do\s+not\s+tell\s+the\s+user", BOTH),
    rule("sys_prompt_override", "override", r"system\s+prompt\s+override", BOTH),
    rule(
        "disregard_rules",
        "disregard",
        r"disregard\s+(?:\w+\s+){0,8}?(?:your|all|any)\s+(?:\w+\s+){0,8}?(?:instructions|rules|guidelines)",
        BOTH,
    ),
    rule(
        "bypass_restrictions",
        "act",
        r"act\s+as\s+(?:if|though)\s+you\s+(?:have\s+no|don't\s+have)\s+(?:restrictions|limits|rules)",
        BOTH,
    ),
    rule(
        "html_comment_injection",
        "<!--",
        r"<!--[^>]*(?:ignore|override|system|secret|hidden)[^>]*-->",
        FILES,
    ),
    rule("hidden_div", "none", r#"<\s*div\s+style\s*=\s*["'].*display\s*:\s*none"#, FILES),
    rule("translate_execute", "translate", r"translate\s+.*\s+into\s+.*\s+and\s+(?:execute|run|eval)", FILES),
    rule("exfil_curl", "curl", r"curl\s+[^\n]*\$\{?\w*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)", BOTH),
    rule("exfil_wget", "wget", r"wget\s+[^\n]*\$\{?\w*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|API)", MEMORY),
    rule("read_secrets", "cat", r"cat\s+[^\n]*(?:\.env|credentials|\.netrc|\.pgpass)", FILES),
    rule(
        "read_secrets",
        "cat",
        r"cat\s+[^\n]*(?:\.env|credentials|\.netrc|\.pgpass|\.npmrc|\.pypirc)",
        MEMORY,
    ),
    rule("ssh_backdoor", "authorized_keys", r"authorized_keys", MEMORY),
    rule("ssh_access", ".ssh", r"\$HOME/\.ssh|~/\.ssh", MEMORY),
    rule("hermes_env", ".env", r"\$HOME/\.hermes/\.env|~/\.hermes/\.env", MEMORY),
];

/// Returns everything suspicious in a text, each kind once, in a fixed order.
pub fn find_injections(text: &str, material: TextOrigin) -> Vec<InjectionFinding> {
    let lower = text.to_lowercase();
    let mut found: Vec<InjectionFinding> = RULES
        .iter()
        .filter(|rule| rule.material.contains(&material) && lower.contains(rule.word) && rule.matches(text))
        .map(|rule| InjectionFinding::Pattern(rule.id))
        .collect();
    for c in text.chars().filter(|c| is_invisible(*c)) {
        let finding = InjectionFinding::Invisible(c);
        if !found.contains(&finding) {
            found.push(finding);
        }
    }
    found
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200d}'
            | '\u{2060}'
            | '\u{2062}'..='\u{2064}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
            | '\u{202a}'..='\u{202e}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for rule in &RULES {
            rule.matches("");
            assert!(rule.compiled.get().is_some_and(Option::is_some), "{}", rule.id);
        }
    }
}
