//! Files that appear complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use hermes_types::random_hex;

use crate::error::Error;

/// Writes a file beside its place, syncs it, and moves it there. On an error the old file stays.
pub(crate) fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Error> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{stem}_{}.tmp", random_hex(8)));
    let written = || -> io::Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let mut out = BufWriter::with_capacity(128 * 1024, file);
        write(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        fs::rename(&beside, path)
    };
    written().map_err(|error| {
        // The first error is the one to report; the file may not even exist.
        let _ = fs::remove_file(&beside);
        Error::file(path)(error)
    })
}
