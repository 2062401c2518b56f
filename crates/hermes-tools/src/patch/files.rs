//! Applies a patch to several files: all changes are tried in memory first, then written.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hermes_text::{PatchOp, apply_hunks, parse_patch, unified_diff};
use hermes_types::ToolInvocation;

use super::replace::refuse;
use super::{PatchChanges, PatchFailure};
use crate::argument::text;
use crate::file::file_system::{FileSystem, PathKind, stamp};
use crate::file::text_format::{self, TextFormat};
use crate::file::{BURIES_SECRET, FileTools};

pub(super) fn apply(
    files: &FileTools,
    disk: &dyn FileSystem,
    call: &ToolInvocation,
) -> Result<PatchChanges, PatchFailure> {
    let patch = text(&call.arguments, "patch").ok_or_else(|| "patch content required".to_owned())?;
    let ops = parse_patch(patch)
        .map_err(|error| format!("Patch validation failed (no files were modified): {error}"))?;
    let mut plan = PatchPlan { files, disk, contents: HashMap::new() };
    let paths: Vec<PathBuf> = ops.iter().flat_map(PatchOp::paths).map(|given| plan.place(given)).collect();
    files.state.with_write_lock(&paths, || {
        let (steps, problems) = plan.validate(&ops);
        if !problems.is_empty() {
            let mut error = "Patch validation failed (no files were modified):".to_owned();
            for problem in problems {
                let _ = write!(error, "\n- {problem}");
            }
            let hint = error.contains("Could not find").then(|| {
                "Read the lines with read_file, or find them with search_files, and quote them as they are.".to_owned()
            });
            return Err(PatchFailure { error, hint, ..PatchFailure::default() });
        }
        perform(files, disk, call, steps)
    })
}

/// One validated step of a patch.
enum PatchStep {
    Write { given: String, path: PathBuf, before: Option<String>, after: String, form: TextFormat },
    Delete { given: String, path: PathBuf, before: String },
    Move { from: String, to: String, source: PathBuf, target: PathBuf },
}

/// The contents of the files after the steps so far.
struct PatchPlan<'a> {
    files: &'a FileTools,
    disk: &'a dyn FileSystem,
    /// The content of each changed file, or `None` for a deleted one.
    contents: HashMap<PathBuf, Option<(String, TextFormat)>>,
}

impl PatchPlan<'_> {
    fn place(&self, given: &str) -> PathBuf {
        self.real(&self.disk.resolve(given))
    }

    /// Resolves the parent folder but not the name itself, because deleting or moving a link affects the link
    /// and not its target.
    fn name(&self, given: &str) -> PathBuf {
        let path = self.disk.resolve(given);
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => self.real(parent).join(name),
            _ => path,
        }
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.disk.inspect(path).map_or_else(|_| path.to_owned(), |seen| seen.real)
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.disk.inspect(path).is_ok_and(|seen| seen.kind == PathKind::Folder)
    }

    fn validate(&mut self, ops: &[PatchOp]) -> (Vec<PatchStep>, Vec<String>) {
        let (mut steps, mut problems) = (Vec::new(), Vec::new());
        for op in ops {
            match self.step(op) {
                Ok(step) => steps.push(step),
                Err(problem) => problems.push(problem),
            }
        }
        (steps, problems)
    }

    fn step(&mut self, op: &PatchOp) -> Result<PatchStep, String> {
        for given in op.paths() {
            refuse(self.disk, given, &self.disk.resolve(given)).map_err(|failure| failure.error)?;
        }
        match op {
            PatchOp::Update { path: given, hunks } => {
                let path = self.place(given);
                let (before, form) = self.read(given, &path)?;
                let after = apply_hunks(&before, hunks).map_err(|error| format!("{given}: {error}"))?;
                if self.files.overwrites_secret(&before, &after) {
                    return Err(format!("{given}: {BURIES_SECRET}"));
                }
                self.contents.insert(path.clone(), Some((after.clone(), form)));
                Ok(PatchStep::Write { given: given.clone(), path, before: Some(before), after, form })
            }
            PatchOp::Add { path: given, content } => {
                let path = self.place(given);
                let existing = self.read(given, &path).ok();
                if existing.is_none() && self.disk.exists(&path) && !self.contents.contains_key(&path) {
                    return Err(format!("{given}: exists and is not text"));
                }
                let (before, form) =
                    existing.map_or((None, TextFormat::default()), |(text, form)| (Some(text), form));
                self.contents.insert(path.clone(), Some((content.clone(), form)));
                Ok(PatchStep::Write { given: given.clone(), path, before, after: content.clone(), form })
            }
            PatchOp::Delete { path: given } => {
                let path = self.name(given);
                if !self.exists(&path) || self.is_folder(&path) {
                    return Err(format!("{given}: no such file to delete"));
                }
                let before = self.read(given, &path).map(|(text, _)| text).unwrap_or_default();
                self.contents.insert(path.clone(), None);
                Ok(PatchStep::Delete { given: given.clone(), path, before })
            }
            PatchOp::Move { from, to } => {
                let (source, target) = (self.name(from), self.name(to));
                if !self.exists(&source) {
                    return Err(format!("{from}: no such file to move"));
                }
                if self.exists(&target) {
                    return Err(format!("{to}: exists already; a move does not overwrite"));
                }
                let content = self.read(from, &source).ok();
                self.contents.insert(source.clone(), None);
                if let Some(content) = content {
                    self.contents.insert(target.clone(), Some(content));
                }
                Ok(PatchStep::Move { from: from.clone(), to: to.clone(), source, target })
            }
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.contents.get(path).map_or_else(|| self.disk.exists(path), Option::is_some)
    }

    fn read(&self, given: &str, path: &Path) -> Result<(String, TextFormat), String> {
        match self.contents.get(path) {
            Some(Some(known)) => Ok(known.clone()),
            Some(None) => Err(format!("{given}: deleted or moved earlier in this patch")),
            None => text_format::read_text(self.disk, path)
                .map_err(|error| format!("Failed to read file: {given} ({error})")),
        }
    }
}

