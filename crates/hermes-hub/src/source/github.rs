//! Skills in repositories: by their path, in the taps, and in the marketplaces of another agent.

use futures_util::StreamExt as _;
use futures_util::stream;
use hermes_guard::SkillTrust;
use hermes_knowledge::{TreeFile, skill_header};
use serde_json::{Map, Value, json};

use super::{FetchedSkill, MAX_FILES, matches, text_of};
use crate::Error;
use crate::http::{HubClient, encoded};
use crate::identifier::{SkillRegistry, plain_path};
use crate::search::HubListing;

const MARKETPLACES: [&str; 2] = ["anthropics/skills", "aiskillstore/marketplace"];
const MARKETPLACE_FILE: &str = ".claude-plugin/marketplace.json";
/// Files of a repository that are fetched at once.
const PARALLEL: usize = 6;
/// The most `SKILL.md` that are read to find one by its own name, or to list a tap.
const MAX_READ: usize = 100;
const SYMLINK: &str = "120000";
const EXECUTABLE: &str = "100755";

/// The paths of a repository.
#[derive(Debug, Clone)]
struct RepositoryTree {
    entries: Vec<TreeEntry>,
}

#[derive(Debug, Clone)]
struct TreeEntry {
    path: String,
    mode: String,
}

impl RepositoryTree {
    fn parse(value: &Value) -> Self {
        let entries = value.get("tree").and_then(Value::as_array).into_iter().flatten();
        let entries = entries
            .filter(|entry| text_of(entry, &["type"]) != "tree")
            .map(|entry| TreeEntry {
                path: text_of(entry, &["path"]).to_owned(),
                mode: text_of(entry, &["mode"]).to_owned(),
            })
            .collect();
        Self { entries }
    }

    /// Returns the folders that hold a skill.
    fn skill_folders(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| match entry.path.as_str() {
            "SKILL.md" => Some(""),
            path => path.strip_suffix("/SKILL.md"),
        })
    }

    fn has_skill(&self, folder: &str) -> bool {
        self.skill_folders().any(|known| known == folder)
    }

    /// Returns the entries below a folder, without those of other skills in it.
    fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a TreeEntry, &'a str)> {
        self.entries.iter().filter_map(move |entry| {
            let path = match folder {
                "" => Some(entry.path.as_str()),
                folder => entry.path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
            };
            path.map(|path| (entry, path))
        })
    }
}

/// Skills in repositories of GitHub.
pub(super) struct RepositoryRegistry<'a>(pub(super) &'a HubClient);

