//! The variables a command gets, made from data: nothing here reads the variables of this process.

use std::collections::{BTreeMap, BTreeSet};

use crate::variable_blocklist::is_blocked;

/// The prefix of a variable that puts the rest of its name into a child's environment whatever the block list
/// says.
const FORCE: &str = "_HERMES_FORCE_";
const USUAL_PATH: &str =
    "/opt/homebrew/bin:/opt/homebrew/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The names that a script's variables have or begin with.
const SCRIPT_NAMES: &[&str] = &["HERMES_HOME", "HERMES_PROFILE", "HERMES_CONFIG", "HERMES_ENV"];
const SCRIPT_PREFIXES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_",
    "TERM",
    "TMPDIR",
    "TMP",
    "TEMP",
    "SHELL",
    "LOGNAME",
    "XDG_",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA",
];
/// The words in a name that mark its value as a possible secret.
const SECRET_WORDS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "CREDENTIAL",
    "PASSWD",
    "AUTH",
    "DSN",
    "WEBHOOK",
    "CREDS",
    "BEARER",
];

/// The variables for children, without the secrets of Hermes.
#[derive(Clone, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Selects the variables for commands from the user's shell and files. The names in `passed` are kept
    /// whatever the block list says; `blocked` adds to it.
    pub fn for_commands<'a>(
        base: impl IntoIterator<Item = (&'a str, &'a str)>,
        passed: &[String],
        blocked: &[String],
    ) -> Self {
        let passed: BTreeSet<&str> = passed.iter().map(String::as_str).collect();
        let blocked: BTreeSet<&str> = blocked.iter().map(String::as_str).collect();
        let mut kept = BTreeMap::new();
        let mut forced = BTreeMap::new();
        for (name, value) in base {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                continue;
            }
            if let Some(name) = name.strip_prefix(FORCE) {
                if !name.is_empty() {
                    forced.insert(name.to_owned(), value.to_owned());
                }
            } else if passed.contains(name) || !(is_blocked(name) || blocked.contains(name)) {
                kept.insert(name.to_owned(), value.to_owned());
            }
        }
        kept.extend(forced);
        complete_path(&mut kept);
        Self(kept)
    }

    /// Selects the variables for scripts: names on a short list without words that mark a secret, and those
    /// in `passed`.
    pub fn for_scripts<'a>(base: impl IntoIterator<Item = (&'a str, &'a str)>, passed: &[String]) -> Self {
        let fits = |name: &str| {
            passed.iter().any(|known| known == name)
                || !looks_secret(name)
                    && (SCRIPT_NAMES.contains(&name)
                        || SCRIPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        };
        let kept = base.into_iter().filter(|(name, value)| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') && fits(name)
        });
        let mut kept: BTreeMap<String, String> =
            kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        complete_path(&mut kept);
        Self(kept)
    }

    /// Returns exactly these variables: a short base set, and what the user configured for one program.
    pub fn exactly<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let kept = pairs
            .into_iter()
            .filter(|(name, value)| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0'));
        let mut kept: BTreeMap<String, String> =
            kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        complete_path(&mut kept);
        Self(kept)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    #[must_use]
    pub fn with_all(mut self, more: impl IntoIterator<Item = (String, String)>) -> Self {
        self.0.extend(more);
        self
    }

    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the variables that a shell cannot hold and therefore cannot write into its snapshot.
    pub(crate) fn invalid_shell_names(&self) -> Vec<(String, String)> {
        let speakable = |name: &str| {
            name.chars()
                .enumerate()
                .all(|(at, c)| c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit())
        };
        self.0
            .iter()
            .filter(|(name, _)| !speakable(name) && !name.starts_with("BASH_FUNC_"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// Shows only the number of variables, because their values may be private.
impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Variables({})", self.0.len())
    }
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Adds the usual folders where they are missing; each folder is named once, at its first position.
fn complete_path(variables: &mut BTreeMap<String, String>) {
    let path = variables.entry("PATH".to_owned()).or_default();
    let mut seen = BTreeSet::new();
    *path = path.split(':').filter(|folder| seen.insert(*folder)).collect::<Vec<_>>().join(":");
    if path.split(':').any(|folder| folder == "/usr/bin") {
        return;
    }
    let known: BTreeSet<&str> = path.split(':').collect();
    let missing: Vec<&str> = USUAL_PATH.split(':').filter(|folder| !known.contains(folder)).collect();
    let joined = missing.join(":");
    if path.is_empty() {
        *path = joined;
    } else if !joined.is_empty() {
        *path = format!("{path}:{joined}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &[(&str, &str)], passed: &[&str], name: &str, value: Option<&str>) {
        let passed: Vec<String> = passed.iter().map(|&name| name.to_owned()).collect();
        let variables = Variables::for_commands(base.iter().copied(), &passed, &["OURS".to_owned()]);
        assert_eq!(variables.get(name), value, "{base:?}");
    }

    #[test]
    fn secrets_stay_and_the_rest_passes() {
        check(&[("OPENAI_API_KEY", "k")], &[], "OPENAI_API_KEY", None);
        check(&[("TWILIO_ANYTHING", "k")], &[], "TWILIO_ANYTHING", None);
        check(&[("OURS", "k")], &[], "OURS", None);
        check(&[("AWS_PROFILE", "p")], &[], "AWS_PROFILE", Some("p"));
        check(&[("GITHUB_TOKEN", "t")], &["GITHUB_TOKEN"], "GITHUB_TOKEN", Some("t"));
        check(&[("_HERMES_FORCE_HF_TOKEN", "t"), ("HF_TOKEN", "u")], &[], "HF_TOKEN", Some("t"));
        check(&[("_HERMES_FORCE_HF_TOKEN", "t")], &[], "_HERMES_FORCE_HF_TOKEN", None);
        check(&[("BAD\0NAME", "t"), ("GOOD", "a\0b")], &[], "GOOD", None);
    }

    #[test]
    fn a_script_gets_what_is_on_its_list_and_no_more() {
        for (name, passes) in [
            ("HOME", true),
            ("LC_ALL", true),
            ("PATHEXT", true),
            ("VIRTUAL_ENV", true),
            ("HERMES_HOME", true),
            ("HERMES_TIMEZONE", false),
            ("MONKEY_PATH", false),
            ("XDG_API_KEY", false),
            ("TERM_token", false),
            ("AWS_PROFILE", false),
            ("SECRET_PASSED", true),
            ("OPENAI_API_KEY", false),
        ] {
            let variables = Variables::for_scripts([(name, "v")], &["SECRET_PASSED".to_owned()]);
            assert_eq!(variables.get(name), passes.then_some("v"), "{name}");
        }
    }

    #[test]
    fn the_path_is_completed_once() {
        check(&[("PATH", "/x:/usr/bin")], &[], "PATH", Some("/x:/usr/bin"));
        check(&[("PATH", "/x:/usr/bin:/x:/y:/usr/bin")], &[], "PATH", Some("/x:/usr/bin:/y"));
        check(&[], &[], "PATH", Some(USUAL_PATH));
        let rest = "/x:/bin:/opt/homebrew/bin:/opt/homebrew/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin";
        check(&[("PATH", "/x:/bin")], &[], "PATH", Some(rest));
    }

    #[test]
    fn names_a_shell_cannot_hold_are_known() {
        let variables = Variables::for_commands([("a.b", "1"), ("A_1", "2"), ("1A", "3")], &[], &[]);
        let names: Vec<String> = variables.invalid_shell_names().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["1A", "a.b"]);
    }
}
