//! States of a turn and of the work beside it.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyModifiers};
use hermes_tui::{
    Banner, BannerSection, BannerSize, PickerItem, PickerSpec, ScreenInput, StatusFields, TimeLabels,
    ToolFeedMode, TranscriptOptions,
};
use hermes_types::{Delta, OutcomeStatus, SessionId, TurnEvent, TurnNoticeKind, UserQuestion};

use super::{ANSWER, Scene, Stage, started, transcript};

pub(super) const SCENES: [Scene; 28] = [
    ("banner", |stage| {
        stage.take(ScreenInput::Banner(Box::new(banner(BannerSize::Full))));
    }),
    ("banner-small", |stage| {
        stage.take(ScreenInput::Banner(Box::new(banner(BannerSize::Small))));
    }),
    ("goal", |stage| {
        stage.begin("make the tests pass");
        stage.turn(TurnEvent::Delta(Delta::Text("Two tests fail; I changed the parser.\n\n".to_owned())));
        stage.take(ScreenInput::TurnFinished(None));
        stage.take(ScreenInput::Print("🎯 Turn 2 of 20 for the goal".to_owned()));
        stage.turn(TurnEvent::Delta(Delta::Text("The last test passes now.\n\n".to_owned())));
        stage.take(ScreenInput::TurnFinished(None));
        stage.take(ScreenInput::Print("🎯 Goal reached: all tests pass".to_owned()));
    }),
    ("picture", |stage| {
        stage.greet();
        stage.take(ScreenInput::Attach(PathBuf::from("/home/me/shot.png")));
        stage.take(ScreenInput::Attach(PathBuf::from("/home/me/plan.jpg")));
        stage.type_text("what changed between these?");
    }),
    ("picture-sent", |stage| {
        stage.greet();
        stage.take(ScreenInput::Attach(PathBuf::from("/home/me/shot.png")));
        stage.begin("What is in this picture?");
        stage.wait(1);
    }),
    ("reasoning-folded", |stage| {
        stage.take(ScreenInput::Transcript(TranscriptOptions {
            reasoning: hermes_tui::ReasoningDisplay::Hidden,
            ..transcript()
        }));
        stage.begin("Why does the build fail?");
        stage.turn(TurnEvent::Delta(Delta::Reasoning("I should look at the file first.".to_owned())));
        stage.wait(4);
        stage.turn(TurnEvent::Delta(Delta::Text("The file is missing.\n\n".to_owned())));
    }),
    ("output", |stage| {
        stage.begin("Run the tests");
        let output: String =
            (1..=60).map(|at| format!("test case_{at} ... ok\n")).collect::<Vec<_>>().concat();
        let result = serde_json::json!({ "output": output, "exit_code": 0 }).to_string();
        stage.call("terminal", "cargo test", OutcomeStatus::Done, &result);
        stage.press(KeyCode::Char('o'), KeyModifiers::CONTROL);
        stage.press(KeyCode::PageDown, KeyModifiers::NONE);
    }),
    ("agents-nested", |stage| {
        stage.begin("Look at everything");
        stage.start("delegate_task", "three parallel tasks");
        for (label, preview) in
            [("1/3", "cargo test -p one"), ("2/3", "cargo test -p two"), ("3/3", "make docs")]
        {
            stage.turn(child(label, started("terminal", preview)));
        }
        stage.turn(child("1/3", child("lint", started("read_file", "clippy.toml"))));
        stage.take(ScreenInput::Background {
            label: "bg #1".to_owned(),
            event: started("terminal", "sleep 60"),
        });
        stage.wait(4);
    }),
    ("agents-many", |stage| {
        stage.begin("Look at everything");
        for at in 1..=14 {
            stage.turn(child(&format!("{at}/14"), started("terminal", &format!("make part-{at}"))));
        }
        stage.wait(2);
    }),
    ("background-answer", |stage| {
        stage.greet();
        stage.take(ScreenInput::Print("✅ Background task #1 complete: \"summarize the log\"".to_owned()));
        let (remark, text) = ("(background #1)".to_owned(), "The log has **three** errors.".to_owned());
        stage.take(ScreenInput::PrintAnswer { remark, text });
    }),
    ("times", |stage| {
        stage.take(ScreenInput::Times(Some(TimeLabels::new(|_| "14:05".to_owned()))));
        stage.answer();
    }),
    ("models", |stage| {
        let item = |label: &str, detail: &str| PickerItem {
            label: label.to_owned(),
            detail: detail.to_owned(),
            ..PickerItem::default()
        };
        let items = vec![
            item("anthropic/claude-opus-4.6", "openrouter ← in use"),
            item("google/gemini-3-pro", "openrouter"),
            item("glm-5", "zai"),
            item(
                "a-model-with-a-name-that-is-much-longer-than-any-terminal-that-is-narrow-can-show",
                "custom",
            ),
        ];
        stage.take(ScreenInput::Pick {
            id: 1,
            spec: PickerSpec { title: "Models".to_owned(), items, selected: 0 },
        });
        stage.wait(1);
        stage.type_text("gem");
    }),
    ("queued", |stage| {
        stage.begin("Why does the build fail?");
        stage.start("terminal", "cargo build");
        stage.type_text("and look at the other crate, too");
        stage.press(KeyCode::Enter, KeyModifiers::NONE);
    }),
    ("interrupting", |stage| {
        stage.begin("Why does the build fail?");
        stage.start("terminal", "cargo build");
        stage.press(KeyCode::Esc, KeyModifiers::NONE);
    }),
    ("failures", |stage| {
        stage.begin("Do three things");
        stage.call("terminal", "false", OutcomeStatus::Done, "{\"exit_code\":1}");
        stage.call("read_file", "no/such/file.rs", OutcomeStatus::Failed, "{\"error\":\"no such file\"}");
        stage.call("terminal", "sleep 100", OutcomeStatus::Cancelled, "{}");
    }),
    ("notices", |stage| {
        stage.begin("Go on");
        let notice = |kind, text: &str| TurnEvent::Notice { kind, text: text.to_owned() };
        stage.turn(notice(TurnNoticeKind::Retry, "The provider is busy (HTTP 529). Trying again in 4 s."));
        stage.turn(notice(
            TurnNoticeKind::ContextPressure,
            "The conversation fills 85 % of the context window.",
        ));
        stage.turn(notice(TurnNoticeKind::Sandbox, "The sandbox refused writing /etc/hosts."));
        stage.wait(3);
    }),
    ("streaming-code", |stage| {
        stage.begin("Show me the function");
        let text = "Here it is:\n\n```rust\nfn load(path: &Path) -> Result<Config, Error> {\n    let text = fs::read";
        stage.turn(TurnEvent::Delta(Delta::Text(text.to_owned())));
    }),
    ("streaming-table", |stage| {
        stage.begin("Compare them");
        let text = "| model | window | price |\n|---|---:|---|\n| one | 200,000 | $3 |\n| two | 1,0";
        stage.turn(TurnEvent::Delta(Delta::Text(text.to_owned())));
    }),
    ("verbose", |stage| {
        stage.take(ScreenInput::Transcript(TranscriptOptions {
            tool_feed: ToolFeedMode::Verbose,
            ..transcript()
        }));
        stage.begin("List the files");
        stage.call("terminal", "ls", OutcomeStatus::Done, "{\"output\":\"a.txt\\nb.txt\",\"exit_code\":0}");
    }),
    ("sudo", |stage| {
        stage.begin("Install it");
        let (name, prompt) =
            ("SUDO_PASSWORD".to_owned(), "Password for sudo (empty to go on without)".to_owned());
        stage.ask(UserQuestion::Secret { name, prompt });
        stage.wait(1);
        stage.type_text("hunter2");
    }),
    ("open-question", |stage| {
        stage.begin("Name it");
        let question = "What shall the new crate be called, and where shall it live?".to_owned();
        stage.ask(UserQuestion::Clarify { question, choices: Vec::new() });
        stage.wait(1);
        stage.type_text("hermes-paint, beside the others");
    }),
    ("long-approval", |stage| {
        stage.begin("Clean up");
        let command: String =
            (1..=40).map(|at| format!("rm -rf build/part-{at}\n")).collect::<Vec<_>>().concat();
        let danger = hermes_types::Danger {
            key: "recursive delete".to_owned(),
            reason: "recursive delete".to_owned(),
        };
        stage.ask(UserQuestion::Approve { command, danger });
        stage.wait(20);
        stage.press(KeyCode::Down, KeyModifiers::NONE);
    }),
    ("locked", |stage| {
        stage.greet();
        stage.take(ScreenInput::Lock(Some("Reconnecting MCP servers…".to_owned())));
    }),
    ("history-search", |stage| {
        stage.greet();
        stage.type_text("an earlier question about the build");
        stage.press(KeyCode::Enter, KeyModifiers::NONE);
        stage.press(KeyCode::Char('r'), KeyModifiers::CONTROL);
        stage.type_text("build");
    }),
    ("ghost", |stage| {
        stage.greet();
        stage.type_text("/stat");
    }),
    ("full-context", |stage| {
        stage.take(ScreenInput::Status(StatusFields {
            model: "a/very-long-model-name-that-is-cut-somewhere.gguf".to_owned(),
            context_used: Some(195_000),
            context_window: Some(200_000),
            cost: Some("$1.37".to_owned()),
            mode: Some("yolo".to_owned()),
            background_tasks: 2,
        }));
        stage.greet();
    }),
    ("raw-markdown", |stage| {
        stage.take(ScreenInput::Transcript(TranscriptOptions {
            markdown: hermes_tui::MarkdownDisplay::Raw,
            ..transcript()
        }));
        stage.begin("Why does the build fail?");
        stage.turn(TurnEvent::Delta(Delta::Text(ANSWER.to_owned())));
        stage.turn(TurnEvent::TurnEnded { session: SessionId::new("s") });
    }),
    ("long-input", |stage| {
        for line in 1..=14 {
            stage.type_text(&format!("line {line} of a message that is typed by hand"));
            stage.press(KeyCode::Enter, KeyModifiers::ALT);
        }
    }),
];

