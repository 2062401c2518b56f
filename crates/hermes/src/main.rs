//! The binary: reads the command line, wires the crates together, prints their results.
//!
//! It makes no decision that a library could make. Only `output` prints.

mod argv;
mod cli;
mod command;
mod context;
mod editor;
mod log;
mod menu;
mod output;
mod random;
mod wiring;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use clap::Parser;
use hermes_config::Env;

use cli::{ClawCommand, Cli, CliCommand};
use context::ProgramContext;
use output::Console;
use wiring::secret_managers;

fn main() -> ExitCode {
    hermes_exec::configure_allocator();
    let output = Console::new();
    let (arguments, profile) = argv::take_profile(std::env::args_os());
    if let Err(error) = enter_profile(&arguments, profile.as_deref()) {
        output.error(&describe(&error));
        return ExitCode::FAILURE;
    }
    let arguments = match argv::research_flags(&arguments, cli::switches_of) {
        Some(arguments) => arguments,
        None => argv::join_session_names(arguments, cli::is_command),
    };
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => match cli::unknown_command(&error, &command_words()) {
            Some(words) => {
                // A plugin may know the command; then this program is not come back to.
                let failed = ProgramContext::open().and_then(|context| run_plugin_command(&words, &context));
                output.error(&failed.err().map_or(words, |error| describe(&error)));
                return ExitCode::from(2);
            }
            None => error.exit(),
        },
    };
    let done = open_context(&cli, &output).and_then(|mut context| {
        if cli.accept_hooks {
            let accepted = ("HERMES_ACCEPT_HOOKS".to_owned(), "1".to_owned());
            context.env = context.env.with_variables([accepted]);
        }
        run(cli, &context, &output)
    });
    match done {
        Ok(_) if output.failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(error) => {
            output.error(&describe(&error));
            ExitCode::FAILURE
        }
    }
}

/// Resolves the inputs of the command, with the keys that secret managers hold if it uses keys.
fn open_context(cli: &Cli, output: &Console) -> anyhow::Result<ProgramContext> {
    let context = ProgramContext::open()?;
    if !cli.command.as_ref().is_none_or(CliCommand::uses_keys) {
        return Ok(context);
    }
    Ok(secret_managers::fetch_for_process(&context, output)?.unwrap_or(context))
}

/// Starts the program again in the home of a profile, if one is asked for. Everything it starts finds the home in its
/// environment then.
fn enter_profile(arguments: &[OsString], profile: Option<&str>) -> anyhow::Result<()> {
    let Some(home) = command::profile::requested_home(profile, &Env::process())? else { return Ok(()) };
    #[expect(clippy::disallowed_methods, reason = "replaces this process by itself")]
    let mut program = std::process::Command::new(std::env::current_exe()?);
    let error = program.args(arguments.get(1..).unwrap_or_default()).env("HERMES_HOME", home).exec();
    Err(error.into())
}

/// Runs a command of a plugin in place of this program, if plugins are enabled. `unknown` is the message for a command
/// that no plugin has.
fn run_plugin_command(unknown: &str, context: &ProgramContext) -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // After flags it would not be clear whose they are.
    if words.first().is_some_and(|word| word.starts_with('-')) {
        return Ok(());
    }
    command::plugins::exec_command(&words, unknown, context)
}

/// Returns the arguments that are not flags.
fn command_words() -> Vec<String> {
    let words = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    words.filter(|argument| !argument.starts_with('-')).collect()
}

