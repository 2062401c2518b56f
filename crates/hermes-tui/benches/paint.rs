//! What a key press costs until it is painted, and what a streamed piece of text writes.
//!
//! `cargo bench -p hermes-tui`. Prints a table beside the budgets and judges nothing: a timing is no test.
#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run says so and ends")]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hermes_tui::{
    Background, BusyInputMode, ColorDepth, DiffDisplay, MarkdownDisplay, Painter, ReasoningDisplay,
    ResizeBehavior, ScreenInput, ScreenSetup, ScreenState, Theme, ToolFeedMode, TranscriptOptions,
};
use hermes_types::{Delta, SessionId, TurnEvent, WallClock};

const KEYS: usize = 2_000;
const TOKENS: usize = 4_000;
const HISTORY: usize = 50_000;
const BUDGET: Duration = Duration::from_millis(5);

struct Bench {
    state: ScreenState,
    painter: Painter<Vec<u8>>,
    clock: WallClock,
}

impl Bench {
    fn new() -> Self {
        let (width, height) = (120, 40);
        let setup = ScreenSetup {
            theme: Theme::built_in(Background::Dark, ColorDepth::True),
            transcript: TranscriptOptions {
                tool_feed: ToolFeedMode::All,
                reasoning: ReasoningDisplay::Shown,
                diffs: DiffDisplay::Inline,
                markdown: MarkdownDisplay::Rendered,
                preview_columns: None,
            },
            busy_input: BusyInputMode::Queue,
            bell_on_complete: false,
            commands: Vec::new(),
            history: (0..HISTORY).map(|at| format!("an earlier input, number {at}")).collect(),
            times: None,
            fold: hermes_tui::FoldLimits::default(),
            placeholder: String::new(),
            width,
            height,
            now: Duration::ZERO,
        };
        Self {
            state: ScreenState::new(setup),
            painter: Painter::new(Vec::new(), width, height, ResizeBehavior::Reflows),
            clock: WallClock::default(),
        }
    }

    /// Takes an input and paints; returns how long it took and how many bytes were written.
    fn step(&mut self, input: ScreenInput) -> (Duration, usize) {
        let began = self.clock.monotonic();
        self.state.update(input, began);
        let rows = self.state.take_finished();
        self.painter.paint(&rows, &self.state.view(began)).expect("memory takes everything");
        let took = self.clock.monotonic().saturating_sub(began);
        let bytes = self.painter.output_mut().len();
        self.painter.output_mut().clear();
        (took, bytes)
    }
}

fn main() {
    // `cargo test --benches` asks for a look, not for numbers.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let mut bench = Bench::new();
    for line in 0..HISTORY {
        bench.step(ScreenInput::Print(format!("line {line} of an earlier conversation")));
    }
    bench.step(ScreenInput::Turn(TurnEvent::TurnStarted { session: SessionId::new("bench") }));
    let answer = "A paragraph of **an answer** with `code` and words enough for two rows of the terminal, or even three.\n\n\
                  - an item\n- another one\n\n```rust\nfn main() { println!(\"hello\"); }\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n";
    let pieces: Vec<&str> = answer.split_inclusive(' ').collect();
    // The grammars are loaded with the first code block.
    let mut loading = Duration::ZERO;
    for piece in &pieces {
        let (took, _) = bench.step(ScreenInput::Turn(TurnEvent::Delta(Delta::Text((*piece).to_owned()))));
        loading = loading.max(took);
    }
    let (mut tokens, mut keys, mut written) = (Vec::new(), Vec::new(), 0);
    for at in 0..TOKENS {
        let piece = pieces.get(at % pieces.len()).copied().unwrap_or_default();
        let (took, bytes) = bench.step(ScreenInput::Turn(TurnEvent::Delta(Delta::Text(piece.to_owned()))));
        tokens.push(took);
        written += bytes;
        if at % (TOKENS / KEYS) == 0 {
            let key = if at % 100 < 90 { KeyCode::Char('a') } else { KeyCode::Backspace };
            keys.push(bench.step(ScreenInput::Key(KeyEvent::new(key, KeyModifiers::NONE))).0);
        }
    }
    println!("{:<60} {:>9} {:>9} {:>9}", "figure", "p50", "p99", "budget");
    for (what, times) in
        [("key press to paint, streaming, 50,000 lines", &mut keys), ("streamed piece to paint", &mut tokens)]
    {
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
        println!(
            "{what:<60} {:>7}µs {:>7}µs {:>7}µs",
            at(50).as_micros(),
            at(99).as_micros(),
            BUDGET.as_micros()
        );
    }
    println!("{:<60} {:>7}B", "bytes written per streamed piece, mean", written / TOKENS);
    println!("{:<60} {:>7}µs", "first code block, with the loading of the grammars", loading.as_micros());
}
