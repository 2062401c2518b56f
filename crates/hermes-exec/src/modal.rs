//! Modal is not there yet, and says so.
//!
//! Its sandboxes are reached only through a gRPC interface that is not published as one. Until there is a client for it,
//! the backend is reported as unavailable; commands never run somewhere else instead.

use std::sync::Arc;

use hermes_types::{Environment, RunError};

/// The backend `modal`.
pub fn modal() -> Result<Arc<dyn Environment>, RunError> {
    Err(RunError::Unavailable(
        "the modal backend is missing a client for Modal's gRPC interface; set terminal.backend to docker, ssh, \
         singularity, daytona or local"
            .to_owned(),
    ))
}
