//! Builds the prompt of a run.

use std::fmt::Write as _;
use std::sync::Arc;

use hermes_schedule::{Job, JobId};
use hermes_text::head;
use serde_json::Value;

use super::job_list::JobList;
use crate::ports::SkillPrompts;

const SILENT: &str = include_str!("texts/silent.md");
const SKILLS: &str = include_str!("texts/skills.md");
/// The most characters included of another job's document.
const LONGEST_CONTEXT: usize = 8000;

/// Builds the prompts of runs.
pub(super) struct JobPrompts {
    jobs: JobList,
    skills: Arc<dyn SkillPrompts>,
}

impl JobPrompts {
    pub(super) fn new(jobs: JobList, skills: Arc<dyn SkillPrompts>) -> Self {
        Self { jobs, skills }
    }

    /// Builds the whole prompt; `prelude` is the output of the job's script.
    pub(super) fn build(&self, job: &Job, prelude: &str) -> String {
        let mut instruction = format!("{}\n\n{prelude}", SILENT.trim());
        for other in self.other_results(job) {
            instruction.push_str(&other);
        }
        instruction.push_str(job.prompt());
        let skills = job.skills();
        if skills.is_empty() {
            return instruction;
        }
        let (mut blocks, mut missing) = (Vec::new(), Vec::new());
        for name in skills {
            match self.skills.prompt(&name, "") {
                Some(text) => blocks.push(text.trim().to_owned()),
                None => missing.push(name),
            }
        }
        assemble(&blocks, &missing, &instruction)
    }

    /// Returns the latest results of the jobs this job builds on.
    fn other_results(&self, job: &Job) -> Vec<String> {
        let listed = match job.more.get("context_from") {
            Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(id)) => vec![id.as_str()],
            _ => Vec::new(),
        };
        let documents = self.jobs.documents();
        let read = |id: &str| {
            let text = documents.newest(&JobId::new(id))?;
            let answer = text.split_once("\n## Response\n").map_or(text.as_str(), |(_, answer)| answer);
            Some(format!("## Output of job {id}\n\n{}\n\n", head(answer.trim(), LONGEST_CONTEXT)))
        };
        listed.into_iter().filter_map(read).collect()
    }
}

/// Puts skills first, then the instruction. Missing skills are named before everything else.
fn assemble(blocks: &[String], missing: &[String], instruction: &str) -> String {
    let mut text = String::new();
    if !missing.is_empty() {
        let names = missing.join(", ");
        // Writing to a `String` cannot fail.
        let _ = write!(
            text,
            "[SYSTEM: These skills were not found: {names}. Begin your answer with the notice \"⚠️ Skill(s) not found and skipped: {names}\".]\n\n"
        );
    }
    for block in blocks {
        let _ = write!(text, "{block}\n\n");
    }
    if !blocks.is_empty() {
        let _ = write!(text, "{} ", SKILLS.trim());
    }
    text.push_str(instruction);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_come_first_and_missing_ones_before_them() {
        let text = assemble(&["skill one".into(), "skill two".into()], &["a".into(), "b".into()], "do it");
        assert!(text.starts_with("[SYSTEM: These skills were not found: a, b."), "{text}");
        assert!(
            text.contains("\"⚠️ Skill(s) not found and skipped: a, b\"")
                && text.ends_with("skills above: do it"),
            "{text}"
        );
        let (one, two) = (text.find("skill one").unwrap(), text.find("skill two").unwrap());
        assert!(one < two);
    }

    #[test]
    fn a_job_whose_skills_are_all_missing_still_says_what_to_do() {
        let text = assemble(&[], &["gone".into()], "do it");
        assert!(text.ends_with(".\".]\n\ndo it") || text.ends_with("\".]\n\ndo it"), "{text}");
        assert!(!text.contains("skills above"));
    }
}
