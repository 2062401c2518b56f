//! Skills that a web site offers at `/.well-known/skills/`, and single `SKILL.md` files of the web.

use hermes_guard::SkillTrust;
use hermes_knowledge::{TreeFile, skill_header};
use serde_json::Value;

use super::{FetchedSkill, MAX_FILE_BYTES, MAX_FILES, check_name, check_path, matches, text_of};
use crate::Error;
use crate::http::{HubClient, encoded};
use crate::identifier::{SkillAddress, SkillRegistry};
use crate::search::HubListing;

/// Skills of web sites.
pub(super) struct WebRegistry<'a>(pub(super) &'a HubClient);

impl WebRegistry<'_> {
    pub(super) async fn fetch(&self, site: &str, name: Option<&str>) -> Result<Option<FetchedSkill>, Error> {
        let entries = self.well_known_index(site).await?;
        let entry = match name {
            Some(name) => entries.iter().find(|entry| text_of(entry, &["name"]) == name),
            None if entries.len() == 1 => entries.first(),
            None if entries.is_empty() => None,
            None => {
                let names: Vec<&str> = entries.iter().map(|entry| text_of(entry, &["name"])).collect();
                return Err(Error::Invalid(format!(
                    "{site} offers several skills: {}. Name one: well-known:{site}/NAME",
                    names.join(", ")
                )));
            }
        };
        let Some(entry) = entry else { return Ok(None) };
        let name = text_of(entry, &["name"]);
        check_name(name)?;
        let listed = entry.get("files").and_then(Value::as_array).into_iter().flatten();
        let mut paths: Vec<String> = listed.filter_map(|path| path.as_str().map(str::to_owned)).collect();
        if paths.is_empty() {
            paths.push("SKILL.md".to_owned());
        }
        if paths.len() > MAX_FILES {
            return Err(Error::Malformed(format!("'{name}' has {} files; {MAX_FILES} at most", paths.len())));
        }
        let mut files = Vec::new();
        for path in paths {
            check_path(&path)?;
            let url = format!("{site}/.well-known/skills/{}/{}", encoded(name), encoded(&path));
            let bytes = self.0.fetch(&url, MAX_FILE_BYTES).await?.ok_or(Error::NotFound(url))?;
            files.push(TreeFile { path, bytes, executable: false });
        }
        let identifier = format!("well-known:{site}/{name}");
        FetchedSkill::new(name, SkillRegistry::WellKnown, identifier, files).map(Some)
    }

    /// Lists what a site offers. The query is the site.
    pub(super) async fn list(&self, query: &str, limit: usize) -> Result<Vec<HubListing>, Error> {
        let Ok(SkillAddress::WellKnown { site, .. }) = SkillAddress::parse(query) else {
            return Ok(Vec::new());
        };
        let entries = self.well_known_index(&site).await?;
        let listings =
            entries.iter().filter(|entry| matches("", &[text_of(entry, &["name"])])).map(|entry| {
                let name = text_of(entry, &["name"]).to_owned();
                HubListing {
                    description: text_of(entry, &["description"]).to_owned(),
                    source: SkillRegistry::WellKnown,
                    trust: SkillTrust::Community,
                    identifier: format!("well-known:{site}/{name}"),
                    installs: None,
                    name,
                }
            });
        Ok(listings.take(limit).collect())
    }

    async fn well_known_index(&self, site: &str) -> Result<Vec<Value>, Error> {
        let index =
            self.0.fetch_json(&format!("{site}/.well-known/skills/index.json")).await?.unwrap_or_default();
        Ok(index.get("skills").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Fetches one file as a skill.
    pub(super) async fn fetch_url(
        &self,
        url: &str,
        name: Option<&str>,
    ) -> Result<Option<FetchedSkill>, Error> {
        let Some(bytes) = self.0.fetch(url, MAX_FILE_BYTES).await? else { return Ok(None) };
        let (own_name, _) = skill_header(&String::from_utf8_lossy(&bytes));
        let path = url.split(['?', '#']).next().unwrap_or(url);
        let above = path.rsplit('/').nth(1).filter(|part| !part.contains([':', '.'])).map(str::to_owned);
        let derived = name.map(str::to_owned).or(own_name).or(above);
        let Some(derived) = derived.filter(|name| check_name(name).is_ok()) else {
            return Err(Error::Invalid("the file does not say its name; give one with --name".to_owned()));
        };
        let file = TreeFile { path: "SKILL.md".to_owned(), bytes, executable: false };
        FetchedSkill::new(&derived, SkillRegistry::Url, url.to_owned(), vec![file]).map(Some)
    }
}
