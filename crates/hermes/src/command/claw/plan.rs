//! What is taken over, item by item.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hermes_config::env::dotenv;
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, Home, ManagedMode, set, write};
use hermes_guard::SkillVerdict;
use hermes_knowledge::{IDENTITY, MemoryChange, MemoryFile, MemoryLimits, MemoryStore, scan_folder};
use serde_json::Value;

use super::settings;
use super::source::OpenClaw;
use crate::cli::{ClawPreset, MigrateClawArguments, SkillConflict};
use crate::command::profile::copy_entry;
use crate::context::ProgramContext;

/// The folder below the home's skills that takes imported ones.
const SKILLS: &str = "skills/openclaw-imports";
/// The files of the workspace that have no counterpart.
const ARCHIVED_FILES: [&str; 4] = ["IDENTITY.md", "TOOLS.md", "HEARTBEAT.md", "BOOTSTRAP.md"];
/// The parts of the configuration that have no counterpart: name of the item, path.
const ARCHIVED_PARTS: [(&str, &str); 10] = [
    ("cron-jobs", "/cron"),
    ("hooks-config", "/hooks"),
    ("plugins-config", "/plugins"),
    ("memory-backend", "/memory"),
    ("skills-config", "/skills"),
    ("ui-identity", "/ui"),
    ("logging-config", "/logging"),
    ("agents-list", "/agents/list"),
    ("bindings", "/bindings"),
    ("tts-config", "/messages/tts"),
];

/// What became of an item, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImportState {
    Planned,
    Archived,
    Done,
    Conflict,
    Skipped(String),
    Failed(String),
}

impl ImportState {
    /// Returns its name and reason for the report.
    pub(super) fn describe(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Planned => ("planned", None),
            Self::Archived => ("archived", None),
            Self::Done => ("migrated", None),
            Self::Conflict => ("conflict", None),
            Self::Skipped(why) => ("skipped", Some(why)),
            Self::Failed(why) => ("error", Some(why)),
        }
    }
}

/// What carries an item out.
pub(super) enum ImportStep {
    CopyFile { from: PathBuf, to: PathBuf },
    Remember { file: MemoryFile, entries: Vec<String> },
    CopySkill { from: PathBuf, to: PathBuf },
    Set { key: KeyPath, value: YamlValue },
    SetVariable { name: String, value: String },
    ArchiveFile { from: PathBuf, name: String },
    ArchiveValue { value: Value, name: String },
}

/// Something that is taken over.
pub(super) struct ImportItem {
    pub(super) kind: &'static str,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) state: ImportState,
    pub(super) step: ImportStep,
}

impl ImportItem {
    pub(super) fn is_to_be_done(&self) -> bool {
        matches!(self.state, ImportState::Planned | ImportState::Archived)
    }
}

/// All that is taken over.
pub(super) struct ImportPlan {
    pub(super) items: Vec<ImportItem>,
}

impl ImportPlan {
    /// Makes the plan. Reads only.
    pub(super) fn make(
        claw: &OpenClaw,
        arguments: &MigrateClawArguments,
        context: &ProgramContext,
    ) -> Result<Self> {
        let mut planner = Planner { claw, arguments, home: &context.home, items: Vec::new() };
        planner.files();
        planner.memory();
        planner.skills()?;
        if arguments.preset == ClawPreset::Full {
            let config = Config::load_file(&context.home.config(), &context.env);
            planner.settings(&config);
            planner.variables(context);
            planner.archive();
        }
        Ok(Self { items: planner.items })
    }

    /// Carries the plan out. A failed item does not affect the others.
    pub(super) fn carry_out(&mut self, archive: &Path, context: &ProgramContext) {
        let config = Config::load(&context.home, &context.env);
        for item in self.items.iter_mut().filter(|item| item.is_to_be_done()) {
            match carry_out(&item.step, archive, &config, context) {
                Ok(()) if item.state == ImportState::Archived => {}
                Ok(()) => item.state = ImportState::Done,
                Err(error) => item.state = ImportState::Failed(format!("{error:#}")),
            }
        }
    }
}

