//! Opens the screen of a chat: its look, its commands, its history, its completions, its editor.

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hermes_config::settings::DisplaySettings;
use hermes_config::{Config, Env};
use hermes_exec::{
    Program, ProgramExit, ProgramRunner, StderrMode, TtySettings, keep_terminal_if_killed,
    restore_terminal_if_killed,
};
use hermes_gateway::slash::{self, CommandSurface};
use hermes_task::SystemClock;
use hermes_tui::{
    AnswerLimits, Background, ColorDepth, CommandItem, ExternalEditor, FoldLimits, InputHistory, KeyChord,
    Operations, PickerSpec, PictureProtocol, PictureSupport, Screen, ScreenHandle, ScreenOptions, Skin,
    StatusFields, TerminalBackup, Theme, ThemeMode, TimeLabels, format_history_entry, parse_history,
};
use hermes_types::{BoxFuture, Cancel, Clock};

use super::completion::FileCompletion;
use super::frontend::{busy_input_mode, transcript_options};
use super::images::ChatImages;
use super::skins;
use super::terminal::QuestionTimeouts;
use crate::cli::ChatArguments;
use crate::context::{ProgramContext, format_time, local_time, now};
use crate::editor;
use crate::wiring::skills::SkillCommands;
use crate::wiring::{AgentRuntime, child_variables};

const PLACEHOLDER: &str = "Ask anything, / for commands, @ for files";
/// History files grow for years; what is older than this is not loaded.
const MAX_HISTORY_BYTES: u64 = 16 * 1024 * 1024;

/// How long tmux may take to answer.
const TMUX_PATIENCE: Duration = Duration::from_secs(2);

/// Tells whether the chat has a screen.
pub(super) fn is_wanted(arguments: &ChatArguments, env: &Env) -> bool {
    !arguments.cli && !arguments.quiet && is_possible(env)
}

/// Tells whether both ends are a terminal that can move its cursor.
pub(crate) fn is_possible(env: &Env) -> bool {
    let terminal = env.get("TERM").unwrap_or_default();
    !terminal.is_empty()
        && terminal != "dumb"
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
}

