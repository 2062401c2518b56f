//! The only place that starts tasks, and the clock that can sleep.
//!
//! Holds no work of its own. A task started here has a name (a tracing span around everything it logs), ends when
//! its cancel token is cancelled, and cannot take other tasks down: a panic is caught, logged under the task's
//! name, and returned to the caller that awaits the task.

mod clock;
mod process;
mod task;
mod task_group;

pub use clock::SystemClock;
pub use process::may_be_alive;
pub use task::{Task, TaskError, spawn_cooperative, spawn_named};
pub use task_group::TaskGroup;
