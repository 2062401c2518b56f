//! Git objects in a repository's folder: written loose, read loose or packed.
//!
//! This module handles bytes and ids and does not know about projects. Invariants: an object is complete before
//! it gets its name; the content of an object that is read has the requested hash.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use hermes_types::random_hex;
use sha1::{Digest, Sha1};

use super::pack::Packs;

/// The size above which objects are not read into memory.
pub(super) const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// The id of an object: the hash of its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectId(pub(super) [u8; 20]);

impl ObjectId {
    pub(super) fn parse(hex: &str) -> Option<Self> {
        let digits: Vec<u8> =
            hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        (digits.len() == 40).then(|| bytes.try_into().ok().map(Self)).flatten()
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The type of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Blob,
    Tree,
    Commit,
    Tag,
}

impl ObjectKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
            Self::Commit => "commit",
            Self::Tag => "tag",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Blob, Self::Tree, Self::Commit, Self::Tag].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The objects of one repository.
#[derive(Debug)]
pub(super) struct ObjectStore {
    folder: PathBuf,
    /// The packs, loaded when the first object is not found loose.
    packs: OnceLock<Packs>,
}

impl ObjectStore {
    /// Creates a store; `folder` is the repository's `objects`.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, packs: OnceLock::new() }
    }

    fn place(&self, id: ObjectId) -> PathBuf {
        let hex = id.to_string();
        let (front, back) = hex.split_at(2);
        self.folder.join(front).join(back)
    }

    fn packs(&self) -> &Packs {
        self.packs.get_or_init(|| Packs::load(&self.folder))
    }

    fn has(&self, id: ObjectId) -> bool {
        self.place(id).exists() || self.packs().has(id)
    }

    /// Writes an object from memory.
    pub(super) fn write(&self, kind: ObjectKind, content: &[u8]) -> io::Result<ObjectId> {
        let id = hash(kind, content);
        if !self.has(id) {
            self.store(id, kind, content.len() as u64, &mut &*content)?;
        }
        Ok(id)
    }

    /// Writes the content of a file. Fails if the file changes meanwhile.
    pub(super) fn write_file(&self, path: &Path) -> io::Result<ObjectId> {
        let id = hash_file(path)?;
        if !self.has(id) {
            let mut file = File::open(path)?;
            let len = file.metadata()?.len();
            self.store(id, ObjectKind::Blob, len, &mut file)?;
        }
        Ok(id)
    }

    /// Compresses the content into a temporary file, which is renamed only if the content has the expected
    /// hash.
    fn store(&self, id: ObjectId, kind: ObjectKind, len: u64, content: &mut dyn Read) -> io::Result<()> {
        let place = self.place(id);
        let folder = place.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)?;
        let temporary = folder.join(format!("tmp_obj_{}", random_hex(12)));
        let written = (|| {
            let mut hasher = Sha1::new();
            let mut encoder = ZlibEncoder::new(File::create_new(&temporary)?, Compression::fast());
            let header = header(kind, len);
            hasher.update(&header);
            encoder.write_all(&header)?;
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let count = content.read(&mut buffer)?;
                let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
                hasher.update(bytes);
                encoder.write_all(bytes)?;
            }
            encoder.finish()?;
            if hasher.finalize().as_slice() != id.0 {
                return Err(io::Error::other("the file changed while it was read"));
            }
            fs::rename(&temporary, &place)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Reads a whole object.
    pub(super) fn read(&self, id: ObjectId) -> io::Result<(ObjectKind, Vec<u8>)> {
        let found = match File::open(self.place(id)) {
            Ok(file) => read_loose(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.packs().read(id)?,
            Err(error) => return Err(error),
        };
        if hash(found.0, &found.1) == id {
            Ok(found)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("object {id} is damaged")))
        }
    }

    pub(super) fn read_as(&self, id: ObjectId, kind: ObjectKind) -> io::Result<Vec<u8>> {
        match self.read(id)? {
            (found, content) if found == kind => Ok(content),
            (found, _) => {
                let words = format!("object {id} is a {}, not a {}", found.as_str(), kind.as_str());
                Err(io::Error::new(io::ErrorKind::InvalidData, words))
            }
        }
    }
}

fn header(kind: ObjectKind, len: u64) -> Vec<u8> {
    format!("{} {len}\0", kind.as_str()).into_bytes()
}

fn hash(kind: ObjectKind, content: &[u8]) -> ObjectId {
    let mut hasher = Sha1::new();
    hasher.update(header(kind, content.len() as u64));
    hasher.update(content);
    ObjectId(hasher.finalize().into())
}

/// Computes the id of a file's content without writing it.
pub(super) fn hash_file(path: &Path) -> io::Result<ObjectId> {
    let mut file = File::open(path)?;
    let mut hasher = Sha1::new();
    hasher.update(header(ObjectKind::Blob, file.metadata()?.len()));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        hasher.update(bytes);
    }
    Ok(ObjectId(hasher.finalize().into()))
}

pub(super) fn hash_bytes(content: &[u8]) -> ObjectId {
    hash(ObjectKind::Blob, content)
}

fn read_loose(file: File) -> io::Result<(ObjectKind, Vec<u8>)> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "an object has no header");
    let mut bytes = Vec::new();
    ZlibDecoder::new(file).take(MOST_BYTES + 64).read_to_end(&mut bytes)?;
    let end = bytes.iter().take(64).position(|byte| *byte == 0).ok_or_else(damaged)?;
    let content = bytes.split_off(end + 1);
    bytes.pop();
    let header = String::from_utf8(bytes).map_err(|_| damaged())?;
    let (kind, len) = header.split_once(' ').ok_or_else(damaged)?;
    let kind = ObjectKind::parse(kind).ok_or_else(damaged)?;
    if len.parse() != Ok(content.len()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "an object is cut short"));
    }
    Ok((kind, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_git_gives() {
        assert_eq!(hash_bytes(b"").to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(hash_bytes(b"hello\n").to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(hash(ObjectKind::Tree, b"").to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    }

    #[test]
    fn an_object_is_stored_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let objects = ObjectStore::new(folder.path().to_owned());
        let id = objects.write(ObjectKind::Blob, b"content").unwrap();
        assert_eq!(objects.write(ObjectKind::Blob, b"content").unwrap(), id);
        assert_eq!(objects.read(id).unwrap(), (ObjectKind::Blob, b"content".to_vec()));
        assert!(objects.read_as(id, ObjectKind::Tree).is_err());
        assert_eq!(objects.read(hash_bytes(b"other")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
