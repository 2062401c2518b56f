//! Text files on disk as a model sees them, and their form when they are written back: line endings and byte order mark of an
//! existing file stay.

use std::io;
use std::path::Path;

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
