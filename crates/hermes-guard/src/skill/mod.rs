//! Scans a skill for text that attacks its user, and decides whether it may be installed.
//!
//! The caller reads the files; links are reported and not followed. Invariant: the work is linear in the size of
//! the text and bounded, because a line is searched for all words in one pass and only the patterns whose words
//! occur are tried on it.

mod policy;
mod rules;

use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use unicode_normalization::UnicodeNormalization as _;

pub use policy::{InstallDecision, InstallPermission, PolicyOverride, SkillTrust, decide_installation};
use rules::{RULES, SkillRule};

/// The most characters of a line that a finding quotes.
const MAX_QUOTE: usize = 120;
/// A shell command may go on over this many lines.
const MAX_JOINED_LINES: usize = 20;
const MAX_FILES: usize = 50;
const MAX_SKILL_BYTES: u64 = 1_024 * 1_024;
const MAX_FILE_BYTES: u64 = 256 * 1_024;
/// The most bytes of a file and of a skill that are scanned.
const SCANNED_FILE_BYTES: usize = 4 * 1_024 * 1_024;
const SCANNED_BYTES: usize = 32 * 1_024 * 1_024;
/// The most findings of one skill; more do not change a verdict.
const MAX_FINDINGS: usize = 1_000;
const BINARY_EXTENSIONS: [&str; 12] =
    ["exe", "dll", "so", "dylib", "bin", "dat", "com", "msi", "dmg", "app", "deb", "rpm"];
const SCRIPT_EXTENSIONS: [&str; 5] = ["sh", "bash", "py", "rb", "pl"];

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Critical,
    High,
    Medium,
    Low,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreatCategory {
    Exfiltration,
    Injection,
    Destructive,
    Persistence,
    Network,
    Obfuscation,
    Execution,
    Traversal,
    Mining,
    SupplyChain,
    PrivilegeEscalation,
    CredentialExposure,
    Structural,
}

impl ThreatCategory {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exfiltration => "exfiltration",
            Self::Injection => "injection",
            Self::Destructive => "destructive",
            Self::Persistence => "persistence",
            Self::Network => "network",
            Self::Obfuscation => "obfuscation",
            Self::Execution => "execution",
            Self::Traversal => "traversal",
            Self::Mining => "mining",
            Self::SupplyChain => "supply_chain",
            Self::PrivilegeEscalation => "privilege_escalation",
            Self::CredentialExposure => "credential_exposure",
            Self::Structural => "structural",
        }
    }
}

/// What a skill is judged to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkillVerdict {
    Safe,
    Caution,
    Dangerous,
}

impl SkillVerdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Caution => "caution",
            Self::Dangerous => "dangerous",
        }
    }
}

/// Something in the folder of a skill.
#[derive(Debug, Clone, Copy)]
pub enum SkillEntry<'a> {
    File { path: &'a str, bytes: &'a [u8], executable: bool },
    Link { path: &'a str, target: LinkTarget },
}

/// Where a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkTarget {
    Inside,
    Outside,
    Missing,
}

/// A suspicious place in a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFinding {
    pub pattern_id: &'static str,
    pub severity: Severity,
    pub category: ThreatCategory,
    pub file: String,
    /// The number of the line; 0 for the file or the skill as a whole.
    pub line: usize,
    /// What was found, shortened.
    pub quote: String,
    pub description: &'static str,
}

/// The findings in a skill, the worst first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillScan {
    pub findings: Vec<SkillFinding>,
    pub verdict: SkillVerdict,
}

