//! The flags of `hermes env`, whose names contain a section.

use std::path::PathBuf;

use super::settings::FlagValue;
use crate::error::Error;

/// The flags after the mode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentFlags {
    pub config: Option<PathBuf>,
    pub env: Vec<(String, FlagValue)>,
    pub servers: Vec<(String, FlagValue)>,
}

impl EnvironmentFlags {
    /// Reads flags: `--name=value`, `--name value`, or `--name` for true. What begins with `-` is never a value after a space.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let mut flags = Self::default();
        let mut waiting = words.iter().peekable();
        while let Some(word) = waiting.next() {
            let unusable = |why: &str| Error::Unusable(format!("`{word}` {why}"));
            let name = word.strip_prefix("--").ok_or_else(|| unusable("is not a flag"))?;
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, FlagValue::Text(value.to_owned())),
                None => match waiting.next_if(|next| !next.starts_with('-')) {
                    Some(value) => (name, FlagValue::Text(value.clone())),
                    None => (name, FlagValue::Bare),
                },
            };
            // The rest of a name may be written with `-` for `_`.
            if let Some(key) = name.strip_prefix("env.").filter(|key| !key.is_empty()) {
                flags.env.push((key.replace('-', "_"), value));
            } else if let Some(key) = name.strip_prefix("openai.").filter(|key| !key.is_empty()) {
                flags.servers.push((key.replace('-', "_"), value));
            } else if name == "config" {
                let FlagValue::Text(path) = value else { return Err(unusable("needs the name of a file")) };
                flags.config = Some(PathBuf::from(path));
            } else {
                return Err(unusable("is unknown; flags are --env.KEY, --openai.KEY and --config"));
            }
        }
        Ok(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<EnvironmentFlags, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        EnvironmentFlags::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_have_three_forms() {
        let flags =
            parse("--env.group_size 2 --env.inference_weight -1 --openai.health-check=false --config a.yaml");
        // A negative number after a space is a flag of its own, which is none.
        assert_eq!(flags.unwrap_err(), "`-1` is not a flag");
        let flags = parse("--env.a=-1 --env.use_wandb --env.b x --openai.c=None --config a.yaml").unwrap();
        let text = |text: &str| FlagValue::Text(text.to_owned());
        let expected = [("a", text("-1")), ("use_wandb", FlagValue::Bare), ("b", text("x"))];
        assert_eq!(flags.env, expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(flags.servers, [("c".to_owned(), text("None"))]);
        assert_eq!(flags.config, Some(PathBuf::from("a.yaml")));
        for (line, words) in [
            ("--other=1", "is unknown"),
            ("word", "is not a flag"),
            ("--env.=1", "is unknown"),
            ("--config", "needs the name"),
        ] {
            assert!(parse(line).unwrap_err().contains(words), "{line}");
        }
    }
}