fn carry_out(step: &ImportStep, archive: &Path, config: &Config, context: &ProgramContext) -> Result<()> {
    let management = ManagedMode::detect(&context.home, &context.env);
    match step {
        ImportStep::CopyFile { from, to } => Ok(write::replace(to, &fs::read(from)?)?),
        ImportStep::Remember { file, entries } => remember(*file, entries, archive, config, context),
        ImportStep::CopySkill { from, to } => {
            if to.exists() {
                fs::remove_dir_all(to)?;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            copy_entry(from, to)
        }
        ImportStep::Set { key, value } => Ok(set::set_value(&context.home, management, key, value)?),
        ImportStep::SetVariable { name, value } => {
            Ok(dotenv::save(&context.home, management, &[(name.as_str(), value.as_str())])?)
        }
        ImportStep::ArchiveFile { from, name } => Ok(write::replace(&archive.join(name), &fs::read(from)?)?),
        ImportStep::ArchiveValue { value, name } => {
            let text = serde_json::to_string_pretty(value)?;
            Ok(write::replace(&archive.join(name), text.as_bytes())?)
        }
    }
}

/// Adds entries to the memory, as many as fit. The rest is archived.
fn remember(
    file: MemoryFile,
    entries: &[String],
    archive: &Path,
    config: &Config,
    context: &ProgramContext,
) -> Result<()> {
    let limits = MemoryLimits {
        memory: config.count("memory.memory_char_limit"),
        user: config.count("memory.user_char_limit"),
    };
    let store = MemoryStore::new(&context.home, limits);
    let known = store.entries(file);
    let mut left = Vec::new();
    for entry in entries.iter().filter(|entry| !known.contains(entry)) {
        if store.apply(file, &MemoryChange::Add { content: entry.clone() }).is_err() {
            left.push(entry.as_str());
        }
    }
    if !left.is_empty() {
        let name = format!("{}-left.md", file.as_str());
        write::replace(&archive.join(name), left.join("\n\n").as_bytes())?;
    }
    Ok(())
}

struct Planner<'a> {
    claw: &'a OpenClaw,
    arguments: &'a MigrateClawArguments,
    home: &'a Home,
    items: Vec<ImportItem>,
}

impl Planner<'_> {
    fn add(&mut self, kind: &'static str, from: String, to: String, state: ImportState, step: ImportStep) {
        self.items.push(ImportItem { kind, from, to, state, step });
    }

    /// Plans a file that is copied.
    fn file(&mut self, kind: &'static str, from: PathBuf, to: PathBuf) {
        let (new, old) = (fs::read(&from).unwrap_or_default(), fs::read(&to).ok());
        let is_default = |text: &[u8]| {
            let text = String::from_utf8_lossy(text);
            text.trim().is_empty() || text.trim() == IDENTITY.trim()
        };
        let state = match old {
            Some(old) if old == new => ImportState::Skipped("the same".to_owned()),
            Some(old) if !is_default(&old) && !self.arguments.overwrite => ImportState::Conflict,
            _ => ImportState::Planned,
        };
        let (shown_from, shown_to) = (from.display().to_string(), to.display().to_string());
        self.add(kind, shown_from, shown_to, state, ImportStep::CopyFile { from, to });
    }

    fn files(&mut self) {
        if let Some(from) = self.claw.in_workspace("SOUL.md") {
            self.file("soul", from, self.home.soul());
        }
        if let Some(from) = self.claw.in_workspace("AGENTS.md") {
            if let Some(folder) = &self.arguments.workspace_target {
                self.file("workspace-agents", from, folder.join("AGENTS.md"));
            } else {
                let why = "--workspace-target names the folder for it".to_owned();
                let to = "AGENTS.md".to_owned();
                let step = ImportStep::CopyFile { from: from.clone(), to: PathBuf::from(&to) };
                let from = from.display().to_string();
                self.add("workspace-agents", from, to, ImportState::Skipped(why), step);
            }
        }
    }

    fn memory(&mut self) {
        let mut daily = Vec::new();
        if let Some(folder) = self.claw.in_workspace("memory") {
            let files = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
            daily = files.filter(|file| file.extension().is_some_and(|ending| ending == "md")).collect();
            daily.sort();
        }
        let one = |name: &str| self.claw.in_workspace(name).into_iter().collect::<Vec<_>>();
        for (kind, files, file) in [
            ("memory", one("MEMORY.md"), MemoryFile::Memory),
            ("user-profile", one("USER.md"), MemoryFile::User),
            ("daily-memory", daily, MemoryFile::Memory),
        ] {
            let texts = files.iter().filter_map(|path| fs::read_to_string(path).ok());
            let entries: Vec<String> = texts.flat_map(|text| entries(&text)).collect();
            let Some(first) = files.first().filter(|_| !entries.is_empty()) else { continue };
            let from = format!("{} ({} entries)", first.display(), entries.len());
            let to = format!("memories, as far as it fits ({})", file.as_str());
            self.add(kind, from, to, ImportState::Planned, ImportStep::Remember { file, entries });
        }
    }

    fn skills(&mut self) -> Result<()> {
        let shared = self.claw.folder.join("skills");
        let personal = self.claw.folder.parent().map(|parent| parent.join(".agents/skills"));
        let roots = [
            ("skills", self.claw.in_workspace("skills")),
            ("shared-skills", Some(shared)),
            ("shared-skills", personal),
            ("shared-skills", self.claw.in_workspace(".agents/skills")),
        ];
        for (kind, root) in roots {
            let entries = root.map(fs::read_dir).and_then(Result::ok).into_iter().flatten().flatten();
            let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            folders.retain(|folder| folder.join("SKILL.md").is_file());
            folders.sort();
            for folder in folders {
                self.skill(kind, folder)?;
            }
        }
        Ok(())
    }

    fn skill(&mut self, kind: &'static str, from: PathBuf) -> Result<()> {
        let name = from.file_name().context("a skill has no name")?.to_string_lossy().into_owned();
        let mut to = self.home.join(SKILLS).join(&name);
        let is_planned = self.items.iter().any(
            |item| matches!(&item.step, ImportStep::CopySkill { to: other, .. } if *other == to && item.is_to_be_done()),
        );
        let mut state = ImportState::Planned;
        if to.exists() || is_planned {
            match self.arguments.skill_conflict {
                SkillConflict::Skip => state = ImportState::Conflict,
                SkillConflict::Overwrite => {}
                SkillConflict::Rename => to = self.home.join(SKILLS).join(format!("{name}-imported")),
            }
        }
        let scan = scan_folder(&from)?;
        if scan.verdict == SkillVerdict::Dangerous {
            let worst = scan.findings.first().map_or("", |finding| finding.description);
            state = ImportState::Skipped(format!("it looks dangerous: {worst}"));
        }
        let (shown_from, shown_to) = (from.display().to_string(), to.display().to_string());
        self.add(kind, shown_from, shown_to, state, ImportStep::CopySkill { from, to });
        Ok(())
    }

    fn settings(&mut self, config: &Config) {
        for setting in settings::settings(self.claw) {
            let key = setting.key.to_string();
            let present = config.is_user_set(&key).then(|| config.get(&key)).flatten();
            let state = match present {
                Some(now) if now.same_data(&setting.value) => ImportState::Skipped("the same".to_owned()),
                Some(_) if !self.arguments.overwrite => ImportState::Conflict,
                _ => ImportState::Planned,
            };
            let to = format!("{key} in config.yaml");
            self.add(
                setting.kind,
                setting.from,
                to,
                state,
                ImportStep::Set { key: setting.key, value: setting.value },
            );
        }
    }

    fn variables(&mut self, context: &ProgramContext) {
        for variable in settings::variables(self.claw) {
            let present = context.env.get(variable.name);
            let state = if variable.is_secret && !self.arguments.migrate_secrets {
                ImportState::Skipped("--migrate-secrets takes keys over".to_owned())
            } else if present == Some(variable.value.as_str()) {
                ImportState::Skipped("the same".to_owned())
            } else if present.is_some_and(|value| !value.is_empty()) && !self.arguments.overwrite {
                ImportState::Conflict
            } else {
                ImportState::Planned
            };
            let to = format!("{} in .env", variable.name);
            let step = ImportStep::SetVariable { name: variable.name.to_owned(), value: variable.value };
            self.add(variable.kind, variable.from, to, state, step);
        }
    }

    /// Plans to keep what has no counterpart, for a person to read.
    fn archive(&mut self) {
        for name in ARCHIVED_FILES {
            if let Some(from) = self.claw.in_workspace(name) {
                let shown = from.display().to_string();
                let step = ImportStep::ArchiveFile { from, name: name.to_owned() };
                self.add("archive", shown, format!("archive/{name}"), ImportState::Archived, step);
            }
        }
        for (kind, path) in ARCHIVED_PARTS {
            if let Some(value) = self.claw.get(path) {
                let name = format!("{kind}.json");
                let from = path.trim_start_matches('/').replace('/', ".");
                // A part may hold keys, which are taken over only if that was asked for.
                let value = without_secrets(value.clone());
                let step = ImportStep::ArchiveValue { value, name: name.clone() };
                self.add(kind, from, format!("archive/{name}"), ImportState::Archived, step);
            }
        }
    }
}

