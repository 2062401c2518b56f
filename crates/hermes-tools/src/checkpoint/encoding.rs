//! Encodes and decodes the content of git trees and commits.
//!
//! These functions are pure. Invariants: encoded data decodes to the same value; foreign bytes never cause a
//! panic.

use std::fmt::Write as _;

use super::object::ObjectId;

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub(super) mode: TreeEntryMode,
    pub(super) name: Vec<u8>,
    pub(super) id: ObjectId,
}

/// The type of an entry, as git numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeEntryMode {
    File,
    Executable,
    Link,
    Folder,
    /// A nested repository, whose content is not read.
    Repository,
}

impl TreeEntryMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
            Self::Folder => "40000",
            Self::Repository => "160000",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "100644" | "100664" => Self::File,
            "100755" => Self::Executable,
            "120000" => Self::Link,
            "40000" | "040000" => Self::Folder,
            "160000" => Self::Repository,
            _ => return None,
        })
    }
}

/// Encodes a tree. Git sorts folders as if their names ended in a slash.
pub(super) fn encode_tree(mut entries: Vec<TreeEntry>) -> Vec<u8> {
    let key = |entry: &TreeEntry| {
        let mut key = entry.name.clone();
        if entry.mode == TreeEntryMode::Folder {
            key.push(b'/');
        }
        key
    };
    entries.sort_by_key(key);
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(entry.mode.as_str().as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(&entry.name);
        bytes.push(0);
        bytes.extend_from_slice(&entry.id.0);
    }
    bytes
}

pub(super) fn decode_tree(mut bytes: &[u8]) -> Option<Vec<TreeEntry>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let mode = TreeEntryMode::parse(std::str::from_utf8(bytes.get(..space)?).ok()?)?;
        let rest = bytes.get(space + 1..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let name = rest.get(..end)?.to_vec();
        let id = ObjectId(rest.get(end + 1..end + 21)?.try_into().ok()?);
        entries.push(TreeEntry { mode, name, id });
        bytes = rest.get(end + 21..)?;
    }
    Some(entries)
}

/// The parts of a commit that snapshots need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) tree: ObjectId,
    pub(super) parent: Option<ObjectId>,
    /// The time in seconds since 1970.
    pub(super) seconds: i64,
    pub(super) message: String,
}

pub(super) fn encode_commit(commit: &Commit) -> Vec<u8> {
    let mut text = format!("tree {}\n", commit.tree);
    if let Some(parent) = commit.parent {
        let _ = writeln!(text, "parent {parent}");
    }
    for who in ["author", "committer"] {
        let _ = writeln!(text, "{who} Hermes Checkpoint <hermes@local> {} +0000", commit.seconds);
    }
    let _ = write!(text, "\n{}\n", commit.message);
    text.into_bytes()
}

pub(super) fn decode_commit(bytes: &[u8]) -> Option<Commit> {
    let text = String::from_utf8_lossy(bytes);
    let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let when = field("committer")?.rsplit(' ').nth(1)?;
    Some(Commit {
        tree: ObjectId::parse(field("tree")?)?,
        parent: field("parent").and_then(ObjectId::parse),
        seconds: when.parse().ok()?,
        message: message.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::object::hash_bytes;
    use super::*;

    proptest! {
        #[test]
        fn trees_and_commits_come_back(names in proptest::collection::btree_set("[a-c.]{1,4}", 0..6), message in "[a-z é]{0,20}") {
            let entry = |(at, name): (usize, &String)| TreeEntry {
                mode: if at % 2 == 0 { TreeEntryMode::File } else { TreeEntryMode::Folder },
                name: name.clone().into_bytes(),
                id: hash_bytes(name.as_bytes()),
            };
            let entries: Vec<TreeEntry> = names.iter().enumerate().map(entry).collect();
            let mut back = decode_tree(&encode_tree(entries.clone())).unwrap();
            back.sort_by(|a, b| a.name.cmp(&b.name));
            prop_assert_eq!(back, entries);
            let commit = Commit { tree: hash_bytes(b"t"), parent: None, seconds: 5, message: message.trim_end().to_owned() };
            prop_assert_eq!(decode_commit(&encode_commit(&commit)).unwrap(), commit);
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "\\PC{0,60}") {
            let _ = decode_tree(&bytes);
            let _ = decode_commit(&bytes);
            let _ = ObjectId::parse(&text);
        }
    }
}
