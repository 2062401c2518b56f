//! Where commands run: the process guard and the environments.
//!
//! The only crate that starts processes. Every child leads a group of its own, holds no descriptor but its three, and is
//! reaped; a bound child dies with us. What is dangerous is decided elsewhere (`hermes-guard`), what the model reads is
//! put together elsewhere (`hermes-tools`).

mod background;
mod blocked;
mod capture;
mod child;
mod group;
mod keeper;
mod local;
mod ring;
mod run;
mod sandbox;
mod shell;
mod snapshot;
mod stream;
mod survivor;
mod variables;

pub use background::{Background, InputError, Screen};
pub use capture::Bounds;
pub use hermes_guard::strip_ansi;
pub use local::{Local, LocalHost, LocalOptions};
pub use sandbox::Sandbox;
pub use survivor::Survivor;
pub use variables::Variables;
