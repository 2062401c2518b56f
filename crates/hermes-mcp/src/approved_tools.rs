//! Which versions of which tools the user approved.
//!
//! What is approved is the description and the schema, as a hash. The tools that a server has when its entry in the
//! configuration is used for the first time are approved with the entry; whatever differs later has to be approved
//! again before the model sees it. Kept in `mcp_approved_tools.json`, shared by the processes of a home.

use std::collections::BTreeMap;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::settings::{McpServer, McpTransport};
use hermes_config::{Home, write};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::foreign_text::{LONGEST_DESCRIPTION, clean, suspicious_passages};

const FILE: &str = "mcp_approved_tools.json";

/// The approvals of a home.
#[derive(Debug, Clone)]
pub struct ApprovedTools {
    path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ApprovalFile {
    #[serde(default)]
    servers: BTreeMap<String, ApprovedServer>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ApprovedServer {
    /// A hash of the program or the address, so that another server under the same name starts anew.
    origin: String,
    #[serde(default)]
    tools: BTreeMap<String, ApprovedVersion>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ApprovedVersion {
    hash: String,
    description: String,
}

/// Says whether a tool may be offered as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolApproval {
    Approved,
    /// The server added it after its tools were approved.
    New,
    Changed {
        before: String,
    },
    /// Its text tries to instruct the model.
    Suspicious {
        passages: Vec<String>,
    },
}

impl ApprovedTools {
    pub fn new(home: &Home) -> Self {
        Self { path: home.join(FILE) }
    }

    /// Judges the tools a server lists. When its entry is used for the first time, all that are not suspicious become
    /// approved.
    pub(crate) fn judge(
        &self,
        server: &McpServer,
        tools: &[rmcp::model::Tool],
    ) -> Result<BTreeMap<String, ToolApproval>, Error> {
        let is_new = self.known(server)?.is_none();
        let judged = self.preview(server, tools)?;
        if is_new {
            let approved =
                |tool: &&rmcp::model::Tool| judged.get(tool.name.as_ref()) == Some(&ToolApproval::Approved);
            let approved: Vec<_> = tools.iter().filter(approved).cloned().collect();
            self.approve(server, &approved)?;
        }
        Ok(judged)
    }

    /// Judges the tools a server lists, and changes nothing.
    pub(crate) fn preview(
        &self,
        server: &McpServer,
        tools: &[rmcp::model::Tool],
    ) -> Result<BTreeMap<String, ToolApproval>, Error> {
        let known = self.known(server)?;
        let judge = |tool: &rmcp::model::Tool| {
            let before = known.as_ref().and_then(|known| known.tools.get(tool.name.as_ref()));
            if before.is_some_and(|version| version.hash == hash_of(tool)) {
                return ToolApproval::Approved;
            }
            let passages = passages_of(tool);
            match before {
                _ if !passages.is_empty() => ToolApproval::Suspicious { passages },
                Some(version) => ToolApproval::Changed { before: version.description.clone() },
                None if known.is_some() => ToolApproval::New,
                None => ToolApproval::Approved,
            }
        };
        Ok(tools.iter().map(|tool| (tool.name.to_string(), judge(tool))).collect())
    }

    /// Returns the approvals of a server, if its entry has been used before.
    fn known(&self, server: &McpServer) -> Result<Option<ApprovedServer>, Error> {
        let origin = origin_of(server);
        Ok(self.read()?.servers.remove(&server.name).filter(|known| known.origin == origin))
    }

    /// Approves the present version of some tools.
    pub(crate) fn approve(&self, server: &McpServer, tools: &[rmcp::model::Tool]) -> Result<(), Error> {
        let origin = origin_of(server);
        self.change(&server.name, |entry| {
            if entry.origin != origin {
                *entry = ApprovedServer { origin, ..ApprovedServer::default() };
            }
            entry.tools.extend(tools.iter().map(version_of));
        })
    }

    /// Removes the approvals of a server that is removed from the configuration.
    pub fn forget(&self, server: &str) -> Result<(), Error> {
        let _lock = self.lock()?;
        let mut file = self.read()?;
        if file.servers.remove(server).is_some() {
            self.write(&file)?;
        }
        Ok(())
    }

    fn change(&self, server: &str, change: impl FnOnce(&mut ApprovedServer)) -> Result<(), Error> {
        let _lock = self.lock()?;
        let mut file = self.read()?;
        change(file.servers.entry(server.to_owned()).or_default());
        self.write(&file)
    }

    fn lock(&self) -> Result<FileLock, Error> {
        FileLock::acquire(&self.path.with_extension("lock"), LockTimeout::SETTINGS).map_err(unusable)
    }

    /// Reads the file. One that cannot be read approves nothing, and is an error: it must not be replaced by one that
    /// approves whatever the servers say now.
    fn read(&self) -> Result<ApprovalFile, Error> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(ApprovalFile::default()),
            Err(error) => return Err(self.unreadable(&error)),
        };
        serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Configuration(format!(
            "{} cannot be read ({error}); repair it, or remove it to approve the tools of all servers anew",
            self.path.display()
        ))
    }

    fn write(&self, file: &ApprovalFile) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(file).map_err(unusable)?;
        write::replace(&self.path, text.as_bytes()).map_err(unusable)
    }
}

fn unusable(error: impl std::fmt::Display) -> Error {
    Error::Configuration(error.to_string())
}

fn version_of(tool: &rmcp::model::Tool) -> (String, ApprovedVersion) {
    (tool.name.to_string(), ApprovedVersion { hash: hash_of(tool), description: description_of(tool) })
}

pub(crate) fn description_of(tool: &rmcp::model::Tool) -> String {
    clean(tool.description.as_deref().unwrap_or_default(), LONGEST_DESCRIPTION)
}

/// Returns the suspicious passages of everything in a tool that the model would read.
fn passages_of(tool: &rmcp::model::Tool) -> Vec<String> {
    let schema = serde_json::to_string(tool.input_schema.as_ref()).unwrap_or_default();
    let mut passages = suspicious_passages(tool.description.as_deref().unwrap_or_default());
    passages.extend(suspicious_passages(&schema));
    passages.sort();
    passages.dedup();
    passages
}

fn hash_of(tool: &rmcp::model::Tool) -> String {
    let schema = sorted(Value::Object(tool.input_schema.as_ref().clone()));
    hash(&[tool.description.as_deref().unwrap_or_default(), &schema.to_string()])
}

fn origin_of(server: &McpServer) -> String {
    match &server.transport {
        McpTransport::Stdio { command, args, .. } => {
            let parts: Vec<&str> = std::iter::once(command).chain(args).map(String::as_str).collect();
            hash(&parts)
        }
        McpTransport::Http { url, .. } => hash(&[url]),
    }
}

/// Hashes texts so that moving a character from one to the next gives another hash.
fn hash(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_le_bytes());
        digest.update(part.as_bytes());
    }
    HEXLOWER.encode(&digest.finalize())
}

/// Sorts the keys of all objects, because some servers list them in another order each time.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields: BTreeMap<String, Value> =
                map.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
