//! `hermes memory`: what the agent remembers, and which memory is in use.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_agent::TranscriptRecall;
use hermes_config::env::dotenv;
use hermes_config::settings::MemorySettings;
use hermes_config::{Config, ManagedMode, ProgramSurface, set};
use hermes_knowledge::{
    ChatIdentity, ConsolidationSchedule, MemoryAuthor, MemoryFile, MemoryRecord, MemoryStore, People,
    PersonName,
};
use hermes_memory::{KNOWN_ENGINES, KnownEngine};
use hermes_store::{RecallScope, Store};
use hermes_task::SystemClock;
use hermes_text::ellipsize;
use hermes_types::{Cancel, Clock};

use crate::cli::{MemoryCommand, MemorySelection};
use crate::context::ProgramContext;
use crate::editor;
use crate::output::{Confirmation, Console};
use crate::wiring::consolidation::{self, ConsolidationPass};
use crate::wiring::memory_limits;
use crate::wiring::memory_services::{MemoryServices, configured_service};
use crate::wiring::model_lists::runtime;
use crate::wiring::person::Accounts;
use crate::wiring::program_runtime::ProgramConfig;

/// The files of the built-in memory, with the keys that switch them on and limit them.
const FILES: [(MemorySelection, &str, &str, &str); 2] = [
    (MemorySelection::Memory, "MEMORY.md", "memory.memory_enabled", "memory.memory_char_limit"),
    (MemorySelection::User, "USER.md", "memory.user_profile_enabled", "memory.user_char_limit"),
];

/// How long a search waits for an endpoint for embeddings.
const SEARCH_LIMIT: Duration = Duration::from_secs(8);
/// The longest text of an entry in a list of changes.
const SHOWN_CHARS: usize = 100;

