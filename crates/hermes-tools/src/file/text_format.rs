//! Converts text files between their form on disk and the text a model sees. The line endings and the byte
//! order mark of an existing file are preserved.

use std::io;
use std::path::Path;

use super::file_system::{FileSystem, PathKind};

const BOM: &str = "\u{feff}";
/// The number of bytes that are examined to detect the line endings.
const ENDING_SAMPLE: usize = 4096;
/// The size above which a file is not changed in memory.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// The byte order mark and the line endings of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextFormat {
    bom: ByteOrderMark,
    ending: LineEnding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ByteOrderMark {
    #[default]
    Absent,
    Present,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LineEnding {
    #[default]
    AsGiven,
    Crlf,
}

impl TextFormat {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let sample = bytes.get(..ENDING_SAMPLE).unwrap_or(bytes);
        let ending = if sample.windows(2).any(|pair| pair == b"\r\n") {
            LineEnding::Crlf
        } else {
            LineEnding::AsGiven
        };
        let bom =
            if bytes.starts_with(BOM.as_bytes()) { ByteOrderMark::Present } else { ByteOrderMark::Absent };
        Self { bom, ending }
    }

    /// Converts a text of the model to this format. A byte order mark that the model wrote is kept.
    pub(crate) fn encode(self, text: &str) -> String {
        let text = match self.ending {
            LineEnding::Crlf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            LineEnding::AsGiven => text.to_owned(),
        };
        if self.bom == ByteOrderMark::Present && !text.starts_with(BOM) {
            format!("{BOM}{text}")
        } else {
            text
        }
    }

    /// Removes the byte order mark and converts the line endings to `\n`.
    pub(crate) fn decode(self, text: &str) -> String {
        let text = text.strip_prefix(BOM).unwrap_or(text);
        match self.ending {
            LineEnding::Crlf => text.replace("\r\n", "\n"),
            LineEnding::AsGiven => text.to_owned(),
        }
    }
}

/// Reads a file that will be written back. It must be UTF-8 text, or writing it back would change other bytes.
pub(crate) fn read_text(disk: &dyn FileSystem, path: &Path) -> io::Result<(String, TextFormat)> {
    let seen = disk.inspect(path)?;
    match seen.kind {
        PathKind::File => {}
        PathKind::Missing => return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such file")),
        PathKind::Folder | PathKind::Other => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
    }
    if seen.size > MOST_BYTES.min(disk.most_bytes()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is too large to change in place"));
    }
    let bytes = disk.read(path, MOST_BYTES)?;
    let form = TextFormat::of(&bytes);
    let text = String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))?;
    Ok((form.decode(&text), form))
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
            let form = TextFormat::of(text.as_bytes());
            let plain = form.decode(&text);
            prop_assert!(!plain.contains('\r') && !plain.starts_with(BOM));
            prop_assert_eq!(form.encode(&plain), text);
        }
    }
}
