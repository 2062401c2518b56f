//! The names under which a server's tools are offered.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The longest name that all model providers accept.
const LONGEST: usize = 64;
/// The characters of the hash that makes a shortened name unique.
const HASH: usize = 8;

/// The separator between the parts of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNameStyle {
    /// `mcp_server_tool`
    #[default]
    SingleUnderscore,
    /// `mcp__server__tool`
    DoubleUnderscore,
}

impl ToolNameStyle {
    /// Returns the name of a server's tool for the model.
    pub(crate) fn tool_name(self, server: &str, tool: &str) -> String {
        let separator = match self {
            Self::SingleUnderscore => "_",
            Self::DoubleUnderscore => "__",
        };
        let name = format!("mcp{separator}{}{separator}{}", plain(server), plain(tool));
        if name.len() <= LONGEST {
            return name;
        }
        let hash = HEXLOWER.encode(&Sha256::digest(name.as_bytes()));
        // All characters are ASCII here.
        let head: String = name.chars().take(LONGEST - HASH - 1).collect();
        format!("{head}_{}", hash.chars().take(HASH).collect::<String>())
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::SingleUnderscore => Self::DoubleUnderscore,
            Self::DoubleUnderscore => Self::SingleUnderscore,
        }
    }
}

/// Returns the toolset of a server's tools.
pub fn toolset_name(server: &str) -> String {
    format!("mcp-{server}")
}

fn plain(part: &str) -> String {
    part.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_only_letters_digits_and_underscores() {
        let single = ToolNameStyle::SingleUnderscore;
        for (server, tool, wanted) in [
            ("github", "create_issue", "mcp_github_create_issue"),
            ("my-server.v2", "list.items", "mcp_my_server_v2_list_items"),
            ("é", "a b/c", "mcp___a_b_c"),
        ] {
            assert_eq!(single.tool_name(server, tool), wanted);
        }
        assert_eq!(single.other().tool_name("a-b", "c"), "mcp__a_b__c");
    }

    #[test]
    fn a_long_name_is_shortened_and_stays_unique() {
        let (one, two) = (format!("{}1", "x".repeat(90)), format!("{}2", "x".repeat(90)));
        let names = [&one, &two].map(|tool| ToolNameStyle::SingleUnderscore.tool_name("server", tool));
        assert!(names.iter().all(|name| name.len() == LONGEST), "{names:?}");
        assert_ne!(names[0], names[1]);
    }
}
