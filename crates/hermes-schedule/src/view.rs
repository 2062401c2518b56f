//! A job as models and users see it.

use serde_json::{Value, json};

use crate::job::Job;

const PREVIEW_CHARS: usize = 100;

/// Returns the short form: no secrets, no long texts.
pub fn job_summary(job: &Job) -> Value {
    let prompt = job.prompt();
    let mut preview: String = prompt.chars().take(PREVIEW_CHARS).collect();
    if prompt.chars().count() > PREVIEW_CHARS {
        preview.push_str("...");
    }
    let skills = job.skills();
    json!({
        "job_id": job.id,
        "name": job.name(),
        "skill": skills.first(),
        "skills": skills,
        "prompt_preview": preview,
        "model": job.model,
        "provider": job.provider,
        "base_url": job.base_url,
        "schedule": job.display(),
        "repeat": describe_repeat(job),
        "deliver": job.deliver(),
        "next_run_at": job.next_run_at,
        "last_run_at": job.last_run_at,
        "last_status": job.last_status,
        "enabled": job.is_enabled(),
        "state": job.state(),
        "paused_at": job.paused_at,
        "paused_reason": job.paused_reason,
    })
}

/// Formats the repeat count: `forever`, `once`, `3 times`, `1/3`.
pub fn describe_repeat(job: &Job) -> String {
    let Some((times, completed)) =
        job.repeat.as_ref().and_then(|repeat| Some((repeat.times?, repeat.completed)))
    else {
        return "forever".to_owned();
    };
    match (times, completed) {
        (1, 0) => "once".to_owned(),
        (_, 0) => format!("{times} times"),
        _ => format!("{completed}/{times}"),
    }
}
