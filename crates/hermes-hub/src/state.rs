//! What is installed, in the files that other releases read and write: `lock.json`, `audit.log`, `taps.json`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use hermes_config::{Home, write};
use hermes_types::{CivilTime, Timestamp};
use serde_json::{Map, Value, json};

use crate::Error;

/// The repositories that are searched without being added.
const DEFAULT_TAPS: [(&str, &str); 4] = [
    ("openai/skills", "skills/"),
    ("anthropics/skills", "skills/"),
    ("VoltAgent/awesome-agent-skills", "skills/"),
    ("garrytan/gstack", ""),
];

/// The files below `skills/.hub/`.
#[derive(Debug, Clone)]
pub struct HubState {
    home: Home,
}

/// An installed skill, as the lock file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct LockedSkill {
    pub name: String,
    pub source: String,
    pub identifier: String,
    pub trust_level: String,
    pub scan_verdict: String,
    pub content_hash: String,
    /// The path of the folder below the skills folder.
    pub install_path: String,
    pub files: Vec<String>,
    pub metadata: Map<String, Value>,
    pub installed_at: String,
    pub updated_at: String,
}

/// A repository with skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillTap {
    pub repository: String,
    /// The folder of the skills in it.
    pub path: String,
}

impl HubState {
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    pub fn folder(&self) -> PathBuf {
        self.home.join("skills/.hub")
    }

    /// Creates the folder, with the file that keeps search tools out of it.
    pub(crate) fn ensure(&self) -> Result<(), Error> {
        self.home.folder("skills")?;
        self.home.folder("skills/.hub")?;
        let ignore = self.folder().join(".ignore");
        if !ignore.exists() {
            write::replace(&ignore, b"*\n")?;
        }
        Ok(())
    }

    /// Returns the installed skills by name. An unreadable file has none.
    pub fn installed(&self) -> Vec<LockedSkill> {
        let lock = self.read("lock.json");
        let installed = lock.get("installed").and_then(Value::as_object);
        installed.into_iter().flatten().map(|(name, entry)| LockedSkill::parse(name, entry)).collect()
    }

    pub fn find(&self, name: &str) -> Option<LockedSkill> {
        self.installed().into_iter().find(|skill| skill.name == name)
    }

    /// Adds or replaces an entry; keys of other releases stay.
    pub(crate) fn lock(&self, skill: &LockedSkill) -> Result<(), Error> {
        self.change_lock(|installed| {
            let entry = installed.entry(&skill.name).or_insert_with(|| json!({}));
            if let Some(entry) = entry.as_object_mut() {
                entry.extend(skill.fields());
            }
        })
    }

    pub(crate) fn unlock(&self, name: &str) -> Result<(), Error> {
        self.change_lock(|installed| drop(installed.remove(name)))
    }

    fn change_lock(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), Error> {
        let mut lock = self.read("lock.json");
        lock.entry("version").or_insert(json!(1));
        let installed = lock.entry("installed").or_insert_with(|| json!({}));
        if !installed.is_object() {
            *installed = json!({});
        }
        if let Some(installed) = installed.as_object_mut() {
            change(installed);
        }
        self.write("lock.json", &lock)
    }

    /// Adds a line to the log.
    pub(crate) fn audit(&self, at: Timestamp, line: &str) -> Result<(), Error> {
        let CivilTime { year, month, day, hour, minute, second } = CivilTime::utc(at);
        let line = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z {line}\n");
        let path = self.folder().join("audit.log");
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(Error::io(&path))
    }

    /// Returns the repositories that were added.
    pub fn taps(&self) -> Vec<SkillTap> {
        let taps = self.read("taps.json");
        let entries = taps.get("taps").and_then(Value::as_array);
        let tap = |entry: &Value| {
            let path = entry.get("path").and_then(Value::as_str).unwrap_or("skills/");
            Some(SkillTap { repository: entry.get("repo")?.as_str()?.to_owned(), path: path.to_owned() })
        };
        entries.into_iter().flatten().filter_map(tap).collect()
    }

    /// Returns the repositories that are searched.
    pub fn all_taps(&self) -> Vec<SkillTap> {
        let usual = DEFAULT_TAPS
            .map(|(repository, path)| SkillTap { repository: repository.to_owned(), path: path.to_owned() });
        let mut taps = usual.to_vec();
        for tap in self.taps() {
            if !taps.iter().any(|known| known.repository == tap.repository) {
                taps.push(tap);
            }
        }
        taps
    }

    /// Adds a repository. Returns false if it is there.
    pub fn add_tap(&self, repository: &str) -> Result<bool, Error> {
        let is_name = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        let parts: Vec<&str> = repository.split('/').collect();
        if parts.len() != 2 || !parts.iter().all(|part| is_name(part)) {
            return Err(Error::Invalid(format!("'{repository}' is not a repository: write owner/repo")));
        }
        if self.all_taps().iter().any(|tap| tap.repository == repository) {
            return Ok(false);
        }
        let mut taps = self.taps();
        taps.push(SkillTap { repository: repository.to_owned(), path: "skills/".to_owned() });
        self.write_taps(&taps)?;
        Ok(true)
    }

    /// Removes a repository. Returns false if it is not there.
    pub fn remove_tap(&self, repository: &str) -> Result<bool, Error> {
        let mut taps = self.taps();
        let before = taps.len();
        taps.retain(|tap| tap.repository != repository);
        if taps.len() < before {
            self.write_taps(&taps)?;
        }
        Ok(taps.len() < before)
    }

    fn write_taps(&self, taps: &[SkillTap]) -> Result<(), Error> {
        let entries: Vec<Value> =
            taps.iter().map(|tap| json!({"repo": tap.repository, "path": tap.path})).collect();
        let mut file = self.read("taps.json");
        file.insert("taps".to_owned(), json!(entries));
        self.write("taps.json", &file)
    }

    fn read(&self, name: &str) -> Map<String, Value> {
        let bytes = fs::read(self.folder().join(name)).unwrap_or_default();
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }

    fn write(&self, name: &str, value: &Map<String, Value>) -> Result<(), Error> {
        self.ensure()?;
        let text = format!("{:#}\n", Value::Object(value.clone()));
        Ok(write::replace(&self.folder().join(name), text.as_bytes())?)
    }
}

impl LockedSkill {
    fn parse(name: &str, entry: &Value) -> Self {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let files = entry.get("files").and_then(Value::as_array).into_iter().flatten();
        Self {
            name: name.to_owned(),
            source: text("source"),
            identifier: text("identifier"),
            trust_level: text("trust_level"),
            scan_verdict: text("scan_verdict"),
            content_hash: text("content_hash"),
            install_path: text("install_path"),
            files: files.filter_map(|file| file.as_str().map(str::to_owned)).collect(),
            metadata: entry.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
            installed_at: text("installed_at"),
            updated_at: text("updated_at"),
        }
    }

    fn fields(&self) -> Map<String, Value> {
        let fields = json!({
            "source": self.source,
            "identifier": self.identifier,
            "trust_level": self.trust_level,
            "scan_verdict": self.scan_verdict,
            "content_hash": self.content_hash,
            "install_path": self.install_path,
            "files": self.files,
            "metadata": self.metadata,
            "installed_at": self.installed_at,
            "updated_at": self.updated_at,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    /// Returns the category it was installed into.
    pub fn category(&self) -> Option<&str> {
        self.install_path.rsplit_once('/').map(|(category, _)| category)
    }
}