pub(crate) fn run(command: MemoryCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.config(output);
    let of = |person: Option<&str>| -> Result<PersonMemory> {
        let account = person.map(account).transpose()?;
        Ok(PersonMemory::open(context, &config, account.as_ref()))
    };
    match command {
        MemoryCommand::Status => status(&config, context, output)?,
        MemoryCommand::Setup { service, key, url } => setup(service, key, url, context, output)?,
        MemoryCommand::Show { target, person } => {
            output.text(&(of(person.as_deref())?.describe_files(target) + "\n"));
        }
        MemoryCommand::Edit { target, person } => edit(target, &of(person.as_deref())?, context, output)?,
        MemoryCommand::Search { words } => {
            let store = context.store(output)?;
            let memory = of(None)?;
            output.line(&memory.search_thoroughly(&words.join(" "), &store, &config, context)?);
        }
        MemoryCommand::Log { limit, person } => output.line(&of(person.as_deref())?.list_changes(limit)),
        MemoryCommand::Undo { number, person } => output.line(&of(person.as_deref())?.undo(number)?),
        MemoryCommand::Consolidate { dry_run, yes } => {
            return consolidate(dry_run, yes, &config, context, output);
        }
        MemoryCommand::Reset { target, yes } => reset(target, yes, context, output)?,
        MemoryCommand::Off => match config.non_empty_text("memory.provider") {
            None => output.line("No external memory service is configured; the built-in memory is in use."),
            Some(provider) => {
                set::unset(&context.home, &context.env, "memory.provider")?;
                output.line(&format!("✓ {provider} is not used any more; the built-in memory stays."));
            }
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Tidies the files that changed since they were tidied last, each after a question.
fn consolidate(
    dry_run: bool,
    yes: bool,
    config: &Config,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let from = ProgramConfig { context, config };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = context.store(output)?;
    let Some(pass) = ConsolidationPass::new(from, ProgramSurface::Cli, &store, &clock)? else {
        bail!("no model is configured; run `hermes model`");
    };
    let (runtime, cancel, mut done) = (runtime()?, Cancel::new(), Vec::new());
    for target in consolidation::targets(from) {
        let path =
            target.folder.join(if target.file == MemoryFile::Memory { "MEMORY.md" } else { "USER.md" });
        let Some(proposal) = runtime.block_on(pass.propose(&target, &cancel))? else {
            done.push(target);
            continue;
        };
        output.line(&format!("{}:", path.display()));
        let (before, after) = (&proposal.request.entries, &proposal.after);
        for entry in before.iter().filter(|entry| !after.contains(entry)) {
            output.line(&format!("  - {}", hermes_text::single_line(entry)));
        }
        for entry in after.iter().filter(|entry| !before.contains(entry)) {
            output.line(&format!("  + {}", hermes_text::single_line(entry)));
        }
        if dry_run {
            continue;
        }
        if !yes {
            match output.confirm("Change it?") {
                Confirmation::Yes => {}
                Confirmation::No => continue,
                Confirmation::NotInteractive => {
                    output.error("nobody can be asked; --yes goes on without asking. Nothing was changed");
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        if proposal.apply()? {
            output.line("✓ Changed; `hermes memory undo` takes it back.");
        }
        done.push(target);
    }
    if done.is_empty() && !dry_run {
        output.line("Nothing to tidy.");
    }
    if !dry_run {
        ConsolidationSchedule::load(&context.home).record(&context.home, clock.now(), &done)?;
    }
    store.close().wait()?;
    Ok(ExitCode::SUCCESS)
}

fn account(text: &str) -> Result<ChatIdentity> {
    ChatIdentity::parse(text).with_context(|| format!("'{text}' is no account; an example is telegram:42"))
}

/// The memory files that a person may see, and what they said earlier.
pub(crate) struct PersonMemory {
    notes: MemoryStore,
    profile: MemoryStore,
    scope: RecallScope,
}

impl PersonMemory {
    /// Opens the memory of an account; without one, that of the owner.
    pub(crate) fn open(context: &ProgramContext, config: &Config, account: Option<&ChatIdentity>) -> Self {
        let accounts = Accounts::new(config, &context.home, &context.env);
        let person = account.map_or(PersonName::Owner, |account| accounts.person(account));
        let limits = memory_limits(config);
        let clock = Arc::new(SystemClock::new());
        let profile = MemoryStore::in_folder(person.folder(&context.home), limits);
        Self {
            notes: MemoryStore::new(&context.home, limits).recorded(MemoryAuthor::User, clock.clone()),
            profile: profile.recorded(MemoryAuthor::User, clock),
            scope: accounts.scope(&person, account),
        }
    }

    /// Prints both files.
    pub(crate) fn describe(&self) -> String {
        self.describe_files(MemorySelection::All)
    }

    fn describe_files(&self, target: MemorySelection) -> String {
        let mut parts = Vec::new();
        if target != MemorySelection::User {
            parts.push(self.describe_file(MemoryFile::Memory, "Notes"));
        }
        if target != MemorySelection::Memory {
            parts.push(self.describe_file(MemoryFile::User, "Profile"));
        }
        parts.join("\n\n")
    }

    fn describe_file(&self, file: MemoryFile, title: &str) -> String {
        let state = self.files(file).state(file);
        let mut text = format!("{title} ({})", state.usage);
        if state.entries.is_empty() {
            text.push_str("\n  nothing");
        }
        for entry in state.entries {
            text.push_str("\n- ");
            text.push_str(&entry.replace('\n', "\n  "));
            if let Some(origin) = self.files(file).origin(file, &entry) {
                text.push_str("\n  written after reading: ");
                text.push_str(&origin);
            }
        }
        text
    }

    fn files(&self, file: MemoryFile) -> &MemoryStore {
        match file {
            MemoryFile::Memory => &self.notes,
            MemoryFile::User => &self.profile,
        }
    }

    /// Finds what was said earlier, as before a turn.
    pub(crate) fn search(&self, words: &str, store: &Store) -> Result<String> {
        let recall = TranscriptRecall::new(store.clone(), Arc::new(SystemClock::new()), self.scope.clone());
        let found = recall.search_blocking(words)?;
        Ok(found.unwrap_or_else(|| "Nothing that was said earlier matches.".to_owned()))
    }

    /// Finds what was said earlier, by words and by meaning, and waits for both.
    fn search_thoroughly(
        &self,
        words: &str,
        store: &Store,
        config: &Config,
        context: &ProgramContext,
    ) -> Result<String> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let from = ProgramConfig { context, config };
        let vectors = MemoryServices::new(clock.clone()).vectors(store, from);
        let recall = TranscriptRecall::new(store.clone(), clock, self.scope.clone());
        let recall = recall.with_vectors(vectors.clone());
        let found = runtime()?.block_on(async {
            if let Some(vectors) = &vectors {
                vectors.update().await;
            }
            recall.search(words, SEARCH_LIMIT).await
        })?;
        Ok(found.unwrap_or_else(|| "Nothing that was said earlier matches.".to_owned()))
    }

    /// Returns the changes that this person may see, oldest first.
    fn changes(&self) -> Vec<MemoryRecord> {
        self.profile.history()
    }

    /// Lists the newest changes.
    pub(crate) fn list_changes(&self, limit: usize) -> String {
        let changes = self.changes();
        if changes.is_empty() {
            return "No changes are recorded.".to_owned();
        }
        let mut text = String::new();
        for change in changes.iter().rev().take(limit) {
            let by = match change.by {
                MemoryAuthor::Agent => "agent",
                MemoryAuthor::User => "you",
                MemoryAuthor::Consolidation => "tidying",
            };
            let at = change.at.get(..16).unwrap_or(&change.at).replace('T', " ");
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{:>4}  {at}  {:<6}  by {by}", change.number, change.target);
            for (sign, entry) in change.removed().map(|e| ('-', e)).chain(change.added().map(|e| ('+', e))) {
                let _ = writeln!(text, "      {sign} {}", ellipsize(&entry.replace('\n', " "), SHOWN_CHARS));
            }
            if let Some(origin) = &change.origin {
                let _ = writeln!(text, "      written after reading: {origin}");
            }
        }
        text.trim_end().to_owned()
    }

    /// Takes back a change.
    pub(crate) fn undo(&self, number: Option<u64>) -> Result<String> {
        let Some(number) = number.or_else(|| self.changes().last().map(|last| last.number)) else {
            return Ok("No changes are recorded.".to_owned());
        };
        let undone = self.profile.undo(number)?;
        Ok(format!("✓ Change {} to {} is taken back.", undone.number, undone.target))
    }

    /// Removes the profile. Returns whether there was one.
    pub(crate) fn forget(&self) -> Result<bool> {
        Ok(self.profile.forget_profile()?)
    }
}

/// Lets the user edit a file; nothing is saved that the agent could not write.
fn edit(
    target: MemorySelection,
    memory: &PersonMemory,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let file = match target {
        MemorySelection::User => MemoryFile::User,
        MemorySelection::Memory => MemoryFile::Memory,
        MemorySelection::All => bail!("name the file to edit: memory or user"),
    };
    let before = memory.files(file).entries(file).join("\n§\n");
    let Some(text) = editor::edit_text(&context.env, &before)? else {
        bail!("the editor did not save the text; set $EDITOR");
    };
    if text.trim() == before.trim() {
        output.line("Nothing was changed.");
        return Ok(());
    }
    let state = memory.files(file).replace_all(file, text.trim())?;
    output
        .line(&format!("✓ Saved ({}). Conversations that are open keep what they began with.", state.usage));
    Ok(())
}

fn status(config: &Config, context: &ProgramContext, output: &Console) -> Result<()> {
    output.line("Built-in memory");
    for (_, name, switch, limit) in FILES {
        let text = fs::read_to_string(context.home.memories().join(name)).unwrap_or_default();
        let (count, most) = (text.trim().chars().count(), config.count(limit));
        let (mark, state) = if config.flag(switch) { ("✓", "on") } else { ("✗", "off") };
        output.line(&format!("  {mark} {name:<10} {state:<4} {count} of {most} characters"));
    }
    output.line("Recall from earlier conversations");
    match config.non_empty_text("memory.provider").as_deref() {
        None | Some("builtin") => output.line("  ✓ on"),
        Some("none") => output.line("  ✗ off (memory.provider: none)"),
        Some(_) => output.line("  ✗ off: a memory service is configured"),
    }
    if let Some(settings) = MemorySettings::from_config(config).embeddings {
        output.line(&format!("  ✓ by meaning: {} at {}", settings.model, settings.base_url));
    }
    for entry in People::unusable(config.get("memory.people").as_ref()) {
        output.line(&format!("  ⚠ memory.people: {entry} is no account; an example is telegram:42"));
    }
    if let Some(service) = configured_service(config) {
        output.line("Memory service");
        check_service(&service, config, context, output)?;
    }
    Ok(())
}

/// Asks a service whether it works with the present settings, and says what it answered.
pub(crate) fn check_service(
    name: &str,
    config: &Config,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let store = context.store(output)?;
    let services = MemoryServices::new(Arc::new(SystemClock::new()));
    let from = ProgramConfig { context, config };
    let service = match services.open(name, &store, from) {
        Ok(service) => service,
        Err(reason) => {
            output.line(&format!("  ✗ {reason}"));
            return Ok(());
        }
    };
    match runtime()?.block_on(service.check()) {
        Ok(health) => output.line(&format!("  ✓ {} answers at {}", service.engine().label(), health.place)),
        Err(error) => output.line(&format!("  ✗ {error}")),
    }
    Ok(())
}

/// Chooses a memory service, and stores its key and address.
fn setup(
    service: Option<String>,
    key: Option<String>,
    url: Option<String>,
    context: &ProgramContext,
    output: &Console,
) -> Result<()> {
    let chosen: &KnownEngine = if let Some(name) = service {
        KNOWN_ENGINES.iter().find(|known| known.name == name).with_context(|| {
            let names: Vec<&str> = KNOWN_ENGINES.iter().map(|known| known.name).collect();
            format!("'{name}' is not a memory service of this release; use one of {}", names.join(", "))
        })?
    } else {
        let rows: Vec<String> = KNOWN_ENGINES.iter().map(|known| known.label.to_owned()).collect();
        match output.choose("Memory service", &rows, 0).and_then(|row| KNOWN_ENGINES.get(row)) {
            Some(known) => known,
            None => bail!("no service was chosen; name one, as in `hermes memory setup mem0`"),
        }
    };
    let is_set = |variable: &str| !variable.is_empty() && context.env.get(variable).is_some();
    let mut values: Vec<(&str, String)> = Vec::new();
    if let Some(url) = url {
        if chosen.address.is_empty() {
            bail!("{} has no address; nothing was changed", chosen.label);
        }
        values.push((chosen.address, url));
    }
    let has_address = !values.is_empty() || is_set(chosen.address);
    let key = match key {
        Some(key) => Some(key),
        None if chosen.key.is_empty() || is_set(chosen.key) || has_address => None,
        None => output.ask_secret(&format!("{} (empty for none): ", chosen.key)),
    };
    let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    if let Some(key) = key.filter(|_| !chosen.key.is_empty()) {
        values.push((chosen.key, key));
    }
    let has_key = is_set(chosen.key) || values.iter().any(|(name, _)| *name == chosen.key);
    if chosen.needs_key && !has_key {
        bail!("{} needs a key; nothing was changed. Use --key", chosen.label);
    }
    let pairs: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if !pairs.is_empty() {
        dotenv::save(&context.home, ManagedMode::detect(&context.home, &context.env), &pairs)?;
    }
    set::set(&context.home, &context.env, "memory.provider", chosen.name)?;
    output.line(&format!("✓ {} is the memory service. MEMORY.md and USER.md stay in use.", chosen.label));
    let context = context.reloaded();
    check_service(chosen.name, &context.config(output), &context, output)
}

/// Moves the files aside, so that nothing is lost by a mistake.
fn reset(target: MemorySelection, yes: bool, context: &ProgramContext, output: &Console) -> Result<()> {
    let is_wanted = |which| target == MemorySelection::All || target == which;
    let files: Vec<PathBuf> = FILES
        .into_iter()
        .filter(|(which, ..)| is_wanted(*which))
        .map(|(_, name, ..)| context.home.memories().join(name))
        .filter(|path| path.exists())
        .collect();
    if files.is_empty() {
        output.line("Nothing is remembered.");
        return Ok(());
    }
    if !yes {
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        match output.confirm(&format!("Forget what is in {}?", names.join(" and "))) {
            Confirmation::Yes => {}
            Confirmation::No => {
                output.line("Cancelled.");
                return Ok(());
            }
            Confirmation::NotInteractive => {
                output.line("Cancelled: no terminal to confirm on. Use -y to skip the confirmation.");
                return Ok(());
            }
        }
    }
    for file in files {
        let kept = file.with_extension("md.before-reset");
        fs::rename(&file, &kept)?;
        output.line(&format!("✓ {} is empty now; it is kept as {}", file.display(), kept.display()));
    }
    output.line("Conversations that are open keep what they began with.");
    Ok(())
}
