//! Jobs of a cluster: a job array for Slurm, or an Indexed Job for Kubernetes, whose processes do one run together.
//!
//! A job contains no secret: keys and the address of the queue come from the home's `.env` or from a Kubernetes secret.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_config::yaml::{YamlValue, emit_block};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode, shell_quote};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock};
use serde_json::{Value, json};

use crate::cli::{BatchArguments, JobLaunchArguments};
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::child_variables;

/// The limit of the cluster's client.
const SUBMIT_LIMIT: Duration = Duration::from_mins(1);
/// How often a failed process of a Kubernetes job is started again.
const RETRIES: u32 = 3;

/// What every process of the job runs.
struct JobCommand {
    /// The words after `hermes`, before the part.
    words: Vec<String>,
    /// Set where each process does a part of the batches, because there is no queue.
    has_parts: bool,
}

pub(super) fn run(
    arguments: &BatchArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let command = match command(arguments, context) {
        Ok(command) => command,
        Err(problem) => {
            output.error(&problem);
            return Ok(ExitCode::from(2));
        }
    };
    let name = arguments.run_name.as_deref().unwrap_or_default();
    let job = &arguments.job;
    let here = std::env::current_dir().context("the working directory no longer exists")?;
    let (file, text, program) = if job.slurm {
        ("job.sbatch", slurm_script(name, job, &command, &here, context), "sbatch")
    } else {
        ("job.yaml", kubernetes_manifest(name, job, &command), "kubectl")
    };
    let path = job.job_file.clone().unwrap_or_else(|| Path::new("data").join(name).join(file));
    write(&path, &text)?;
    output.line(&format!("Written: {}", path.display()));
    let words: Vec<std::ffi::OsString> = if job.slurm {
        vec![path.clone().into()]
    } else {
        vec!["apply".into(), "-f".into(), path.clone().into()]
    };
    if !job.submit {
        let shown: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        output.line(&format!(
            "Submit it with `{program} {}`, or run this command again with --submit.",
            shown.join(" ")
        ));
        return Ok(ExitCode::SUCCESS);
    }
    submit(program, words, &here, context, output)
}

