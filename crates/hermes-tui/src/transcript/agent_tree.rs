//! The agents that work besides the conversation: subagents of the turn and prompts in the background, as a live tree.

use std::time::Duration;

use hermes_types::{Delta, TurnEvent};
use ratatui_core::text::{Line, Span};

use super::RowContext;
use super::tool_feed::seconds;
use crate::glyphs::{StyledLine, clean_line, cut, styled};

/// The most rows of the tree in the block; the list of `/agents` has all.
const MAX_ROWS: usize = 8;

/// An agent at work.
#[derive(Debug, Clone)]
struct LiveAgent {
    /// The labels from the outermost agent down to this one.
    path: Vec<String>,
    current: String,
    calls: usize,
    began: Duration,
}

/// The agents at work, parents before their children.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentTree {
    agents: Vec<LiveAgent>,
}

impl AgentTree {
    pub(crate) fn is_empty(&self) -> bool {
        self.agents.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.agents.clear();
    }

    /// Takes an event of an agent; appends a row when the agent has ended.
    pub(crate) fn event(
        &mut self,
        label: &str,
        event: TurnEvent,
        at: RowContext<'_>,
        rows: &mut Vec<StyledLine>,
    ) {
        let mut path = vec![clean_line(label)];
        let mut event = event;
        while let TurnEvent::Child { label, event: inner } = event {
            path.push(clean_line(&label));
            event = *inner;
        }
        if matches!(event, TurnEvent::TurnEnded { .. }) {
            return self.end(&path, at, rows);
        }
        let agent = self.agent(path, at.now);
        match event {
            TurnEvent::ToolStarted { display, preview, .. } => {
                agent.calls += 1;
                agent.current = format!(
                    "{} {} {}",
                    clean_line(&display.icon),
                    clean_line(&display.verb),
                    clean_line(&preview)
                );
            }
            TurnEvent::ToolEnded { .. } => "thinking".clone_into(&mut agent.current),
            TurnEvent::Delta(Delta::Text(_)) => "writing".clone_into(&mut agent.current),
            TurnEvent::Notice { text, .. } | TurnEvent::Delta(Delta::Status(text)) => {
                agent.current = clean_line(&text);
            }
            TurnEvent::TurnEnded { .. }
            | TurnEvent::TurnStarted { .. }
            | TurnEvent::Step { .. }
            | TurnEvent::Delta(Delta::Reasoning(_) | Delta::Restart | Delta::ToolStarted { .. })
            | TurnEvent::SegmentEnded
            | TurnEvent::Spent { .. }
            | TurnEvent::Child { .. } => {}
        }
    }

    /// Returns the agent at a place; a new one stands behind the last of its siblings.
    fn agent(&mut self, path: Vec<String>, now: Duration) -> &mut LiveAgent {
        let known = self.agents.iter().position(|agent| agent.path == path);
        let index = known.unwrap_or_else(|| {
            let parent = path.get(..path.len() - 1).unwrap_or_default();
            let index = match self.agents.iter().rposition(|agent| agent.path.starts_with(parent)) {
                Some(last) => last + 1,
                None => self.agents.len(),
            };
            self.agents.insert(index, LiveAgent { path, current: "starting".into(), calls: 0, began: now });
            index
        });
        // The index was found or has just been inserted.
        #[expect(clippy::indexing_slicing, reason = "the index is that of an agent")]
        &mut self.agents[index]
    }

    fn end(&mut self, path: &[String], at: RowContext<'_>, rows: &mut Vec<StyledLine>) {
        let Some(index) = self.agents.iter().position(|agent| agent.path == path) else { return };
        let agent = self.agents.remove(index);
        self.agents.retain(|other| !other.path.starts_with(path));
        let took = seconds(at.now.saturating_sub(agent.began));
        let text = format!("  └─ [{}] done · {} · {took}", path.join(" › "), calls(agent.calls));
        rows.push(cut(&styled(text, at.theme.dim), at.width));
    }

    /// Draws the tree for the block; what does not fit is counted.
    pub(crate) fn rows(&self, at: RowContext<'_>) -> Vec<StyledLine> {
        let mut rows = self.all_rows(at);
        if let Some(more) = rows.len().checked_sub(MAX_ROWS).filter(|more| *more > 0) {
            rows.truncate(MAX_ROWS - 1);
            rows.push(cut(
                &styled(format!("  … {} more, /agents lists them", more + 1), at.theme.dim),
                at.width,
            ));
        }
        rows
    }

    /// Draws the whole tree.
    pub(crate) fn all_rows(&self, at: RowContext<'_>) -> Vec<StyledLine> {
        let draw = |(index, agent): (usize, &LiveAgent)| {
            let depth = agent.path.len();
            let is_last = |depth: usize| {
                let parent = agent.path.get(..depth - 1).unwrap_or_default();
                let own = agent.path.get(..depth).unwrap_or_default();
                let mut later = self.agents.iter().skip(index + 1);
                !later.any(|other| other.path.starts_with(parent) && !other.path.starts_with(own))
            };
            let mut branch = String::from("  ");
            for level in 1..depth {
                branch.push_str(if is_last(level) { "   " } else { "│  " });
            }
            branch.push_str(if is_last(depth) { "└─ " } else { "├─ " });
            let label = agent.path.last().map_or("", String::as_str);
            let took = seconds(at.now.saturating_sub(agent.began));
            let line = Line::from(vec![
                Span::styled(branch, at.theme.dim),
                Span::styled(format!("[{label}] "), at.theme.label),
                Span::styled(agent.current.clone(), at.theme.text),
                Span::styled(format!("  {} · {took}", calls(agent.calls)), at.theme.dim),
            ]);
            cut(&line, at.width)
        };
        self.agents.iter().enumerate().map(draw).collect()
    }
}

fn calls(count: usize) -> String {
    if count == 1 { "1 tool call".to_owned() } else { format!("{count} tool calls") }
}