impl RepositoryRegistry<'_> {
    /// Fetches a skill by its path in a repository.
    pub(super) async fn fetch(
        &self,
        repository: &str,
        path: &str,
        source: SkillRegistry,
    ) -> Result<Option<FetchedSkill>, Error> {
        let Some(tree) = self.repository_tree(repository).await? else { return Ok(None) };
        let folder = path.trim_end_matches("SKILL.md").trim_end_matches('/');
        if !tree.has_skill(folder) {
            return Ok(None);
        }
        self.fetch_folder(repository, &tree, folder, source, None).await.map(Some)
    }

    /// Fetches a skill that the catalogue lists: by its usual places, its folder or its own name.
    pub(super) async fn fetch_from_catalogue(
        &self,
        repository: &str,
        skill: &str,
    ) -> Result<Option<FetchedSkill>, Error> {
        let Some(tree) = self.repository_tree(repository).await? else { return Ok(None) };
        let identifier = format!("skills-sh/{repository}/{skill}");
        let usual =
            ["", "skills/", ".agents/skills/", ".claude/skills/"].map(|place| format!("{place}{skill}"));
        let last = |folder: &str| folder.rsplit('/').next().unwrap_or_default().to_owned();
        let wanted = last(skill);
        let found = usual
            .iter()
            .find(|folder| tree.has_skill(folder))
            .cloned()
            .or_else(|| tree.skill_folders().find(|folder| last(folder) == wanted).map(str::to_owned));
        let folder = match found {
            Some(folder) => Some(folder),
            None => self.find_by_own_name(repository, &tree, &wanted).await?,
        };
        let Some(folder) = folder else { return Ok(None) };
        self.fetch_folder(repository, &tree, &folder, SkillRegistry::SkillsSh, Some(identifier))
            .await
            .map(Some)
    }

    async fn find_by_own_name(
        &self,
        repository: &str,
        tree: &RepositoryTree,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let folders: Vec<String> = tree.skill_folders().take(MAX_READ).map(str::to_owned).collect();
        for (folder, own_name, _) in self.headers(repository, folders).await? {
            if own_name == name {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    /// Reads the front matter of the skills in folders: folder, own name, description.
    async fn headers(
        &self,
        repository: &str,
        folders: Vec<String>,
    ) -> Result<Vec<(String, String, String)>, Error> {
        let read = stream::iter(folders).map(|folder| async move {
            let path = if folder.is_empty() { "SKILL.md".to_owned() } else { format!("{folder}/SKILL.md") };
            let bytes = self.0.github_file(repository, &path).await?.unwrap_or_default();
            let (name, description) = skill_header(&String::from_utf8_lossy(&bytes));
            Ok((folder, name.unwrap_or_default(), description.unwrap_or_default()))
        });
        let read: Vec<Result<_, Error>> = read.buffered(PARALLEL).collect().await;
        read.into_iter().collect()
    }

    async fn fetch_folder(
        &self,
        repository: &str,
        tree: &RepositoryTree,
        folder: &str,
        source: SkillRegistry,
        identifier: Option<String>,
    ) -> Result<FetchedSkill, Error> {
        let mut wanted = Vec::new();
        for (entry, path) in tree.below(folder) {
            super::check_path(path)?;
            if entry.mode == SYMLINK || !entry.mode.starts_with("100") {
                return Err(Error::Malformed(format!("'{}' in {repository} is a link", entry.path)));
            }
            wanted.push((entry.path.clone(), path.to_owned(), entry.mode == EXECUTABLE));
        }
        if wanted.len() > MAX_FILES {
            return Err(Error::Malformed(format!(
                "{repository}/{folder} has {} files; {MAX_FILES} at most",
                wanted.len()
            )));
        }
        let fetched = stream::iter(wanted).map(|(from, path, executable)| async move {
            let bytes = self.0.github_file(repository, &from).await?;
            let bytes = bytes.ok_or_else(|| Error::NotFound(format!("{repository}/{from}")))?;
            Ok::<_, Error>(TreeFile { path, bytes, executable })
        });
        let files: Vec<Result<TreeFile, Error>> = fetched.buffered(PARALLEL).collect().await;
        let files = files.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let place = if folder.is_empty() { repository.to_owned() } else { format!("{repository}/{folder}") };
        let name = place.rsplit('/').next().unwrap_or_default().to_owned();
        let mut metadata = Map::new();
        metadata.insert("repo".to_owned(), json!(repository));
        metadata.insert("path".to_owned(), json!(folder));
        metadata.insert("repo_url".to_owned(), json!(format!("https://github.com/{repository}")));
        Ok(FetchedSkill::new(&name, source, identifier.unwrap_or(place), files)?.with_metadata(metadata))
    }

    /// Returns the paths of a repository's default branch.
    async fn repository_tree(&self, repository: &str) -> Result<Option<RepositoryTree>, Error> {
        let Some(about) = self.0.github_json(&format!("/repos/{repository}")).await? else { return Ok(None) };
        let branch = match text_of(&about, &["default_branch"]) {
            "" => "main",
            branch => branch,
        };
        let path = format!("/repos/{repository}/git/trees/{}?recursive=1", encoded(branch));
        let Some(tree) = self.0.github_json(&path).await? else { return Ok(None) };
        if tree.get("truncated").and_then(Value::as_bool) == Some(true) {
            tracing::info!(repository, "GitHub lists only a part of this repository");
        }
        Ok(Some(RepositoryTree::parse(&tree)))
    }

    /// Lists the skills of the taps.
    pub(super) async fn list(&self, query: &str, limit: usize) -> Result<Vec<HubListing>, Error> {
        let mut listings = Vec::new();
        for tap in self.0.state.all_taps() {
            let Some(tree) = self.repository_tree(&tap.repository).await? else { continue };
            let base = tap.path.trim_matches('/');
            let is_direct = |folder: &&str| {
                let name = match base {
                    "" => Some(*folder),
                    base => folder.strip_prefix(base).and_then(|rest| rest.strip_prefix('/')),
                };
                name.is_some_and(|name| {
                    !name.is_empty() && !name.contains('/') && !name.starts_with(['.', '_'])
                })
            };
            let folders: Vec<String> =
                tree.skill_folders().filter(is_direct).take(MAX_READ).map(str::to_owned).collect();
            for listing in self.tap_listings(&tap.repository, folders).await? {
                if matches(query, &[&listing.name, &listing.description, &listing.identifier]) {
                    listings.push(listing);
                }
            }
            if listings.len() >= limit {
                break;
            }
        }
        listings.truncate(limit);
        Ok(listings)
    }

    /// Returns what a tap has, as it was read within the last hour or is now.
    async fn tap_listings(&self, repository: &str, folders: Vec<String>) -> Result<Vec<HubListing>, Error> {
        let key = format!("tap:{repository}:{}", folders.join(","));
        let known = self.0.kept(&key).and_then(|kept| kept.as_array().cloned());
        let rows = if let Some(rows) = known {
            rows
        } else {
            let headers = self.headers(repository, folders).await?;
            let rows: Vec<Value> = headers
                    .into_iter()
                    .map(|(folder, name, description)| json!({"folder": folder, "name": name, "description": description}))
                    .collect();
            self.0.keep(&key, &json!(rows));
            rows
        };
        Ok(rows
            .iter()
            .map(|row| {
                let folder = text_of(row, &["folder"]);
                let identifier = format!("{repository}/{folder}");
                HubListing {
                    name: folder.rsplit('/').next().unwrap_or_default().to_owned(),
                    description: text_of(row, &["description"]).to_owned(),
                    source: SkillRegistry::Github,
                    trust: SkillTrust::of(&identifier),
                    identifier,
                    installs: None,
                }
            })
            .collect())
    }

    /// Lists the skills that marketplace files name.
    pub(super) async fn list_marketplaces(
        &self,
        query: &str,
        limit: usize,
    ) -> Result<Vec<HubListing>, Error> {
        let mut listings: Vec<HubListing> = Vec::new();
        for repository in MARKETPLACES {
            let Some(bytes) = self.0.github_file(repository, MARKETPLACE_FILE).await? else { continue };
            let file: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            for plugin in file.get("plugins").and_then(Value::as_array).into_iter().flatten() {
                let about = text_of(plugin, &["description"]);
                let named = plugin.get("skills").and_then(Value::as_array).into_iter().flatten();
                let mut paths: Vec<&str> = named.filter_map(Value::as_str).collect();
                paths.extend(plugin.get("source").and_then(Value::as_str).filter(|_| paths.is_empty()));
                for path in paths.into_iter().filter_map(plain_path) {
                    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                    let identifier = format!("{repository}/{path}");
                    if matches(query, &[&name, about, text_of(plugin, &["name"])])
                        && !listings.iter().any(|known| known.identifier == identifier)
                    {
                        listings.push(HubListing {
                            name,
                            description: about.to_owned(),
                            source: SkillRegistry::ClaudeMarketplace,
                            trust: SkillTrust::of(&identifier),
                            identifier,
                            installs: None,
                        });
                    }
                }
            }
        }
        listings.truncate(limit);
        Ok(listings)
    }
}