/// Checks the flags. The error is a line for the user.
fn command(arguments: &BatchArguments, context: &ProgramContext) -> Result<JobCommand, String> {
    let job = &arguments.job;
    if job.slurm == job.kubernetes {
        return Err("say where: --slurm or --kubernetes".to_owned());
    }
    let name = arguments.run_name.as_deref().ok_or("--run-name is missing")?;
    if name.is_empty() || name.contains(|c: char| c == '/' || c.is_whitespace()) || name.starts_with('.') {
        return Err(format!(
            "--run-name is `{name}`; it must be the name of a folder, without `/` and blanks, and not hidden"
        ));
    }
    if job.workers == 0
        || job.cpus == 0
        || job.memory == 0
        || job.at_once == Some(0)
        || job.time_limit == Some(0)
    {
        return Err("--workers, --at-once, --cpus, --memory and --time-limit must be at least 1".to_owned());
    }
    for (flag, value) in [("--api-key", &arguments.api_key), ("--queue", &arguments.queue)] {
        if value.is_some() {
            return Err(format!(
                "{flag} would be written into the job; put it into .env of the home, or into the Kubernetes secret that --secret names"
            ));
        }
    }
    if arguments.shard.is_some() {
        return Err("--shard is set by the job itself".to_owned());
    }
    if job.kubernetes && job.job_image.is_none() {
        return Err("--job-image is missing: an image with the program `hermes`".to_owned());
    }
    // In Kubernetes the address of the queue is in the secret; here nothing is known of it.
    let has_queue = context.env.get("HERMES_BATCH_QUEUE").is_some() && job.slurm;
    let has_parts = arguments.dataset_file.is_some();
    let mut words = vec!["batch".to_owned()];
    if has_parts {
        let dataset = arguments.dataset_file.as_deref().unwrap_or(Path::new(""));
        let batch_size = arguments.batch_size.ok_or("--batch-size is missing")?;
        words.extend(["--dataset-file".to_owned(), dataset.display().to_string()]);
        words.extend(["--batch-size".to_owned(), batch_size.to_string()]);
        words.extend(["--distribution".to_owned(), arguments.distribution.clone()]);
        if job.kubernetes && job.volume_claim.is_none() {
            return Err(
                "--volume-claim is missing: the processes share the dataset and the results on it".to_owned()
            );
        }
    } else if !has_queue && job.slurm {
        return Err(
            "set HERMES_BATCH_QUEUE in .env of the home for workers of a queue, or give --dataset-file and --batch-size for parts of a run"
                .to_owned(),
        );
    } else {
        if job.kubernetes && job.secret.is_none() {
            return Err("--secret is missing: it holds HERMES_BATCH_QUEUE and the model's key".to_owned());
        }
        words.push("worker".to_owned());
        words.extend(["--lease-seconds".to_owned(), arguments.lease_seconds.to_string()]);
    }
    words.extend(["--run-name".to_owned(), name.to_owned()]);
    words.extend(["--num-workers".to_owned(), arguments.num_workers.to_string()]);
    words.extend(["--max-turns".to_owned(), arguments.max_turns.to_string()]);
    let texts = [
        ("--model", arguments.model.clone()),
        ("--provider", arguments.provider.clone()),
        ("--base-url", arguments.base_url.clone()),
        ("--ephemeral-system-prompt", arguments.ephemeral_system_prompt.clone()),
        (
            "--prefill-messages-file",
            arguments.prefill_messages_file.as_ref().map(|path| path.display().to_string()),
        ),
        ("--providers-allowed", arguments.providers_allowed.clone()),
        ("--providers-ignored", arguments.providers_ignored.clone()),
        ("--providers-order", arguments.providers_order.clone()),
        ("--provider-sort", arguments.provider_sort.clone()),
        ("--reasoning-effort", arguments.reasoning_effort.clone()),
        ("--max-tokens", arguments.max_tokens.map(|number| number.to_string())),
        ("--max-samples", arguments.max_samples.map(|number| number.to_string()).filter(|_| has_parts)),
        ("--seed", arguments.seed.map(|number| number.to_string()).filter(|_| has_parts)),
        ("--max-cost", arguments.max_cost.map(|number| number.to_string())),
    ];
    for (flag, text) in texts {
        if let Some(text) = text {
            words.push(format!("{flag}={text}"));
        }
    }
    let switches = [
        ("--reasoning-disabled", arguments.reasoning_disabled),
        ("--keep-without-reasoning", arguments.keep_without_reasoning),
        ("--redact", arguments.redact),
        ("--verbose", arguments.verbose),
    ];
    words.extend(switches.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag.to_owned()));
    Ok(JobCommand { words, has_parts })
}

/// Returns a name of the letters that job names may have.
fn job_name(run: &str) -> String {
    let letters = run.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let name: String = "hermes-".chars().chain(letters).take(52).collect();
    name.trim_end_matches('-').to_owned()
}

fn slurm_script(
    name: &str,
    job: &JobLaunchArguments,
    command: &JobCommand,
    here: &Path,
    context: &ProgramContext,
) -> String {
    let at_once = job.at_once.map(|most| format!("%{most}")).unwrap_or_default();
    // A path with blanks needs quotes, which a job's lines know.
    let quoted = |path: &Path| {
        let path = path.display().to_string();
        if path.contains(' ') { format!("\"{path}\"") } else { path }
    };
    let mut lines = vec![
        "#!/bin/sh".to_owned(),
        format!("#SBATCH --job-name={}", job_name(name)),
        format!("#SBATCH --array=0-{}{at_once}", job.workers - 1),
        "#SBATCH --requeue".to_owned(),
        "#SBATCH --open-mode=append".to_owned(),
        format!("#SBATCH --output={}", quoted(&here.join("data").join(name).join("slurm-%a.log"))),
        format!("#SBATCH --chdir={}", quoted(here)),
        "#SBATCH --ntasks=1".to_owned(),
        format!("#SBATCH --cpus-per-task={}", job.cpus),
        format!("#SBATCH --mem={}M", job.memory),
        // One interrupt lets the running conversations end.
        "#SBATCH --signal=INT@120".to_owned(),
    ];
    lines.extend(job.time_limit.map(|minutes| format!("#SBATCH --time={minutes}")));
    lines.extend(job.partition.as_ref().map(|partition| format!("#SBATCH --partition={partition}")));
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("hermes"));
    let mut words: Vec<String> = vec![shell_quote(&program.display().to_string())];
    words.extend(command.words.iter().map(|word| shell_quote(word)));
    if command.has_parts {
        words.push("--shard=\"$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT\"".to_owned());
    }
    lines.extend([
        "# Keys and the address of the queue are in .env of this home.".to_owned(),
        format!("export HERMES_HOME={}", shell_quote(&context.home.path().display().to_string())),
        // A task that was requeued continues where it was.
        format!("exec {}", words.join(" ")),
        String::new(),
    ]);
    lines.join("\n")
}

