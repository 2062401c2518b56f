//! Plays a scripted conversation on the screen, to try it in a real terminal: `cargo run -p hermes-tui --example demo`.
//!
//! Type anything for a turn. `ask`, `clarify`, `secret`, `agents`, `fail` and `long` in a message play those parts;
//! `/model` opens a picker, `/notice` prints a notice, `/quit` ends.
#![expect(clippy::expect_used, reason = "an example that cannot run says so and ends")]
#![expect(clippy::disallowed_methods, reason = "an example reads its environment itself")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_task::SystemClock;
use hermes_tui::{
    AnswerLimits, BusyInputMode, ColorDepth, CommandItem, CompletionItem, CompletionSource, DiffDisplay,
    MarkdownDisplay, Operation, PickerItem, PickerSpec, ReasoningDisplay, Screen, ScreenHandle,
    ScreenOptions, StatusFields, Theme, ThemeMode, ToolFeedMode, TranscriptOptions,
};
use hermes_types::{
    CallId, Cancel, Clock, Danger, Delta, Frontend, OutcomeStatus, PreviewKind, SessionId, ToolDisplay,
    TurnEvent, UserQuestion,
};

const ANSWER: &str = "## What I found\n\nThe build fails because `Config::load` **returns early** when the file is \
missing. See the [manual](https://example.org/manual) for the reason.\n\n1. Read the file lazily\n2. Keep the old value\n   \
- also after a reload\n3. Report the path\n\n> Nothing was changed outside the workspace.\n\n| file | lines | state \
|\n|---|---:|---|\n| src/main.rs | 120 | changed |\n| src/config.rs | 1,204 | read, because it holds the defaults |\n\n\
```rust\n// The path is part of the error.\nfn load(path: &Path) -> Result<Config, Error> {\n    let text = \
std::fs::read_to_string(path)?;\n    parse(&text).map_err(|error| Error::at(path, 42, error))\n}\n```\n\nRun the tests \
to see it: 日本語 and 👩‍👩‍👧 stay aligned.\n";

const DIFF: &str = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -10,5 +10,6 @@\n fn main() {\n-    let config = \
load();\n+    let path = default_path();\n+    let config = load(&path)?;\n     run(config);\n }\n";

/// Returns how a tool is shown.
fn display(tool: &str) -> ToolDisplay {
    let (icon, verb, preview_kind) = match tool {
        "terminal" => ("💻", "$", PreviewKind::Text),
        "read_file" => ("📖", "read", PreviewKind::Path),
        "patch" => ("🔧", "patch", PreviewKind::Path),
        other => ("⚡", other, PreviewKind::Text),
    };
    ToolDisplay { icon: icon.into(), verb: verb.into(), preview_kind }
}

struct Files;

impl CompletionSource for Files {
    fn candidates(&self, word: &str) -> Vec<CompletionItem> {
        let Ok(entries) = std::fs::read_dir(".") else { return Vec::new() };
        let prefix = if word.starts_with('@') { "@file:" } else { "./" };
        entries
            .flatten()
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                let detail = entry.metadata().map(|data| format!("{}B", data.len())).unwrap_or_default();
                CompletionItem { insert: format!("{prefix}{name}"), label: name, detail }
            })
            .collect()
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

