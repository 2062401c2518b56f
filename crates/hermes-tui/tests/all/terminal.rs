//! The screen on an emulated terminal.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hermes_tui::{
    BusyInputMode, ColorDepth, CommandItem, DiffDisplay, MarkdownDisplay, Operation, Painter,
    ReasoningDisplay, ResizeBehavior, ScreenEffect, ScreenInput, ScreenSetup, ScreenState, StatusFields,
    Theme, ToolFeedMode, TranscriptOptions,
};
use hermes_types::{CallId, Delta, OutcomeStatus, PreviewKind, SessionId, ToolDisplay, TurnEvent};

/// Returns how a tool is shown.
pub(crate) fn display(tool: &str) -> ToolDisplay {
    let (icon, verb, preview_kind) = match tool {
        "terminal" => ("💻", "$", PreviewKind::Text),
        "read_file" => ("📖", "read", PreviewKind::Path),
        "patch" => ("🔧", "patch", PreviewKind::Path),
        other => ("⚡", other, PreviewKind::Text),
    };
    ToolDisplay { icon: icon.into(), verb: verb.into(), preview_kind }
}

pub(crate) fn setup(width: u16, height: u16) -> ScreenSetup {
    let command = |name: &str, description: &str, arguments: &[&str]| CommandItem {
        name: name.into(),
        description: description.into(),
        aliases: Vec::new(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    };
    ScreenSetup {
        record_key: hermes_tui::KeyChord::default(),
        theme: Theme::built_in(hermes_tui::Background::Dark, ColorDepth::True),
        transcript: TranscriptOptions {
            tool_feed: ToolFeedMode::All,
            reasoning: ReasoningDisplay::Hidden,
            diffs: DiffDisplay::Inline,
            markdown: MarkdownDisplay::Rendered,
            preview_columns: None,
        },
        busy_input: BusyInputMode::Interrupt,
        bell_on_complete: false,
        commands: vec![
            command("help", "Show the commands", &[]),
            command("history", "Show the conversation", &[]),
            command("model", "Show or switch the model", &["gpt", "claude"]),
            command("skin", "List or switch skins", &["mono", "slate"]),
        ],
        history: vec!["earlier question".into(), "another question".into()],
        times: None,
        fold: hermes_tui::FoldLimits::default(),
        placeholder: "Ask anything".into(),
        width,
        height,
        now: Duration::ZERO,
    }
}

pub(crate) struct TestTerminal {
    pub(crate) state: ScreenState,
    pub(crate) painter: Painter<Vec<u8>>,
    pub(crate) parser: vt100::Parser,
    pub(crate) now: Duration,
    pub(crate) effects: Vec<ScreenEffect>,
    pub(crate) bytes: usize,
}

impl TestTerminal {
    pub(crate) fn new(width: u16, height: u16) -> Self {
        Self::with(setup(width, height))
    }

    pub(crate) fn with(setup: ScreenSetup) -> Self {
        let (width, height) = (setup.width, setup.height);
        let mut terminal = Self {
            state: ScreenState::new(setup),
            // The emulator cuts rows that are too long.
            painter: Painter::new(Vec::new(), width, height, ResizeBehavior::Cuts),
            parser: vt100::Parser::new(height, width, 10_000),
            now: Duration::ZERO,
            effects: Vec::new(),
            bytes: 0,
        };
        terminal.input(ScreenInput::Status(StatusFields {
            model: "anthropic/claude-sonnet".into(),
            context_used: Some(12_400),
            context_window: Some(200_000),
            ..StatusFields::default()
        }));
        terminal
    }

    pub(crate) fn input(&mut self, input: ScreenInput) {
        self.effects.extend(self.state.update(input, self.now));
        self.paint();
    }

    pub(crate) fn paint(&mut self) {
        let finished = self.state.take_finished();
        self.painter.paint(&finished, &self.state.view(self.now)).unwrap();
        let bytes = std::mem::take(self.painter.output_mut());
        self.bytes += bytes.len();
        self.parser.process(&bytes);
    }

    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        self.blank_cut_characters(width);
        self.parser.screen_mut().set_size(height, width);
        self.painter.resize(width, height);
        self.input(ScreenInput::Resize { width, height });
    }

    /// Replaces the wide characters that the new width would cut in two: the emulator does not survive them.
    fn blank_cut_characters(&mut self, width: u16) {
        let (rows, _) = self.parser.screen().size();
        for row in 0..rows {
            let is_cut = self.parser.screen().cell(row, width - 1).is_some_and(vt100::Cell::is_wide);
            if is_cut {
                self.parser.process(format!("\u{1b}7\u{1b}[{};{width}H  \u{1b}8", row + 1).as_bytes());
            }
        }
    }

    pub(crate) fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
        self.input(ScreenInput::Tick);
    }

    /// Presses keys: characters stand for themselves, `<C-a>`, `<A-b>`, `<S-Enter>`, `<Enter>`, `<Up>` for keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        for key in parse_keys(keys) {
            self.input(ScreenInput::Key(key));
        }
    }

    pub(crate) fn turn(&mut self, event: TurnEvent) {
        self.input(ScreenInput::Turn(event));
    }

    pub(crate) fn begin_turn(&mut self) {
        self.turn(TurnEvent::TurnStarted { session: SessionId::new("s") });
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.turn(TurnEvent::Delta(Delta::Text(text.into())));
    }

    pub(crate) fn tool(&mut self, name: &str, preview: &str, milliseconds: u64, result: &str) {
        self.tool_with(name, preview, milliseconds, result, OutcomeStatus::Done);
    }

    pub(crate) fn tool_with(
        &mut self,
        name: &str,
        preview: &str,
        time: u64,
        result: &str,
        status: OutcomeStatus,
    ) {
        let id = CallId::new("c");
        let (name, preview) = (name.to_owned(), preview.to_owned());
        self.turn(TurnEvent::ToolStarted {
            id: id.clone(),
            name: name.clone(),
            preview,
            arguments: "{}".into(),
            display: display(&name),
        });
        self.pass(time);
        self.turn(TurnEvent::ToolEnded { id, name, status, result: result.to_owned() });
    }

    /// Returns what the terminal shows.
    pub(crate) fn screen(&self) -> String {
        let width = self.parser.screen().size().1;
        let rows: Vec<String> =
            self.parser.screen().rows(0, width).map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Returns everything the terminal holds: scrollback and screen.
    pub(crate) fn everything(&mut self) -> String {
        let width = self.parser.screen().size().1;
        let screen = self.parser.screen_mut();
        screen.set_scrollback(usize::MAX);
        let mut rows = Vec::new();
        for offset in (1..=screen.scrollback()).rev() {
            screen.set_scrollback(offset);
            rows.extend(screen.rows(0, width).next().map(|row| row.trim_end().to_owned()));
        }
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, width).map(|row| row.trim_end().to_owned()));
        rows.join("\n").trim_end().to_owned()
    }

    pub(crate) fn operations(&mut self) -> Vec<Operation> {
        let effects = std::mem::take(&mut self.effects);
        effects
            .into_iter()
            .filter_map(|effect| match effect {
                ScreenEffect::Operate(operation) => Some(operation),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn typed(&self) -> String {
        self.state.typed().text
    }
}

fn parse_keys(keys: &str) -> Vec<KeyEvent> {
    let mut found = Vec::new();
    let mut rest = keys;
    while let Some(c) = rest.chars().next() {
        if let Some((name, after)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            let mut modifiers = KeyModifiers::NONE;
            let mut name = name;
            while let Some((modifier, more)) =
                name.split_once('-').filter(|(modifier, _)| modifier.len() == 1)
            {
                modifiers |= match modifier {
                    "C" => KeyModifiers::CONTROL,
                    "A" => KeyModifiers::ALT,
                    _ => KeyModifiers::SHIFT,
                };
                name = more;
            }
            let code = match name {
                "Enter" => KeyCode::Enter,
                "Tab" => KeyCode::Tab,
                "Esc" => KeyCode::Esc,
                "Up" => KeyCode::Up,
                "Down" => KeyCode::Down,
                "Left" => KeyCode::Left,
                "Right" => KeyCode::Right,
                "Home" => KeyCode::Home,
                "End" => KeyCode::End,
                "BS" => KeyCode::Backspace,
                "Del" => KeyCode::Delete,
                "PageUp" => KeyCode::PageUp,
                "PageDown" => KeyCode::PageDown,
                other => KeyCode::Char(other.chars().next().unwrap()),
            };
            found.push(KeyEvent::new(code, modifiers));
            rest = after;
        } else {
            found.push(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    found
}
