//! The backend in which commands run instead of this machine, chosen once from the configuration.

use std::sync::Arc;

use hermes_types::{Cancel, RunError};

use crate::credential::{CredentialFiles, CredentialUploader};
use crate::daytona::{DaytonaAccount, DaytonaOptions};
use crate::docker::{DockerEngine, DockerOptions};
use crate::modal::{ModalAccount, ModalGateway, ModalOptions};
use crate::remote::RemoteEnvironment;
use crate::singularity::{SingularityHost, SingularityOptions};
use crate::ssh::SshHost;

/// A backend other than this machine.
#[derive(Debug, Clone)]
pub struct RemoteBackend {
    pub backend: Backend,
    pub credentials: CredentialFiles,
}

/// The kinds of backends. The options apply to every environment; `task` is filled in for each.
#[derive(Debug, Clone)]
pub enum Backend {
    Docker(Arc<DockerEngine>, Box<DockerOptions>),
    Ssh(Arc<SshHost>),
    Singularity(Arc<SingularityHost>, Box<SingularityOptions>),
    Daytona(Arc<DaytonaAccount>, Box<DaytonaOptions>),
    Modal(Arc<ModalGateway>, Box<ModalOptions>),
    ModalDirect(Arc<ModalAccount>, Box<ModalOptions>),
}

/// Describes what a command in the environment can do to the user's own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostExposure {
    /// The command can change nothing outside the environment.
    Isolated,
    /// The command can change folders of this machine, or another machine of the user.
    UserFiles,
}

impl RemoteBackend {
    /// Opens the environment with this name. Nothing is started before the first command.
    pub fn open(&self, name: &str) -> RemoteEnvironment {
        let luggage = || Some(Arc::new(CredentialUploader::new(self.credentials.clone())));
        let task = name.to_owned();
        match &self.backend {
            Backend::Docker(engine, options) => {
                let credentials = self.credentials.list();
                let options = DockerOptions { task, credentials, ..(**options).clone() };
                RemoteEnvironment::new(engine.open(options), None)
            }
            Backend::Ssh(host) => RemoteEnvironment::new(Arc::clone(host) as Arc<_>, luggage()),
            Backend::Singularity(host, options) => {
                RemoteEnvironment::new(host.open(SingularityOptions { task, ..(**options).clone() }), None)
            }
            Backend::Daytona(account, options) => RemoteEnvironment::new(
                account.open(DaytonaOptions { task, ..(**options).clone() }),
                luggage(),
            ),
            Backend::Modal(gateway, options) => {
                RemoteEnvironment::new(gateway.open(ModalOptions { task, ..(**options).clone() }), luggage())
            }
            Backend::ModalDirect(account, options) => {
                RemoteEnvironment::new(account.open(ModalOptions { task, ..(**options).clone() }), luggage())
            }
        }
    }

    /// Checks that what the backend needs on this machine works.
    pub async fn check(&self, cancel: &Cancel) -> Result<(), RunError> {
        match &self.backend {
            Backend::Docker(engine, _) => engine.check(cancel).await,
            Backend::Singularity(host, _) => host.check(cancel).await,
            Backend::ModalDirect(account, _) => account.check(cancel).await,
            Backend::Ssh(_) | Backend::Daytona(..) | Backend::Modal(..) => Ok(()),
        }
    }

    /// Tells whether all environments are the same one, because another machine is not divided.
    pub fn is_single_machine(&self) -> bool {
        matches!(self.backend, Backend::Ssh(_))
    }

    pub fn host_exposure(&self) -> HostExposure {
        match &self.backend {
            Backend::Ssh(_) => HostExposure::UserFiles,
            Backend::Docker(_, options) if options.shows_host_folders() => HostExposure::UserFiles,
            _ => HostExposure::Isolated,
        }
    }
}
