//! The commands that make training data.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const BATCH_HELP: &str = "Examples:\n  hermes batch --dataset-file prompts.jsonl --batch-size 10 --run-name first\n  \
                          hermes batch --dataset-file prompts.jsonl --batch-size 10 --run-name first --resume --num-workers 64\n  \
                          hermes batch --list-distributions\n  \
                          hermes batch enqueue --run-name big --dataset-file prompts.jsonl --batch-size 10\n  \
                          hermes batch worker --run-name big --num-workers 32\n  \
                          hermes batch launch --slurm --workers 16 --run-name big --num-workers 32 --submit\n\n\
                          Flags may be written with `_` for `-`, and switches as --flag=true, --flag=false or --noflag.";

/// What is done with a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BatchAction {
    /// Run the dataset here, with files
    #[default]
    Run,
    /// Put the dataset into a queue that several machines share
    Enqueue,
    /// Work on a queue until nothing is left
    Worker,
    /// Show how far a queue is
    Status,
    /// Write the records of a queue to the files of a run
    Export,
    /// Take the records of files over into a queue
    Import,
    /// Write a job for a cluster, and submit it with --submit
    Launch,
}

#[derive(Debug, Clone, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
#[command(after_help = BATCH_HELP)]
pub(crate) struct BatchArguments {
    /// What to do
    #[arg(value_enum, default_value_t)]
    pub(crate) action: BatchAction,
    /// Address of the PostgreSQL database of the queue [default: HERMES_BATCH_QUEUE]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) queue: Option<String>,
    /// Seconds after which the prompts of a worker that is gone are taken over
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) lease_seconds: u32,
    /// Dataset: one JSON object per line, with `prompt` and perhaps `image` and `cwd`
    #[arg(long, value_name = "FILE")]
    pub(crate) dataset_file: Option<PathBuf>,
    /// Prompts per batch
    #[arg(long, value_name = "N")]
    pub(crate) batch_size: Option<usize>,
    /// Name of the run, whose files are in data/NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) run_name: Option<String>,
    /// Distribution of toolsets
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) distribution: String,
    /// Model [default: the configured one, else anthropic/claude-sonnet-4.6]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Provider, or the name of a custom endpoint
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Key for the endpoint; other users of this machine can see it in the list of processes
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Base URL of the endpoint
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Most model calls for one prompt
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) max_turns: usize,
    /// Conversations at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) num_workers: usize,
    /// Skip prompts that have a record, recognized by their text
    #[arg(long)]
    pub(crate) resume: bool,
    /// Announce each prompt with its toolsets and image
    #[arg(long)]
    pub(crate) verbose: bool,
    /// List the distributions
    #[arg(long)]
    pub(crate) list_distributions: bool,
    /// Text added to the system prompt of every request and never saved
    #[arg(long, value_name = "TEXT")]
    pub(crate) ephemeral_system_prompt: Option<String>,
    /// Most characters of a prompt in announcements
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) log_prefix_chars: usize,
    /// OpenRouter: hosts to use, with commas
    #[arg(long, value_name = "LIST")]
    pub(crate) providers_allowed: Option<String>,
    /// OpenRouter: hosts not to use, with commas
    #[arg(long, value_name = "LIST")]
    pub(crate) providers_ignored: Option<String>,
    /// OpenRouter: hosts in the order to try, with commas
    #[arg(long, value_name = "LIST")]
    pub(crate) providers_order: Option<String>,
    /// OpenRouter: price, throughput or latency
    #[arg(long, value_name = "KEY", value_parser = ["price", "throughput", "latency"])]
    pub(crate) provider_sort: Option<String>,
    /// Most tokens of one answer
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// none, minimal, low, medium, high, xhigh, max or ultra
    #[arg(long, value_name = "LEVEL")]
    pub(crate) reasoning_effort: Option<String>,
    /// Ask for no reasoning; wins over --reasoning-effort
    #[arg(long)]
    pub(crate) reasoning_disabled: bool,
    /// JSON file with an array of messages that are sent before each conversation
    #[arg(long, value_name = "FILE")]
    pub(crate) prefill_messages_file: Option<PathBuf>,
    /// Use only the first prompts of the dataset
    #[arg(long, value_name = "N")]
    pub(crate) max_samples: Option<usize>,
    /// Draw the same toolsets in every run
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Most the run may cost, in dollars
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<f64>,
    /// Keep conversations in which the model never reasoned
    #[arg(long)]
    pub(crate) keep_without_reasoning: bool,
    /// Mask secrets in the records
    #[arg(long)]
    pub(crate) redact: bool,
    /// Do only a part of the batches, I/N with I from 0; other processes do the others
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<String>,
    #[command(flatten)]
    pub(crate) job: JobLaunchArguments,
}

