//! Converts images of a registry to files, each built once.
//!
//! A file appears only when it is complete. When the build fails, the address itself is used; the client then
//! fetches the image each time, which is slow but works.

use std::path::Path;
use std::time::Duration;

use hermes_types::{Cancel, random_hex};

use super::SingularityHost;
use crate::remote::{CliError, ClientProgram, lock_unless_cancelled};

const BUILD_LIMIT: Duration = Duration::from_mins(10);

impl SingularityHost {
    /// Returns the file or address to start for a configured image.
    pub(super) async fn image(&self, image: &str, cancel: &Cancel) -> Result<String, CliError> {
        let Some(address) = image.strip_prefix("docker://") else { return Ok(image.to_owned()) };
        let cache = self.cache();
        let file = cache.join(file_name(address));
        let _one_at_a_time =
            lock_unless_cancelled(&self.building, cancel).await.ok_or(CliError::Interrupted)?;
        if file.is_file() {
            return Ok(file.display().to_string());
        }
        match self.build(image, &cache, &file, cancel).await {
            Ok(()) => Ok(file.display().to_string()),
            Err(CliError::Interrupted) => Err(CliError::Interrupted),
            Err(error) => {
                tracing::warn!(%error, image, "the image could not be built; using its address");
                Ok(image.to_owned())
            }
        }
    }

    async fn build(&self, image: &str, cache: &Path, file: &Path, cancel: &Cancel) -> Result<(), CliError> {
        let failed = |error: std::io::Error| CliError::Refused(error.to_string());
        let temp = cache.join("tmp");
        std::fs::create_dir_all(&temp).map_err(failed)?;
        let unfinished = file.with_extension(format!("{}.part", random_hex(8)));
        let variables = self
            .cli
            .variables
            .clone()
            .with("APPTAINER_TMPDIR", &temp.to_string_lossy())
            .with("APPTAINER_CACHEDIR", &cache.to_string_lossy());
        let cli = ClientProgram { variables, ..self.cli.clone() };
        let words = ["build".to_owned(), unfinished.display().to_string(), image.to_owned()];
        let asked = cli.run(&words, None, BUILD_LIMIT, cancel).await;
        let built = match asked {
            Ok(said) if said.code == 0 => std::fs::rename(&unfinished, file).map_err(failed),
            Ok(said) => Err(CliError::Refused(said.text)),
            Err(error) => Err(error),
        };
        if built.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        built
    }
}

/// Returns the file name of an image: `x/y:z` becomes `x-y-z.sif`.
fn file_name(address: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    format!("{}.sif", address.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_one_file_name() {
        assert_eq!(file_name("x/y:z"), "x-y-z.sif");
        assert_eq!(file_name("python:3.11-slim"), "python-3.11-slim.sif");
        assert_eq!(file_name("../../etc@sha256:ab"), "..-..-etc-sha256-ab.sif");
    }
}