/// Scans the entries of a skill.
pub fn scan_skill(entries: &[SkillEntry<'_>]) -> SkillScan {
    let mut scan = Scanner { findings: Vec::new(), scanned: 0 };
    scan.structure(entries);
    for entry in entries {
        match *entry {
            SkillEntry::File { path, bytes, .. } => scan.file(path, bytes),
            SkillEntry::Link { target: LinkTarget::Inside, .. } => {}
            SkillEntry::Link { path, target: LinkTarget::Outside } => {
                scan.add("symlink_escape", path, 0, path);
            }
            SkillEntry::Link { path, target: LinkTarget::Missing } => {
                scan.add("broken_symlink", path, 0, path);
            }
        }
    }
    let mut findings = scan.findings;
    findings.sort_by(|a, b| (a.severity, &a.file, a.line).cmp(&(b.severity, &b.file, b.line)));
    let verdict = match findings.first().map(|worst| worst.severity) {
        Some(Severity::Critical) => SkillVerdict::Dangerous,
        Some(_) => SkillVerdict::Caution,
        None => SkillVerdict::Safe,
    };
    SkillScan { findings, verdict }
}

/// The words of all rules, and for each word the rules it belongs to.
struct WordIndex {
    search: Option<AhoCorasick>,
    rules: Vec<Vec<usize>>,
}

static WORDS: LazyLock<WordIndex> = LazyLock::new(|| {
    let mut words: Vec<&str> = RULES.iter().flat_map(|rule| rule.words.iter().copied()).collect();
    words.sort_unstable();
    words.dedup();
    let rules = words
        .iter()
        .map(|word| {
            (0..RULES.len()).filter(|at| RULES.get(*at).is_some_and(|rule| rule.words.contains(word)))
        })
        .map(Iterator::collect)
        .collect();
    WordIndex { search: AhoCorasick::builder().ascii_case_insensitive(true).build(&words).ok(), rules }
});

/// The pattern of each rule, compiled when a line first has one of its words.
static PATTERNS: LazyLock<Vec<OnceLock<Option<Regex>>>> =
    LazyLock::new(|| RULES.iter().map(|_| OnceLock::new()).collect());

fn pattern(at: usize) -> Option<&'static Regex> {
    let build = || {
        let text = RULES.get(at)?.pattern;
        RegexBuilder::new(text).case_insensitive(true).unicode(false).build().ok()
    };
    PATTERNS.get(at)?.get_or_init(build).as_ref()
}

struct Scanner {
    findings: Vec<SkillFinding>,
    scanned: usize,
}

impl Scanner {
    fn structure(&mut self, entries: &[SkillEntry<'_>]) {
        let mut total = 0;
        let mut files = 0;
        for entry in entries {
            let SkillEntry::File { path, bytes, executable } = *entry else { continue };
            files += 1;
            let size = bytes.len() as u64;
            total += size;
            let name = path.rsplit('/').next().unwrap_or(path);
            let extension = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
            if BINARY_EXTENSIONS.contains(&extension.as_str()) || is_program(bytes) {
                self.add("binary_file", path, 0, name);
            }
            if size > MAX_FILE_BYTES {
                self.add("oversized_file", path, 0, &format!("{} KB", size / 1_024));
            }
            if executable && !SCRIPT_EXTENSIONS.contains(&extension.as_str()) {
                self.add("unexpected_executable", path, 0, name);
            }
        }
        if files > MAX_FILES {
            self.add("too_many_files", "", 0, &format!("{files} files"));
        }
        if total > MAX_SKILL_BYTES {
            self.add("oversized_skill", "", 0, &format!("{} KB", total / 1_024));
        }
    }

    fn file(&mut self, path: &str, bytes: &[u8]) {
        let room = SCANNED_BYTES.saturating_sub(self.scanned).min(SCANNED_FILE_BYTES);
        let seen = bytes.get(..room).unwrap_or(bytes);
        self.scanned += seen.len();
        if seen.len() < bytes.len() {
            self.add("scan_incomplete", path, 0, &format!("{} KB", bytes.len() / 1_024));
        }
        let text = String::from_utf8_lossy(seen);
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let number = at + 1;
            let mut found = Vec::new();
            matching_rules(line, &mut found);
            if line.ends_with('\\') {
                matching_rules(&joined(&lines, at), &mut found);
            }
            if !line.is_ascii() {
                if line.chars().any(is_invisible) {
                    self.add("invisible_unicode", path, number, line);
                }
                let plain: String = line.chars().filter(|c| !is_invisible(*c)).nfkc().collect();
                matching_rules(&plain, &mut found);
            }
            found.sort_unstable();
            found.dedup();
            for rule in found.into_iter().filter_map(|at| RULES.get(at)) {
                self.add_rule(rule, path, number, line);
            }
        }
    }

