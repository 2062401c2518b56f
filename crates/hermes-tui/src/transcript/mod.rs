//! A turn on the screen: the answer as it streams, tool calls, reasoning, subagents.
//!
//! Turns events into rows for the scrollback and rows for the block below it. Invariant: a row in the scrollback is never
//! repeated and never changes.

mod agent_tree;
mod diff;
mod outputs;
mod tool_feed;

use std::time::Duration;

use hermes_types::{
    CallId, Delta, OutcomeStatus, PreviewKind, ToolDescriptor, ToolDisplay, TurnEvent, TurnNoticeKind,
};
use ratatui_core::text::{Line, Span};

pub use tool_feed::ToolFeedMode;

use self::agent_tree::AgentTree;
use self::diff::render_diff;
use self::outputs::{CallOutput, KeptOutputs};
use self::tool_feed::{call_row, diff_of, readable_result, seconds, suffix, verbose_end, verbose_start};
use crate::glyphs::{StyledLine, clean, clean_line, cut, cut_text, cut_text_front, styled, wrap_words};
use crate::markdown::{MarkdownStream, StreamStep};
use crate::status::{spinner, titled_rule};
use crate::theme::Theme;

/// Reasoning that is hidden and took less leaves no line.
const FOLDED_REASONING: Duration = Duration::from_secs(1);
const MAX_REASONING_LINES: usize = 10;
const LIVE_REASONING_ROWS: usize = 3;
const PANEL_COLUMNS: usize = 40;

/// A tool call in progress.
#[derive(Debug, Clone)]
struct LiveCall {
    id: CallId,
    preview: String,
    display: ToolDisplay,
    number: usize,
    began: Duration,
}

/// What of a turn is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranscriptOptions {
    pub tool_feed: ToolFeedMode,
    pub reasoning: ReasoningDisplay,
    pub diffs: DiffDisplay,
    pub markdown: MarkdownDisplay,
    /// The most columns of what a call is about.
    pub preview_columns: Option<usize>,
}

/// Whether the reasoning of a model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasoningDisplay {
    #[default]
    Hidden,
    Shown,
}

/// Whether changes of files are shown as diffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiffDisplay {
    Hidden,
    #[default]
    Inline,
}

/// What happens to the Markdown of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MarkdownDisplay {
    /// It becomes styles, tables and lists.
    #[default]
    Rendered,
    /// The same, without styles.
    Stripped,
    /// The text is shown as the model wrote it.
    Raw,
}

/// What a turn does until the first words come.
pub(crate) const THINKING: &str = "thinking";

/// The turn that runs, or the last one.
#[derive(Debug)]
pub(crate) struct ShownTurn {
    pub(crate) options: TranscriptOptions,
    answer: MarkdownStream,
    /// True once the head of the answer is in the scrollback.
    is_headed: bool,
    /// True while the last row above is one of a tool or a notice, which an empty row sets apart from the answer.
    is_after_feed: bool,
    /// The texts of this turn's earlier segments.
    segments: Vec<String>,
    reasoning: String,
    running: Vec<LiveCall>,
    children: AgentTree,
    /// Prompts in the background, which outlive turns.
    background: AgentTree,
    last_tool: String,
    calls: usize,
    activity: String,
    /// When the reasoning that is being received began.
    reasoning_since: Option<Duration>,
    pub(crate) outputs: KeptOutputs,
}

/// Where and how rows are made.
#[derive(Clone, Copy)]
pub(crate) struct RowContext<'a> {
    pub(crate) width: usize,
    pub(crate) now: Duration,
    pub(crate) theme: &'a Theme,
    /// The time of day, if times are shown.
    pub(crate) time: Option<&'a str>,
}

impl ShownTurn {
    pub(crate) fn new(options: TranscriptOptions) -> Self {
        Self {
            options,
            answer: MarkdownStream::default(),
            is_headed: false,
            is_after_feed: false,
            segments: Vec::new(),
            reasoning: String::new(),
            running: Vec::new(),
            children: AgentTree::default(),
            background: AgentTree::default(),
            last_tool: String::new(),
            calls: 0,
            activity: String::new(),
            reasoning_since: None,
            outputs: KeptOutputs::default(),
        }
    }