/// Splits a memory file into entries: at the signs between entries, else at paragraphs and list items.
fn entries(text: &str) -> Vec<String> {
    let parts: Vec<String> = if text.contains('§') {
        text.split('§').map(str::to_owned).collect()
    } else {
        let mut parts = Vec::new();
        let mut now = String::new();
        for line in text.lines() {
            let item = line.trim_start().strip_prefix("- ").or_else(|| line.trim_start().strip_prefix("* "));
            let is_heading = line.starts_with('#');
            if item.is_some() || line.trim().is_empty() || is_heading {
                parts.push(std::mem::take(&mut now));
            }
            if !is_heading {
                now.push_str(item.unwrap_or(line));
                now.push('\n');
            }
        }
        parts.push(now);
        parts
    };
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Replaces the values of keys whose name says that they are secret.
fn without_secrets(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let masked = map.into_iter().map(|(name, value)| {
                let is_secret = hermes_config::secrets::is_secret_name(&name) && !value.is_object();
                let value = if is_secret { Value::from("***") } else { without_secrets(value) };
                (name, value)
            });
            Value::Object(masked.collect())
        }
        Value::Array(items) => items.into_iter().map(without_secrets).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_split_into_entries() {
        for (text, expected) in [
            ("one\n§\ntwo", &["one", "two"][..]),
            ("# Notes\n\n- one\n- two\n  more\n\nthree\n", &["one", "two\n  more", "three"]),
            ("", &[]),
        ] {
            assert_eq!(entries(text), expected, "{text}");
        }
    }
}
