//! `hermes swe-run`: lets a model solve software tasks with a terminal.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_agent::RequestOptions;
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_model::provider::ProviderChoice;
use hermes_research::{SoftwareTaskRunner, software_tasks};
use hermes_task::SystemClock;
use hermes_text::{head, single_line};
use hermes_types::{Cancel, Clock, Secret, SideModel};

use crate::cli::SweRunArguments;
use crate::command::chat::signals::ChatSignals;
use crate::context::{ProgramContext, local_time};
use crate::output::Console;
use crate::wiring::agent_spec::RuntimeSpec;
use crate::wiring::model::choose_models;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::research::{ResearchAgentOptions, ResearchAgents, ScratchStore};

/// The model where none is configured.
const DEFAULT_MODEL: &str = "claude-sonnet-4-20250514";
/// The limit of one request.
const REQUEST_LIMIT: Duration = Duration::from_mins(5);

pub(crate) fn run(
    arguments: &SweRunArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let tasks = match (&arguments.task, &arguments.prompts_file) {
        (Some(task), _) => vec![task.clone()],
        (None, Some(path)) => {
            software_tasks(&std::fs::read_to_string(path).with_context(|| path.display().to_string())?)
        }
        (None, None) => {
            output.error("--task is missing; give a task, or --prompts-file");
            return Ok(ExitCode::from(2));
        }
    };
    if tasks.is_empty() {
        bail!("there is no task in the file");
    }
    if arguments.max_iterations == 0 || arguments.timeout == 0 {
        output.error("--max-iterations and --timeout must be at least 1");
        return Ok(ExitCode::from(2));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(run_tasks(&tasks, arguments, context, output))
}

async fn run_tasks(
    tasks: &[String],
    arguments: &SweRunArguments,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let config = context.usable_config(output)?;
    let is_local = arguments.env == "local";
    let overlay = [
        ("terminal.backend", YamlValue::Str(arguments.env.clone())),
        ("checkpoints.enabled", YamlValue::Bool(false)),
        // The folder of the tasks is the one that commands may write.
        ("terminal.cwd", YamlValue::Str(arguments.cwd.clone())),
    ];
    let overlay = overlay.into_iter().filter(|(key, _)| is_local || *key != "terminal.cwd");
    let values = overlay.filter_map(|(key, value)| Some((KeyPath::parse(key)?, value)));
    let config = config.with_values(values, &context.env);
    let configured = config.is_user_set("model.default") || config.is_user_set("model.provider");
    let choice = ProviderChoice {
        provider: arguments.provider.clone(),
        model: arguments.model.clone().or_else(|| (!configured).then(|| DEFAULT_MODEL.to_owned())),
        base_url: arguments.base_url.clone(),
        api_key: arguments.api_key.clone().map(Secret::new),
    };
    let mut out = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&arguments.output_file)
        .with_context(|| arguments.output_file.display().to_string())?;
    let scratch = ScratchStore::create(context)?;
    let done = async {
        let from = ProgramConfig { context, config: &config };
        let models = choose_models(&choice, from, RuntimeSpec::research().surface, &clock, &scratch.store)?;
        if models.is_offline() && arguments.provider.as_deref() != Some("offline") {
            bail!(
                "no model is configured; run `hermes setup`, or give --model with --base-url and --api-key"
            );
        }
        let options = ResearchAgentOptions {
            max_turns: arguments.max_iterations,
            request_options: RequestOptions::default(),
        };
        let agents = Arc::new(ResearchAgents::open(from, models.clone(), options, &scratch.store, &clock)?);
        let mut signals = ChatSignals::listen()?;
        let cancel = Cancel::new();
        let (mut completed, mut failed) = (0, 0);
        for (at, task) in tasks.iter().enumerate() {
            let of_task = models.for_turn();
            let runner = SoftwareTaskRunner {
                agents: agents.clone(),
                model: SideModel { name: of_task.name.clone(), model: of_task.main, timeout: REQUEST_LIMIT },
                env_type: arguments.env.clone(),
                image: (!is_local).then(|| arguments.image.clone()),
                cwd: Some(arguments.cwd.clone()).filter(|_| !is_local),
                max_iterations: arguments.max_iterations,
                timeout: arguments.timeout,
                clock: clock.clone(),
                calendar: Arc::new(local_time),
            };
            if arguments.verbose {
                output.notice(&format!("[{}/{}] {}", at + 1, tasks.len(), single_line(head(task, 100))));
            }
            let result = {
                let mut work = std::pin::pin!(runner.run(task, &cancel));
                tokio::select! {
                    result = &mut work => result,
                    _ = signals.next() => {
                        cancel.cancel();
                        work.await
                    }
                }
            };
            if cancel.is_cancelled() {
                break;
            }
            out.write_all(format!("{}\n", result.line).as_bytes())
                .with_context(|| arguments.output_file.display().to_string())?;
            completed += usize::from(result.completed);
            if let Some(error) = &result.error {
                failed += 1;
                output.error(&format!("task {}: {error}", at + 1));
            }
        }
        agents.shut_down().await;
        output.line(&format!("{completed} of {} tasks were completed.", tasks.len()));
        output.line(&format!("Written: {}", arguments.output_file.display()));
        let interrupted = cancel.is_cancelled().then(|| signals.exit_code().unwrap_or(ExitCode::from(130)));
        Ok(interrupted.unwrap_or(if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
    };
    let done = done.await;
    scratch.remove().await;
    done
}
