//! What registries offer: search, browse, inspect, taps, publish.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use hermes_hub::{HubListing, HubSearch, NameResolution, SkillHub, SkillRegistry};
use hermes_text::single_line;
use serde_json::{Value, json};

use super::SkillsRun;
use crate::cli::{PublishTarget, TapCommand};
use crate::command::table::table;

const SHOWN_LINES: usize = 50;
const WIDTHS: [usize; 5] = [28, 60, 18, 13, 60];

impl SkillsRun<'_> {
    pub(super) async fn search(
        &self,
        query: &str,
        source: Option<&str>,
        limit: usize,
        json: bool,
    ) -> Result<()> {
        let found = self.hub.search(query, registry(source.unwrap_or("all"))?, limit).await;
        self.tell_failures(&found);
        if json {
            self.output.line(&format!("{:#}", listings_json(&found.listings)));
        } else if found.listings.is_empty() {
            self.output.line("No skills found matching your query.");
        } else {
            self.output.line(&format!("Skills Hub — {} result(s)\n", found.listings.len()));
            self.output.text(&listings_table(&found.listings));
        }
        Ok(())
    }

    pub(super) async fn browse(&self, page: usize, size: usize, source: &str, json: bool) -> Result<()> {
        let found = self.hub.browse(registry(source)?).await;
        self.tell_failures(&found);
        if json {
            self.output.line(&format!("{:#}", listings_json(&found.listings)));
            return Ok(());
        }
        let total = found.listings.len();
        let pages = total.div_ceil(size).max(1);
        let shown = found.listings.iter().enumerate().skip((page - 1) * size).take(size);
        let rows: Vec<Vec<String>> = shown
            .map(|(at, listing)| {
                vec![
                    (at + 1).to_string(),
                    listing.name.clone(),
                    single_line(&listing.description),
                    listing.source.as_str().to_owned(),
                    shown_trust(listing).to_owned(),
                ]
            })
            .collect();
        let text = table(&["#", "Name", "Description", "Source", "Trust"], &[5, 28, 60, 18, 13], &rows);
        self.output.text(&hermes_guard::strip_ansi(&text));
        let counts: Vec<String> =
            found.counts.iter().map(|(source, count)| format!("{} {count}", source.as_str())).collect();
        self.output.line(&format!("\nPage {page} of {pages}, {total} skills ({})", counts.join(", ")));
        if page < pages {
            self.output.line(&format!("Next page: hermes skills browse --page {}", page + 1));
        }
        Ok(())
    }

    pub(super) async fn inspect(&self, id: &str) -> Result<()> {
        let Some((identifier, installs)) = self.resolve(id).await else { return Ok(()) };
        let skill = self.hub.fetch_skill(&identifier, None).await?;
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "Name:       {}", skill.name);
        let _ = writeln!(text, "Source:     {} ({})", skill.source.as_str(), skill.trust.as_str());
        let _ = writeln!(text, "Identifier: {}", skill.identifier);
        for (key, value) in skill.metadata.iter().filter(|(_, value)| !value.is_null()) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "{:<11} {value}", format!("{key}:"));
        }
        if let Some(installs) = installs {
            let _ = writeln!(text, "Installs:   {installs}");
        }
        let files: Vec<&str> = skill.files.iter().map(|file| file.path.as_str()).collect();
        let _ = writeln!(text, "Files:      {}", files.join(", "));
        let _ = writeln!(text, "Install:    hermes skills install {}\n", skill.identifier);
        let content = skill.text();
        for line in content.lines().take(SHOWN_LINES) {
            let _ = writeln!(text, "{line}");
        }
        let more = content.lines().count().saturating_sub(SHOWN_LINES);
        if more > 0 {
            let _ = writeln!(text, "… {more} more lines");
        }
        // What others wrote must not control the terminal.
        self.output.text(&hermes_guard::strip_ansi(&text));
        Ok(())
    }

    /// Returns the identifier that the user means, and how often it was installed. Prints why there is none.
    pub(super) async fn resolve(&self, id: &str) -> Option<(String, Option<u64>)> {
        if !SkillHub::is_name(id) {
            return Some((id.to_owned(), None));
        }
        let (resolution, found) = self.hub.resolve(id).await;
        self.tell_failures(&found);
        match resolution {
            NameResolution::Exact(listing) => {
                self.output.line(&format!("Resolved to: {}", listing.identifier));
                return Some((listing.identifier, listing.installs));
            }
            NameResolution::Several(listings) => {
                self.output.line(&format!("Several skills are named '{id}'. Use the identifier of one:\n"));
                self.output.text(&listings_table(&listings));
            }
            NameResolution::Suggestions(listings) => {
                self.output
                    .line(&format!("Error: No skill named '{id}' found in any source. Similar names:\n"));
                self.output.text(&listings_table(&listings));
            }
            NameResolution::None => {
                self.output.line(&format!("Error: No skill named '{id}' found in any source."));
            }
        }
        None
    }

    pub(super) fn tap(&self, command: TapCommand) -> Result<()> {
        let state = self.hub.state();
        match command {
            TapCommand::List => {
                let own = state.taps();
                for tap in state.all_taps() {
                    let kind = if own.contains(&tap) { "added" } else { "default" };
                    let path = if tap.path.is_empty() { "/" } else { tap.path.as_str() };
                    self.output.line(&format!("{:<40} {path:<20} {kind}", tap.repository));
                }
            }
            TapCommand::Add { repo } => {
                let word = if state.add_tap(&repo)? { "Added tap" } else { "Tap already exists" };
                self.output.line(&format!("{word}: {repo}"));
            }
            TapCommand::Remove { repo } => {
                let word = if state.remove_tap(&repo)? { "Removed tap" } else { "Tap not found" };
                self.output.line(&format!("{word}: {repo}"));
            }
        }
        Ok(())
    }

    pub(super) async fn publish(
        &self,
        path: &str,
        to: PublishTarget,
        repository: Option<&str>,
    ) -> Result<()> {
        if to == PublishTarget::Clawhub {
            self.output.line("Publishing to ClawHub is not supported. Use --to github --repo owner/repo.");
            return Ok(());
        }
        let Some(repository) = repository else { bail!("name the repository with --repo owner/repo") };
        // An absolute path stays as it is.
        let folder: PathBuf = self.context.home.skills().join(path);
        let url = self.hub.publish(&folder, repository).await?;
        self.output.line(&format!("PR created: {url}"));
        Ok(())
    }

    fn tell_failures(&self, found: &HubSearch) {
        for (source, reason) in &found.failures {
            self.output.notice(&format!("note: {} could not be asked: {reason}", source.as_str()));
        }
    }
}

