//! The skills that come with the program, as files in memory.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::PathBuf;

use flate2::read::ZlibDecoder;

use super::tree::{self, TreeFile};

/// The most bytes that a packed bundle may become.
const MAX_UNPACKED: u64 = 64 * 1024 * 1024;

/// Where the bundled skills come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleSource {
    /// Files packed at build time, and a text that changes with them.
    Packed { bytes: &'static [u8], digest: &'static str },
    /// A folder that somebody keeps, whose content is not known without reading it.
    Folder(PathBuf),
}

impl BundleSource {
    /// Reads all files. A folder that does not exist has none.
    pub fn files(&self) -> io::Result<Vec<TreeFile>> {
        match self {
            Self::Packed { bytes, .. } => unpack(bytes),
            Self::Folder(folder) if !folder.is_dir() => Ok(Vec::new()),
            Self::Folder(folder) => tree::read(folder),
        }
    }
}

/// A bundled skill: its files, with paths below its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BundledSkill {
    /// The name of its folder, which is its name in the manifest.
    pub(crate) name: String,
    /// The path of its folder.
    pub(crate) path: String,
    pub(crate) files: Vec<TreeFile>,
}

impl BundledSkill {
    pub(crate) fn hash(&self) -> String {
        tree::md5_of(&self.files)
    }
}

/// All bundled skills, and the descriptions of their categories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SkillBundle {
    pub(crate) skills: Vec<BundledSkill>,
    pub(crate) descriptions: Vec<TreeFile>,
}

impl SkillBundle {
    pub(crate) fn load(source: &BundleSource) -> io::Result<Self> {
        Ok(Self::from_files(source.files()?))
    }

    fn from_files(files: Vec<TreeFile>) -> Self {
        let mut by_folder: BTreeMap<String, Vec<TreeFile>> = BTreeMap::new();
        for file in &files {
            if let Some(folder) = file.path.strip_suffix("/SKILL.md") {
                by_folder.insert(folder.to_owned(), Vec::new());
            }
        }
        // A skill owns everything below its folder, also a skill in it.
        for (folder, own) in &mut by_folder {
            let below = |file: &&TreeFile| {
                file.path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
            };
            own.extend(files.iter().filter(below).map(|file| {
                let path = file.path.get(folder.len() + 1..).unwrap_or_default().to_owned();
                TreeFile { path, ..file.clone() }
            }));
            tree::sort(own);
        }
        let skills = by_folder
            .into_iter()
            .map(|(path, files)| {
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                BundledSkill { name, path, files }
            })
            .collect();
        let is_description = |file: &TreeFile| file.path.ends_with("/DESCRIPTION.md");
        Self { skills, descriptions: files.into_iter().filter(is_description).collect() }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&BundledSkill> {
        self.skills.iter().find(|skill| skill.name == name)
    }
}

/// Reads the packed form: for each file a line `{x or -} {bytes} {path}` and the content, compressed with zlib.
fn unpack(packed: &[u8]) -> io::Result<Vec<TreeFile>> {
    let malformed = || io::Error::other("the bundled skills are malformed");
    let mut plain = Vec::new();
    ZlibDecoder::new(packed).take(MAX_UNPACKED).read_to_end(&mut plain)?;
    let mut files = Vec::new();
    let mut rest = plain.as_slice();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(malformed)?;
        let (line, after) = rest.split_at(end);
        let line = std::str::from_utf8(line).map_err(|_| malformed())?;
        let mut words = line.splitn(3, ' ');
        let (Some(mode), Some(length), Some(path)) = (words.next(), words.next(), words.next()) else {
            return Err(malformed());
        };
        let length: usize = length.parse().map_err(|_| malformed())?;
        let bytes = after.get(1..=length).ok_or_else(malformed)?.to_vec();
        rest = after.get(length + 1..).unwrap_or_default();
        files.push(TreeFile { path: path.to_owned(), bytes, executable: mode == "x" });
    }
    Ok(files)
}
