//! The trajectory of a single session, and the files to which agents add theirs.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use hermes_text::JsonTree;
use hermes_types::{CivilTime, Message, Role, Timestamp, ToolSpec};

use super::turns::{TrajectoryTurn, trajectory_of, user_text};
use crate::error::Error;

/// The file of conversations that came to an end.
const COMPLETED: &str = "trajectory_samples.jsonl";
/// The file of those that did not.
const FAILED: &str = "failed_trajectories.jsonl";

/// A session as a line of training data.
#[derive(Debug, Clone)]
pub struct SessionTrajectory {
    pub turns: Vec<TrajectoryTurn>,
    pub timestamp: String,
    pub model: String,
    pub completed: bool,
}

impl SessionTrajectory {
    /// Converts a session. `None` when nobody asked anything in it.
    pub fn new(
        messages: &[Message],
        tools: &[ToolSpec],
        model: &str,
        timestamp: String,
        completed: bool,
    ) -> Option<Self> {
        let first = messages.iter().position(|message| message.role == Role::User)?;
        let messages = messages.get(first..)?;
        let query = user_text(&messages.first()?.content);
        let turns = trajectory_of(&query, messages, tools);
        Some(Self { turns, timestamp, model: model.to_owned(), completed })
    }

    /// Changes every text, to mask secrets.
    #[must_use]
    pub fn with_texts(mut self, change: impl Fn(&str) -> String) -> Self {
        for turn in &mut self.turns {
            turn.value = change(&turn.value);
        }
        self
    }

    pub fn to_json(&self) -> JsonTree {
        JsonTree::object([
            ("conversations", self.turns.iter().map(TrajectoryTurn::to_json).collect()),
            ("timestamp", self.timestamp.as_str().into()),
            ("model", self.model.as_str().into()),
            ("completed", self.completed.into()),
        ])
    }

    /// Adds the line to the file in a folder that holds such conversations, and returns the file.
    pub fn append_in(&self, folder: &Path) -> Result<PathBuf, Error> {
        let path = folder.join(if self.completed { COMPLETED } else { FAILED });
        let line = format!("{}\n", self.to_json());
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(Error::file(&path))?;
        Ok(path)
    }
}

/// Formats a local time with microseconds, which are left out when there are none.
pub fn iso_time(local: CivilTime, at: Timestamp) -> String {
    let CivilTime { year, month, day, hour, minute, second } = local;
    let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a second")]
    let micros = (at.seconds().rem_euclid(1.0) * 1e6) as u32;
    if micros == 0 { date } else { format!("{date}.{micros:06}") }
}
