//! The skills that are part of the program, and their copies in the home.

use hermes_config::Env;
use hermes_knowledge::{BundleSource, SkillSyncReport, has_opted_out, sync_bundled_skills};

use crate::context::ProgramContext;
use crate::output::Console;

const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bundled_skills.zlib"));
const DIGEST: &str = include_str!(concat!(env!("OUT_DIR"), "/bundled_skills.digest"));

const PACKED_OPTIONAL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/optional_skills.zlib"));
const OPTIONAL_DIGEST: &str = include_str!(concat!(env!("OUT_DIR"), "/optional_skills.digest"));

/// Returns where optional skills come from: the folder that a variable names, otherwise this program.
pub(crate) fn optional_source(env: &Env) -> BundleSource {
    match env.get("HERMES_OPTIONAL_SKILLS") {
        Some(folder) => BundleSource::Folder(folder.into()),
        None => BundleSource::Packed { bytes: PACKED_OPTIONAL, digest: OPTIONAL_DIGEST },
    }
}

/// Returns where bundled skills come from: the folder that a variable names, otherwise this program.
pub(crate) fn source(env: &Env) -> BundleSource {
    match env.get("HERMES_BUNDLED_SKILLS") {
        Some(folder) => BundleSource::Folder(folder.into()),
        None => BundleSource::Packed { bytes: PACKED, digest: DIGEST },
    }
}

/// Brings the home's copies up to date and says nothing. A home that cannot be written keeps what it has.
pub(crate) fn sync_quietly(context: &ProgramContext) {
    match sync_bundled_skills(&context.home, &source(&context.env)) {
        Ok(Some(report)) if !report.failed.is_empty() => {
            tracing::warn!(failed = ?report.failed, "some bundled skills could not be written");
        }
        Ok(_) => {}
        Err(error) => tracing::info!(%error, "the bundled skills were not synchronized"),
    }
}

/// Brings the home's copies up to date and prints what changed. Says nothing where they are not wanted.
pub(crate) fn sync_aloud(context: &ProgramContext, output: &Console) {
    if has_opted_out(&context.home) {
        return;
    }
    match sync_bundled_skills(&context.home, &source(&context.env)) {
        Ok(report) => {
            for line in report_lines(&report.unwrap_or_default()) {
                output.line(&line);
            }
        }
        Err(error) => output.notice(&format!("note: the bundled skills were not synchronized: {error}")),
    }
}

fn report_lines(report: &SkillSyncReport) -> Vec<String> {
    let mut lines: Vec<String> = report.copied.iter().map(|name| format!("  + {name}")).collect();
    lines.extend(report.updated.iter().map(|name| format!("  ↑ {name} (updated)")));
    lines.extend(report.user_modified.iter().map(|name| format!("  ~ {name} (user-modified, skipping)")));
    lines.extend(report.failed.iter().map(|(name, error)| format!("  ! Failed to copy {name}: {error}")));
    let count = |sign: &str, names: &[String], word: &str| {
        (!names.is_empty()).then(|| format!("{sign} {} {word}", names.len()))
    };
    let changes = [
        count("+", &report.copied, "new"),
        count("↑", &report.updated, "updated"),
        count("~", &report.user_modified, "user-modified (kept)"),
        count("−", &report.cleaned, "removed from manifest"),
    ];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    lines.push(if changes.is_empty() && report.failed.is_empty() {
        "✓ Skills are up to date".to_owned()
    } else {
        format!("Skills: {}", changes.join(", "))
    });
    lines
}
