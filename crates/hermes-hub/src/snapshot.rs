//! The list of installed skills and taps, to take to another home.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::http::SkillHub;
use crate::state::SkillTap;

/// The content of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillSnapshot {
    pub skills: Vec<SnapshotEntry>,
    pub taps: Vec<SkillTap>,
}

/// A skill of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotEntry {
    pub name: String,
    pub source: String,
    pub identifier: String,
    pub category: Option<String>,
}

impl SkillSnapshot {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Error::Invalid(format!("the snapshot is not JSON: {error}")))?;
        let rows = |key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let field =
            |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let skills = rows("skills");
        let skills = skills.iter().map(|row| SnapshotEntry {
            name: field(row, "name"),
            source: field(row, "source"),
            identifier: field(row, "identifier"),
            category: Some(field(row, "category")).filter(|category| !category.is_empty()),
        });
        let taps = rows("taps");
        let taps =
            taps.iter().map(|row| SkillTap { repository: field(row, "repo"), path: field(row, "path") });
        Ok(Self {
            skills: skills.filter(|skill| !skill.identifier.is_empty()).collect(),
            taps: taps.filter(|tap| !tap.repository.is_empty()).collect(),
        })
    }
}

impl SkillHub {
    /// Renders what is installed.
    pub fn snapshot(&self, version: &str) -> String {
        let skills: Vec<Value> = self
            .client
            .state
            .installed()
            .into_iter()
            .map(|skill| {
                json!({
                    "name": skill.name,
                    "source": skill.source,
                    "identifier": skill.identifier,
                    "category": skill.category().unwrap_or_default(),
                })
            })
            .collect();
        let taps: Vec<Value> = self
            .client
            .state
            .taps()
            .into_iter()
            .map(|tap| json!({"repo": tap.repository, "path": tap.path}))
            .collect();
        let mut all = Map::new();
        all.insert("hermes_version".to_owned(), json!(version));
        all.insert("exported_at".to_owned(), json!(hermes_knowledge::iso_time(self.client.clock.now())));
        all.insert("skills".to_owned(), json!(skills));
        all.insert("taps".to_owned(), json!(taps));
        format!("{:#}\n", Value::Object(all))
    }
}
