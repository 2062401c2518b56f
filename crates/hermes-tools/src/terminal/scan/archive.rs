//! Extracts one file from a compressed tar archive in memory.
//!
//! Nothing is written, and no name in the archive is used as a path. An archive that contains a link, a device
//! or a path that leads outside is refused as a whole.

use std::io::{self, Read};

use flate2::read::GzDecoder;

const BLOCK: usize = 512;
/// The maximum size of an unpacked archive, whatever its compressed size.
const MOST_UNPACKED: u64 = 256 * 1024 * 1024;

/// Returns the content of the regular file of this name at the top level of the archive.
pub(super) fn take_file(archive: &[u8], name: &str, most: u64) -> Result<Vec<u8>, String> {
    let mut tar = GzDecoder::new(archive).take(MOST_UNPACKED);
    let mut found = None;
    while let Some(entry) = TarEntry::read(&mut tar)? {
        if !entry.is_called(name) {
            entry.skip(&mut tar)?;
        } else if found.is_some() {
            return Err(format!("it holds `{name}` twice"));
        } else if entry.size > most {
            return Err(format!("`{name}` in it is larger than {} MiB", most / 1024 / 1024));
        } else {
            found = Some(entry.contents(&mut tar)?);
        }
    }
    found.ok_or_else(|| format!("there is no file `{name}` in it"))
}

/// The header of a member.
struct TarEntry {
    path: String,
    kind: TarEntryKind,
    size: u64,
}

#[derive(PartialEq)]
enum TarEntryKind {
    File,
    /// Folders, and metadata about the next member.
    Other,
}

impl TarEntry {
    /// Reads the next header. Returns `None` at the end, which two empty blocks mark.
    fn read(tar: &mut impl Read) -> Result<Option<Self>, String> {
        let header = read_block(tar)?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) })
            .sum();
        if octal(&header[148..156]) != Some(sum) {
            return Err("it is no tar archive".to_owned());
        }
        let prefix = if header[257..262] == *b"ustar" && header[262] == 0 {
            text(&header[345..500])
        } else {
            String::new()
        };
        let path = if prefix.is_empty() {
            text(&header[..100])
        } else {
            format!("{prefix}/{}", text(&header[..100]))
        };
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return Err(format!("a path in it leads out of it: {path:?}"));
        }
        let kind = match header[156] {
            0 | b'0' => TarEntryKind::File,
            b'5' | b'x' | b'g' | b'L' => TarEntryKind::Other,
            kind => {
                return Err(format!(
                    "{path:?} in it is neither a file nor a folder ({:?})",
                    char::from(kind)
                ));
            }
        };
        let size =
            octal(&header[124..136]).ok_or_else(|| format!("the size of {path:?} in it cannot be read"))?;
        Ok(Some(Self { path, kind, size }))
    }

    fn is_called(&self, name: &str) -> bool {
        self.kind == TarEntryKind::File && self.path.strip_prefix("./").unwrap_or(&self.path) == name
    }

    fn contents(&self, tar: &mut impl Read) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let mut member = tar.take(self.padded());
        member.read_to_end(&mut bytes).map_err(broken)?;
        if bytes.len() as u64 != self.padded() {
            return Err(cut_off());
        }
        bytes.truncate(usize::try_from(self.size).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn skip(&self, tar: &mut impl Read) -> Result<(), String> {
        let passed = io::copy(&mut tar.take(self.padded()), &mut io::sink()).map_err(broken)?;
        if passed == self.padded() { Ok(()) } else { Err(cut_off()) }
    }

    fn padded(&self) -> u64 {
        self.size.next_multiple_of(BLOCK as u64)
    }
}

fn read_block(tar: &mut impl Read) -> Result<[u8; BLOCK], String> {
    let mut block = [0; BLOCK];
    tar.read_exact(&mut block).map_err(broken)?;
    Ok(block)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn broken(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => cut_off(),
        _ => format!("it cannot be unpacked: {error}"),
    }
}

fn cut_off() -> String {
    "it is cut off, or larger than it may be".to_owned()
}

fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(field.get(..end).unwrap_or_default()).into_owned()
}

/// Parses an octal number of at most eleven digits, which cannot overflow.
fn octal(field: &[u8]) -> Option<u64> {
    u64::from_str_radix(text(field).trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn foreign_bytes_are_refused_and_never_worse(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            prop_assert!(take_file(&bytes, "tirith", 10).is_err());
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut packed, &bytes).unwrap();
            prop_assert!(take_file(&packed.finish().unwrap(), "tirith", 10).is_err());
        }
    }
}
