//! Reads archives: zip files with stored or deflated entries.
//!
//! Invariants: an entry that is a link, a device, encrypted or outside the archive's folder is an error; nothing is
//! unpacked beyond the limits, whatever the headers say.

use std::io::Read as _;

use flate2::read::DeflateDecoder;
use hermes_knowledge::TreeFile;

use crate::Error;
use crate::source::{MAX_FILE_BYTES, MAX_FILES, MAX_SKILL_BYTES, check_path};

const END: &[u8] = b"PK\x05\x06";
const ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";
/// The largest comment at the end of an archive.
const MAX_COMMENT: usize = 65_535;
const ENCRYPTED: u16 = 1;

/// Unpacks an archive into memory.
pub fn unpack_zip(archive: &[u8]) -> Result<Vec<TreeFile>, Error> {
    let malformed = || Error::Malformed("the archive is not a valid zip file".to_owned());
    let from = archive.len().saturating_sub(MAX_COMMENT + 22);
    let tail = archive.get(from..).unwrap_or_default();
    let end = tail.windows(END.len()).rposition(|window| window == END).ok_or_else(malformed)?;
    let end = tail.get(end..).unwrap_or_default();
    let count = usize::from(u16_at(end, 10).ok_or_else(malformed)?);
    let mut at = u32_at(end, 16).ok_or_else(malformed)? as usize;
    if count > 4 * MAX_FILES {
        return Err(Error::Malformed(format!("the archive has {count} entries; {MAX_FILES} files at most")));
    }
    let mut files: Vec<TreeFile> = Vec::new();
    let mut total = 0;
    for _ in 0..count {
        let header = archive.get(at..).filter(|header| header.starts_with(ENTRY)).ok_or_else(malformed)?;
        let number = |offset| u16_at(header, offset).map(usize::from).ok_or_else(malformed);
        let (name, extra, comment) = (number(28)?, number(30)?, number(32)?);
        let path = header.get(46..46 + name).ok_or_else(malformed)?;
        let path = std::str::from_utf8(path).map_err(|_| malformed())?;
        let mode = u32_at(header, 38).ok_or_else(malformed)? >> 16;
        at += 46 + name + extra + comment;
        if path.ends_with('/') {
            continue;
        }
        check_path(path)?;
        // The kind of file, as Unix writes it; other systems write nothing.
        if !matches!(mode & 0o170_000, 0 | 0o100_000) {
            return Err(Error::Malformed(format!("'{path}' in the archive is a link or a device")));
        }
        if u16_at(header, 8).is_none_or(|flags| flags & ENCRYPTED != 0) {
            return Err(Error::Malformed(format!("'{path}' in the archive is encrypted")));
        }
        let bytes = content(archive, header, path)?;
        total += bytes.len();
        if files.len() >= MAX_FILES || total > MAX_SKILL_BYTES {
            return Err(Error::Malformed("the archive is too large for a skill".to_owned()));
        }
        if files.iter().any(|file| file.path == path) {
            return Err(Error::Malformed(format!("'{path}' is in the archive twice")));
        }
        files.push(TreeFile { path: path.to_owned(), bytes, executable: mode & 0o111 != 0 });
    }
    Ok(files)
}

fn content(archive: &[u8], header: &[u8], path: &str) -> Result<Vec<u8>, Error> {
    let malformed = || Error::Malformed(format!("'{path}' in the archive is damaged"));
    let method = u16_at(header, 10).ok_or_else(malformed)?;
    let packed = u32_at(header, 20).ok_or_else(malformed)? as usize;
    let start = u32_at(header, 42).ok_or_else(malformed)? as usize;
    let local = archive.get(start..).filter(|local| local.starts_with(LOCAL)).ok_or_else(malformed)?;
    let skipped = 30
        + usize::from(u16_at(local, 26).ok_or_else(malformed)?)
        + usize::from(u16_at(local, 28).ok_or_else(malformed)?);
    let data = local.get(skipped..).and_then(|data| data.get(..packed)).ok_or_else(malformed)?;
    let mut bytes = Vec::new();
    // One byte more than is allowed tells that there is more.
    let limit = MAX_FILE_BYTES as u64 + 1;
    match method {
        0 => data.take(limit).read_to_end(&mut bytes),
        8 => DeflateDecoder::new(data).take(limit).read_to_end(&mut bytes),
        _ => return Err(malformed()),
    }
    .map_err(|_| malformed())?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Error::Malformed(format!(
            "'{path}' in the archive is larger than {MAX_FILE_BYTES} bytes"
        )));
    }
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
