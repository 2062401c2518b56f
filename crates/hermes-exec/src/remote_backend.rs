//! The backend in which commands run instead of this machine, chosen once from the configuration.

use std::fmt;
use std::sync::Arc;

use hermes_types::{BoxFuture, Cancel, RunError};

use crate::credential::{CredentialFiles, CredentialUploader};
use crate::remote::RemoteEnvironment;

/// A kind of place, other than this machine, in which commands run. Each is a module that implements this.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Opens the environment of a task. Nothing is started before the first command.
    fn open(&self, task: &str, credentials: &CredentialFiles) -> RemoteEnvironment;

    /// Checks that what the backend needs on this machine works.
    fn check<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Tells whether all environments are the same one, because another machine is not divided.
    fn is_single_machine(&self) -> bool {
        false
    }

    fn host_exposure(&self) -> HostExposure {
        HostExposure::Isolated
    }

    /// Returns the same backend with another image, and with a folder in it. `None` where there are no images.
    fn with_image(&self, _: &TaskImage) -> Option<Arc<dyn Backend>> {
        None
    }

    /// Fetches the image if it has to be there before the first command.
    fn fetch_image<'a>(&'a self, _: &'a Cancel) -> BoxFuture<'a, Result<(), RunError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The image in which the commands of one task run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskImage {
    pub image: String,
    /// The folder in which commands begin.
    pub directory: Option<String>,
}

/// Describes what a command in the environment can do to the user's own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostExposure {
    /// The command can change nothing outside the environment.
    Isolated,
    /// The command can change folders of this machine, or another machine of the user.
    UserFiles,
}

/// A backend with the credential files that its environments get.
#[derive(Debug, Clone)]
pub struct RemoteBackend {
    pub backend: Arc<dyn Backend>,
    pub credentials: CredentialFiles,
}

impl RemoteBackend {
    /// Opens the environment with this name.
    pub fn open(&self, name: &str) -> RemoteEnvironment {
        self.backend.open(name, &self.credentials)
    }

    /// Checks that what the backend needs on this machine works.
    pub async fn check(&self, cancel: &Cancel) -> Result<(), RunError> {
        self.backend.check(cancel).await
    }

    /// Returns the same backend with another image; `None` where there are no images.
    pub fn with_image(&self, image: &TaskImage) -> Option<Self> {
        let backend = self.backend.with_image(image)?;
        Some(Self { backend, credentials: self.credentials.clone() })
    }

    /// Fetches the image if it has to be there before the first command.
    pub async fn fetch_image(&self, cancel: &Cancel) -> Result<(), RunError> {
        self.backend.fetch_image(cancel).await
    }

    pub fn is_single_machine(&self) -> bool {
        self.backend.is_single_machine()
    }

    pub fn host_exposure(&self) -> HostExposure {
        self.backend.host_exposure()
    }
}

/// Returns what copies credential files into an environment that cannot show folders of this machine.
pub(crate) fn uploader(credentials: &CredentialFiles) -> Arc<CredentialUploader> {
    Arc::new(CredentialUploader::new(credentials.clone()))
}
