//! Runs commands in a Modal sandbox.
//!
//! There are two ways to reach one, with the same options: a gateway that manages sandboxes for a signed-in
//! user (`gateway`), and the user's own account, reached through Modal's own Python package (`direct`). This
//! module does not choose between them.

mod direct;
mod gateway;

use std::time::Duration;

pub use direct::{ModalAccount, ModalDirectBackend, ModalDirectEnvironment, PythonSearch};
pub use gateway::{ModalGateway, ModalGatewayBackend, ModalGatewayEnvironment};

use crate::capture::OutputBounds;
use crate::docker::{InstanceRetention, ResourceLimits};
use crate::remote::ForwardedVariables;

const MAKE_LIMIT: Duration = Duration::from_mins(5);
/// The longest lifetime of a sandbox.
const LIFE: Duration = Duration::from_hours(1);

/// The options of one task's sandbox.
#[derive(Debug, Clone)]
pub struct ModalOptions {
    pub task: String,
    pub image: String,
    /// The configured folder in which commands begin. A folder that can only exist on the host is ignored.
    pub directory: Option<String>,
    /// The variables for commands.
    pub exports: ForwardedVariables,
    pub limits: ResourceLimits,
    pub retention: InstanceRetention,
    /// The time after which the gateway ends an unused sandbox.
    pub idle: Duration,
    pub bounds: OutputBounds,
}