fn child(label: &str, event: TurnEvent) -> TurnEvent {
    TurnEvent::Child { label: label.to_owned(), event: Box::new(event) }
}

impl Stage {
    /// Shows an answer whole.
    pub(super) fn answer(&mut self) {
        self.begin("Why does the build fail?");
        self.call("read_file", "crates/config/src/load.rs", OutcomeStatus::Done, "{\"content\":\"…\"}");
        self.turn(TurnEvent::Delta(Delta::Text(ANSWER.to_owned())));
        self.turn(TurnEvent::TurnEnded { session: SessionId::new("s") });
        self.take(ScreenInput::TurnFinished(Some(ANSWER.to_owned())));
    }
}

fn banner(size: BannerSize) -> Banner {
    let row = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    Banner {
        title: "Hermes Agent v1.2.3".to_owned(),
        facts: vec![
            "a-model · 200K context".to_owned(),
            "/home/me/projects/garden".to_owned(),
            "Session: 20260102_030405_abcdef".to_owned(),
        ],
        sections: vec![
            BannerSection {
                title: "Available tools".to_owned(),
                rows: vec![
                    row("browser", "browser_navigate, browser_snapshot, browser_click +8 more"),
                    row("file", "patch, read_file, search_files, write_file"),
                    row("memory", "memory"),
                    row("terminal", "process, terminal"),
                    row("web", "web_extract, web_search"),
                ],
            },
            BannerSection { title: "MCP servers".to_owned(), rows: vec![row("time", ""), row("git", "")] },
            BannerSection {
                title: "Available skills".to_owned(),
                rows: (1..=9).map(|at| row(&format!("category-{at}"), "one, two, three")).collect(),
            },
        ],
        summary: "17 tools · 59 skills · 2 MCP servers · /help for commands".to_owned(),
        short: "● a-model · 17 tools · provider: openrouter · /help for commands".to_owned(),
        logo: String::new(),
        hero: String::new(),
        size,
    }
}
