//! The files that AWS's own tools share: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hermes_config::{Env, expand_tilde, user_home};

/// Returns the files, the credentials file first: it wins where both contain a key.
pub(super) fn files(env: &Env) -> Vec<PathBuf> {
    let file = |variable: &str, usual: &str| match env.get(variable) {
        Some(given) => expand_tilde(given, env).ok(),
        None => user_home(env).ok().map(|home| home.join(usual)),
    };
    let files =
        [file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"), file("AWS_CONFIG_FILE", ".aws/config")];
    files.into_iter().flatten().collect()
}

pub(super) fn read(files: &[PathBuf], name: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    for path in files {
        let text = text_of(path);
        for (key, value) in section(&text, &[name, &format!("profile {name}")]) {
            fields.entry(key).or_insert(value);
        }
    }
    fields
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the entries of `[sso-session name]`.
pub(super) fn read_session(files: &[PathBuf], name: &str) -> BTreeMap<String, String> {
    let title = format!("sso-session {name}");
    files.iter().flat_map(|path| section(&text_of(path), &[&title])).collect()
}

/// Returns the entries under any of these titles, whatever the whitespace between their words. Nested settings are
/// left out.
fn section(text: &str, titles: &[&str]) -> Vec<(String, String)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if let Some(title) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let title: Vec<&str> = title.split_whitespace().collect();
            inside = titles.iter().any(|wanted| wanted.split_whitespace().eq(title.iter().copied()));
            continue;
        }
        let nested = line.starts_with([' ', '\t']);
        if !inside || nested || bare.starts_with(['#', ';']) {
            continue;
        }
        if let Some((key, value)) = bare.split_once('=') {
            let value = value.trim();
            if !value.is_empty() {
                found.push((key.trim().to_ascii_lowercase(), value.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let text = "\
; shared\n[default]\naws_access_key_id = A\n[profile work]\nregion=eu-west-1\ns3 =\n  max = 3\n# no\n\
             AWS_SECRET_ACCESS_KEY = x=y\n[profiled]\nregion = nowhere\n";
        let check = |name: &str, expected: &[(&str, &str)]| {
            let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            assert_eq!(section(text, &[name, &format!("profile {name}")]), expected, "{name}");
        };
        check("default", &[("aws_access_key_id", "A")]);
        check("work", &[("region", "eu-west-1"), ("aws_secret_access_key", "x=y")]);
        check("d", &[]);
    }
}