    /// Takes an event and appends the rows that are final.
    pub(crate) fn event(&mut self, event: TurnEvent, at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        match event {
            TurnEvent::TurnStarted { .. } => self.begin(),
            TurnEvent::Delta(delta) => self.delta(delta, at, rows),
            TurnEvent::SegmentEnded => self.end_segment(at, rows),
            TurnEvent::ToolStarted { id, name, mut preview, arguments, mut display } => {
                self.end_segment(at, rows);
                if let Some(most) = self.options.preview_columns {
                    preview = match display.preview_kind {
                        PreviewKind::Text => cut_text(&clean_line(&preview), most),
                        PreviewKind::Path => cut_text_front(&clean_line(&preview), most),
                    };
                }
                if let Some(emoji) = at.theme.tool_emojis.get(&name) {
                    display.icon.clone_from(emoji);
                }
                self.calls += 1;
                self.activity.clear();
                if self.options.tool_feed == ToolFeedMode::Verbose {
                    rows.extend(verbose_start(self.calls, &name, &arguments, at.width, at.theme));
                }
                self.running.push(LiveCall { id, preview, display, number: self.calls, began: at.now });
            }
            TurnEvent::ToolEnded { id, name, status, result } => {
                self.tool_ended(&id, &name, status, &result, at, rows);
            }
            TurnEvent::Notice { kind, text } => {
                self.end_segment(at, rows);
                self.is_after_feed = true;
                let style =
                    if kind == TurnNoticeKind::ContextPressure { at.theme.warn } else { at.theme.dim };
                for line in clean(&text).lines() {
                    let prefix = [Span::styled(format!("  {} ", at.theme.tool_prefix), at.theme.dim)];
                    let line = styled(line, style);
                    rows.extend(crate::glyphs::wrap(
                        &line,
                        at.width,
                        crate::glyphs::Breaks::Words,
                        &prefix,
                        &prefix,
                    ));
                }
            }
            TurnEvent::Child { label, event } => self.children.event(&label, *event, at, rows),
            TurnEvent::TurnEnded { .. } => self.end(at, rows),
            TurnEvent::Step { .. } | TurnEvent::Spent { .. } => {}
        }
    }

    /// Takes an event of a prompt in the background.
    pub(crate) fn background_event(
        &mut self,
        label: &str,
        event: TurnEvent,
        at: RowContext<'_>,
        rows: &mut Vec<StyledLine>,
    ) {
        self.background.event(label, event, at, rows);
    }

    /// Tells whether an agent works besides the conversation.
    pub(crate) fn has_agents(&self) -> bool {
        !self.children.is_empty() || !self.background.is_empty()
    }

    /// Draws all agents that work besides the conversation.
    pub(crate) fn agent_rows(&self, at: RowContext<'_>) -> Vec<StyledLine> {
        let mut rows = self.children.all_rows(at);
        rows.extend(self.background.all_rows(at));
        rows
    }

    fn begin(&mut self) {
        self.answer.set_raw(self.options.markdown == MarkdownDisplay::Raw);
        self.is_after_feed = false;
        self.segments.clear();
        self.running.clear();
        self.children.clear();
        self.last_tool.clear();
        self.calls = 0;
        self.activity.clear();
    }

    /// Ends the turn: what is still open goes to the scrollback.
    pub(crate) fn end(&mut self, at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        self.end_segment(at, rows);
        self.running.clear();
        self.children.clear();
        self.activity.clear();
    }

    /// Shows the answer of the turn, unless it was streamed.
    pub(crate) fn show_response(&mut self, response: &str, at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        self.end(at, rows);
        let response = response.trim();
        let is_shown = self.segments.last().is_some_and(|text| text.trim() == response)
            || self.segments.concat().trim() == response;
        if !is_shown && !response.is_empty() {
            self.answer.push(response);
            self.end_segment(at, rows);
        }
    }

