//! The catalogue skills.sh: it lists skills of repositories, whose files come from GitHub.

use hermes_guard::SkillTrust;
use serde_json::Value;

use super::text_of;
use crate::Error;
use crate::http::{HubClient, encoded_value};
use crate::identifier::{SkillRegistry, plain_path};
use crate::search::HubListing;

const MAX_PAGE: usize = 4 * 1024 * 1024;

/// The catalogue.
pub(super) struct CatalogueRegistry<'a>(pub(super) &'a HubClient);

impl CatalogueRegistry<'_> {
    pub(super) async fn list(&self, query: &str, limit: usize) -> Result<Vec<HubListing>, Error> {
        let base = &self.0.addresses.skills_sh;
        if query.trim().is_empty() {
            let page = self.0.fetch(&format!("{base}/"), MAX_PAGE).await?.unwrap_or_default();
            let mut listings = links(&String::from_utf8_lossy(&page));
            listings.truncate(limit);
            return Ok(listings);
        }
        let url = format!("{base}/api/search?q={}&limit={limit}", encoded_value(query.trim()));
        let answer = self.0.fetch_json(&url).await?.unwrap_or_default();
        let rows = answer.get("skills").or_else(|| answer.get("results")).and_then(Value::as_array);
        let listings = rows.into_iter().flatten().filter_map(|row| {
            let id = match text_of(row, &["id"]) {
                id if id.split('/').count() >= 3 => id.to_owned(),
                _ => format!("{}/{}", text_of(row, &["source"]), text_of(row, &["skillId", "name"])),
            };
            let mut listing = listing(&id, text_of(row, &["description"]))?;
            listing.installs = row.get("installs").and_then(Value::as_u64);
            Some(listing)
        });
        Ok(listings.take(limit).collect())
    }
}

/// Finds the links to skills of a page.
fn links(page: &str) -> Vec<HubListing> {
    let mut listings: Vec<HubListing> = Vec::new();
    for part in page.split("href=\"/").skip(1) {
        let Some((path, _)) = part.split_once('"') else { continue };
        if path.split('/').count() == 3
            && let Some(listing) = listing(path, "")
            && !listings.iter().any(|known| known.identifier == listing.identifier)
        {
            listings.push(listing);
        }
    }
    listings
}

fn listing(id: &str, description: &str) -> Option<HubListing> {
    let path = plain_path(id).filter(|path| path.split('/').count() >= 3)?;
    let identifier = format!("skills-sh/{path}");
    Some(HubListing {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        description: description.to_owned(),
        source: SkillRegistry::SkillsSh,
        trust: SkillTrust::of(&identifier),
        identifier,
        installs: None,
    })
}
