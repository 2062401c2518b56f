//! The frontend of a chat: lines, or the screen.
//!
//! Holds what both have in common: the display settings, and what was said to the running turn.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_agent::{Agent, Conversation, TurnResult};
use hermes_config::Config;
use hermes_config::settings::{DisplaySettings, ToolProgress};
use hermes_research::{SessionTrajectory, iso_time};
use hermes_tools::ProcessRegistry;
use hermes_tui::{
    BusyInputMode, DiffDisplay, MarkdownDisplay, ReasoningDisplay, ScreenHandle, StatusFields, ToolFeedMode,
    TranscriptOptions,
};
use hermes_types::{BoxFuture, Cancel, Clock, Frontend, ToolSpec, TurnEvent, UserAnswer, UserQuestion};

use super::background::BackgroundList;
use super::terminal::TerminalFrontend;
use crate::command::slash::describe_work;
use crate::context::local_time;

pub(crate) struct ChatFrontend<'a> {
    pub(crate) view: ChatView<'a>,
    display: DisplaySettings,
    remarks: Mutex<Vec<String>>,
    /// What runs besides the conversation, in an interactive chat.
    work: Option<RunningWork>,
    /// The folder with the files to which conversations are added as training data.
    trajectories: Option<PathBuf>,
}

/// What runs besides the conversation: prompts in the background and processes.
pub(crate) struct RunningWork {
    pub(crate) background: BackgroundList,
    pub(crate) processes: ProcessRegistry,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Where a chat is shown.
pub(crate) enum ChatView<'a> {
    Lines(Box<TerminalFrontend<'a>>),
    Screen(ScreenHandle),
}

impl<'a> ChatFrontend<'a> {
    pub(crate) fn new(view: ChatView<'a>, display: DisplaySettings) -> Self {
        Self { view, display, remarks: Mutex::default(), work: None, trajectories: None }
    }

    pub(crate) fn with_work(self, work: RunningWork) -> Self {
        Self { work: Some(work), ..self }
    }

    /// Adds conversations to the files of training data in the working directory, if the configuration says so.
    pub(crate) fn with_trajectories(self, config: &Config) -> Self {
        let wanted = config.flag("agent.save_trajectories");
        Self { trajectories: wanted.then(std::env::current_dir).and_then(Result::ok), ..self }
    }

    /// Adds the conversation to its file. A failure is logged: the conversation matters more.
    pub(crate) fn save_trajectory(&self, agent: &Agent, conversation: &Conversation, result: &TurnResult) {
        let Some(folder) = &self.trajectories else { return };
        let specs: Vec<ToolSpec> = agent.tools().iter().map(|tool| tool.spec().clone()).collect();
        let now = agent.clock().now();
        let time = iso_time(local_time(now), now);
        let made =
            SessionTrajectory::new(conversation.messages(), &specs, &result.model, time, result.completed());
        if let Some(Err(error)) = made.map(|made| made.append_in(folder)) {
            tracing::warn!(%error, "a trajectory was not saved");
        }
    }

    /// Shows what runs besides the conversation: on the screen also the subagents of the turn.
    pub(crate) fn list_agents(&self) {
        let Some(work) = &self.work else { return };
        let now = work.clock.now();
        let text = describe_work(work.background.describe(now), &work.processes, now);
        match &self.view {
            ChatView::Lines(lines) => lines.print_note(&text),
            ChatView::Screen(screen) => {
                screen.print(text);
                screen.list_agents();
            }
        }
    }

    pub(crate) fn display(&self) -> &DisplaySettings {
        &self.display
    }

    /// Changes what is shown of the turns from now on.
    pub(crate) fn change_display(&mut self, change: impl FnOnce(&mut DisplaySettings)) {
        change(&mut self.display);
        match &mut self.view {
            ChatView::Lines(lines) => lines.display.clone_from(&self.display),
            ChatView::Screen(screen) => {
                screen.set_transcript(transcript_options(&self.display));
                screen.set_busy_input(busy_input_mode(&self.display));
            }
        }
    }

    pub(crate) fn screen(&self) -> Option<&ScreenHandle> {
        match &self.view {
            ChatView::Lines(_) => None,
            ChatView::Screen(screen) => Some(screen),
        }
    }

    /// Gives the line to the open question. Returns it if there is none.
    pub(crate) fn answer(&self, line: String) -> Option<String> {
        match &self.view {
            ChatView::Lines(lines) => lines.answer(line),
            ChatView::Screen(_) => Some(line),
        }
    }

    /// Shows what is missing of the answer, if there is one. The turn is over.
    pub(crate) fn finish(&self, response: Option<&str>) {
        let response = response.filter(|response| !response.is_empty());
        match &self.view {
            ChatView::Lines(lines) => response.into_iter().for_each(|response| lines.finish(response)),
            ChatView::Screen(screen) => screen.finish_turn(response.map(str::to_owned)),
        }
    }

    /// Says something to the running turn.
    pub(crate) fn remark(&self, text: String) {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    pub(crate) fn set_status(&self, status: StatusFields) {
        if let ChatView::Screen(screen) = &self.view {
            screen.set_status(status);
        }
    }

    fn inner(&self) -> &dyn Frontend {
        match &self.view {
            ChatView::Lines(lines) => &**lines,
            ChatView::Screen(screen) => screen,
        }
    }
}

/// Returns what typing during a turn does.
pub(crate) fn busy_input_mode(display: &DisplaySettings) -> BusyInputMode {
    match display.busy_input_mode.as_str() {
        "queue" => BusyInputMode::Queue,
        "steer" => BusyInputMode::Steer,
        _ => BusyInputMode::Interrupt,
    }
}

/// Returns how a screen shows turns.
pub(crate) fn transcript_options(display: &DisplaySettings) -> TranscriptOptions {
    TranscriptOptions {
        tool_feed: match display.tool_progress {
            ToolProgress::Off => ToolFeedMode::Off,
            ToolProgress::New => ToolFeedMode::New,
            ToolProgress::All => ToolFeedMode::All,
            ToolProgress::Verbose => ToolFeedMode::Verbose,
        },
        reasoning: if display.show_reasoning { ReasoningDisplay::Shown } else { ReasoningDisplay::Hidden },
        diffs: if display.inline_diffs { DiffDisplay::Inline } else { DiffDisplay::Hidden },
        markdown: match display.final_response_markdown.as_str() {
            "strip" => MarkdownDisplay::Stripped,
            "raw" => MarkdownDisplay::Raw,
            _ => MarkdownDisplay::Rendered,
        },
        preview_columns: display.tool_preview_length,
    }
}

impl Frontend for ChatFrontend<'_> {
    fn show(&self, event: TurnEvent) {
        self.inner().show(event);
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        self.inner().ask(question, cancel)
    }

    fn take_remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.remarks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
