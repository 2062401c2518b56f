//! Well-known MCP servers, so that nobody has to look up how they are started.
// table: exempt from the length limit

/// How a server of the catalog is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogTransport {
    /// A program. `argument` names what the user has to add, if anything.
    Program { command: &'static str, args: &'static [&'static str], argument: Option<&'static str> },
    /// An address.
    Address { url: &'static str, auth: CatalogAuth },
}

/// How a server recognizes its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogAuth {
    /// It does not.
    Open,
    /// By a sign-in in the browser.
    OAuth,
    /// By a key in a header.
    Key,
}

/// A well-known server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogServer {
    pub name: &'static str,
    pub description: &'static str,
    pub transport: CatalogTransport,
}

const fn node(
    name: &'static str,
    package: &'static [&'static str],
    description: &'static str,
) -> CatalogServer {
    let transport = CatalogTransport::Program { command: "npx", args: package, argument: None };
    CatalogServer { name, description, transport }
}

const fn python(
    name: &'static str,
    package: &'static [&'static str],
    description: &'static str,
) -> CatalogServer {
    let transport = CatalogTransport::Program { command: "uvx", args: package, argument: None };
    CatalogServer { name, description, transport }
}

const fn address(
    name: &'static str,
    url: &'static str,
    auth: CatalogAuth,
    description: &'static str,
) -> CatalogServer {
    CatalogServer { name, description, transport: CatalogTransport::Address { url, auth } }
}

/// All servers of the catalog, by name.
#[rustfmt::skip]
pub const CATALOG: &[CatalogServer] = &[
    address("cloudflare-docs", "https://docs.mcp.cloudflare.com/mcp", CatalogAuth::Open, "Documentation of Cloudflare"),
    address("context7", "https://mcp.context7.com/mcp", CatalogAuth::Open, "Documentation of programming libraries"),
    address("deepwiki", "https://mcp.deepwiki.com/mcp", CatalogAuth::Open, "Questions about public repositories"),
    python("fetch", &["mcp-server-fetch"], "Web pages as text"),
    CatalogServer {
        name: "filesystem",
        description: "Files of one folder",
        transport: CatalogTransport::Program {
            command: "npx",
            args: &["-y", "@modelcontextprotocol/server-filesystem"],
            argument: Some("FOLDER"),
        },
    },
    python("git", &["mcp-server-git"], "Git repositories"),
    address("github", "https://api.githubcopilot.com/mcp/", CatalogAuth::Key, "Repositories, issues and pull requests of GitHub"),
    address("hugging-face", "https://huggingface.co/mcp", CatalogAuth::OAuth, "Models, datasets and papers of Hugging Face"),
    address("linear", "https://mcp.linear.app/mcp", CatalogAuth::OAuth, "Issues and projects of Linear"),
    node("memory", &["-y", "@modelcontextprotocol/server-memory"], "A graph of facts that is kept"),
    address("notion", "https://mcp.notion.com/mcp", CatalogAuth::OAuth, "Pages and databases of Notion"),
    node("playwright", &["-y", "@playwright/mcp@latest"], "A browser"),
    address("sentry", "https://mcp.sentry.dev/mcp", CatalogAuth::OAuth, "Errors and issues of Sentry"),
    node("sequential-thinking", &["-y", "@modelcontextprotocol/server-sequential-thinking"], "Thinking in numbered steps"),
    python("time", &["mcp-server-time"], "Times and time zones"),
];

impl CatalogServer {
    /// Finds a server by its name.
    pub fn find(name: &str) -> Option<&'static Self> {
        CATALOG.iter().find(|server| server.name == name)
    }

    /// Tells whether a text is in the name or the description.
    pub fn matches(&self, query: &str) -> bool {
        let query = query.to_lowercase();
        self.name.contains(&query) || self.description.to_lowercase().contains(&query)
    }

    /// Describes what the server needs on this machine or from the user.
    pub fn needs(&self) -> &'static str {
        match self.transport {
            CatalogTransport::Program { command: "npx", .. } => "Node.js (npx)",
            CatalogTransport::Program { .. } => "uv (uvx)",
            CatalogTransport::Address { auth: CatalogAuth::Open, .. } => "nothing",
            CatalogTransport::Address { auth: CatalogAuth::OAuth, .. } => "a sign-in",
            CatalogTransport::Address { auth: CatalogAuth::Key, .. } => "a key",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        let names: Vec<&str> = CATALOG.iter().map(|server| server.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
    }
}
