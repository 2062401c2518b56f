//! When memory files are tidied: at most once a day, and only those that changed since.
//!
//! `consolidation.json` beside the files holds the time of the last pass and a sum of each file after it. Losing it costs one pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use hermes_config::{Home, write};
use hermes_types::Timestamp;
use md5::{Digest as _, Md5};
use serde::{Deserialize, Serialize};

use crate::memory::MemoryFile;

const FILE: &str = "consolidation.json";
const INTERVAL: Duration = Duration::from_hours(24);
/// Limits the files of one pass, each of which is a request to a model.
const MAX_FILES: usize = 10;

/// A memory file to tidy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidationTarget {
    /// The folder of the file.
    pub folder: PathBuf,
    pub file: MemoryFile,
}

/// The last pass of a home.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConsolidationSchedule {
    #[serde(default)]
    at: f64,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

impl ConsolidationSchedule {
    /// Reads the file; one that cannot be read says that there was no pass.
    pub fn load(home: &Home) -> Self {
        let text = fs::read_to_string(home.memories().join(FILE)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Tells whether a pass may begin.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now.since(Timestamp(self.at)) >= INTERVAL
    }

    /// Returns the files that changed since their last pass.
    pub fn changed_files(&self, home: &Home) -> Vec<ConsolidationTarget> {
        let memories = home.memories();
        let mut all = vec![
            ConsolidationTarget { folder: memories.clone(), file: MemoryFile::Memory },
            ConsolidationTarget { folder: memories.clone(), file: MemoryFile::User },
        ];
        for platform in folders(&memories.join("users")) {
            let people = folders(&platform).into_iter();
            all.extend(people.map(|folder| ConsolidationTarget { folder, file: MemoryFile::User }));
        }
        let is_changed = |target: &ConsolidationTarget| {
            let (name, sum) = (target.name(home), target.sum());
            sum.is_some() && self.files.get(&name) != sum.as_ref()
        };
        all.into_iter().filter(is_changed).take(MAX_FILES).collect()
    }

    /// Records a pass over these files, as they are now.
    pub fn record(
        mut self,
        home: &Home,
        now: Timestamp,
        files: &[ConsolidationTarget],
    ) -> hermes_config::Result<()> {
        self.at = now.seconds();
        for target in files {
            if let Some(sum) = target.sum() {
                self.files.insert(target.name(home), sum);
            }
        }
        self.files.retain(|name, _| home.memories().join(name).exists());
        let text = serde_json::to_string_pretty(&self).unwrap_or_default();
        write::replace(&home.memories().join(FILE), text.as_bytes())
    }
}

impl ConsolidationTarget {
    fn path(&self) -> PathBuf {
        self.folder.join(self.file.file())
    }

    fn name(&self, home: &Home) -> String {
        let path = self.path();
        path.strip_prefix(home.memories()).unwrap_or(&path).to_string_lossy().into_owned()
    }

    fn sum(&self) -> Option<String> {
        fs::read(self.path()).ok().map(|bytes| HEXLOWER.encode(&Md5::digest(&bytes)))
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort_unstable();
    found
}
