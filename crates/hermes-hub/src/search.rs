//! Searches the registries, and finds the skill that a name stands for.

use std::collections::{BTreeMap, HashSet};

use futures_util::future::join_all;
use hermes_guard::SkillTrust;

use crate::Error;
use crate::http::SkillHub;
use crate::identifier::{SkillAddress, SkillRegistry};
use crate::source::FetchedSkill;

const MAX_RESOLVED: usize = 20;
const MAX_SUGGESTIONS: usize = 5;

/// A skill that a registry offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubListing {
    pub name: String,
    pub description: String,
    pub source: SkillRegistry,
    pub trust: SkillTrust,
    pub identifier: String,
    pub installs: Option<u64>,
}

/// What the registries answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubSearch {
    pub listings: Vec<HubListing>,
    /// The number of skills that each registry listed.
    pub counts: BTreeMap<SkillRegistry, usize>,
    /// The registries that could not be asked, with the reason.
    pub failures: Vec<(SkillRegistry, String)>,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameResolution {
    Exact(HubListing),
    Several(Vec<HubListing>),
    /// No skill has the name; these have it in theirs.
    Suggestions(Vec<HubListing>),
    None,
}

impl SkillHub {
    /// Searches one registry or all.
    pub async fn search(&self, query: &str, source: Option<SkillRegistry>, limit: usize) -> HubSearch {
        self.collect(query, source, |_| limit).await.limited(limit)
    }

    /// Lists what the registries have: the program's own first, then by trust and name.
    pub async fn browse(&self, source: Option<SkillRegistry>) -> HubSearch {
        let mut found = self.collect("", source, SkillRegistry::browse_limit).await;
        let mut names = HashSet::new();
        found.listings.retain(|listing| names.insert(listing.name.to_lowercase()));
        found
    }

    async fn collect(
        &self,
        query: &str,
        source: Option<SkillRegistry>,
        limit: impl Fn(SkillRegistry) -> usize,
    ) -> HubSearch {
        let sources =
            SkillRegistry::SEARCHED.into_iter().filter(|known| source.is_none_or(|wanted| wanted == *known));
        let asked = sources.map(|source| {
            let limit = limit(source);
            async move { (source, self.list_registry(source, query, limit).await) }
        });
        let mut found = HubSearch::default();
        for (source, answer) in join_all(asked).await {
            match answer {
                Ok(listings) => {
                    found.counts.insert(source, listings.len());
                    found.listings.extend(listings);
                }
                Err(error) => found.failures.push((source, error.to_string())),
            }
        }
        found.sort();
        found
    }

    /// Finds the skill that a name without a place stands for.
    pub async fn resolve(&self, name: &str) -> (NameResolution, HubSearch) {
        let found = self.search(name, None, MAX_RESOLVED).await;
        let wanted = name.to_lowercase();
        let exact: Vec<HubListing> =
            found.listings.iter().filter(|listing| listing.name.to_lowercase() == wanted).cloned().collect();
        let partial = || {
            let partial =
                found.listings.iter().filter(|listing| listing.name.to_lowercase().contains(&wanted));
            partial.take(MAX_SUGGESTIONS).cloned().collect::<Vec<_>>()
        };
        let resolution = match exact.len() {
            1 => exact.into_iter().next().map_or(NameResolution::None, NameResolution::Exact),
            0 => match partial() {
                suggestions if suggestions.is_empty() => NameResolution::None,
                suggestions => NameResolution::Suggestions(suggestions),
            },
            _ => NameResolution::Several(exact),
        };
        (resolution, found)
    }

    /// Tells whether a text is a name to be searched for, and not the place of a skill.
    pub fn is_name(given: &str) -> bool {
        matches!(SkillAddress::parse(given), Ok(SkillAddress::Name(_)))
    }

    /// Fetches a skill. `name` is used where the skill itself does not say one.
    pub async fn fetch_skill(&self, identifier: &str, name: Option<&str>) -> Result<FetchedSkill, Error> {
        let fetched = self.fetch_address(identifier, name).await?;
        fetched.ok_or_else(|| Error::NotFound(identifier.to_owned()))
    }
}

impl HubSearch {
    /// Sorts, and keeps the most trusted of the listings of one skill.
    fn sort(&mut self) {
        let place = |listing: &HubListing| (listing.trust, listing.name.to_lowercase(), listing.source);
        self.listings.sort_by_key(place);
        let mut known = HashSet::new();
        self.listings.retain(|listing| known.insert((listing.name.to_lowercase(), distinct(listing))));
    }

    fn limited(mut self, limit: usize) -> Self {
        self.listings.truncate(limit);
        self
    }
}

/// Skills of different repositories are different skills, whatever they are called; catalogues list the same one again.
fn distinct(listing: &HubListing) -> String {
    match SkillAddress::parse(&listing.identifier) {
        Ok(SkillAddress::Repository { repository, .. } | SkillAddress::SkillsSh { repository, .. }) => {
            repository
        }
        _ => listing.source.as_str().to_owned(),
    }
}
