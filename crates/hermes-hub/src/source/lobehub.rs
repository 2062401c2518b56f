//! The agents of LobeHub, each turned into a skill.

use hermes_guard::SkillTrust;
use hermes_knowledge::TreeFile;
use serde_json::Value;

use super::{FetchedSkill, matches, text_of};
use crate::Error;
use crate::http::{HubClient, encoded};
use crate::identifier::SkillRegistry;
use crate::search::HubListing;

const MAX_DESCRIPTION: usize = 1_000;

/// The registry.
pub(super) struct LobehubRegistry<'a>(pub(super) &'a HubClient);

impl LobehubRegistry<'_> {
    pub(super) async fn fetch(&self, id: &str) -> Result<Option<FetchedSkill>, Error> {
        let url = format!("{}/{}.json", self.0.addresses.lobehub, encoded(id));
        let Some(agent) = self.0.fetch_json(&url).await? else { return Ok(None) };
        let empty = Value::Null;
        let (meta, config) = (agent.get("meta").unwrap_or(&empty), agent.get("config").unwrap_or(&empty));
        let role = text_of(config, &["systemRole"]);
        if role.trim().is_empty() {
            return Err(Error::Malformed(format!("'{id}' of LobeHub has no instructions")));
        }
        let title = match text_of(meta, &["title"]) {
            "" => id,
            title => title,
        };
        let about: String = text_of(meta, &["description"]).chars().take(MAX_DESCRIPTION).collect();
        let about = if about.trim().is_empty() { title.to_owned() } else { about };
        // JSON texts are YAML texts, too.
        let text = format!(
            "---\nname: {}\ndescription: {}\n---\n# {title}\n\n{}\n",
            Value::from(id),
            Value::from(about),
            role.trim()
        );
        let file = TreeFile { path: "SKILL.md".to_owned(), bytes: text.into_bytes(), executable: false };
        FetchedSkill::new(id, SkillRegistry::Lobehub, format!("lobehub/{id}"), vec![file]).map(Some)
    }

    pub(super) async fn list(&self, query: &str, limit: usize) -> Result<Vec<HubListing>, Error> {
        let index =
            self.0.fetch_json(&format!("{}/index.json", self.0.addresses.lobehub)).await?.unwrap_or_default();
        let agents = index.get("agents").or(Some(&index)).and_then(Value::as_array);
        let listings = agents.into_iter().flatten().filter_map(|agent| {
            let id = Some(text_of(agent, &["identifier"])).filter(|id| super::check_name(id).is_ok())?;
            let meta = agent.get("meta").unwrap_or(agent);
            let (title, about) = (text_of(meta, &["title"]), text_of(meta, &["description"]));
            matches(query, &[id, title, about]).then(|| HubListing {
                name: id.to_owned(),
                description: about.to_owned(),
                source: SkillRegistry::Lobehub,
                trust: SkillTrust::Community,
                identifier: format!("lobehub/{id}"),
                installs: None,
            })
        });
        Ok(listings.take(limit).collect())
    }
}
