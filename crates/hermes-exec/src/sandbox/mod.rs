//! The fence the operating system puts around a command.

use std::io;
use std::path::Path;

use hermes_types::Finished;

#[derive(Debug, Clone, Default)]
pub struct Sandbox;

impl Sandbox {
    pub fn off() -> Self {
        Self
    }

    pub(crate) fn notice(&self) -> Option<String> {
        None
    }
    pub(crate) fn around(&self, _: &Path) -> Result<Option<Fence>, String> {
        Ok(None)
    }
}

pub(crate) fn explain(_: &Finished) -> Option<String> {
    None
}

/// A prepared fence; a child enters it between fork and exec.
#[derive(Debug)]
pub(crate) struct Fence;

impl Fence {
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(())
    }
}