/// What the job of a cluster is like.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Launching")]
pub(crate) struct JobLaunchArguments {
    /// Write a job array for Slurm
    #[arg(long, conflicts_with = "kubernetes")]
    pub(crate) slurm: bool,
    /// Write an Indexed Job for Kubernetes
    #[arg(long)]
    pub(crate) kubernetes: bool,
    /// Processes
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) workers: u32,
    /// Most processes at the same time
    #[arg(long, value_name = "N")]
    pub(crate) at_once: Option<u32>,
    /// Cores of each process
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) cpus: u32,
    /// Memory of each process, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    pub(crate) memory: u32,
    /// Most time of a process, in minutes
    #[arg(long, value_name = "MINUTES")]
    pub(crate) time_limit: Option<u32>,
    /// Slurm: partition
    #[arg(long, value_name = "NAME")]
    pub(crate) partition: Option<String>,
    /// Kubernetes: image with the program `hermes`
    #[arg(long, value_name = "IMAGE")]
    pub(crate) job_image: Option<String>,
    /// Kubernetes: namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Kubernetes: secret whose entries become variables, such as HERMES_BATCH_QUEUE and the model's key
    #[arg(long, value_name = "NAME")]
    pub(crate) secret: Option<String>,
    /// Kubernetes: volume claim with the dataset, where results go; the working directory of the processes
    #[arg(long, value_name = "NAME")]
    pub(crate) volume_claim: Option<String>,
    /// File to write [default: data/NAME/job.sbatch or job.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) job_file: Option<PathBuf>,
    /// Submit the job with `sbatch` or `kubectl`
    #[arg(long)]
    pub(crate) submit: bool,
}

const COMPRESS_HELP: &str = "Examples:\n  hermes compress --input data/first/trajectories.jsonl --target-max-tokens 16000\n  \
                             hermes compress --input data/first --only trajectories.jsonl --dry-run\n\n\
                             Flags may be written with `_` for `-`, and switches as --flag=true, --flag=false or --noflag.";