    fn add(&mut self, id: &str, file: &str, line: usize, quote: &str) {
        if let Some(rule) = RULES.iter().find(|rule| rule.id == id) {
            self.add_rule(rule, file, line, quote);
        }
    }

    fn add_rule(&mut self, rule: &'static SkillRule, file: &str, line: usize, quote: &str) {
        // The worst ones are always kept, so that a flood of others cannot hide them.
        if self.findings.len() >= MAX_FINDINGS && rule.severity != Severity::Critical {
            return;
        }
        if self.findings.len() >= 2 * MAX_FINDINGS {
            return;
        }
        self.findings.push(SkillFinding {
            pattern_id: rule.id,
            severity: rule.severity,
            category: rule.category,
            file: file.to_owned(),
            line,
            quote: shortened(quote.trim()),
            description: rule.about,
        });
    }
}

/// Adds the numbers of the rules that a line matches.
fn matching_rules(line: &str, found: &mut Vec<usize>) {
    let Some(search) = &WORDS.search else { return };
    let mut candidates: Vec<usize> = search
        .find_overlapping_iter(line)
        .filter_map(|hit| WORDS.rules.get(hit.pattern().as_usize()))
        .flatten()
        .copied()
        .collect();
    candidates.sort_unstable();
    candidates.dedup();
    found.extend(
        candidates
            .into_iter()
            .filter(|at| pattern(*at).is_some_and(|pattern| pattern.is_match(line.as_bytes()))),
    );
}

/// Joins a line with those it goes on with.
fn joined(lines: &[&str], at: usize) -> String {
    let mut text = String::new();
    for line in lines.iter().skip(at).take(MAX_JOINED_LINES) {
        let Some(part) = line.strip_suffix('\\') else {
            text.push_str(line);
            break;
        };
        text.push_str(part);
        text.push(' ');
    }
    text
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{2062}'..='\u{2064}' | '\u{feff}'
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Tells whether a file begins like a program: ELF, Windows or macOS.
fn is_program(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 5] =
        [b"\x7fELF", b"MZ\x90", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];
    starts.iter().any(|start| bytes.starts_with(start))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

impl SkillScan {
    /// Renders the report: the verdict, and the findings with severity, category, place and text.
    pub fn report(&self, name: &str, source: &str, trust: SkillTrust, decision: &InstallDecision) -> String {
        let verdict = self.verdict.as_str().to_uppercase();
        let mut lines = vec![format!("Scan: {name} ({source}/{})  Verdict: {verdict}", trust.as_str())];
        for finding in &self.findings {
            let place = format!("{}:{}", finding.file, finding.line);
            let quote: String = finding.quote.chars().take(60).collect();
            lines.push(format!(
                "  {:<8} {:<14} {place:<30} \"{quote}\"",
                finding.severity.as_str().to_uppercase(),
                finding.category.as_str(),
            ));
        }
        if !self.findings.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!("Decision: {} — {}", decision.permission.label(), decision.reason));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for (at, rule) in RULES.iter().enumerate() {
            assert!(pattern(at).is_some(), "{}", rule.id);
            assert_eq!(rule.words.is_empty(), rule.pattern.is_empty(), "{}", rule.id);
            assert!(rule.words.iter().all(|word| *word == word.to_lowercase()), "{}", rule.id);
        }
    }
}
