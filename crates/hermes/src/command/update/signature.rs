//! Signatures of releases, in the format of minisign.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use minisign_verify::{PublicKey, Signature};

/// The key that the builder of this program named; releases are signed with its secret half.
const BUILT_IN_KEY: Option<&str> = option_env!("HERMES_RELEASE_KEY");

/// Returns the key whose signatures are trusted: the one recorded by the installer, else the built-in one.
pub(super) fn trusted_key(recorded: Option<&str>) -> Option<&str> {
    recorded.or(BUILT_IN_KEY).filter(|key| !key.is_empty())
}

/// Fails unless the file was signed with the key.
pub(super) fn verify(file: &Path, signature: &Path, key: &str) -> Result<()> {
    let key =
        PublicKey::from_base64(key.trim()).ok().context("the release key is not a minisign public key")?;
    let text = match fs::read_to_string(signature) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!("the release is not signed"),
        Err(error) => return Err(error).context("the signature of the release cannot be read"),
    };
    let signature = Signature::decode(&text).ok().context("the signature of the release is damaged")?;
    let bytes = fs::read(file).context("the new program cannot be read")?;
    // Signatures made without hashing first are refused: no current minisign makes them.
    if key.verify(&bytes, &signature, false).is_err() {
        bail!("the signature of the release does not belong to it, or was made with another key");
    }
    Ok(())
}
