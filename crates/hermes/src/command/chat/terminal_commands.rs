//! The slash commands that only a terminal has.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use hermes_agent::RequestOptions;
use hermes_config::settings::DisplaySettings;
use hermes_config::yaml::YamlValue;
use hermes_config::{Env, set};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_store::SessionSummary;
use hermes_text::with_commas;
use hermes_tui::{BarVisibility, ImageSource as _, PickerItem, PickerSpec};
use hermes_types::{Cancel, Role, SessionId};

use super::chat_loop::ChatLoop;
use super::frontend::ChatFrontend;
use super::screen::{ScreenLook, time_labels};
use super::skins;
use crate::command::slash::save_setting;
use crate::command::update::Installation;
use crate::command::{model_picker, profile, sessions};
use crate::context::ProgramContext;
use crate::wiring::{child_variables, working_folder};

/// The most sessions a picker offers.
const MAX_SESSIONS: usize = 500;
const UPDATE_LIMIT: Duration = Duration::from_mins(30);

/// Ends the processes and prompts that run in the background.
pub(super) async fn stop(chat: &mut ChatLoop<'_>) {
    let prompts = chat.background.running();
    chat.background.stop();
    chat.background = super::background::BackgroundPrompts::new();
    chat.runtime.command_runtime.processes.end_all().await;
    let more = if prompts == 0 { String::new() } else { format!(" {prompts} background prompt(s) stopped.") };
    chat.output.line(&format!("Background processes ended.{more}"));
}

pub(super) async fn status(chat: &ChatLoop<'_>) -> Result<()> {
    let agent = &chat.runtime.agent;
    let conversation = &chat.opened.conversation;
    let row = agent.store().session(conversation.session()).await?;
    let title = row.as_ref().and_then(|row| row.title.as_deref()).unwrap_or("—");
    let usage = conversation.usage();
    chat.output.line(&format!(
        "Session:    {}\nTitle:      {title}\nModel:      {} ({})\nMessages:   {}\nTokens:     {} in, {} out\n\
         Window:     {}\nBackground: {} prompt(s)",
        conversation.session(),
        agent.models().name,
        agent.models().provider,
        conversation.messages().len(),
        with_commas(usage.prompt()),
        with_commas(usage.output),
        with_commas(agent.window(conversation)),
        chat.background.running(),
    ));
    Ok(())
}

/// Shows the settings that this chat uses.
pub(super) fn config(chat: &ChatLoop<'_>) -> Result<()> {
    let agent = &chat.runtime.agent;
    let config = &chat.runtime.config;
    let home = &chat.context.home;
    let compression = config.flag("compression.enabled");
    chat.output.line(&format!(
        "Model:       {} ({})\nHome:        {}\nConfig:      {}\nFolder:      {}\nTerminal:    {}\n\
         Sandbox:     {}\nApprovals:   {}\nMax turns:   {}\nCompression: {}\nSkin:        {}",
        agent.models().name,
        agent.models().provider,
        home.path().display(),
        home.config().display(),
        working_folder(chat.context, config)?.display(),
        config.text("terminal.backend"),
        config.text("terminal.sandbox"),
        config.text("approvals.mode"),
        config.count("agent.max_turns"),
        if compression { "on" } else { "off" },
        chat.terminal.display().skin,
    ));
    Ok(())
}

/// Shows, sets or clears the additional system prompt.
pub(super) fn prompt(chat: &mut ChatLoop<'_>, text: &str) {
    let key = "agent.system_prompt";
    let saved = match text {
        "" => {
            let current = chat.runtime.agent.request_options().ephemeral.clone();
            let shown = current.as_deref().unwrap_or("No additional system prompt is set.");
            return chat.output.line(&format!("{shown}\n\n/prompt TEXT sets it, /prompt clear removes it."));
        }
        "clear" => match set::unset(&chat.context.home, &chat.context.env, key) {
            Ok(_) | Err(hermes_config::Error::NotSet { .. }) => Ok(()),
            Err(error) => Err(error),
        },
        text => save_setting(chat.context, key, YamlValue::Str(text.to_owned())),
    };
    let ephemeral = (text != "clear").then(|| text.to_owned());
    let options = RequestOptions { ephemeral, ..chat.runtime.agent.request_options().clone() };
    chat.runtime.set_request_options(options);
    match saved {
        Ok(()) => chat.output.line("The system prompt was changed and saved."),
        Err(error) => chat.output.line(&format!("The system prompt was changed, but not saved: {error}")),
    }
}

/// Lists the skins, or switches to one.
pub(super) fn skin(chat: &mut ChatLoop<'_>, name: &str) {
    let home = &chat.context.home;
    if name.is_empty() {
        let current = &chat.terminal.display().skin;
        for (name, about) in skins::list(home) {
            let mark = if name == *current { "*" } else { " " };
            chat.output.line(&format!("  {mark} {name:<14} {about}"));
        }
        return chat
            .output
            .line("/skin NAME switches. Your own: a YAML file in the folder skins of the home.");
    }
    if skins::find(name, home).is_none() {
        let names: Vec<String> = skins::list(home).into_iter().map(|(name, _)| name).collect();
        return chat.output.line(&format!("There is no skin '{name}'. There are: {}", names.join(", ")));
    }
    chat.terminal.change_display(|display| name.clone_into(&mut display.skin));
    if let Some(screen) = chat.terminal.screen() {
        let look = ScreenLook::load(chat.terminal.display(), chat.context);
        screen.set_theme(look.theme(screen.background()));
    }
    report_saved(chat, "display.skin", name, &format!("Skin: {name}"));
}

