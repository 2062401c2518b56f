//! Text files on disk as a model sees them, and writing them back the way they were.
//!
//! Invariant: a file is replaced whole or not at all; line endings, byte order mark and mode of an existing file stay.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use hermes_types::random_hex;

use super::disk::{Disk, Kind};

const BOM: &str = "\u{feff}";
/// How much of a file says which line endings it uses.
const ENDING_SAMPLE: usize = 4096;
/// A file larger than this is not changed in memory.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// How a text file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Form {
    bom: Bom,
    ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Bom {
    #[default]
    Absent,
    Present,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Ending {
    #[default]
    AsGiven,
    Crlf,
}

impl Form {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let sample = bytes.get(..ENDING_SAMPLE).unwrap_or(bytes);
        let ending =
            if sample.windows(2).any(|pair| pair == b"\r\n") { Ending::Crlf } else { Ending::AsGiven };
        let bom = if bytes.starts_with(BOM.as_bytes()) { Bom::Present } else { Bom::Absent };
        Self { bom, ending }
    }

    /// A text as the model wrote it, in this form. A byte order mark the model wrote itself stays.
    pub(crate) fn dress(self, text: &str) -> String {
        let text = match self.ending {
            Ending::Crlf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            Ending::AsGiven => text.to_owned(),
        };
        if self.bom == Bom::Present && !text.starts_with(BOM) { format!("{BOM}{text}") } else { text }
    }

    /// The text without what the form adds.
    pub(crate) fn undress(self, text: &str) -> String {
        let text = text.strip_prefix(BOM).unwrap_or(text);
        match self.ending {
            Ending::Crlf => text.replace("\r\n", "\n"),
            Ending::AsGiven => text.to_owned(),
        }
    }
}

/// Reads a file that will be written back: it must be text in UTF-8, or writing it back would change the rest.
pub(crate) fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<(String, Form)> {
    let seen = disk.look(path)?;
    match seen.kind {
        Kind::File => {}
        Kind::Missing => return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such file")),
        Kind::Folder | Kind::Other => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
    }
    if seen.size > MOST_BYTES.min(disk.most_bytes()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is too large to change in place"));
    }
    let bytes = disk.read(path, MOST_BYTES)?;
    let form = Form::of(&bytes);
    let text = String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))?;
    Ok((form.undress(&text), form))
}

/// Puts the text in place in one step, on this machine. A link stays a link: its target is replaced.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| super::deny::real_path(path));
    let existing = fs::metadata(&target).ok();
    // A device or a pipe must not be replaced by a file of its name.
    if existing.as_ref().is_some_and(|meta| !meta.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let folder = target.parent().unwrap_or(Path::new("."));
    let temporary = folder.join(format!(".hermes-tmp.{}", random_hex(12)));
    let written = write_new(&temporary, text, existing.as_ref().map(fs::Metadata::permissions))
        .and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        // The first error is the one to report; the temporary file may not even exist.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // The rename must survive a power cut; a file system that cannot say so is no reason to fail.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn write_new(path: &Path, text: &str, mode: Option<fs::Permissions>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_form_is_put_on_as_it_was_taken_off(lines in "[a\u{e9} \n]{0,40}", crlf: bool, bom: bool) {
            let text = if crlf { lines.replace('\n', "\r\n") } else { lines };
            let text = if bom { format!("{BOM}{text}") } else { text };
            let form = Form::of(text.as_bytes());
            let plain = form.undress(&text);
            prop_assert!(!plain.contains('\r') && !plain.starts_with(BOM));
            prop_assert_eq!(form.dress(&plain), text);
        }
    }
}
