//! `hermes backup` and `import`: the home in one ZIP file.
//!
//! The database is copied while it is in use. Invariant: an import changes nothing that exists unless it is told to, and
//! then keeps what it replaces.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_config::Home;
use hermes_gateway::process;
use hermes_store::Store;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::cli::{BackupArguments, ImportArguments};
use crate::context::{ProgramContext, local_time, now};
use crate::output::Console;
use crate::random;

/// What no archive needs: caches, logs, locks, state of running processes, other archives.
const SKIPPED: [&str; 16] = [
    "logs",
    "backups",
    "checkpoints",
    "image_cache",
    "audio_cache",
    "document_cache",
    "sandboxes",
    "hermes-agent",
    "gateway.pid",
    "gateway_state.json",
    "processes.json",
    "state.db-wal",
    "state.db-shm",
    "auth.lock",
    ".config.lock",
    "profiles",
];
/// What `--quick` writes.
const QUICK: [&str; 11] = [
    "config.yaml",
    ".env",
    "auth.json",
    "SOUL.md",
    "memories",
    "skills",
    "skins",
    "hooks",
    "cron",
    "webhook_subscriptions.json",
    "pairing",
];
/// What a file for others does not contain, nor copies of it with another ending.
const PRIVATE: [&str; 14] = [
    ".env",
    "auth.json",
    "state.db",
    "sessions",
    "pairing",
    ".hermes_history",
    "mcp-tokens",
    "whatsapp",
    "platforms",
    "matrix",
    "matrix_session.json",
    "response_store.db",
    "results",
    "config.yaml.",
];
/// The largest file, and the largest total, that an import writes.
const MAX_FILE: u64 = 8 * 1024 * 1024 * 1024;
const MAX_TOTAL: u64 = 32 * 1024 * 1024 * 1024;

/// Says what an archive contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArchiveScope {
    Everything,
    /// Settings, keys, memory, skills and jobs.
    Quick,
    /// Nothing that is private.
    Shareable,
}

/// Says what an import does with files that exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingFiles {
    Keep,
    /// Replaces them, and keeps each under another name.
    Replace,
}

/// What an import did.
#[derive(Debug, Default)]
pub(crate) struct ImportOutcome {
    pub(crate) written: usize,
    pub(crate) kept: Vec<String>,
}

