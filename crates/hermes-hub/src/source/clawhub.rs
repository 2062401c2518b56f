//! The registry clawhub.ai, whose skills are archives.

use hermes_guard::SkillTrust;
use serde_json::{Map, Value, json};

use super::{FetchedSkill, MAX_SKILL_BYTES, text_of};
use crate::Error;
use crate::http::{HubClient, encoded, encoded_value};
use crate::identifier::SkillRegistry;
use crate::search::HubListing;
use crate::zip::unpack_zip;

/// Files of this registry that are larger, or not text, are left out.
const MAX_ENTRY: usize = 500 * 1024;

/// The registry.
pub(super) struct ClawhubRegistry<'a>(pub(super) &'a HubClient);

impl ClawhubRegistry<'_> {
    pub(super) async fn fetch(&self, slug: &str) -> Result<Option<FetchedSkill>, Error> {
        let base = &self.0.addresses.clawhub;
        let Some(about) = self.0.fetch_json(&format!("{base}/skills/{}", encoded(slug))).await? else {
            return Ok(None);
        };
        let version = about.get("latestVersion").map(|version| match version {
            Value::String(text) => text.clone(),
            other => text_of(other, &["version"]).to_owned(),
        });
        let version = version.filter(|version| !version.is_empty());
        let query = version.as_deref().map(|version| format!("&version={}", encoded_value(version)));
        let url = format!("{base}/download?slug={}{}", encoded_value(slug), query.unwrap_or_default());
        let Some(archive) = self.0.fetch(&url, MAX_SKILL_BYTES).await? else { return Ok(None) };
        let mut files = unpack_zip(&archive)?;
        files.retain(|file| file.bytes.len() <= MAX_ENTRY && std::str::from_utf8(&file.bytes).is_ok());
        let files = super::local::without_common_folder(files);
        let mut metadata = Map::new();
        metadata.insert("version".to_owned(), json!(version));
        let identifier = format!("clawhub/{slug}");
        Ok(Some(FetchedSkill::new(slug, SkillRegistry::Clawhub, identifier, files)?.with_metadata(metadata)))
    }

    pub(super) async fn list(&self, query: &str, limit: usize) -> Result<Vec<HubListing>, Error> {
        let base = &self.0.addresses.clawhub;
        let url = format!("{base}/skills?search={}&limit={limit}", encoded_value(query.trim()));
        let answer = self.0.fetch_json(&url).await?.unwrap_or_default();
        let rows = answer.get("items").or_else(|| answer.get("skills")).and_then(Value::as_array);
        let listings = rows.into_iter().flatten().filter_map(|row| {
            let slug = Some(text_of(row, &["slug"])).filter(|slug| super::check_name(slug).is_ok())?;
            Some(HubListing {
                name: slug.to_owned(),
                description: text_of(row, &["summary", "description", "displayName"]).to_owned(),
                source: SkillRegistry::Clawhub,
                trust: SkillTrust::Community,
                identifier: format!("clawhub/{slug}"),
                installs: None,
            })
        });
        Ok(listings.take(limit).collect())
    }
}