/// Sets what typing during a turn does.
pub(super) fn busy(chat: &mut ChatLoop<'_>, mode: &str) {
    if mode.is_empty() {
        let current = &chat.terminal.display().busy_input_mode;
        return chat.output.line(&format!("Typing during a turn: {current} (interrupt, queue or steer)"));
    }
    if !matches!(mode, "interrupt" | "queue" | "steer") {
        return chat.output.line("Usage: /busy [interrupt | queue | steer]");
    }
    chat.terminal.change_display(|display| mode.clone_into(&mut display.busy_input_mode));
    report_saved(chat, "display.busy_input_mode", mode, &format!("Typing during a turn: {mode}"));
}

fn report_saved(chat: &ChatLoop<'_>, key: &str, value: &str, text: &str) {
    match save_setting(chat.context, key, YamlValue::Str(value.to_owned())) {
        Ok(()) => chat.output.line(text),
        Err(error) => chat.output.line(&format!("{text} (not saved: {error})")),
    }
}

/// Runs a slow command while the screen shows what it does and takes no input.
pub(super) async fn locked<T>(
    terminal: &ChatFrontend<'_>,
    status: Option<&str>,
    work: impl Future<Output = T>,
) -> T {
    let Some((screen, status)) = terminal.screen().zip(status) else { return work.await };
    screen.lock_input(Some(status.to_owned()));
    let done = work.await;
    screen.lock_input(None);
    done
}

/// Lets the user pick a model, and returns it as `/model` takes it.
pub(super) async fn pick_model(chat: &ChatLoop<'_>) -> Result<Option<String>> {
    let Some(screen) = chat.terminal.screen() else { return Ok(None) };
    let (context, config) = (chat.context.clone(), chat.runtime.config.clone());
    let (answer, listed) = tokio::sync::oneshot::channel();
    // On a thread of its own, because it may wait for the network.
    std::thread::Builder::new().name("models".to_owned()).spawn(move || {
        // There is no receiver any more when the program ends.
        let _ = answer.send(model_picker::offered(&context, config));
    })?;
    let offered = locked(&chat.terminal, Some("Asking for models…"), listed).await.unwrap_or_default();
    if offered.is_empty() {
        chat.output
            .line("No provider is set up. `hermes setup` connects one; /model PROVIDER:MODEL names a model.");
        return Ok(None);
    }
    let picked = screen.pick(model_picker::picker(&offered)).await;
    Ok(picked.and_then(|at| offered.get(at)).map(model_picker::OfferedModel::name))
}

/// Attaches a picture to the next message.
pub(super) fn image(chat: &mut ChatLoop<'_>, typed: &str) {
    if typed.is_empty() {
        return chat.output.line("Usage: /image PATH");
    }
    match chat.images.resolve(typed) {
        Ok(path) => attach(chat, path),
        Err(reason) => chat.output.line(&reason),
    }
}

/// Attaches the picture in the clipboard to the next message.
pub(super) async fn paste(chat: &mut ChatLoop<'_>) {
    match chat.images.clipboard().await {
        Ok(path) => attach(chat, path),
        Err(reason) => chat.output.line(&reason),
    }
}

fn attach(chat: &mut ChatLoop<'_>, path: PathBuf) {
    if let Some(screen) = chat.terminal.screen() {
        return screen.attach(path);
    }
    chat.pending_images.push(path);
    let count = chat.pending_images.len();
    chat.output.line(&format!("📎 {count} image(s) for the next message"));
}

/// Shows or hides the time beside messages.
pub(super) fn timestamps(chat: &mut ChatLoop<'_>, argument: &str) {
    let shown = match argument {
        "on" => true,
        "off" => false,
        "" => chat.terminal.display().timestamps.is_none(),
        _ => return chat.output.line("Usage: /timestamps [on | off]"),
    };
    let format = shown.then(|| chat.runtime.config.text("display.timestamp_format"));
    chat.terminal.change_display(|display| display.timestamps = format);
    match chat.terminal.screen() {
        Some(screen) => screen.show_times(time_labels(chat.terminal.display())),
        None => return chat.output.line("The line interface shows no times."),
    }
    let text = if shown { "Times are shown." } else { "Times are hidden." };
    match save_setting(chat.context, "display.timestamps", YamlValue::Bool(shown)) {
        Ok(()) => chat.output.line(text),
        Err(error) => chat.output.line(&format!("{text} (not saved: {error})")),
    }
}

