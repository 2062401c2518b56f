//! Reads objects that git has packed. This module never writes packs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;

use super::object::{MOST_BYTES, ObjectId, ObjectKind};

/// The maximum length of a chain of deltas; a longer one is treated as a loop.
const MOST_DELTAS: usize = 4096;

/// The packs of a repository, with their indexes in memory.
#[derive(Debug, Default)]
pub(super) struct Packs(Vec<(PathBuf, Vec<u8>)>);

impl Packs {
    pub(super) fn load(objects: &Path) -> Self {
        let entries = fs::read_dir(objects.join("pack")).into_iter().flatten().flatten();
        let indexes =
            entries.map(|entry| entry.path()).filter(|path| path.extension() == Some(OsStr::new("idx")));
        Self(indexes.filter_map(|path| Some((path.with_extension("pack"), fs::read(&path).ok()?))).collect())
    }

    fn find(&self, id: ObjectId) -> Option<(&Path, u64)> {
        self.0.iter().find_map(|(pack, index)| Some((pack.as_path(), look_up(index, id)?)))
    }

    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.find(id).is_some()
    }

    /// Reads an object from the pack that holds it.
    pub(super) fn read(&self, id: ObjectId) -> io::Result<(ObjectKind, Vec<u8>)> {
        let (pack, mut offset) = self
            .find(id)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("object {id} is missing")))?;
        let mut file = File::open(pack)?;
        let mut deltas: Vec<Vec<u8>> = Vec::new();
        let (kind, mut content) = loop {
            if deltas.len() > MOST_DELTAS {
                return Err(damaged());
            }
            let entry = read_entry(&mut file, offset)?;
            match entry.base {
                DeltaBase::None(kind) => break (kind, entry.content),
                DeltaBase::Before(distance) => {
                    deltas.push(entry.content);
                    offset = offset.checked_sub(distance).filter(|_| distance > 0).ok_or_else(damaged)?;
                }
                DeltaBase::Named(base) => {
                    deltas.push(entry.content);
                    let next = self.find(base).filter(|(other, _)| *other == pack).ok_or_else(damaged)?;
                    offset = next.1;
                }
            }
        };
        while let Some(delta) = deltas.pop() {
            content = apply(&content, &delta).ok_or_else(damaged)?;
        }
        Ok((kind, content))
    }
}

/// Looks up the offset of an object in an index of version 2.
fn look_up(index: &[u8], id: ObjectId) -> Option<u64> {
    const FANOUT: usize = 8;
    const NAMES: usize = FANOUT + 256 * 4;
    if index.get(..8)? != b"\xfftOc\0\0\0\x02" {
        return None;
    }
    let number =
        |at: usize| -> Option<u32> { Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?)) };
    let first = usize::from(id.0[0]);
    let from = if first == 0 { 0 } else { number(FANOUT + (first - 1) * 4)? as usize };
    let to = number(FANOUT + first * 4)? as usize;
    let total = number(FANOUT + 255 * 4)? as usize;
    let name = |at: usize| index.get(NAMES + at * 20..NAMES + at * 20 + 20);
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = usize::midpoint(low, high);
        match name(middle)?.cmp(&id.0) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => {
                let offsets = NAMES + total * 24;
                let offset = number(offsets + middle * 4)?;
                if offset & 0x8000_0000 == 0 {
                    return Some(u64::from(offset));
                }
                let large = offsets + total * 4 + (offset & 0x7fff_ffff) as usize * 8;
                return Some(u64::from_be_bytes(index.get(large..large + 8)?.try_into().ok()?));
            }
        }
    }
    None
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a pack is damaged; look at it with `git fsck`")
}

enum DeltaBase {
    /// The entry is a whole object of this type.
    None(ObjectKind),
    /// The entry is a delta to the entry this many bytes before it.
    Before(u64),
    Named(ObjectId),
}

struct PackEntry {
    base: DeltaBase,
    content: Vec<u8>,
}

fn read_entry(file: &mut File, offset: u64) -> io::Result<PackEntry> {
    file.seek(SeekFrom::Start(offset))?;
    let mut reader = io::BufReader::new(file);
    let mut byte = [0];
    let mut next = |reader: &mut dyn Read| -> io::Result<u8> {
        reader.read_exact(&mut byte)?;
        Ok(byte[0])
    };
    let first = next(&mut reader)?;
    let mut len = u64::from(first & 0x0f);
    let mut shift = 4;
    let mut last = first;
    while last & 0x80 != 0 {
        last = next(&mut reader)?;
        len |= u64::from(last & 0x7f).checked_shl(shift).ok_or_else(damaged)?;
        shift += 7;
    }
    if len > MOST_BYTES {
        return Err(io::Error::other("an object is too large to read"));
    }
    let base = match first >> 4 & 7 {
        1 => DeltaBase::None(ObjectKind::Commit),
        2 => DeltaBase::None(ObjectKind::Tree),
        3 => DeltaBase::None(ObjectKind::Blob),
        4 => DeltaBase::None(ObjectKind::Tag),
        6 => {
            let mut last = next(&mut reader)?;
            let mut distance = u64::from(last & 0x7f);
            while last & 0x80 != 0 {
                last = next(&mut reader)?;
                distance = (distance + 1).checked_mul(128).ok_or_else(damaged)? | u64::from(last & 0x7f);
            }
            DeltaBase::Before(distance)
        }
        7 => {
            let mut id = [0; 20];
            reader.read_exact(&mut id)?;
            DeltaBase::Named(ObjectId(id))
        }
        _ => return Err(damaged()),
    };
    let mut content = Vec::new();
    ZlibDecoder::new(reader).take(len + 1).read_to_end(&mut content)?;
    if content.len() as u64 == len { Ok(PackEntry { base, content }) } else { Err(damaged()) }
}

/// Applies a delta to its base object.
fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    if size(&mut rest)? != base.len() as u64 {
        return None;
    }
    let len = size(&mut rest).filter(|len| *len <= MOST_BYTES)?;
    let mut content = Vec::new();
    while let Some((op, tail)) = rest.split_first() {
        rest = tail;
        if op & 0x80 != 0 {
            let mut number = |bits: std::ops::Range<u8>| -> Option<usize> {
                let mut value = 0;
                for (at, bit) in bits.enumerate() {
                    if op & (1 << bit) != 0 {
                        let (byte, tail) = rest.split_first()?;
                        rest = tail;
                        value |= usize::from(*byte) << (8 * at);
                    }
                }
                Some(value)
            };
            let from = number(0..4)?;
            let count = match number(4..7)? {
                0 => 0x10000,
                count => count,
            };
            content.extend_from_slice(base.get(from..from.checked_add(count)?)?);
        } else if *op == 0 {
            return None;
        } else {
            let count = usize::from(*op);
            content.extend_from_slice(rest.get(..count)?);
            rest = rest.get(count..)?;
        }
        if content.len() as u64 > len {
            return None;
        }
    }
    (content.len() as u64 == len).then_some(content)
}

fn size(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    let mut shift = 0;
    loop {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_difference_is_applied() {
        // Copy "hello" from the base, then add "!!".
        let delta = [11, 7, 0x90, 5, 2, b'!', b'!'];
        assert_eq!(apply(b"hello world", &delta).unwrap(), b"hello!!");
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_not_panic(
            base in proptest::collection::vec(any::<u8>(), 0..20),
            delta in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let _ = apply(&base, &delta);
            let mut index = b"\xfftOc\0\0\0\x02".to_vec();
            index.extend(&delta);
            let _ = look_up(&index, ObjectId([7; 20]));
        }
    }
}
