//! A conversation in the form that training programs read: turns of system, human, gpt and tool.
//!
//! Holds the conversion and the counts that go with it. Invariant: the agent's own system prompt, texts that were only sent, and
//! messages that only steered a run are in no trajectory.

mod counts;
mod session;
mod system;
mod turns;

pub use counts::{count_reasoning, count_tools, has_reasoning};
pub use session::{SessionTrajectory, iso_time};
pub(crate) use turns::{ReasoningForm, trajectory_in};
pub use turns::{TrajectoryTurn, trajectory_of};