    fn delta(&mut self, delta: Delta, at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        match delta {
            Delta::Text(text) => {
                self.end_reasoning(at, rows);
                self.activity.clear();
                if self.answer.push(&text) == StreamStep::Differs {
                    rows.push(Line::default());
                    rows.push(styled("  (the connection was lost; the answer starts again)", at.theme.dim));
                    rows.push(Line::default());
                }
                let finished = self.answer.take_finished(at.width, at.theme);
                let finished = self.as_wanted(finished, at);
                self.show_answer(finished, at, rows);
            }
            Delta::Restart => {
                self.answer.restart();
                self.reasoning.clear();
            }
            Delta::Reasoning(text) => {
                self.reasoning_since.get_or_insert(at.now);
                self.reasoning.push_str(&text);
                "thinking".clone_into(&mut self.activity);
            }
            Delta::ToolStarted { name } => self.activity = format!("preparing {}", clean_line(&name)),
            Delta::Status(text) => {
                self.activity = clean_line(&text);
                rows.extend(notice_rows(&text, at));
            }
        }
    }

    /// Takes the styles out of an answer that is shown without its markup.
    fn as_wanted(&self, mut rows: Vec<StyledLine>, at: RowContext<'_>) -> Vec<StyledLine> {
        if self.options.markdown == MarkdownDisplay::Stripped {
            rows.iter_mut().flat_map(|row| &mut row.spans).for_each(|span| span.style = at.theme.text);
        }
        rows
    }

    fn show_answer(&mut self, finished: Vec<StyledLine>, at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        if finished.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.is_headed, true) {
            rows.extend(std::mem::take(&mut self.is_after_feed).then(Line::default));
            rows.push(answer_head("", at));
        }
        rows.extend(finished);
    }

    /// Moves the text so far to the scrollback.
    fn end_segment(&mut self, at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        self.end_reasoning(at, rows);
        let source = self.answer.source();
        let finished = self.answer.finish(at.width, at.theme);
        let finished = self.as_wanted(finished, at);
        self.show_answer(finished, at, rows);
        if !source.trim().is_empty() {
            self.segments.push(source);
        }
        if std::mem::take(&mut self.is_headed) {
            self.is_after_feed = true;
            rows.push(answer_foot(at));
        }
    }

    /// Shows an answer that is not the turn's, whole.
    pub(crate) fn show_other_answer(
        &self,
        remark: &str,
        text: &str,
        at: RowContext<'_>,
        rows: &mut Vec<StyledLine>,
    ) {
        let mut answer = MarkdownStream::default();
        answer.set_raw(self.options.markdown == MarkdownDisplay::Raw);
        answer.push(text.trim());
        rows.push(answer_head(remark, at));
        rows.extend(self.as_wanted(answer.finish(at.width, at.theme), at));
        rows.push(answer_foot(at));
    }

    fn end_reasoning(&mut self, at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        let text = std::mem::take(&mut self.reasoning);
        let took = at.now.saturating_sub(self.reasoning_since.take().unwrap_or(at.now));
        if text.trim().is_empty() {
            return;
        }
        let text = clean(text.trim());
        if self.options.reasoning == ReasoningDisplay::Hidden {
            self.outputs.push(CallOutput { title: "reasoning".to_owned(), text });
            if self.options.tool_feed != ToolFeedMode::Off && took >= FOLDED_REASONING {
                let prefix = &at.theme.tool_prefix;
                let row = format!("  {prefix} 💭 thought   {}  Ctrl+O shows it", seconds(took));
                rows.push(cut(&styled(row, at.theme.dim), at.width));
                self.is_after_feed = true;
            }
            return;
        }
        let lines: Vec<&str> = text.lines().collect();
        rows.push(styled("┌─ Reasoning", at.theme.dim));
        for line in lines.iter().take(MAX_REASONING_LINES) {
            rows.extend(reasoning_rows(line, at));
        }
        if let Some(more) = lines.len().checked_sub(MAX_REASONING_LINES).filter(|more| *more > 0) {
            rows.push(styled(format!("│ ... ({more} more lines)"), at.theme.dim));
        }
        rows.push(styled("└─", at.theme.dim));
    }

    fn tool_ended(
        &mut self,
        id: &CallId,
        name: &str,
        status: OutcomeStatus,
        result: &str,
        at: RowContext<'_>,
        rows: &mut Vec<StyledLine>,
    ) {
        let call = match self.running.iter().position(|call| call.id == *id) {
            Some(at) => self.running.remove(at),
            None => LiveCall {
                id: id.clone(),
                display: ToolDescriptor::unknown(name).display(),
                preview: String::new(),
                number: self.calls,
                began: at.now,
            },
        };
        let took = at.now.saturating_sub(call.began);
        let suffix = suffix(name, status, result);
        let title = format!("{} {}", call.display.verb, clean_line(&call.preview));
        self.outputs.push(CallOutput { title, text: readable_result(result) });
        let repeats = std::mem::replace(&mut self.last_tool, name.to_owned()) == name;
        self.is_after_feed |= self.options.tool_feed != ToolFeedMode::Off;
        match self.options.tool_feed {
            ToolFeedMode::Off => return,
            ToolFeedMode::New if repeats => {}
            ToolFeedMode::New | ToolFeedMode::All => {
                let lead = Span::styled(at.theme.tool_prefix.clone(), at.theme.dim);
                rows.push(call_row(
                    lead,
                    &call.display,
                    &call.preview,
                    &seconds(took),
                    &suffix,
                    at.width,
                    at.theme,
                ));
            }
            ToolFeedMode::Verbose => {
                rows.extend(verbose_end(call.number, took, &suffix, result, at.width, at.theme));
            }
        }
        let shows_diff = self.options.diffs == DiffDisplay::Inline && status == OutcomeStatus::Done;
        if let Some(diff) = diff_of(result).filter(|_| shows_diff) {
            rows.extend(render_diff(&diff, at.width, at.theme));
        }
    }

    /// Renders what is not final: the rest of the answer, reasoning, running calls, subagents. The last rows matter most.
    pub(crate) fn live_rows(&self, at: RowContext<'_>) -> Vec<StyledLine> {
        let mut rows = Vec::new();
        if self.options.reasoning == ReasoningDisplay::Shown && !self.reasoning.trim().is_empty() {
            rows.push(styled("┌─ Reasoning", at.theme.dim));
            let text = clean(hermes_text::tail(self.reasoning.trim(), 600));
            let all: Vec<StyledLine> = text.lines().flat_map(|line| reasoning_rows(line, at)).collect();
            let from = all.len().saturating_sub(LIVE_REASONING_ROWS);
            rows.extend(all.into_iter().skip(from));
        }
        let rest = self.as_wanted(self.answer.rest(at.width, at.theme), at);
        if !rest.is_empty() && !self.is_headed {
            rows.extend(self.is_after_feed.then(Line::default));
            rows.push(answer_head("", at));
        }
        rows.extend(rest);
        for call in &self.running {
            let lead = Span::styled(spinner(at.now), at.theme.accent);
            let took = seconds(at.now.saturating_sub(call.began));
            rows.push(call_row(lead, &call.display, &call.preview, &took, "", at.width, at.theme));
        }
        rows.extend(self.children.rows(at));
        rows.extend(self.background.rows(at));
        rows
    }

    /// Says what the turn is doing, for the spinner.
    pub(crate) fn activity(&self) -> &str {
        match (self.activity.as_str(), self.running.is_empty()) {
            ("", true) if !self.answer.is_untouched() => "writing",
            ("", true) => THINKING,
            ("", false) => "working",
            (activity, _) => activity,
        }
    }
}