fn kubernetes_manifest(name: &str, job: &JobLaunchArguments, command: &JobCommand) -> String {
    let mut words: Vec<Value> = command.words.iter().map(|word| json!(word.replace("$(", "$$("))).collect();
    if command.has_parts {
        // Kubernetes puts the number of the process in.
        words.push(json!(format!("--shard=$(JOB_COMPLETION_INDEX)/{}", job.workers)));
    }
    let resources = json!({"cpu": job.cpus.to_string(), "memory": format!("{}Mi", job.memory)});
    let mut container = json!({
        "name": "hermes",
        "image": job.job_image,
        "command": ["hermes"],
        "args": words,
        "env": [{"name": "HERMES_HOME", "value": "/hermes-home"}],
        "resources": {"requests": resources, "limits": {"memory": resources["memory"]}},
        "volumeMounts": [{"name": "home", "mountPath": "/hermes-home"}],
    });
    let mut volumes = vec![json!({"name": "home", "emptyDir": {}})];
    if let Some(secret) = &job.secret {
        container["envFrom"] = json!([{"secretRef": {"name": secret}}]);
    }
    if let Some(claim) = &job.volume_claim {
        container["workingDir"] = json!("/work");
        if let Some(mounts) = container["volumeMounts"].as_array_mut() {
            mounts.push(json!({"name": "work", "mountPath": "/work"}));
        }
        volumes.push(json!({"name": "work", "persistentVolumeClaim": {"claimName": claim}}));
    }
    let mut metadata = json!({"name": job_name(name), "labels": {"app": "hermes-batch"}});
    if let Some(namespace) = &job.namespace {
        metadata["namespace"] = json!(namespace);
    }
    let mut spec = json!({
        "completionMode": "Indexed",
        "completions": job.workers,
        "parallelism": job.at_once.unwrap_or(job.workers),
        "backoffLimitPerIndex": RETRIES,
        "podFailurePolicy": {"rules": [{
            // A process that was moved away is not counted as failed.
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }]},
        "template": {
            "metadata": {"labels": {"app": "hermes-batch"}},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 120,
                "containers": [container],
                "volumes": volumes,
            },
        },
    });
    if let Some(minutes) = job.time_limit {
        spec["activeDeadlineSeconds"] = json!(u64::from(minutes) * 60);
    }
    let manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec});
    emit_block(&YamlValue::from_json(&manifest))
}

/// Writes a file beside its place, and moves it there.
fn write(path: &Path, text: &str) -> Result<()> {
    let shown = || path.display().to_string();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let beside = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .with_context(shown)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(shown)?;
    std::fs::rename(&beside, path).with_context(shown)
}

fn submit(
    program: &str,
    arguments: Vec<std::ffi::OsString>,
    here: &Path,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    // The client of the cluster finds it by variables such as KUBECONFIG and SLURM_CONF.
    let passed = ["KUBECONFIG", "SLURM_CONF"].map(str::to_owned);
    let programs = ProgramRunner::new(child_variables(&context.env, &passed), clock);
    if programs.find(program).is_none() {
        bail!("there is no program `{program}`; submit the file on a machine of the cluster");
    }
    let job =
        Program { name: program, arguments, directory: here, limit: SUBMIT_LIMIT, stderr: StderrMode::Merge };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let (text, exit) = runtime.block_on(programs.output(job, &Cancel::new()))?;
    output.text(&text);
    match exit {
        ProgramExit::Exited(0) => Ok(ExitCode::SUCCESS),
        ProgramExit::Exited(code) => bail!("`{program}` ended with code {code}; the job was not submitted"),
        ProgramExit::TimedOut | ProgramExit::Cancelled => bail!("`{program}` did not answer in time"),
    }
}
