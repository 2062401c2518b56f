//! Pictures of the screen: every state of it in three sizes and two skins, as a terminal emulator shows it.
//!
//! `cargo xtask screens` writes the texts that a test compares, and one SVG of each state for the guide. The screen is the
//! product's own; only what happens on it is made up here.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hermes_tui::{
    Background, BusyInputMode, ColorDepth, CommandItem, CompletionItem, DiffDisplay, FoldLimits,
    MarkdownDisplay, Painter, PickerItem, PickerSpec, ReasoningDisplay, ResizeBehavior, ScreenInput,
    ScreenSetup, ScreenState, Skin, StatusFields, ToolFeedMode, TranscriptOptions,
};
use hermes_types::{
    CallId, Danger, Delta, OutcomeStatus, PreviewKind, SessionId, ToolDisplay, TurnEvent, UserQuestion,
};

use crate::workspace;

mod turns;

const SIZES: [(u16, u16); 3] = [(80, 24), (44, 15), (200, 60)];
const SKINS: [&str; 2] = ["default", "ares"];

const ANSWER: &str = "The build fails because `Config::load` **returns early** when the file is missing.\n\n1. Read the \
file lazily\n2. Keep the old value after a reload\n\n| file | lines | state |\n|---|---:|---|\n| src/main.rs | 120 | changed \
|\n| src/config.rs | 1,204 | read |\n\n```rust\nfn load(path: &Path) -> Result<Config, Error> {\n    let text = \
fs::read_to_string(path)?;\n    parse(&text)\n}\n```\n\nRun the tests to see it: 日本語 and 👩‍👩‍👧 stay aligned.\n";

const DIFF: &str = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -10,4 +10,5 @@\n fn main() {\n-    let config = load();\n+    let \
path = default_path();\n+    let config = load(&path)?;\n     run(config);\n }\n";

