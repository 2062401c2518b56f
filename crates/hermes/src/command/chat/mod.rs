//! `hermes chat`: a single question and its answer, or an interactive chat.

mod background;
mod banner;
mod chat_loop;
mod completion;
mod drive;
mod frontend;
mod goal;
mod images;
mod input;
mod line_buffer;
mod message;
mod one_shot;
mod opening;
mod pictures;
mod quick_commands;
mod references;
mod screen;
pub(crate) mod signals;
pub(crate) mod skins;
mod slash;
mod summary;
mod terminal;
mod terminal_commands;
mod tool_lines;
mod voice;
mod worktree;

pub(crate) use summary::format_duration;

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use hermes_config::{Config, Env, ProgramSurface};
use hermes_gateway::process::running_pid;
use hermes_store::SessionSummary;
use hermes_types::Cancel;

use crate::cli::ChatArguments;
use crate::command::curator;
use crate::command::model_picker;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::consolidation;
use crate::wiring::program_runtime::ProgramConfig;
use crate::wiring::skills::SkillCommands;
use crate::wiring::{AgentRuntime, bundled_skills};

pub(crate) fn run(arguments: &ChatArguments, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let context = &without_user_settings(arguments, context);
    if arguments.list_tools || arguments.list_toolsets {
        return list(arguments, context, output);
    }
    if arguments.oneshot.is_some() && arguments.provider.is_some() && arguments.model.is_none() {
        output.error("--provider needs --model with --oneshot");
        return Ok(ExitCode::from(2));
    }
    let question = question(arguments)?;
    output.ignore_closed_stdout();
    bundled_skills::sync_quietly(context);
    curator::run_if_due(context);
    if !arguments.no_restore_cwd {
        restore_folder(arguments, context, output)?;
    }
    if !(arguments.worktree || Config::load(&context.home, &context.env).flag("worktree")) {
        return run_here(arguments, question, None, context, output);
    }
    let worktree = worktree::ChatWorktree::create(context, output)?;
    let folder = std::env::current_dir()?.to_string_lossy().into_owned();
    let env = context.env.with_variables([("TERMINAL_CWD".to_owned(), folder)]);
    let context = ProgramContext { home: context.home.clone(), env };
    let done = run_here(arguments, question, Some(worktree.note()), &context, output);
    worktree.close(output);
    done
}

/// Returns the context of a run that leaves the user's settings out, if that was asked for.
fn without_user_settings(arguments: &ChatArguments, context: &ProgramContext) -> ProgramContext {
    let asked = [
        ("HERMES_SAFE_MODE", arguments.safe_mode),
        ("HERMES_IGNORE_USER_CONFIG", arguments.ignore_user_config),
    ];
    let set =
        asked.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| (name.to_owned(), "1".to_owned()));
    ProgramContext { home: context.home.clone(), env: context.env.with_variables(set) }
}

/// Changes to the folder in which the session to be resumed worked. One that is gone, or not known, changes nothing.
fn restore_folder(arguments: &ChatArguments, context: &ProgramContext, output: &Console) -> Result<()> {
    let Some((name, _)) = opening::requested_session(arguments) else { return Ok(()) };
    if !context.database().exists() {
        return Ok(());
    }
    let store = context.store(output)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().context("no runtime")?;
    let found = runtime.block_on(opening::find_session(&store, name))?;
    let folder = found.map(|id| store.session_folder(&id).wait()).transpose()?.flatten();
    store.close().wait()?;
    let here = std::env::current_dir().ok();
    let Some(folder) = folder.map(PathBuf::from).filter(|folder| Some(folder) != here.as_ref()) else {
        return Ok(());
    };
    if folder.is_dir() && std::env::set_current_dir(&folder).is_ok() {
        output.notice(&format!("↪ restored workspace dir: {}", folder.display()));
    }
    Ok(())
}

