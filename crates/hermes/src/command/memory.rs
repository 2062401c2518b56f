//! `hermes memory`: what the agent remembers, and which memory is in use.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hermes_agent::TranscriptRecall;
use hermes_config::{Config, set};
use hermes_knowledge::{ChatIdentity, MemoryAuthor, MemoryFile, MemoryRecord, MemoryStore, PersonName};
use hermes_store::{RecallScope, Store};
use hermes_task::SystemClock;
use hermes_text::ellipsize;

use crate::cli::{MemoryCommand, MemorySelection};
use crate::context::ProgramContext;
use crate::editor;
use crate::output::{Confirmation, Console};
use crate::wiring::memory_limits;
use crate::wiring::person::Accounts;

/// The files of the built-in memory, with the keys that switch them on and limit them.
const FILES: [(MemorySelection, &str, &str, &str); 2] = [
    (MemorySelection::Memory, "MEMORY.md", "memory.memory_enabled", "memory.memory_char_limit"),
    (MemorySelection::User, "USER.md", "memory.user_profile_enabled", "memory.user_char_limit"),
];

/// The longest text of an entry in a list of changes.
const SHOWN_CHARS: usize = 100;

pub(crate) fn run(command: MemoryCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.config(output);
    let of = |person: Option<&str>| -> Result<PersonMemory> {
        let account = person.map(account).transpose()?;
        Ok(PersonMemory::open(context, &config, account.as_ref()))
    };
    match command {
        MemoryCommand::Status => status(&config, context, output),
        MemoryCommand::Show { target, person } => {
            output.text(&(of(person.as_deref())?.describe_files(target) + "\n"));
        }
        MemoryCommand::Edit { target, person } => edit(target, &of(person.as_deref())?, context, output)?,
        MemoryCommand::Search { words } => {
            let store = context.store(output)?;
            output.line(&of(None)?.search(&words.join(" "), &store)?);
        }
        MemoryCommand::Log { limit, person } => output.line(&of(person.as_deref())?.list_changes(limit)),
        MemoryCommand::Undo { number, person } => output.line(&of(person.as_deref())?.undo(number)?),
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
            };
            let at = change.at.get(..16).unwrap_or(&change.at).replace('T', " ");
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{:>4}  {at}  {:<6}  by {by}", change.number, change.target);
            for (sign, entry) in change.removed().map(|e| ('-', e)).chain(change.added().map(|e| ('+', e))) {
                let _ = writeln!(text, "      {sign} {}", ellipsize(&entry.replace('\n', " "), SHOWN_CHARS));
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

fn status(config: &Config, context: &ProgramContext, output: &Console) {
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
        Some(provider) => {
            output.line(&format!(
                "  ⚠ {provider} is configured; this release does not use it, and recalls by itself"
            ));
        }
    }
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