/// Formats the error and its causes. A cause that the text already contains is left out.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn run(cli: Cli, context: &ProgramContext, output: &Console) -> anyhow::Result<ExitCode> {
    let Some(command) = cli.command else { return command::chat::run(&cli.chat, context, output) };
    match command {
        CliCommand::Chat(arguments) => command::chat::run(&arguments.merge_over(cli.chat), context, output),
        CliCommand::Model(arguments) => command::model::run(&arguments, context, output),
        CliCommand::Login(arguments) => command::login::run(&arguments, context, output),
        CliCommand::Logout { provider } => command::login::sign_out(provider.as_deref(), context, output),
        CliCommand::Setup(arguments) => command::setup::run(&arguments, context, output),
        CliCommand::Doctor(arguments) => Ok(command::doctor::run(&arguments, context, output)),
        CliCommand::Logs(arguments) => command::logs::run(&arguments, context, output),
        CliCommand::Tools { command } => command::tools::run(command.unwrap_or_default(), context, output),
        CliCommand::Auth { command } => command::auth::run(command.unwrap_or_default(), context, output),
        CliCommand::Fallback { command } => {
            command::fallback::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Profile { command } => {
            command::profile::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Backup(arguments) => command::backup::run(&arguments, context, output),
        CliCommand::Import(arguments) => command::backup::import(&arguments, context, output),
        CliCommand::Dump => Ok(command::dump::run(context, output)),
        CliCommand::Checkpoints { command } => {
            command::checkpoints::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Memory { command } => command::memory::run(command.unwrap_or_default(), context, output),
        CliCommand::Secrets { command } => command::secrets::run(command, context, output),
        CliCommand::Security { command } => command::security::run(command, context, output),
        CliCommand::Debug { command } => command::debug::run(command, context, output),
        CliCommand::Matrix { command } => command::matrix::run(command, context, output),
        CliCommand::Slack { command } => command::slack::run(command, context, output),
        CliCommand::WhatsApp(arguments) => command::whatsapp::run(&arguments, context, output),
        CliCommand::Claw { command: ClawCommand::Migrate(arguments) } => {
            command::claw::run(&arguments, context, output)
        }
        CliCommand::Uninstall(arguments) => command::uninstall::run(&arguments, context, output),
        CliCommand::Man { reference: Some(page), .. } => {
            output.text(&command::reference::page(&page)?);
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::Man { output: folder, command, .. } => {
            command::man::run(folder.as_deref(), command.as_deref(), output)
        }
        CliCommand::Config { command } => command::config::run(command, context, output),
        CliCommand::Sessions { command } => {
            command::sessions::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Insights { days, source } => command::insights::run(days, source, context, output),
        CliCommand::Status { all, deep } => {
            let keys = if all { command::status::KeyFilter::All } else { command::status::KeyFilter::Set };
            Ok(command::status::run(keys, deep, context, output))
        }
        CliCommand::PromptSize { platform, json } => {
            command::prompt_size::run(&cli.chat, &platform, json, context, output)
        }
        CliCommand::Gateway { command } => command::gateway::run(command, context, output),
        CliCommand::Pairing { command } => {
            command::pairing::run(&command.unwrap_or_default(), context, output)
        }
        CliCommand::Send(arguments) => command::send::run(&arguments, context, output),
        CliCommand::Webhook { command } => {
            command::webhook::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Acp => command::acp::run(context, output),
        CliCommand::Compress(arguments) => command::compress::run(&arguments, context, output),
        CliCommand::Rl(arguments) => command::rl::run(&arguments, context, output),
        CliCommand::SampleCompress(arguments) => command::sample_compress::run(&arguments, context, output),
        CliCommand::SweRun(arguments) => command::swe_run::run(&arguments, context, output),
        CliCommand::Env(arguments) => command::env::run(&arguments, context, output),
        CliCommand::Batch(arguments) => command::batch::run(&arguments, context, output),
        CliCommand::Mcp { command } => command::mcp::run(command, context, output),
        CliCommand::Cron { command } => command::cron::run(command, context, output),
        CliCommand::Skills { command } => command::skills::run(command.unwrap_or_default(), context, output),
        CliCommand::Honcho { command } => command::honcho::run(command.unwrap_or_default(), context, output),
        CliCommand::Curator { command } => {
            command::curator::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Bundles { command } => {
            command::bundles::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Hooks { command } => command::hooks::run(command.unwrap_or_default(), context, output),
        CliCommand::Plugins { command } => {
            command::plugins::run(command.unwrap_or_default(), context, output)
        }
        CliCommand::Db { command } => command::database::run(command.unwrap_or_default(), context, output),
        CliCommand::Completion { shell } => {
            output.text(&command::complete::script(shell));
            Ok(ExitCode::SUCCESS)
        }
        CliCommand::CompleteWords { words } => command::complete::run(&words, context, output),
        CliCommand::Update(arguments) if arguments.installed => {
            Ok(command::update::finish(&arguments, context, output))
        }
        CliCommand::Update(arguments) if arguments.staged => {
            command::update::install(&arguments, context, output)
        }
        CliCommand::Update(arguments) => command::update::run(&arguments, context, output),
        CliCommand::Version => {
            output.line(&cli::version());
            Ok(ExitCode::SUCCESS)
        }
    }
}
