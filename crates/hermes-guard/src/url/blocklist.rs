//! Websites that the user has blocked: `security.website_blocklist`.

use std::collections::HashMap;

use url::Url;

/// Rules with their sources. A name covers its subdomains; `*.name` covers only those.
#[derive(Debug, Clone, Default)]
pub struct Blocklist {
    sources: Vec<String>,
    names: HashMap<String, usize>,
    globs: Vec<(String, usize)>,
}

impl Blocklist {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds rules; `source` is `config` or the path of a shared file, as the refusal will show it.
    pub fn add<'a>(&mut self, rules: impl IntoIterator<Item = &'a str>, source: &str) {
        let index = self.sources.len();
        self.sources.push(source.to_owned());
        for rule in rules {
            match normalise(rule) {
                Some(rule) if rule.starts_with("*.") => self.globs.push((rule, index)),
                Some(rule) => {
                    self.names.entry(rule).or_insert(index);
                }
                None => {}
            }
        }
    }

    /// Adds the lines of a shared file; comments begin with `#`.
    pub fn add_file(&mut self, text: &str, source: &str) {
        self.add(text.lines().filter_map(|line| line.split('#').next()), source);
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty()
    }

    /// Returns the rule that covers `host`, and its source.
    pub fn find(&self, host: &str) -> Option<(String, &str)> {
        if self.is_empty() {
            return None;
        }
        let host = super::bare(host);
        let mut suffix = host.as_str();
        loop {
            if let Some(source) = self.names.get(suffix) {
                return Some((suffix.to_owned(), self.source(*source)));
            }
            match suffix.split_once('.') {
                Some((_, parent)) => suffix = parent,
                None => break,
            }
        }
        let (rule, source) = self.globs.iter().find(|(rule, _)| matches_glob(rule, &host))?;
        Some((rule.clone(), self.source(*source)))
    }

    fn source(&self, index: usize) -> &str {
        self.sources.get(index).map_or("config", String::as_str)
    }
}

/// Returns the rule in lower case, without scheme, path, port, trailing dot and leading `www.`; names in other
/// scripts in their ASCII form.
fn normalise(rule: &str) -> Option<String> {
    let rule = rule.trim().to_lowercase();
    let rule = rule.split_once("://").map_or(rule.as_str(), |(_, rest)| rest);
    let rule = rule.split(['/', '?', '#']).next().unwrap_or_default();
    let rule = match rule.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => rule,
    };
    let rule = rule.trim_end_matches('.');
    let rule = rule.strip_prefix("www.").unwrap_or(rule);
    let (star, name) = match rule.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", rule),
    };
    if name.is_empty() {
        return None;
    }
    let ascii = if name.is_ascii() {
        None
    } else {
        Url::parse(&format!("http://{name}/")).ok().and_then(|url| url.host_str().map(str::to_owned))
    };
    Some(format!("{star}{}", ascii.as_deref().unwrap_or(name)))
}

/// Tells whether a rule matches, where `*` stands for any characters, dots included. The pieces between stars are
/// searched from left to right, the last one at the end.
fn matches_glob(rule: &str, host: &str) -> bool {
    let Some((first, rest)) = rule.split_once('*') else { return rule == host };
    let Some(mut left) = host.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some((_, after)) = left.split_once(piece) else { return false };
        left = after;
    }
    left.ends_with(last)
}