/// Runs a chat in the working folder. `note` is told to the model.
fn run_here(
    arguments: &ChatArguments,
    question: Option<String>,
    note: Option<String>,
    context: &ProgramContext,
    output: &Console,
) -> Result<ExitCode> {
    let mut wired = AgentRuntime::open(arguments, "cli", context, output)?;
    let mut additions: Vec<String> = note.into_iter().collect();
    if !arguments.skills.is_empty() && wired.loads_rules() {
        let skills = SkillCommands::for_platform(&context.home, &wired.config, &context.env, "cli");
        match skills.preload(&arguments.skills) {
            Ok(loaded) => {
                wired.preloaded_skills = loaded.names;
                additions.extend(loaded.texts);
            }
            Err(unknown) => {
                output.error(&format!("Unknown skill(s): {}", unknown.join(", ")));
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    ask_about_hooks(&wired, context, output);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(wired.start_servers(context));
    for problem in wired.extensions().plugin_problems() {
        output.notice(&problem);
    }
    wired.add_system_text(additions);
    if arguments.toolsets.is_some() && wired.agent.tools().is_empty() && !wired.unknown_toolsets.is_empty() {
        output.error(&format!(
            "unknown toolsets: {}. `hermes chat --list-toolsets` shows those there are",
            wired.unknown_toolsets.join(", ")
        ));
        return Ok(ExitCode::from(2));
    }
    for name in &wired.unknown_toolsets {
        output.notice(&format!("Warning: Unknown toolsets: {name}"));
    }
    let done = runtime.block_on(async {
        let Some(opened) = opening::open(&wired.agent, arguments, &context.env, output).await? else {
            return Ok(ExitCode::FAILURE);
        };
        let done = if let Some(text) = question {
            one_shot::run(&mut wired, opened, text, arguments, context, output).await
        } else {
            consolidate_beside(&wired, context);
            chat_loop::run(&mut wired, opened, arguments, context, output).await
        };
        let extensions = wired.extensions().clone();
        tokio::join!(wired.command_runtime.shut_down(), wired.mcp().shut_down(), extensions.shut_down());
        done
    });
    // Background work has been waited for as long as it may take; the rest is dropped.
    runtime.shutdown_background();
    wired.agent.store().close().wait()?;
    done
}

/// Tidies the memory beside a chat, if that is due and no gateway does it. It ends with the chat.
fn consolidate_beside(wired: &AgentRuntime, context: &ProgramContext) {
    let clock = wired.agent.clock().clone();
    let own = ProgramContext { home: context.home.clone(), env: context.env.clone() };
    let (store, config) = (wired.agent.store().clone(), wired.config.clone());
    let from = ProgramConfig { context, config: &config };
    if !wired.loads_rules() || running_pid(&context.home).is_some() || !consolidation::is_due(from, &*clock) {
        return;
    }
    let cancel = Cancel::new();
    hermes_task::spawn_named("memory-consolidation", &cancel.clone(), async move {
        let from = ProgramConfig { context: &own, config: &config };
        consolidation::run(from, ProgramSurface::Cli, &store, &clock, &cancel).await;
    });
}

/// Asks about shell hooks that were not approved.
fn ask_about_hooks(wired: &AgentRuntime, context: &ProgramContext, output: &Console) {
    let clock = wired.agent.clock().clone();
    let from = ProgramConfig { context, config: &wired.config };
    wired.extensions().ask_for_approvals(from, &*clock, output);
}

/// Returns the question to ask; `None` when a person at the terminal will type it.
fn question(arguments: &ChatArguments) -> Result<Option<String>> {
    let given = arguments.oneshot.as_deref().or(arguments.query.as_deref());
    if let Some(text) = given.map(str::trim).filter(|text| !text.is_empty()) {
        return Ok(Some(text.to_owned()));
    }
    if given.is_some() {
        bail!("the question is empty");
    }
    if std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    // An invalid byte in a diff or a log does not make the rest unusable.
    match String::from_utf8_lossy(&bytes).trim() {
        "" => bail!("nothing to ask: standard input was empty; give a question with -q, or pipe one in"),
        text => Ok(Some(text.to_owned())),
    }
}

/// Tells whether the terminal can show a screen.
pub(crate) fn can_have_screen(env: &Env) -> bool {
    screen::is_possible(env)
}

/// Lets the user pick a model on a screen, and returns it as `hermes model` takes it.
pub(crate) fn pick_model(context: &ProgramContext, config: Config) -> Result<Option<String>> {
    let offered = model_picker::offered(context, config);
    if offered.is_empty() {
        return Ok(None);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let picked = runtime.block_on(screen::pick(model_picker::picker(&offered), context));
    runtime.shutdown_background();
    Ok(picked?.and_then(|at| offered.get(at)).map(model_picker::OfferedModel::name))
}

/// Lets the user pick a session on a screen.
pub(crate) fn pick_session(sessions: &[SessionSummary], context: &ProgramContext) -> Result<Option<usize>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let picked = runtime.block_on(screen::pick(terminal_commands::session_picker(sessions), context));
    runtime.shutdown_background();
    picked
}

fn list(arguments: &ChatArguments, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let wired = AgentRuntime::open(arguments, "cli", context, output)?;
    if arguments.list_tools {
        list_tools(&wired, output);
    } else {
        list_toolsets(&wired, output);
    }
    Ok(ExitCode::SUCCESS)
}

fn list_tools(wired: &AgentRuntime, output: &Console) {
    output.line("(^_^)/ Available Tools\n");
    let mut tools = wired.all_tools.list_tools();
    tools.sort_by(|a, b| (&a.toolset, &a.name).cmp(&(&b.toolset, &b.name)));
    let mut toolset = "";
    for tool in &tools {
        if tool.toolset != toolset {
            toolset = &tool.toolset;
            output.line(&format!("  [{toolset}]"));
        }
        output.line(&format!("    * {:<20} - {}", tool.name, tool.summary));
    }
    output.line(&format!("\n  Total: {} tools  ヽ(^o^)ノ", tools.len()));
}

fn list_toolsets(wired: &AgentRuntime, output: &Console) {
    output.line("(^_^)b Available Toolsets\n");
    let enabled: Vec<&str> = wired.agent.tools().iter().map(|tool| tool.spec().name.as_str()).collect();
    for set in wired.all_tools.list_toolsets().into_iter().filter(|set| !set.tools.is_empty()) {
        let on = set.tools.iter().all(|tool| enabled.contains(&tool.as_str()));
        let mark = if on { "(*)" } else { "   " };
        output.line(&format!(
            "  {mark} {:<18} [{:>2} tools] - {}",
            set.name,
            set.tools.len(),
            set.tools.join(", ")
        ));
    }
    output.line("\n  (*) = currently enabled");
}
