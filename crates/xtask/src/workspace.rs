//! The root of the workspace, and its cargo metadata.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::layers::Metadata;

/// Returns the folder with the workspace's manifest.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).unwrap_or(here).to_owned()
}

#[expect(clippy::disallowed_methods, reason = "a chore asks cargo; the product is not involved")]
pub(crate) fn cargo(arguments: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed:\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

pub(crate) fn metadata() -> Result<Metadata> {
    let json = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"])?;
    serde_json::from_slice(&json).context("cargo metadata has an unexpected shape")
}

/// Returns the name of the machine that programs are built for here, such as `x86_64-unknown-linux-gnu`.
#[expect(clippy::disallowed_methods, reason = "a chore asks the compiler; the product is not involved")]
pub(crate) fn host() -> Result<String> {
    let output =
        Command::new("rustc").arg("-vV").current_dir(root()).output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).context("rustc does not say what it builds for")
}