#[derive(Debug, Clone, Args)]
#[command(after_help = COMPRESS_HELP)]
pub(crate) struct CompressArguments {
    /// JSON lines file, or a folder with such files
    #[arg(long, value_name = "PATH")]
    pub(crate) input: PathBuf,
    /// File or folder to write [default: beside the input, with `_compressed`]
    #[arg(long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// YAML file with the settings; without it, the defaults are used
    #[arg(long, value_name = "FILE", default_value = "configs/trajectory_compression.yaml")]
    pub(crate) config: PathBuf,
    /// Tokens a trajectory may have
    #[arg(long, value_name = "N")]
    pub(crate) target_max_tokens: Option<u64>,
    /// Folder with the tokenizer.json by which tokens are counted, or the name of a model that was fetched before
    #[arg(long, value_name = "NAME")]
    pub(crate) tokenizer: Option<String>,
    /// Compress only a part of the lines, in percent
    #[arg(long, value_name = "PERCENT")]
    pub(crate) sample_percent: Option<f64>,
    /// Seed that decides which lines these are
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u32,
    /// Of a folder, only this file; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Count what would be done, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const ENV_HELP: &str = "Examples:\n  hermes env list\n  hermes env terminal-test process --openai.base_url=http://localhost:9004/v1 --openai.model_name=my-model\n  \
                        hermes env ./tasks.yaml evaluate --env.data_dir_to_save_evals=evals\n  \
                        hermes env ./my_environment.py serve --config serve.yaml --env.group_size 8\n\n\
                        ENVIRONMENT is a name of `hermes env list`, a YAML file, or a program. MODE is serve, process or evaluate. Flags are\n\
                        --env.KEY, --openai.KEY and --config FILE; a value follows after `=` or a space, a flag without one means true, and\n\
                        a value that begins with `-` needs `=`.";

#[derive(Debug, Clone, Args)]
#[command(after_help = ENV_HELP, disable_help_flag = false)]
pub(crate) struct EnvArguments {
    /// Name, YAML file or program of an environment; or `list`
    #[arg(value_name = "ENVIRONMENT")]
    pub(crate) environment: String,
    /// Mode and flags
    #[arg(value_name = "MODE", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  hermes swe-run --task 'Write a program that prints the first ten primes' --cwd /tmp/work\n  \
                  hermes swe-run --prompts-file tasks.jsonl --env docker --image python:3.11-slim --output-file runs.jsonl\n\n\
                  Flags may be written with `_` for `-`, and switches as --flag=true, --flag=false or --noflag."
)]
pub(crate) struct SweRunArguments {
    /// The task
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// File with tasks: JSON lines with `prompt` or `task`, or plain text
    #[arg(long, value_name = "FILE", conflicts_with = "task")]
    pub(crate) prompts_file: Option<PathBuf>,
    /// File to which lines are added
    #[arg(long, value_name = "FILE", default_value = "swe-runner-test1.jsonl")]
    pub(crate) output_file: PathBuf,
    /// Model [default: the configured one, else claude-sonnet-4-20250514]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Provider, or the name of a custom endpoint
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Base URL of the endpoint
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Key for the endpoint; other users of this machine can see it in the list of processes
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Where commands run
    #[arg(long, value_name = "BACKEND", default_value = "local", value_parser = ["local", "docker", "modal", "singularity", "daytona"])]
    pub(crate) env: String,
    /// Container image
    #[arg(long, default_value = "python:3.11-slim")]
    pub(crate) image: String,
    /// Working directory of the commands
    #[arg(long, value_name = "FOLDER", default_value = "/tmp")]
    pub(crate) cwd: String,
    /// Most model calls for one task
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) max_iterations: usize,
    /// Seconds a command may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) timeout: u64,
    /// Announce each task
    #[arg(long)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  hermes sample-compress --datasets a.jsonl,b.jsonl --total-samples 500 --output-name mixed\n\n\
                  Flags may be written with `_` for `-`, and switches as --flag=true, --flag=false or --noflag."
)]
pub(crate) struct SampleCompressArguments {
    /// JSON lines files with `conversations` or `messages`, with commas
    #[arg(long, value_name = "FILES", value_delimiter = ',', required = true)]
    pub(crate) datasets: Vec<PathBuf>,
    /// Trajectories to draw
    #[arg(long, value_name = "N", default_value_t = 2500)]
    pub(crate) total_samples: usize,
    /// Name of the files, which are in data/
    #[arg(long, value_name = "NAME", default_value = "compressed_agentic")]
    pub(crate) output_name: String,
    /// YAML file with the settings of the compression
    #[arg(long, value_name = "FILE", default_value = "configs/trajectory_compression.yaml")]
    pub(crate) config: PathBuf,
    /// Seed that decides which trajectories are drawn
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u32,
    /// Trajectories per file
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) batch_size: usize,
    /// Leave out shorter trajectories
    #[arg(long, value_name = "TOKENS", default_value_t = 16_000)]
    pub(crate) min_tokens: u64,
    /// Accepted for scripts; one process is enough
    #[arg(long, value_name = "N", default_value_t = 8, hide = true)]
    pub(crate) num_proc: usize,
    /// Accepted for scripts; nothing is downloaded
    #[arg(long, hide = true)]
    pub(crate) skip_download: bool,
    /// Tokens a trajectory may have
    #[arg(long, value_name = "N")]
    pub(crate) target_max_tokens: Option<u64>,
    /// Folder with the tokenizer.json by which tokens are counted, or the name of a model that was fetched before
    #[arg(long, value_name = "NAME")]
    pub(crate) tokenizer: Option<String>,
}

#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
#[command(
    after_help = "Examples:\n  hermes rl --list-environments\n  hermes rl 'Train a model to solve sums'\n  hermes rl --interactive\n\n\
                  Flags may be written with `_` for `-`, and switches as --flag=true, --flag=false or --noflag."
)]
pub(crate) struct RlArguments {
    /// What to train
    pub(crate) task: Option<String>,
    /// Model of the agent [default: the configured one, else anthropic/claude-opus-4.5]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Provider, or the name of a custom endpoint
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Most model calls of a turn
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) max_iterations: usize,
    /// Chat instead of doing one task
    #[arg(long)]
    pub(crate) interactive: bool,
    /// List the environments of the checkout
    #[arg(long)]
    pub(crate) list_environments: bool,
    /// Check whether everything is there that training needs
    #[arg(long)]
    pub(crate) check_server: bool,
    /// Show the arguments and results of tools
    #[arg(long)]
    pub(crate) verbose: bool,
}