async fn run() {
    let clock = Arc::new(SystemClock::new());
    let variable = |name: &str| std::env::var(name).ok();
    let depth = ColorDepth::detect(
        variable("TERM").as_deref(),
        variable("COLORTERM").as_deref(),
        variable("NO_COLOR").as_deref(),
    );
    let command = |name: &str, description: &str, arguments: &[&str]| CommandItem {
        name: name.into(),
        description: description.into(),
        aliases: Vec::new(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    };
    let (screen, mut operations) = Screen::open(ScreenOptions {
        pictures: hermes_tui::PictureSupport::Off,
        record_key: hermes_tui::KeyChord::default(),
        clock: clock.clone(),
        theme_mode: ThemeMode::Auto,
        theme: Box::new(move |background| Theme::from_colors(&BTreeMap::new(), background, depth)),
        transcript: TranscriptOptions {
            tool_feed: ToolFeedMode::All,
            reasoning: ReasoningDisplay::Shown,
            diffs: DiffDisplay::Inline,
            markdown: MarkdownDisplay::Rendered,
            preview_columns: None,
        },
        busy_input: BusyInputMode::Interrupt,
        bell_on_complete: false,
        limits: AnswerLimits::default(),
        commands: vec![
            command("help", "Show the commands", &[]),
            command("model", "Show or switch the model", &["gpt", "claude"]),
            command("notice", "Print a notice", &[]),
            command("quit", "End the chat", &[]),
        ],
        placeholder: "Ask anything, / for commands, @ for files".into(),
        history: None,
        completion: Some(Arc::new(Files)),
        editor: None,
        images: None,
        backup: None,
        status: hermes_tui::StatusFields::default(),
        times: None,
        fold: hermes_tui::FoldLimits::default(),
        cancel: Cancel::new(),
    })
    .expect("a terminal");
    let mut status = StatusFields {
        model: "example/claude-sonnet".into(),
        context_used: Some(12_400),
        context_window: Some(200_000),
        cost: Some("$0.06".into()),
        ..StatusFields::default()
    };
    screen.set_status(status.clone());
    screen.print("Hermes · 24 tools · 8 skills · /help for commands\n");
    let mut turn: Option<(Cancel, hermes_task::Task<()>)> = None;
    let mut queued = Vec::new();
    while let Some(operation) = operations.next().await {
        match operation {
            Operation::Submit(text) => queued.push(text.text),
            Operation::Queue(text) | Operation::Steer(text) => {
                queued.push(text.text);
                if let Some((cancel, task)) = turn.take() {
                    cancel.cancel();
                    let _ = task.await;
                }
            }
            Operation::Interrupt => {
                if let Some((cancel, _)) = &turn {
                    cancel.cancel();
                }
            }
            Operation::Record | Operation::CancelRecording => {}
            Operation::Quit | Operation::ForceQuit => break,
            Operation::Command(line) if line == "/quit" => break,
            // What a test looks at: the terminal after a crash.
            Operation::Command(line) if line == "/panic" => panic!("as you wish"),
            Operation::Command(line) if line.starts_with("/model") => {
                let screen = screen.clone();
                let chosen = screen.pick(models()).await;
                screen.notice(format!("Picked: {chosen:?}"));
            }
            Operation::Command(line) => screen.notice(format!("No such command here: {line}")),
        }
        if queued.is_empty() {
            continue;
        }
        status.context_used = status.context_used.map(|used| used + 15_000);
        screen.set_status(status.clone());
        let cancel = Cancel::new();
        let message = queued.join("\n");
        queued.clear();
        let (handle, clock) = (screen.clone(), clock.clone());
        let of_turn = cancel.clone();
        let task = hermes_task::spawn_named("demo", &Cancel::new(), async move {
            tokio::select! {
                () = play(&handle, &*clock, &message, &of_turn) => {}
                () = of_turn.cancelled() => {
                    handle.notice("Interrupted.");
                    handle.finish_turn(None);
                }
            }
        });
        turn = Some((cancel, task));
    }
    screen.close().await;
}

fn models() -> PickerSpec {
    let item = |label: &str, detail: &str| PickerItem {
        label: label.into(),
        detail: detail.into(),
        preview: format!("{label}: context 200K\nprices: $3 in, $15 out"),
    };
    PickerSpec {
        title: "Models".into(),
        items: vec![
            item("anthropic/claude-sonnet", "current"),
            item("openai/gpt", "$1.25"),
            item("qwen/qwen-coder", "free"),
        ],
        selected: 0,
    }
}

async fn play(screen: &ScreenHandle, clock: &dyn Clock, message: &str, cancel: &Cancel) {
    let session = SessionId::new("demo");
    let pause = |milliseconds| clock.sleep(Duration::from_millis(milliseconds));
    screen.show(TurnEvent::TurnStarted { session: session.clone() });
    for piece in ["The user wants ", "to know about the build.\n", "I should look at the file first."] {
        pause(250).await;
        screen.show(TurnEvent::Delta(Delta::Reasoning(piece.into())));
    }
    call(screen, clock, "read_file", "crates/config/src/load.rs", 400, "{\"content\":\"…\"}").await;
    if message.contains("ask") {
        let danger = Danger { key: "rm".into(), reason: "recursive removal of files".into() };
        let command =
            "rm -rf target/debug && cargo build --workspace --all-targets 2>&1 | tee /tmp/build.log".into();
        let answer = screen.ask(UserQuestion::Approve { command, danger }, cancel).await;
        screen.notice(format!("{answer:?}"));
    }
    if message.contains("clarify") {
        let choices = vec!["The whole workspace".into(), "Only this crate".into()];
        let question = UserQuestion::Clarify { question: "What shall I build?".into(), choices };
        let answer = screen.ask(question, cancel).await;
        screen.notice(format!("{answer:?}"));
    }
    if message.contains("secret") {
        let question =
            UserQuestion::Secret { name: "EXAMPLE_KEY".into(), prompt: "Key of the service".into() };
        let answer = screen.ask(question, cancel).await;
        screen.notice(format!("{answer:?}"));
    }
    if message.contains("agents") {
        let child = |label: &str, event| TurnEvent::Child { label: label.into(), event: Box::new(event) };
        for step in 0..6 {
            for label in ["1/2", "2/2"] {
                screen.show(child(label, started("terminal", &format!("cargo test part {step}"))));
            }
            pause(400).await;
        }
        for label in ["1/2", "2/2"] {
            screen.show(child(label, TurnEvent::TurnEnded { session: session.clone() }));
        }
    }
    let output: String = (0..40).map(|at| format!("test number_{at} ... ok\n")).collect::<Vec<_>>().concat();
    let result = serde_json::json!({ "output": output, "exit_code": i32::from(message.contains("fail")) });
    call(screen, clock, "terminal", "cargo test --workspace", 1_500, &result.to_string()).await;
    let result = serde_json::json!({ "success": true, "diff": DIFF });
    call(screen, clock, "patch", "src/main.rs", 200, &result.to_string()).await;
    let times = if message.contains("long") { 20 } else { 1 };
    for piece in ANSWER.repeat(times).split_inclusive(' ') {
        pause(15).await;
        screen.show(TurnEvent::Delta(Delta::Text(piece.into())));
    }
    screen.show(TurnEvent::TurnEnded { session });
    screen.finish_turn(None);
}

fn started(name: &str, preview: &str) -> TurnEvent {
    let arguments = "{}".to_owned();
    TurnEvent::ToolStarted {
        id: CallId::new(preview),
        name: name.into(),
        preview: preview.into(),
        arguments,
        display: display(name),
    }
}

async fn call(screen: &ScreenHandle, clock: &dyn Clock, name: &str, preview: &str, time: u64, result: &str) {
    screen.show(started(name, preview));
    clock.sleep(Duration::from_millis(time)).await;
    let (id, status) = (CallId::new(preview), OutcomeStatus::Done);
    screen.show(TurnEvent::ToolEnded { id, name: name.into(), status, result: result.into() });
}