pub(super) fn who_am_i(chat: &ChatLoop<'_>) {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| chat.context.env.get(name)).unwrap_or("not known");
    let profile = profile::describe(chat.context).unwrap_or_default();
    chat.output.line(&format!(
        "User:    {user}\n{profile}\nSession: {} ({})",
        chat.opened.conversation.session(),
        chat.opened.conversation.source()
    ));
}

/// Turns voice mode on or off.
pub(super) fn voice(chat: &mut ChatLoop<'_>, argument: &str) {
    let text = chat.voice.command(argument);
    chat.output.line(&text);
}

/// Updates the program. This chat goes on with the old version.
pub(super) async fn update(chat: &ChatLoop<'_>) {
    let own = match Installation::own() {
        Ok(own) => own,
        Err(error) => return chat.output.line(&format!("{error:#}")),
    };
    let programs =
        ProgramRunner::new(child_variables(&chat.context.env, &[]), chat.runtime.agent.clock().clone());
    let Some(name) = own.program.to_str() else { return };
    let program = Program {
        name,
        arguments: vec!["update".into()],
        directory: chat.context.home.path(),
        limit: UPDATE_LIMIT,
        stderr: StderrMode::Merge,
    };
    let cancel = Cancel::new();
    let ran = locked(&chat.terminal, Some("Updating Hermes…"), programs.output(program, &cancel)).await;
    match ran {
        Ok((text, ProgramExit::Exited(0))) => {
            chat.output.line(text.trim_end());
            chat.output.line("The new version runs when you start Hermes again; `hermes -c` continues here.");
        }
        Ok((text, _)) => chat.output.line(&format!("{}\nThe update did not succeed.", text.trim_end())),
        Err(error) => chat.output.line(&format!("The update could not be started: {error}")),
    }
}

/// Takes up the settings as the files have them now.
pub(super) fn reload_settings(chat: &mut ChatLoop<'_>) {
    let before = &chat.context.env;
    let kept = before.get("TERMINAL_CWD").map(|folder| ("TERMINAL_CWD".to_owned(), folder.to_owned()));
    let env = Env::process().with_files(&chat.context.home, None).with_variables(kept);
    let context = ProgramContext { home: chat.context.home.clone(), env };
    if let Err(error) = chat.runtime.change_model(&context) {
        return chat.output.line(&format!("{error:#}"));
    }
    let display = DisplaySettings::resolve(&chat.runtime.config, &context.env);
    chat.terminal.change_display(|shown| *shown = display);
    if let Some(screen) = chat.terminal.screen() {
        let look = ScreenLook::load(chat.terminal.display(), &context);
        screen.set_theme(look.theme(screen.background()));
        screen.show_times(time_labels(chat.terminal.display()));
    }
}

pub(super) fn toggle_status_bar(chat: &ChatLoop<'_>) {
    match chat.terminal.screen() {
        Some(screen) => screen.show_status_bar(BarVisibility::Toggled),
        None => chat.output.line("There is no status bar in the line interface."),
    }
}

/// Copies an answer to the clipboard, through the terminal.
pub(super) fn copy(chat: &ChatLoop<'_>, which: &str) {
    let number = if which.is_empty() { Ok(1) } else { which.parse::<usize>() };
    let Some(number) = number.ok().filter(|number| *number > 0) else {
        return chat.output.line("Usage: /copy [N]");
    };
    let answers = chat.opened.conversation.messages().iter().rev();
    let mut answers = answers
        .filter(|message| message.role == Role::Assistant)
        .map(|message| hermes_text::strip_think(&message.content.text()).trim().to_owned())
        .filter(|text| !text.is_empty());
    match answers.nth(number - 1) {
        None => chat.output.line("There is no such answer."),
        Some(text) => {
            chat.output.copy(&text);
            chat.output
                .line(&format!("Copied {} characters, if the terminal allows it.", text.chars().count()));
        }
    }
}

/// Lets the user pick a session on the screen. Returns nothing in the line interface.
pub(super) async fn pick_session(chat: &ChatLoop<'_>) -> Result<Option<SessionId>> {
    let Some(screen) = chat.terminal.screen() else { return Ok(None) };
    let store = chat.runtime.agent.store();
    let all = store.list_conversations(hermes_store::SessionFilter::default(), MAX_SESSIONS).await?;
    let own = chat.opened.conversation.session();
    let all: Vec<_> = all.into_iter().filter(|session| session.id != *own).collect();
    if all.is_empty() {
        chat.output.line("No sessions found.");
        return Ok(None);
    }
    let picked = screen.pick(session_picker(&all)).await;
    Ok(picked.and_then(|at| all.get(at)).map(|session| session.id.clone()))
}

/// Describes a picker of sessions.
pub(super) fn session_picker(sessions: &[SessionSummary]) -> PickerSpec {
    let items = sessions.iter().map(|session| PickerItem {
        label: session.title.clone().unwrap_or_else(|| session.preview.clone()),
        detail: sessions::age(session),
        preview: format!(
            "{}\n{} · {} messages · {}",
            session.preview,
            session.id,
            session.message_count,
            session.model.as_deref().unwrap_or(&session.source)
        ),
    });
    PickerSpec { title: "Sessions".to_owned(), items: items.collect(), selected: 0 }
}