fn notice_rows(text: &str, at: RowContext<'_>) -> Vec<StyledLine> {
    let text = format!("  {} {}", at.theme.tool_prefix, clean_line(text));
    wrap_words(&styled(text, at.theme.dim), at.width)
}

fn panel_columns(at: RowContext<'_>) -> usize {
    at.width.clamp(4, PANEL_COLUMNS)
}

/// Draws the top of an answer's panel. An answer of a prompt in the background has a remark that says so.
fn answer_head(remark: &str, at: RowContext<'_>) -> StyledLine {
    let label = at.theme.response_label.trim();
    let blank = if remark.is_empty() { "" } else { " " };
    let time = at.time.map_or_else(String::new, |time| format!(" · {time}"));
    titled_rule("╭", &format!("{label}{blank}{remark}{time}"), "╮", panel_columns(at), at.theme)
}

fn answer_foot(at: RowContext<'_>) -> StyledLine {
    styled(format!("╰{}╯", "─".repeat(panel_columns(at) - 2)), at.theme.border)
}

fn reasoning_rows(line: &str, at: RowContext<'_>) -> Vec<StyledLine> {
    let prefix = [Span::styled("│ ", at.theme.dim)];
    crate::glyphs::wrap(
        &styled(line, at.theme.comment),
        at.width,
        crate::glyphs::Breaks::Words,
        &prefix,
        &prefix,
    )
}