/// Takes the terminal over.
pub(super) fn open(
    runtime: &AgentRuntime,
    display: &DisplaySettings,
    images: &Arc<ChatImages>,
    pictures: PictureSupport,
    context: &ProgramContext,
) -> Result<(ScreenHandle, Operations)> {
    let look = ScreenLook::load(display, context);
    let skin = look.skin.clone();
    let timeouts = QuestionTimeouts::from_config(&runtime.config);
    let folder = crate::wiring::working_folder(context, &runtime.config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    Screen::open(ScreenOptions {
        clock: clock.clone(),
        theme_mode: look.mode,
        theme: Box::new(move |background| skin.theme(background, look.depth)),
        transcript: transcript_options(display),
        busy_input: busy_input_mode(display),
        bell_on_complete: display.bell_on_complete,
        limits: AnswerLimits {
            approve: timeouts.approve,
            clarify: timeouts.clarify,
            ..AnswerLimits::default()
        },
        commands: commands(runtime, context),
        placeholder: PLACEHOLDER.to_owned(),
        status: StatusFields {
            model: runtime.agent.models().name.clone(),
            context_window: Some(runtime.agent.models().window()),
            ..StatusFields::default()
        },
        history: Some(Arc::new(HistoryFile(context.home.join(".hermes_history")))),
        completion: Some(Arc::new(FileCompletion::new(folder, context.env.clone(), clock))),
        editor: Some(Arc::new(TerminalEditor(context.env.clone()))),
        images: Some(images.clone()),
        backup: Some(Arc::new(WatchdogBackup::default())),
        times: time_labels(display),
        fold: FoldLimits {
            line_breaks: runtime.config.count("paste_collapse_threshold"),
            chars: runtime.config.count("paste_collapse_char_threshold"),
        },
        pictures,
        record_key: KeyChord::parse(&runtime.config.text("voice.record_key")).unwrap_or_default(),
        cancel: Cancel::new(),
    })
    .context("cannot open the screen; `hermes chat --cli` works without it")
}

/// Has the watchdog process restore the terminal when this process is killed.
#[derive(Default)]
struct WatchdogBackup {
    /// The settings before the screen changed them.
    before: Mutex<Option<TtySettings>>,
}

impl WatchdogBackup {
    fn before(&self) -> MutexGuard<'_, Option<TtySettings>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TerminalBackup for WatchdogBackup {
    fn before_take_over(&self) {
        *self.before() = TtySettings::read();
    }

    fn taken_over(&self, sequence: &str) {
        if let (Some(before), Some(during)) = (&*self.before(), TtySettings::read()) {
            restore_terminal_if_killed(before, &during, sequence);
        }
    }

    fn given_back(&self) {
        keep_terminal_if_killed();
    }
}

/// Lets the user pick one of the entries, on a screen that is closed afterwards.
pub(super) async fn pick(spec: PickerSpec, context: &ProgramContext) -> Result<Option<usize>> {
    let display = DisplaySettings::resolve(&Config::load(&context.home, &context.env), &context.env);
    let look = ScreenLook::load(&display, context);
    let (skin, depth) = (look.skin.clone(), look.depth);
    let (screen, _operations) = Screen::open(ScreenOptions {
        clock: Arc::new(SystemClock::new()),
        theme_mode: look.mode,
        theme: Box::new(move |background| skin.theme(background, depth)),
        transcript: transcript_options(&display),
        busy_input: busy_input_mode(&display),
        bell_on_complete: false,
        limits: AnswerLimits::default(),
        commands: Vec::new(),
        placeholder: String::new(),
        status: StatusFields::default(),
        history: None,
        completion: None,
        editor: None,
        images: None,
        backup: Some(Arc::new(WatchdogBackup::default())),
        times: None,
        fold: FoldLimits::default(),
        pictures: PictureSupport::Off,
        record_key: KeyChord::default(),
        cancel: Cancel::new(),
    })
    .context("cannot open the screen")?;
    let picked = screen.pick(spec).await;
    screen.close().await;
    Ok(picked)
}

/// The look that the settings and the terminal ask for.
pub(super) struct ScreenLook {
    skin: Skin,
    depth: ColorDepth,
    mode: ThemeMode,
}

impl ScreenLook {
    pub(super) fn load(display: &DisplaySettings, context: &ProgramContext) -> Self {
        let env = &context.env;
        Self {
            skin: skins::load(&display.skin, &context.home),
            depth: ColorDepth::detect(env.get("TERM"), env.get("COLORTERM"), env.get("NO_COLOR")),
            mode: match display.theme_mode.as_str() {
                "light" => ThemeMode::Fixed(Background::Light),
                "dark" => ThemeMode::Fixed(Background::Dark),
                _ => ThemeMode::Auto,
            },
        }
    }

    /// Returns the theme for a background that is already known.
    pub(super) fn theme(&self, background: Background) -> Theme {
        let background = match self.mode {
            ThemeMode::Auto => background,
            ThemeMode::Fixed(fixed) => fixed,
        };
        self.skin.theme(background, self.depth)
    }
}

/// Returns whether and how the terminal shows pictures. Inside tmux, tmux is asked what it passes on, and to which terminal.
pub(super) async fn picture_support(display: &DisplaySettings, context: &ProgramContext) -> PictureSupport {
    let is_in_tmux = context.env.get("TMUX").is_some();
    match display.pictures.as_str() {
        "off" => PictureSupport::Off,
        "kitty" if is_in_tmux => PictureSupport::Known(PictureProtocol::KittyInTmux),
        "kitty" => PictureSupport::Known(PictureProtocol::Kitty),
        "iterm" => PictureSupport::Known(PictureProtocol::Iterm),
        "sixel" => PictureSupport::Known(PictureProtocol::Sixel),
        _ => {
            let known = if is_in_tmux {
                protocol_of_tmux(context).await
            } else {
                PictureProtocol::detect(|name| context.env.get(name))
            };
            known.map_or(PictureSupport::Ask, PictureSupport::Known)
        }
    }
}

async fn protocol_of_tmux(context: &ProgramContext) -> Option<PictureProtocol> {
    let passed = ["TMUX".to_owned(), "TMUX_PANE".to_owned()];
    let programs = ProgramRunner::new(child_variables(&context.env, &passed), Arc::new(SystemClock::new()));
    let question = Program {
        name: "tmux",
        arguments: ["display-message", "-p", "#{allow-passthrough} #{client_termname}"]
            .map(Into::into)
            .into(),
        directory: context.home.path(),
        limit: TMUX_PATIENCE,
        stderr: StderrMode::Discard,
    };
    match programs.output(question, &Cancel::new()).await {
        Ok((answer, ProgramExit::Exited(0))) => {
            let (option, terminal) = answer.trim().split_once(' ')?;
            PictureProtocol::of_tmux(option, terminal)
        }
        other => {
            tracing::debug!(?other, "tmux did not say what it passes on");
            None
        }
    }
}

/// Returns how the times beside messages look, if they are shown.
pub(super) fn time_labels(display: &DisplaySettings) -> Option<TimeLabels> {
    let format = display.timestamps.clone()?;
    Some(TimeLabels::new(move |_| format_time(now(), &format)))
}

/// Lists the commands, those of skills last.
pub(super) fn commands(runtime: &AgentRuntime, context: &ProgramContext) -> Vec<CommandItem> {
    let own = slash::commands(CommandSurface::Terminal).map(|command| CommandItem {
        name: command.name.to_owned(),
        description: command.description.to_owned(),
        aliases: command.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        arguments: argument_words(command.arguments),
    });
    let skills = SkillCommands::for_platform(&context.home, &runtime.config, &context.env, "cli")
        .commands(CommandSurface::Terminal);
    let skills = skills.into_iter().map(|(name, about)| CommandItem {
        name,
        description: format!("⚡ {}", hermes_text::head(&about, 50)),
        ..CommandItem::default()
    });
    own.chain(skills).collect()
}

/// Returns the words that a hint such as `[on | off | N]` lists; a placeholder is no word.
fn argument_words(hint: &str) -> Vec<String> {
    let inside = hint.trim_start_matches('[').trim_end_matches(']');
    if !inside.contains('|') {
        return Vec::new();
    }
    let words = inside.split('|').map(|choice| choice.split_whitespace().next().unwrap_or_default());
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).map(str::to_owned).collect()
}

