//! The registries: each one fetches a skill by its address and lists what it has.

mod clawhub;
mod github;
mod lobehub;
mod local;
mod skills_sh;
mod well_known;

use hermes_guard::SkillTrust;
use hermes_knowledge::TreeFile;
use serde_json::{Map, Value};

use clawhub::ClawhubRegistry;
use github::RepositoryRegistry;
use lobehub::LobehubRegistry;
use local::OptionalSkills;
use skills_sh::CatalogueRegistry;
use well_known::WebRegistry;

use crate::Error;
use crate::http::SkillHub;
use crate::identifier::{SkillAddress, SkillRegistry};
use crate::search::HubListing;

/// The most a skill may have and be.
pub(crate) const MAX_FILES: usize = 300;
pub(crate) const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
pub(crate) const MAX_SKILL_BYTES: usize = 24 * 1024 * 1024;
const MAX_PATH: usize = 240;
const MAX_DEPTH: usize = 8;

/// A skill as a registry sent it.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchedSkill {
    pub name: String,
    pub source: SkillRegistry,
    pub identifier: String,
    pub trust: SkillTrust,
    /// The files, sorted component by component.
    pub files: Vec<TreeFile>,
    /// What the registry says about it.
    pub metadata: Map<String, Value>,
}

impl FetchedSkill {
    /// Checks what a registry sent, and makes a skill of it.
    pub(crate) fn new(
        name: &str,
        source: SkillRegistry,
        identifier: String,
        files: Vec<TreeFile>,
    ) -> Result<Self, Error> {
        check_name(name)?;
        let files = checked(files)?;
        if !files.iter().any(|file| file.path == "SKILL.md") {
            return Err(Error::Malformed(format!("'{identifier}' has no SKILL.md")));
        }
        let trust = match source {
            SkillRegistry::Official => SkillTrust::Builtin,
            SkillRegistry::SkillsSh | SkillRegistry::Github | SkillRegistry::ClaudeMarketplace => {
                SkillTrust::of(&identifier)
            }
            _ => SkillTrust::Community,
        };
        Ok(Self { name: name.to_owned(), source, identifier, trust, files, metadata: Map::new() })
    }

    pub(crate) fn with_metadata(mut self, metadata: Map<String, Value>) -> Self {
        self.metadata = metadata;
        self
    }

    /// Returns the text of the skill.
    pub fn text(&self) -> String {
        let file = self.files.iter().find(|file| file.path == "SKILL.md");
        file.map(|file| String::from_utf8_lossy(&file.bytes).into_owned()).unwrap_or_default()
    }
}

/// Checks and sorts files.
pub(crate) fn checked(mut files: Vec<TreeFile>) -> Result<Vec<TreeFile>, Error> {
    let mut total = 0;
    for file in &files {
        check_path(&file.path)?;
        total += file.bytes.len();
        if file.bytes.len() > MAX_FILE_BYTES || total > MAX_SKILL_BYTES || files.len() > MAX_FILES {
            return Err(Error::Malformed("it is too large for a skill".to_owned()));
        }
    }
    files.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

/// Checks the name of a skill that is installed: one plain component of a path.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Error::Malformed(format!("'{name}' is not a name for a skill")));
    }
    Ok(())
}

/// Checks the path of a file of a skill: relative, without a way out of the folder.
pub(crate) fn check_path(path: &str) -> Result<(), Error> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != ".." && part != ".git";
    let has_drive = path.as_bytes().get(1) == Some(&b':');
    let fits = path.len() <= MAX_PATH && path.split('/').count() <= MAX_DEPTH;
    if path.contains(['\\', '\0', '\n']) || has_drive || !fits || !path.split('/').all(is_plain) {
        return Err(Error::Malformed(format!("'{}' is not a path inside a skill", path.escape_default())));
    }
    Ok(())
}

impl SkillHub {
    /// Fetches a skill from the registry that its identifier names. `None` if it is not there.
    pub(crate) async fn fetch_address(
        &self,
        given: &str,
        name: Option<&str>,
    ) -> Result<Option<FetchedSkill>, Error> {
        let client = &self.client;
        match SkillAddress::parse(given)? {
            SkillAddress::Official { path } => OptionalSkills(&self.optional).fetch(&path),
            SkillAddress::SkillsSh { repository, skill } => {
                RepositoryRegistry(client).fetch_from_catalogue(&repository, &skill).await
            }
            SkillAddress::WellKnown { site, name } => WebRegistry(client).fetch(&site, name.as_deref()).await,
            SkillAddress::Repository { repository, path } => {
                RepositoryRegistry(client).fetch(&repository, &path, SkillRegistry::Github).await
            }
            SkillAddress::Clawhub { slug } | SkillAddress::Name(slug) => {
                ClawhubRegistry(client).fetch(&slug).await
            }
            SkillAddress::Lobehub { id } => LobehubRegistry(client).fetch(&id).await,
            SkillAddress::Url(url) => WebRegistry(client).fetch_url(&url, name).await,
            SkillAddress::Local(path) => local::fetch_local(&path, name),
        }
    }

    /// Lists what a registry has for a query; an empty one lists all, as far as it can.
    pub(crate) async fn list_registry(
        &self,
        registry: SkillRegistry,
        query: &str,
        limit: usize,
    ) -> Result<Vec<HubListing>, Error> {
        let client = &self.client;
        match registry {
            SkillRegistry::Official => OptionalSkills(&self.optional).list(query, limit),
            SkillRegistry::SkillsSh => CatalogueRegistry(client).list(query, limit).await,
            SkillRegistry::WellKnown => WebRegistry(client).list(query, limit).await,
            SkillRegistry::Github => RepositoryRegistry(client).list(query, limit).await,
            SkillRegistry::Clawhub => ClawhubRegistry(client).list(query, limit).await,
            SkillRegistry::ClaudeMarketplace => {
                RepositoryRegistry(client).list_marketplaces(query, limit).await
            }
            SkillRegistry::Lobehub => LobehubRegistry(client).list(query, limit).await,
            SkillRegistry::Url | SkillRegistry::Local => Ok(Vec::new()),
        }
    }
}

/// Tells whether a query occurs in any of the texts.
pub(crate) fn matches(query: &str, texts: &[&str]) -> bool {
    let query = query.trim().to_lowercase();
    query.split_whitespace().all(|word| texts.iter().any(|text| text.to_lowercase().contains(word)))
}

pub(crate) fn text_of<'a>(value: &'a Value, keys: &[&str]) -> &'a str {
    keys.iter().find_map(|key| value.get(key).and_then(Value::as_str)).unwrap_or_default()
}
