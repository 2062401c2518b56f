//! `output/<job>/YYYY-MM-DD_HH-MM-SS.md`: the prompt and the answer of each run.

use std::fs;
use std::path::PathBuf;

use hermes_config::{Home, write};
use hermes_types::Timestamp;

use crate::error::{Error, Result};
use crate::job::{Job, JobId};
use crate::zone::Zone;

/// The run documents of a home.
#[derive(Debug, Clone)]
pub struct RunDocuments {
    home: Home,
    zone: Zone,
}

/// One run, with what its document contains.
#[derive(Debug, Clone, Copy)]
pub struct RunRecord<'a> {
    pub at: Timestamp,
    /// The whole prompt the model was given.
    pub prompt: &'a str,
    /// The answer, or the reason why there is none.
    pub outcome: std::result::Result<&'a str, &'a str>,
}

impl RunDocuments {
    pub fn new(home: Home, zone: Zone) -> Self {
        Self { home, zone }
    }

    /// Writes a document and removes the oldest beyond `keep`; without a number all are kept.
    pub fn write(&self, job: &Job, run: &RunRecord<'_>, keep: Option<usize>) -> Result<PathBuf> {
        let folder = folder_of(&job.id)?;
        let folder = self.home.folder(folder)?;
        let time = self.zone.local(run.at);
        let path = folder.join(time.format("%Y-%m-%d_%H-%M-%S.md").to_string());
        write::replace(&path, text(job, run, &time.format("%Y-%m-%d %H:%M:%S").to_string()).as_bytes())?;
        if let Some(keep) = keep {
            let names = self.names(&job.id);
            for old in names.iter().take(names.len().saturating_sub(keep.max(1))) {
                // A document that cannot be removed now is removed after the next run.
                let _ = fs::remove_file(old);
            }
        }
        Ok(path)
    }

    /// Returns the newest document of a job.
    pub fn newest(&self, job: &JobId) -> Option<String> {
        self.names(job).last().and_then(|path| fs::read_to_string(path).ok())
    }

    fn names(&self, job: &JobId) -> Vec<PathBuf> {
        let Ok(folder) = folder_of(job) else { return Vec::new() };
        let listed = fs::read_dir(self.home.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = listed
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ext| ext == "md"))
            .collect();
        // File names begin with the time, so sorting by name sorts by time.
        names.sort_unstable();
        names
    }
}

/// Returns the folder for a job's documents. Refuses a hand-written id that would lead out of the output folder.
fn folder_of(job: &JobId) -> Result<PathBuf> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if job.as_str().is_empty() || !job.as_str().chars().all(plain) {
        return Err(Error::Field(format!("'{job}' cannot be the name of a folder")));
    }
    Ok(PathBuf::from("cron/output").join(job.as_str()))
}

fn text(job: &Job, run: &RunRecord<'_>, time: &str) -> String {
    let failed = if run.outcome.is_err() { " (FAILED)" } else { "" };
    let outcome = match run.outcome {
        Ok(answer) if answer.trim().is_empty() => "## Response\n\n(No response generated)".to_owned(),
        Ok(answer) => format!("## Response\n\n{}", answer.trim()),
        Err(error) => format!("## Error\n\n```\n{}\n```", error.trim()),
    };
    format!(
        "# Cron Job: {}{failed}\n\n**Job ID:** {}\n**Run Time:** {time}\n**Schedule:** {}\n\n## Prompt\n\n{}\n\n{outcome}\n",
        job.name(),
        job.id,
        job.display(),
        run.prompt.trim(),
    )
}