/// Returns the registry of this name; `None` for all.
fn registry(name: &str) -> Result<Option<SkillRegistry>> {
    if name == "all" {
        return Ok(None);
    }
    if let Some(registry) = SkillRegistry::parse(name) {
        return Ok(Some(registry));
    }
    let names: Vec<&str> = SkillRegistry::SEARCHED.iter().map(|registry| registry.as_str()).collect();
    bail!("'{name}' is no registry; there are: all, {}", names.join(", "))
}

fn listings_table(listings: &[HubListing]) -> String {
    let rows: Vec<Vec<String>> = listings
        .iter()
        .map(|listing| {
            vec![
                listing.name.clone(),
                single_line(&listing.description),
                listing.source.as_str().to_owned(),
                shown_trust(listing).to_owned(),
                listing.identifier.clone(),
            ]
        })
        .collect();
    let text = table(&["Name", "Description", "Source", "Trust", "Identifier"], &WIDTHS, &rows);
    hermes_guard::strip_ansi(&text).into_owned()
}

fn listings_json(listings: &[HubListing]) -> Value {
    listings
        .iter()
        .map(|listing| {
            json!({
                "name": listing.name,
                "description": listing.description,
                "source": listing.source.as_str(),
                "trust": shown_trust(listing),
                "identifier": listing.identifier,
                "installs": listing.installs,
            })
        })
        .collect()
}

fn shown_trust(listing: &HubListing) -> &'static str {
    match listing.trust.as_str() {
        "builtin" => "official",
        other => other,
    }
}
