//! Commands in a sandbox of Modal.
//!
//! There are two ways to one, with the same options: a gateway that manages sandboxes for a signed-in user (`gateway`), and
//! the user's own account, spoken to by Modal's own Python package (`direct`). Which of them it is was decided elsewhere.

mod direct;
mod gateway;

use std::time::Duration;

pub use direct::{ModalAccount, ModalDirectEnvironment, PythonSearch};
pub use gateway::{ModalGateway, ModalGatewayEnvironment};

use crate::capture::OutputBounds;
use crate::docker::{InstanceRetention, ResourceLimits};
use crate::remote::ForwardedVariables;

const MAKE_LIMIT: Duration = Duration::from_mins(5);
/// How long a sandbox lives at most.
const LIFE: Duration = Duration::from_hours(1);

/// One task's sandbox.
#[derive(Debug, Clone)]
pub struct ModalOptions {
    pub task: String,
    pub image: String,
    /// Where commands begin, as configured. What can only be a folder of the host is ignored.
    pub directory: Option<String>,
    /// Variables for commands.
    pub exports: ForwardedVariables,
    pub limits: ResourceLimits,
    pub retention: InstanceRetention,
    /// The gateway ends a sandbox nobody used for so long.
    pub idle: Duration,
    pub bounds: OutputBounds,
}