fn perform(
    files: &FileTools,
    disk: &dyn FileSystem,
    call: &ToolInvocation,
    steps: Vec<PatchStep>,
) -> Result<PatchChanges, PatchFailure> {
    let mut done = PatchChanges::default();
    let mut diffs: Vec<String> = Vec::new();
    for step in steps {
        let result = perform_step(files, disk, call, step, &mut done, &mut diffs);
        if let Err(problem) = result {
            done.diff = diffs.join("\n");
            let error =
                format!("Apply phase failed: {problem}. Changes listed here were made; read the files again");
            return Err(PatchFailure { error, hint: None, done: Box::new(done) });
        }
    }
    done.diff = diffs.join("\n");
    Ok(done)
}

fn perform_step(
    files: &FileTools,
    disk: &dyn FileSystem,
    call: &ToolInvocation,
    step: PatchStep,
    done: &mut PatchChanges,
    diffs: &mut Vec<String>,
) -> Result<(), String> {
    match step {
        PatchStep::Write { given, path, before, after, form } => {
            done.warning =
                done.warning.take().or_else(|| files.state.staleness(&call.task, &path, stamp(disk, &path)));
            files.checkpoint(call, disk, &path);
            disk.replace(&path, &form.encode(&after)).map_err(|error| format!("{given}: {error}"))?;
            files.state.record_write(&call.task, &path, stamp(disk, &path));
            let from = if before.is_some() { format!("a/{given}") } else { "/dev/null".to_owned() };
            diffs.push(unified_diff(
                &files.masked(before.as_deref().unwrap_or_default()),
                &files.masked(&after),
                &from,
                &format!("b/{given}"),
            ));
            let list = if before.is_some() { &mut done.modified } else { &mut done.created };
            if !list.contains(&given) {
                list.push(given.clone());
            }
            done.written.retain(|(other, ..)| *other != given);
            done.written.push((given, path, after));
        }
        PatchStep::Delete { given, path, before } => {
            files.checkpoint(call, disk, &path);
            disk.remove(&path).map_err(|error| format!("{given}: {error}"))?;
            files.state.record_write(&call.task, &path, stamp(disk, &path));
            diffs.push(unified_diff(&files.masked(&before), "", &format!("a/{given}"), "/dev/null"));
            done.written.retain(|(other, ..)| *other != given);
            done.deleted.push(given);
        }
        PatchStep::Move { from, to, source, target } => {
            files.checkpoint(call, disk, &source);
            disk.rename(&source, &target).map_err(|error| format!("{from} -> {to}: {error}"))?;
            files.state.record_write(&call.task, &source, None);
            files.state.record_write(&call.task, &target, stamp(disk, &target));
            diffs.push(format!("# moved {from} -> {to}\n"));
            done.modified.push(format!("{from} -> {to}"));
        }
    }
    Ok(())
}