/// A state of the screen: its name, and what leads to it.
type Scene = (&'static str, fn(&mut Stage));

const SCENES: [Scene; 15] = [
    ("empty", |_| {}),
    ("greeting", |stage| stage.greet()),
    ("commands", |stage| {
        stage.greet();
        stage.type_text("/s");
    }),
    ("files", |stage| {
        stage.type_text("look at @src");
        let item = |name: &str, size: &str| CompletionItem {
            insert: format!("@file:{name}"),
            label: name.to_owned(),
            detail: size.to_owned(),
        };
        let items = vec![item("src/main.rs", "4K"), item("src/config.rs", "38K"), item("src/lib.rs", "812B")];
        stage.take(ScreenInput::Candidates { word: "@src".to_owned(), items });
    }),
    ("several-lines", |stage| {
        stage.type_text("first line");
        stage.press(KeyCode::Enter, KeyModifiers::ALT);
        stage.type_text("second line, rather long so that it is broken where the terminal is narrow");
    }),
    ("paste", |stage| {
        stage.type_text("read this: ");
        stage.take(ScreenInput::Paste("line\n".repeat(500)));
    }),
    ("thinking", |stage| {
        stage.begin("Why does the build fail?");
        stage.wait(2);
        stage.turn(TurnEvent::Delta(Delta::Reasoning("I should look at the file first.".to_owned())));
    }),
    ("tools", |stage| {
        stage.begin("Why does the build fail?");
        stage.call("read_file", "crates/config/src/load.rs", OutcomeStatus::Done, "{\"content\":\"…\"}");
        stage.call("terminal", "cargo test --workspace", OutcomeStatus::Failed, "{\"exit_code\":101}");
        stage.start("terminal", "cargo build");
        stage.wait(3);
    }),
    ("diff", |stage| {
        stage.begin("Mend it");
        let result = serde_json::json!({ "success": true, "diff": DIFF }).to_string();
        stage.call("patch", "src/main.rs", OutcomeStatus::Done, &result);
    }),
    ("answer", |stage| stage.answer()),
    ("agents", |stage| {
        stage.begin("Look at both crates");
        for (label, preview) in [("1/2", "cargo test -p one"), ("2/2", "cargo test -p two")] {
            let event = Box::new(started("terminal", preview));
            stage.turn(TurnEvent::Child { label: label.to_owned(), event });
        }
        stage.wait(4);
    }),
    ("approval", |stage| {
        stage.begin("Clean up");
        let danger = Danger { key: "recursive delete".to_owned(), reason: "recursive delete".to_owned() };
        let command = "rm -rf target/debug && cargo build --workspace --all-targets".to_owned();
        stage.ask(UserQuestion::Approve { command, danger });
    }),
    ("question", |stage| {
        stage.begin("Build it");
        let choices = vec!["The whole workspace".to_owned(), "Only this crate".to_owned()];
        stage.ask(UserQuestion::Clarify { question: "What shall I build?".to_owned(), choices });
    }),
    ("secret", |stage| {
        stage.begin("Use the service");
        let (name, prompt) = ("EXAMPLE_API_KEY".to_owned(), "Key of the service".to_owned());
        stage.ask(UserQuestion::Secret { name, prompt });
        stage.wait(1);
        stage.type_text("abcdef");
    }),
    ("sessions", |stage| {
        let item = |label: &str, detail: &str| PickerItem {
            label: label.to_owned(),
            detail: detail.to_owned(),
            preview: format!("{label}\n20261116_101500_a1b2c3 · 12 messages"),
        };
        let items = vec![item("Why the build fails", "2h ago"), item("Plan of the week", "yesterday")];
        stage.take(ScreenInput::Pick {
            id: 1,
            spec: PickerSpec { title: "Sessions".to_owned(), items, selected: 0 },
        });
    }),
];

/// A screen on an emulated terminal.
struct Stage {
    state: ScreenState,
    painter: Painter<Vec<u8>>,
    parser: vt100::Parser,
    now: Duration,
    calls: usize,
}

impl Stage {
    fn new((width, height): (u16, u16), skin: &str) -> Self {
        let command = |name: &str, description: &str| CommandItem {
            name: name.to_owned(),
            description: description.to_owned(),
            ..CommandItem::default()
        };
        let skin = Skin::built_in(skin).unwrap_or_default();
        let state = ScreenState::new(ScreenSetup {
            record_key: hermes_tui::KeyChord::default(),
            theme: skin.theme(Background::Dark, ColorDepth::True),
            transcript: transcript(),
            busy_input: BusyInputMode::Interrupt,
            bell_on_complete: false,
            commands: vec![
                command("save", "save the conversation to a JSON file in this folder"),
                command("sessions", "pick a session to resume"),
                command("skin", "list the skins, or switch to one"),
                command("status", "show this session"),
                command("help", "show this list"),
            ],
            history: Vec::new(),
            fold: FoldLimits::default(),
            times: None,
            placeholder: "Ask anything, / for commands, @ for files".to_owned(),
            width,
            height,
            now: Duration::ZERO,
        });
        let painter = Painter::new(Vec::new(), width, height, ResizeBehavior::Cuts);
        let parser = vt100::Parser::new(height, width, 0);
        let mut stage = Self { state, painter, parser, now: Duration::from_secs(62), calls: 0 };
        stage.take(ScreenInput::Status(StatusFields {
            model: "anthropic/claude-opus-4.6".to_owned(),
            context_used: Some(12_400),
            context_window: Some(200_000),
            ..StatusFields::default()
        }));
        stage
    }

    fn take(&mut self, input: ScreenInput) {
        // What follows from an input is the business of the program around the screen.
        drop(self.state.update(input, self.now));
    }

    fn turn(&mut self, event: TurnEvent) {
        self.take(ScreenInput::Turn(event));
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.take(ScreenInput::Tick);
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.take(ScreenInput::Key(KeyEvent::new(code, modifiers)));
    }

    fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.press(KeyCode::Char(c), KeyModifiers::NONE);
        }
    }

    fn greet(&mut self) {
        self.take(ScreenInput::Print(
            "Hermes Agent · claude-opus-4.6 · 15 tools · /help for commands".to_owned(),
        ));
    }

    fn begin(&mut self, question: &str) {
        self.greet();
        self.type_text(question);
        self.press(KeyCode::Enter, KeyModifiers::NONE);
        self.turn(TurnEvent::TurnStarted { session: SessionId::new("s") });
    }

    fn start(&mut self, name: &str, preview: &str) {
        self.turn(started(name, preview));
    }

    fn call(&mut self, name: &str, preview: &str, status: OutcomeStatus, result: &str) {
        self.start(name, preview);
        self.now += Duration::from_millis(400);
        self.calls += 1;
        let (id, name, result) = (CallId::new(preview), name.to_owned(), result.to_owned());
        self.turn(TurnEvent::ToolEnded { id, name, status, result });
    }

    fn ask(&mut self, question: UserQuestion) {
        let time_limit = Some(Duration::from_mins(1));
        self.take(ScreenInput::Ask { id: 1, question, time_limit });
    }

    /// Draws the screen, and returns it as the emulator shows it.
    fn draw(mut self) -> Result<vt100::Parser> {
        let finished = self.state.take_finished();
        self.painter.paint(&finished, &self.state.view(self.now))?;
        let bytes = std::mem::take(self.painter.output_mut());
        self.parser.process(&bytes);
        Ok(self.parser)
    }
}