/// The history file, which other programs write too.
struct HistoryFile(PathBuf);

impl InputHistory for HistoryFile {
    fn load(&self) -> Vec<String> {
        let is_small = fs::metadata(&self.0).is_ok_and(|data| data.len() <= MAX_HISTORY_BYTES);
        let bytes = if is_small { fs::read(&self.0).unwrap_or_default() } else { Vec::new() };
        parse_history(&String::from_utf8_lossy(&bytes))
    }

    fn append(&self, text: &str) {
        let entry = format_history_entry(text, &local_time(now()));
        let opened = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&self.0);
        if let Err(error) = opened.and_then(|mut file| file.write_all(entry.as_bytes())) {
            tracing::warn!(%error, "the input history cannot be written");
        }
    }
}

/// Opens texts in the user's own editor.
struct TerminalEditor(Env);

impl ExternalEditor for TerminalEditor {
    fn edit(&self, text: String) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            editor::edit_text(&self.0, &text).unwrap_or_else(|error| {
                tracing::warn!(%error, "the text cannot be edited");
                None
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::argument_words;

    #[test]
    fn a_hint_lists_words() {
        assert_eq!(argument_words("[on | off]"), ["on", "off"]);
        assert_eq!(argument_words("[N | diff N | N file]"), ["diff"]);
        assert!(argument_words("[name]").is_empty());
        assert!(argument_words("").is_empty());
    }
}
