//! The screen: how soon it is there, what a key and a piece of an answer cost, what it needs while nobody does anything.
//!
//! Painting is measured in this process on memory; the rest on the binary in a terminal of its own.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hermes_testkit::{ModelScript, ModelServer, ScriptedReply};
use hermes_tui::{
    Background, BusyInputMode, ColorDepth, DiffDisplay, FoldLimits, MarkdownDisplay, Painter,
    ReasoningDisplay, ResizeBehavior, ScreenInput, ScreenSetup, ScreenState, Theme, ToolFeedMode,
    TranscriptOptions,
};
use hermes_types::{Delta, SessionId, TurnEvent, WallClock};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::Measurement;

const KEYS: usize = 2_000;
const TOKENS: usize = 4_000;
const HISTORY: usize = 50_000;
const STARTS: usize = 15;
/// How long the idle screen is watched.
const WATCH: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(20);
/// What a terminal answers to the questions of a screen.
const ANSWERS: &[u8] = b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\\x1b[>1;4000;19c\x1b[?62c";
const ANSWER: &str = "A paragraph of **an answer** with `code` and words enough for two rows of the terminal, or even three.\n\n\
                      - an item\n- another one\n\n```rust\nfn main() { println!(\"hello\"); }\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n";

pub(crate) fn measure(binary: &Path) -> Result<Vec<Measurement>> {
    let mut figures = painting()?;
    figures.extend(terminal(binary)?);
    Ok(figures)
}

/// A screen that paints into memory.
struct PaintedScreen {
    state: ScreenState,
    painter: Painter<Vec<u8>>,
    clock: WallClock,
}

impl PaintedScreen {
    fn new() -> Self {
        let (width, height) = (120, 40);
        let state = ScreenState::new(ScreenSetup {
            record_key: hermes_tui::KeyChord::default(),
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
            fold: FoldLimits::default(),
            times: None,
            placeholder: String::new(),
            width,
            height,
            now: Duration::ZERO,
        });
        let painter = Painter::new(Vec::new(), width, height, ResizeBehavior::Reflows);
        Self { state, painter, clock: WallClock::default() }
    }

    /// Takes an input and paints; returns how long it took, in milliseconds, and how many bytes were written.
    fn step(&mut self, input: ScreenInput) -> Result<(f64, usize)> {
        let began = self.clock.monotonic();
        self.state.update(input, began);
        let rows = self.state.take_finished();
        self.painter.paint(&rows, &self.state.view(began))?;
        let took = self.clock.monotonic().saturating_sub(began);
        let bytes = self.painter.output_mut().len();
        self.painter.output_mut().clear();
        Ok((took.as_secs_f64() * 1e3, bytes))
    }

    fn token(&mut self, text: &str) -> Result<(f64, usize)> {
        self.step(ScreenInput::Turn(TurnEvent::Delta(Delta::Text(text.to_owned()))))
    }
}

/// Presses keys while an answer streams, after 50,000 lines.
fn painting() -> Result<Vec<Measurement>> {
    let mut screen = PaintedScreen::new();
    for line in 0..HISTORY {
        screen.step(ScreenInput::Print(format!("line {line} of an earlier conversation")))?;
    }
    screen.step(ScreenInput::Turn(TurnEvent::TurnStarted { session: SessionId::new("bench") }))?;
    let pieces: Vec<&str> = ANSWER.split_inclusive(' ').collect();
    // The grammars are loaded with the first code block.
    for piece in &pieces {
        screen.token(piece)?;
    }
    let (mut keys, mut written) = (Vec::new(), 0);
    for at in 0..TOKENS {
        let piece = pieces.get(at % pieces.len()).copied().unwrap_or_default();
        written += screen.token(piece)?.1;
        if at % (TOKENS / KEYS) == 0 {
            let key = if at % 100 < 90 { KeyCode::Char('a') } else { KeyCode::Backspace };
            keys.push(screen.step(ScreenInput::Key(KeyEvent::new(key, KeyModifiers::NONE)))?.0);
        }
    }
    keys.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    let bytes = written as f64 / TOKENS as f64;
    Ok(vec![
        Measurement { name: "key press to paint, p99", value: keys[KEYS * 99 / 100] },
        Measurement { name: "bytes per streamed piece, mean", value: bytes },
    ])
}

/// The program in a terminal.
struct ProgramTerminal {
    child: Child,
    ours: File,
    /// Kept open, so that reading does not fail before the program has opened its end.
    _theirs: OwnedFd,
    seen: Vec<u8>,
    answered: bool,
    began: Instant,
}

impl ProgramTerminal {
    #[expect(clippy::disallowed_methods, reason = "a chore runs the program it measures and reads the clock")]
    fn start(binary: &Path, home: &Path) -> Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let theirs = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        let flags = rustix::fs::fcntl_getfl(&ours)?;
        rustix::fs::fcntl_setfl(&ours, flags | OFlags::NONBLOCK)?;
        tcsetwinsize(&ours, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 })?;
        let began = Instant::now();
        let child = Command::new(binary)
            .arg("chat")
            .current_dir(home)
            .env_clear()
            .env("HERMES_HOME", home)
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(theirs.try_clone()?))
            .stdout(Stdio::from(theirs.try_clone()?))
            .stderr(Stdio::from(theirs.try_clone()?))
            .spawn()?;
        let ours = File::from(ours);
        Ok(Self { child, ours, _theirs: theirs, seen: Vec::new(), answered: false, began })
    }

    /// Reads until the words were written, and answers the screen's questions; returns the milliseconds since the start.
    fn until(&mut self, words: &str) -> Result<f64> {
        loop {
            if self.seen.windows(words.len()).any(|window| window == words.as_bytes()) {
                return Ok(self.began.elapsed().as_secs_f64() * 1e3);
            }
            if self.began.elapsed() > PATIENCE {
                bail!("the screen does not show `{words}`");
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<()> {
        let mut buffer = [0; 16_384];
        match self.ours.read(&mut buffer) {
            Ok(count) => self.seen.extend(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(error) => return Err(error.into()),
        }
        if !self.answered && self.seen.windows(3).any(|window| window == b"\x1b[c") {
            self.answered = true;
            self.ours.write_all(ANSWERS)?;
        }
        Ok(())
    }

    fn say(&mut self, text: &str) -> Result<()> {
        self.seen.clear();
        self.ours.write_all(text.as_bytes())?;
        Ok(self.ours.write_all(b"\r")?)
    }

    /// Counts how often a thread of the program has waited and was woken up.
    fn wake_ups(&self) -> Result<f64> {
        let mut sum = 0.0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let status = std::fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
            sum += number(&status, "voluntary_ctxt_switches:").unwrap_or_default();
        }
        Ok(sum)
    }

    fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        Ok(number(&status, "VmRSS:").context("no memory")? / 1e3)
    }
}

impl Drop for ProgramTerminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(status: &str, name: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

fn terminal(binary: &Path) -> Result<Vec<Measurement>> {
    let script = ModelScript::new().reply(ScriptedReply::text(format!("{ANSWER}The end of it.")));
    let server = ModelServer::start_blocking(script.echo()).context("no model server")?;
    let home = super::program::home_for(&server)?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(ProgramTerminal::start(binary, home.path())?.until("Ask anything")?);
    }
    starts.sort_by(f64::total_cmp);
    let mut terminal = ProgramTerminal::start(binary, home.path())?;
    terminal.until("Ask anything")?;
    terminal.say("hello")?;
    terminal.until("The end of it.")?;
    terminal.until("Ask anything")?;
    // What follows the turn, such as its title, has ended by then.
    std::thread::sleep(Duration::from_secs(3));
    terminal.read()?;
    let before = terminal.wake_ups()?;
    std::thread::sleep(WATCH);
    let wake_ups = terminal.wake_ups()? - before;
    Ok(vec![
        Measurement { name: "screen, start to prompt, median", value: starts[STARTS / 2] },
        Measurement { name: "screen, wake-ups in 10 idle s", value: wake_ups },
        Measurement { name: "screen, memory after an answer", value: terminal.memory()? },
    ])
}