pub(crate) fn run(
    arguments: &BackupArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let home = &context.home;
    let scope = if arguments.quick { ArchiveScope::Quick } else { ArchiveScope::Everything };
    if arguments.list {
        for (name, size) in files(home, scope)? {
            output.line(&format!("{size:>12}  {name}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let at = local_time(now());
    let name = format!(
        "hermes-backup-{:04}{:02}{:02}-{:02}{:02}{:02}.zip",
        at.year, at.month, at.day, at.hour, at.minute, at.second
    );
    let file = arguments.output.clone().unwrap_or_else(|| PathBuf::from(name));
    let count = write_archive(home, &file, scope)?;
    let size = fs::metadata(&file)?.len();
    output.line(&format!("✓ {count} files, {} KB, in {}", size.div_ceil(1024), file.display()));
    output.line("  It contains what is private in the home, keys too; keep it where only you can read it.");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn import(
    arguments: &ImportArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    if process::running_pid(&context.home).is_some() {
        bail!("the gateway is running; stop it first: hermes gateway stop");
    }
    let existing = if arguments.force { ExistingFiles::Replace } else { ExistingFiles::Keep };
    context.home.ensure()?;
    let outcome = read_archive(&arguments.file, &context.home, existing)?;
    output.line(&format!("✓ {} files written to {}", outcome.written, context.home.path().display()));
    for name in &outcome.kept {
        output.line(&match existing {
            ExistingFiles::Keep => format!("  kept {name} as it is; --force replaces it"),
            ExistingFiles::Replace => format!("  the former {name} is kept as {name}.before-import"),
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the files of a scope with their sizes.
fn files(home: &Home, scope: ArchiveScope) -> Result<Vec<(String, u64)>> {
    let mut found = Vec::new();
    let mut folders = vec![home.path().to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let relative = path.strip_prefix(home.path()).unwrap_or(&path).to_owned();
            let Some(name) = relative.to_str().map(str::to_owned) else { continue };
            let first = name.split('/').next().unwrap_or_default();
            let is_lock = path.extension().is_some_and(|extension| extension == "lock");
            let is_wanted = !SKIPPED.contains(&first)
                && !is_lock
                && match scope {
                    ArchiveScope::Everything => true,
                    ArchiveScope::Quick => QUICK.contains(&first),
                    ArchiveScope::Shareable => !is_private(first),
                };
            // A link may lead out of the home.
            let data = fs::symlink_metadata(&path)?;
            if !is_wanted || data.is_symlink() {
                continue;
            }
            if data.is_dir() {
                folders.push(path);
            } else if data.is_file() {
                found.push((name, data.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Tells whether an entry of the home is not for others: `.env`, and `.env.before-import` too.
fn is_private(entry: &str) -> bool {
    PRIVATE.iter().any(|name| {
        entry
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || name.ends_with('.'))
    })
}

/// Writes an archive beside its place, and moves it there when it is whole. Returns the number of files.
pub(crate) fn write_archive(home: &Home, file: &Path, scope: ArchiveScope) -> Result<usize> {
    let beside = file.with_added_extension(format!("{}.part", random::hex::<4>()?));
    let written = write_beside(home, &beside, scope);
    if let Err(error) = written
        .as_ref()
        .map_err(|error| format!("{error:#}"))
        .and_then(|_| fs::rename(&beside, file).map_err(|error| error.to_string()))
    {
        // The half-written file is of no use.
        let _ = fs::remove_file(&beside);
        bail!("cannot write {}: {error}", file.display());
    }
    written
}

fn write_beside(home: &Home, path: &Path, scope: ArchiveScope) -> Result<usize> {
    let target = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut archive = ZipWriter::new(target);
    let mut count = 0;
    for (name, size) in files(home, scope)? {
        let source = home.join(&name);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .large_file(size > u64::from(u32::MAX) / 2)
            .unix_permissions(fs::metadata(&source).map_or(0o600, |data| data.permissions().mode() & 0o777));
        archive.start_file(name.as_str(), options)?;
        if name == "state.db" {
            copy_database(home, &mut archive)?;
        } else {
            io::copy(&mut File::open(&source)?, &mut archive)
                .with_context(|| format!("cannot read {}", source.display()))?;
        }
        count += 1;
    }
    let file = archive.finish()?;
    file.sync_all()?;
    Ok(count)
}

/// Adds a consistent copy of the database, which may be in use.
fn copy_database(home: &Home, archive: &mut ZipWriter<File>) -> Result<()> {
    let copy = home.join(format!(".backup-{}.db", random::hex::<4>()?));
    let copied = (|| -> Result<()> {
        let store = Store::open_read_only(&home.state_db())?;
        store.back_up(&copy)?;
        io::copy(&mut File::open(&copy)?, archive)?;
        Ok(())
    })();
    let _ = fs::remove_file(&copy);
    copied.context("cannot copy state.db")
}

/// Reads an archive into a home. The whole archive is checked before anything is written.
pub(crate) fn read_archive(file: &Path, home: &Home, existing: ExistingFiles) -> Result<ImportOutcome> {
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut archive =
        ZipArchive::new(opened).with_context(|| format!("{} is no ZIP file", file.display()))?;
    let mut total = 0_u64;
    for at in 0..archive.len() {
        let entry = archive.by_index(at)?;
        let name = entry.name().to_owned();
        total = total.saturating_add(entry.size());
        if entry.is_symlink() || !is_plain_path(&name) || entry.size() > MAX_FILE || total > MAX_TOTAL {
            bail!("{} is no backup: it contains {name:?}; nothing was changed", file.display());
        }
    }
    let mut outcome = ImportOutcome::default();
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at)?;
        if entry.is_dir() {
            continue;
        }
        let name = entry.name().to_owned();
        let target = home.join(&name);
        if let Some(parent) = Path::new(&name).parent().filter(|parent| !parent.as_os_str().is_empty()) {
            home.folder(parent)?;
        }
        if target.exists() {
            outcome.kept.push(name.clone());
            if existing == ExistingFiles::Keep {
                continue;
            }
            fs::rename(&target, target.with_added_extension("before-import"))?;
        }
        write_entry(&mut entry, &target)?;
        outcome.written += 1;
    }
    Ok(outcome)
}

fn write_entry(entry: &mut zip::read::ZipFile<'_, File>, target: &Path) -> Result<()> {
    let limit = entry.size();
    let mode = entry.unix_mode().unwrap_or(0o600) & 0o700;
    let beside = target.with_added_extension(format!("{}.part", random::hex::<4>()?));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode | 0o600).open(&beside)?;
    // An entry never holds more than its head says.
    let copied =
        io::copy(&mut entry.take(limit), &mut file).and_then(|_| file.flush()).and_then(|()| file.sync_all());
    if let Err(error) = copied.and_then(|()| fs::rename(&beside, target)) {
        let _ = fs::remove_file(&beside);
        return Err(error).with_context(|| format!("cannot write {}", target.display()));
    }
    Ok(())
}

/// Tells whether a path stays below the folder it is joined to.
fn is_plain_path(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('\\')
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}