/// Returns how turns are shown.
fn transcript() -> TranscriptOptions {
    TranscriptOptions {
        tool_feed: ToolFeedMode::All,
        reasoning: ReasoningDisplay::Shown,
        diffs: DiffDisplay::Inline,
        markdown: MarkdownDisplay::Rendered,
        preview_columns: None,
    }
}

fn started(name: &str, preview: &str) -> TurnEvent {
    let (icon, verb, preview_kind) = match name {
        "read_file" => ("📖", "read", PreviewKind::Path),
        "patch" => ("🔧", "patch", PreviewKind::Path),
        _ => ("💻", "$", PreviewKind::Text),
    };
    TurnEvent::ToolStarted {
        id: CallId::new(preview),
        name: name.to_owned(),
        preview: preview.to_owned(),
        arguments: "{}".to_owned(),
        display: ToolDisplay { icon: icon.to_owned(), verb: verb.to_owned(), preview_kind },
    }
}

/// Returns all states.
fn scenes() -> impl Iterator<Item = &'static Scene> {
    SCENES.iter().chain(&turns::SCENES)
}

/// Renders one state in all sizes and skins, as text.
fn rendered((_, play): &Scene) -> Result<String> {
    let mut text = String::new();
    for size in SIZES {
        for skin in SKINS {
            let mut stage = Stage::new(size, skin);
            play(&mut stage);
            let screen = stage.draw()?;
            writeln!(text, "== {}×{} {skin}", size.0, size.1)?;
            for row in screen.screen().rows(0, size.0) {
                writeln!(text, "{}", row.trim_end())?;
            }
        }
    }
    Ok(text)
}

fn folder() -> PathBuf {
    workspace::root().join("crates/xtask/screens")
}

/// Writes the texts and the pictures.
pub(crate) fn write() -> Result<std::process::ExitCode> {
    let pictures = workspace::root().join("docs/screens");
    for scene in scenes() {
        std::fs::write(folder().join(format!("{}.txt", scene.0)), rendered(scene)?)?;
        let mut stage = Stage::new((92, 30), "default");
        (scene.1)(&mut stage);
        let picture = svg(stage.draw()?.screen());
        std::fs::write(pictures.join(format!("{}.svg", scene.0)), picture)?;
    }
    println!("{} states in {} sizes and {} skins", scenes().count(), SIZES.len(), SKINS.len());
    Ok(std::process::ExitCode::SUCCESS)
}

const CELL: (f32, f32) = (8.4, 18.0);

/// Draws what an emulator shows as a picture. Empty rows at the end are left out.
fn svg(screen: &vt100::Screen) -> String {
    let (rows, columns) = screen.size();
    let used = (0..rows).rev().find(|row| !screen.contents_between(*row, 0, *row, columns).trim().is_empty());
    let rows = used.map_or(1, |row| row + 1);
    let (width, height) = (f32::from(columns) * CELL.0 + 24.0, f32::from(rows) * CELL.1 + 24.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace, \
         Menlo, Consolas, monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16161e\"/>\n"
    );
    for row in 0..rows {
        let y = f32::from(row) * CELL.1 + 26.0;
        let mut column = 0;
        while column < columns {
            let Some(cell) = screen.cell(row, column) else { break };
            let style = |cell: &vt100::Cell| (color(cell.fgcolor()), cell.bold(), cell.dim(), cell.italic());
            let (first, mut text) = (column, String::new());
            while let Some(next) = screen.cell(row, column).filter(|next| style(next) == style(cell)) {
                if !next.is_wide_continuation() {
                    text.push_str(if next.has_contents() { next.contents() } else { " " });
                }
                column += 1;
                // A wide character ends a run, so that what follows stands in its column.
                if next.is_wide() || column >= columns {
                    break;
                }
            }
            if text.trim().is_empty() {
                column = column.max(first + 1);
                continue;
            }
            let (fill, bold, dim, italic) = style(cell);
            let x = f32::from(first) * CELL.0 + 12.0;
            let weight = if bold { " font-weight=\"bold\"" } else { "" };
            let opacity = if dim { " opacity=\"0.6\"" } else { "" };
            let slant = if italic { " font-style=\"italic\"" } else { "" };
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{fill}\"{weight}{opacity}{slant} xml:space=\"preserve\">{}</text>",
                escape(&text)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn color(color: vt100::Color) -> String {
    match color {
        vt100::Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
        _ => "#c8c8d0".to_owned(),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_looks_as_it_is_kept() {
        let mut differ = Vec::new();
        for scene in scenes() {
            let kept = std::fs::read_to_string(folder().join(format!("{}.txt", scene.0))).unwrap_or_default();
            if kept != rendered(scene).unwrap() {
                differ.push(scene.0);
            }
        }
        assert!(differ.is_empty(), "`cargo xtask screens` shows what changed: {differ:?}");
        assert!(scenes().count() >= 40);
    }
}
