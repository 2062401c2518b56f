//! Files inside an environment, accessed with commands that every system has.
//!
//! Works in any environment, on the files its commands see: paths are relative to the folder in which the
//! next command would start, and `~` is the home of the environment. Contents travel as standard input and as
//! base64, so that all bytes are preserved. A file is replaced completely or not at all, also when the
//! connection breaks during the write.

use std::time::Duration;

use hermes_types::{Cancel, CommandOutput, Environment, RunError, ShellCommand, random_hex};

use super::script::path_word;
use super::{INTERRUPTED, TIMED_OUT, base64};
use crate::capture::OutputBounds;
use crate::shell::quote;

const LIMIT: Duration = Duration::from_mins(1);
/// The exit codes of the scripts, distinct from those of the programs they run.
const MISSING: i32 = 44;
const FOLDER: i32 = 45;
const DENIED: i32 = 46;
const CUT: i32 = 49;
const CHANGED: i32 = 50;
/// The size up to which a file is fetched together with its metadata.
const SMALL: usize = 64 * 1024;

/// The script that examines the path in `$__p`.
const SURVEY: &str = "if [ -d \"$__p\" ]; then __k=d; elif [ -f \"$__p\" ]; then __k=f; \
    elif [ -e \"$__p\" ]; then __k=o; else __k=m; fi\n\
    __r=$(readlink -f -- \"$__p\" 2>/dev/null || readlink -m -- \"$__p\" 2>/dev/null)\n\
    __s=$(stat -Lc '%s %.Y' -- \"$__p\" 2>/dev/null || stat -Lc '%s %Y' -- \"$__p\" 2>/dev/null || \
    stat -Lf '%z %m' -- \"$__p\" 2>/dev/null)\n";
/// The script that prints the result of [`SURVEY`].
const TELL_SURVEY: &str = "printf '%s\\n%s\\n%s\\n%s' \"$__k\" \"$__s\" \"$__b\" \"${__r:-$__p}\"";

/// The files that an environment's commands see.
#[derive(Clone, Copy)]
pub struct RemoteFiles<'e> {
    environment: &'e dyn Environment,
    /// The number of bytes that fit into one output.
    piece: usize,
}

impl std::fmt::Debug for RemoteFiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteFiles").field("piece", &self.piece).finish_non_exhaustive()
    }
}

/// The kinds of things a path can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemotePathKind {
    Missing,
    File {
        size: u64,
    },
    Folder,
    /// A device, a socket or a pipe.
    Other,
}

/// Describes what a path refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct RemotePathInfo {
    /// The path with every link followed, as far as it exists.
    pub real: String,
    pub kind: RemotePathKind,
    /// The time of the last change, in seconds since 1970; not every system provides it.
    pub modified: Option<f64>,
    /// The content, if the path is a small file.
    pub content: Option<Vec<u8>>,
}

/// The folder in which the next command starts and the meaning of `~` there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteLocation {
    pub directory: String,
    pub home: String,
}

/// The reasons why a file operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteFileError {
    #[error("there is no such file")]
    Missing,
    #[error("it is a folder")]
    Folder,
    #[error("permission denied")]
    Denied,
    #[error("the transfer was incomplete; nothing was changed")]
    Cut,
    #[error("another program changed it in the meantime; nothing was changed. Read it again")]
    Changed,
    #[error("its content is not what was written; read it again")]
    NotKept,
    #[error("stopped before it was complete")]
    Stopped,
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Environment(#[from] RunError),
}

impl<'e> RemoteFiles<'e> {
    /// Creates the accessor. `bounds` are those of the environment: contents are read in pieces that fit into
    /// them.
    pub fn new(environment: &'e dyn Environment, bounds: OutputBounds) -> Self {
        const SMALLEST: usize = 48;
        const LARGEST: usize = 768 * 1024;
        let piece = bounds.head.saturating_add(bounds.tail) / 4 * 3;
        Self { environment, piece: piece.clamp(SMALLEST, LARGEST) }
    }

    /// Returns how many bytes are fetched at once.
    pub(crate) fn piece(&self) -> usize {
        self.piece
    }

    /// Returns the kind of the path, and its size.
    pub async fn path_kind(&self, path: &str, cancel: &Cancel) -> Result<RemotePathKind, RemoteFileError> {
        let script = "if [ -d \"$__p\" ]; then echo d; elif [ -f \"$__p\" ]; then \
            [ -r \"$__p\" ] || exit 46; echo \"f $(wc -c < \"$__p\")\"; elif [ -e \"$__p\" ]; then echo o; else echo m; fi";
        let said = self.ask(path, script, None, cancel).await?;
        Ok(match said.trim().split_once(' ') {
            None if said.trim() == "d" => RemotePathKind::Folder,
            None if said.trim() == "o" => RemotePathKind::Other,
            None if said.trim() == "m" => RemotePathKind::Missing,
            Some(("f", size)) => RemotePathKind::File { size: number(size)? },
            _ => return Err(RemoteFileError::Failed(said)),
        })
    }

    /// Returns the kind of the path, its real location, the time of its last change, and its content if it is
    /// small, with one command.
    pub async fn path_info(&self, path: &str, cancel: &Cancel) -> Result<RemotePathInfo, RemoteFileError> {
        let most = SMALL.min(self.piece);
        let script = format!(
            "{SURVEY}__b=; if [ \"$__k\" = f ] && [ -r \"$__p\" ] && [ \"${{__s%% *}}\" -le {most} ] 2>/dev/null; then \
             __b=\"=$(base64 < \"$__p\" | tr -d '\\n')\"; fi\n{TELL_SURVEY}"
        );
        RemotePathInfo::read(&self.ask(path, &script, None, cancel).await?)
    }

    /// Returns the current location of commands.
    pub async fn location(&self, cancel: &Cancel) -> Result<RemoteLocation, RemoteFileError> {
        let said = self.run("printf '%s\\n%s' \"$PWD\" \"$HOME\"", None, cancel).await?;
        match said.output.split_once('\n') {
            Some((directory, home)) if said.exit_code == 0 => {
                Ok(RemoteLocation { directory: directory.to_owned(), home: home.to_owned() })
            }
            _ if matches!(said.exit_code, TIMED_OUT | INTERRUPTED) => Err(RemoteFileError::Stopped),
            _ => Err(RemoteFileError::Failed(said.output)),
        }
    }

    /// Returns the first names in a folder, at most `most`.
    pub async fn names(
        &self,
        folder: &str,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Vec<String>, RemoteFileError> {
        let script = format!("ls -A -- \"$__p\" 2>/dev/null | head -n {most}");
        Ok(self.ask(folder, &script, None, cancel).await?.lines().map(str::to_owned).collect())
    }

    /// Returns the output of a script, of any length up to `most` bytes, and its exit code.
    pub async fn output_of(
        &self,
        script: &str,
        most: usize,
        cancel: &Cancel,
    ) -> Result<(Vec<u8>, i32), RemoteFileError> {
        let file = format!("/tmp/hermes-out-{}", random_hex(12));
        let first = self.piece.min(most);
        // Output that fits into one response is returned with it, and then the file is not needed.
        let asked = format!(
            "( umask 077; : >| {file} )\n( {script}\n) >| {file} 2>&1 </dev/null\n__c=$?; __n=$(( $(wc -c < {file}) ))\n\
             printf '%s %s ' \"$__c\" \"$__n\"; head -c {first} {file} | base64 | tr -d '\\n'\n\
             if [ \"$__n\" -le {first} ]; then rm -f {file}; fi"
        );
        let said = self.ask("/", &asked, None, cancel).await?;
        let mut parts = said.splitn(3, ' ');
        let (Some(code), Some(size), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(RemoteFileError::Failed(said));
        };
        let code = code.parse().map_err(|_| RemoteFileError::Failed(said.clone()))?;
        let mut bytes = base64::decode(text.trim()).ok_or_else(unreadable)?;
        if number(size)? > first as u64 {
            let rest = self.read(&file, first as u64, most.saturating_sub(first), cancel).await;
            self.remove(&file, &Cancel::new()).await?;
            bytes.extend(rest?);
        }
        Ok((bytes, code))
    }

    /// Returns at most `most` bytes beginning at `start`.
    pub async fn read(
        &self,
        path: &str,
        start: u64,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, RemoteFileError> {
        self.stream(path, "cat", start, most, cancel).await
    }

    /// Returns the lines from `first` to `last`, counted from 1, limited to `most` bytes.
    pub async fn lines(
        &self,
        path: &str,
        first: u64,
        last: u64,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, RemoteFileError> {
        let first = first.max(1);
        if last < first {
            return Ok(Vec::new());
        }
        self.stream(path, &format!("sed -n '{first},{last}p;{last}q'"), 0, most, cancel).await
    }

    /// Returns the number of line ends in a file.
    pub async fn line_count(&self, path: &str, cancel: &Cancel) -> Result<u64, RemoteFileError> {
        number(&self.ask(path, &format!("{CHECK}wc -l < \"$__p\""), None, cancel).await?)
    }

    /// Replaces the file, or creates it and its parent folders. A link stays a link, and the mode is kept.
    pub async fn write(&self, path: &str, bytes: &[u8], cancel: &Cancel) -> Result<(), RemoteFileError> {
        self.put(path, bytes, ("", ""), cancel).await.map(|_| ())
    }

    /// Replaces the file only if it holds `before`, where that is given; checks what was written, and returns
    /// the resulting state, with one command.
    pub async fn replace(
        &self,
        path: &str,
        before: Option<&[u8]>,
        bytes: &[u8],
        cancel: &Cancel,
    ) -> Result<RemotePathInfo, RemoteFileError> {
        let expected = before.map(checksum).map(|sum| {
            format!(
                "__c=$(cksum < \"$__p\" 2>/dev/null) && [ \"${{__c%% *}}\" != {sum} ] && exit {CHANGED}\n"
            )
        });
        // A link is followed during the write; its target is reported last.
        let told = format!("\n__b=$(cksum < \"$__p\" 2>/dev/null); __b=${{__b%% *}}\n{SURVEY}{TELL_SURVEY}");
        let said = self.put(path, bytes, (&expected.unwrap_or_default(), &told), cancel).await?;
        let (found, sum) = RemotePathInfo::read_with(&said)?;
        if !sum.is_empty() && sum != checksum(bytes).to_string() {
            return Err(RemoteFileError::NotKept);
        }
        Ok(RemotePathInfo { content: Some(bytes.to_vec()), ..found })
    }

    /// Writes a file that no other user of the environment may read.
    pub async fn write_private(
        &self,
        path: &str,
        bytes: &[u8],
        cancel: &Cancel,
    ) -> Result<(), RemoteFileError> {
        self.put(path, bytes, ("umask 077; rm -f -- \"$__p\"\n", ""), cancel).await.map(|_| ())
    }

    async fn put(
        &self,
        path: &str,
        bytes: &[u8],
        (before, after): (&str, &str),
        cancel: &Cancel,
    ) -> Result<String, RemoteFileError> {
        let script = format!(
            "{before}if [ -L \"$__p\" ]; then __p=$(readlink -f -- \"$__p\") || exit {DENIED}; fi\n\
             [ ! -d \"$__p\" ] || exit {FOLDER}\n\
             case $__p in */*) mkdir -p -- \"${{__p%/*}}/\" || exit {DENIED};; esac\n\
             __t=$__p.hermes-{}\n\
             if [ -e \"$__p\" ]; then [ -w \"$__p\" ] && cp -p -- \"$__p\" \"$__t\" || exit {DENIED}; fi\n\
             cat >| \"$__t\" || {{ rm -f -- \"$__t\"; exit {DENIED}; }}\n\
             if [ $(( $(wc -c < \"$__t\") )) -ne {} ]; then rm -f -- \"$__t\"; exit {CUT}; fi\n\
             sync \"$__t\" 2>/dev/null\n\
             mv -f -- \"$__t\" \"$__p\" || {{ rm -f -- \"$__t\"; exit {DENIED}; }}{after}",
            random_hex(8),
            bytes.len(),
        );
        self.ask(path, &script, Some(bytes), cancel).await
    }

    /// Creates the folder and its parents.
    pub async fn make_folder(&self, path: &str, cancel: &Cancel) -> Result<(), RemoteFileError> {
        self.ask(path, "mkdir -p -- \"$__p\"", None, cancel).await.map(|_| ())
    }

    /// Removes a file, not a folder.
    pub async fn remove(&self, path: &str, cancel: &Cancel) -> Result<(), RemoteFileError> {
        let script = "[ -e \"$__p\" ] || [ -L \"$__p\" ] || exit 44\nrm -f -- \"$__p\"";
        self.ask(path, script, None, cancel).await.map(|_| ())
    }

    /// Renames a path and creates the parent folders of the new one.
    pub async fn rename(&self, from: &str, to: &str, cancel: &Cancel) -> Result<(), RemoteFileError> {
        let script = format!(
            "[ -e \"$__p\" ] || exit {MISSING}\n__t={}\n[ ! -d \"$__t\" ] || exit {FOLDER}\n\
             case $__t in */*) mkdir -p -- \"${{__t%/*}}/\" || exit {DENIED};; esac\nmv -f -- \"$__p\" \"$__t\"",
            path_word(to)
        );
        self.ask(from, &script, None, cancel).await.map(|_| ())
    }

    /// Tells whether a program with this name exists.
    pub async fn has_program(&self, name: &str, cancel: &Cancel) -> Result<bool, RemoteFileError> {
        let finished = self.run(&format!("command -v {} >/dev/null 2>&1", quote(name)), None, cancel).await?;
        Ok(finished.exit_code == 0)
    }

    async fn stream(
        &self,
        path: &str,
        source: &str,
        start: u64,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, RemoteFileError> {
        let mut all = Vec::new();
        while all.len() < most {
            let want = self.piece.min(most - all.len());
            let from = start.saturating_add(all.len() as u64).saturating_add(1);
            // A file can be read from any offset; the lines of an output have to be found again.
            let cut = format!("tail -c +{from}");
            let pipe = if source == "cat" {
                format!("{cut} < \"$__p\"")
            } else {
                format!("{source} < \"$__p\" | {cut}")
            };
            let script = format!("{CHECK}{pipe} | head -c {want} | base64 | tr -d '\\n'");
            let piece =
                base64::decode(self.ask(path, &script, None, cancel).await?.trim()).ok_or_else(unreadable)?;
            all.extend_from_slice(&piece);
            if piece.len() < want {
                break;
            }
        }
        Ok(all)
    }

    async fn ask(
        &self,
        path: &str,
        script: &str,
        stdin: Option<&[u8]>,
        cancel: &Cancel,
    ) -> Result<String, RemoteFileError> {
        let CommandOutput { output, exit_code } =
            self.run(&format!("__p={}\n{script}", path_word(path)), stdin, cancel).await?;
        match exit_code {
            0 => Ok(output),
            MISSING => Err(RemoteFileError::Missing),
            FOLDER => Err(RemoteFileError::Folder),
            DENIED if output.trim().is_empty() || output.contains("Permission denied") => {
                Err(RemoteFileError::Denied)
            }
            CUT => Err(RemoteFileError::Cut),
            CHANGED => Err(RemoteFileError::Changed),
            TIMED_OUT | INTERRUPTED => Err(RemoteFileError::Stopped),
            _ => Err(RemoteFileError::Failed(output.trim().to_owned())),
        }
    }

    async fn run(
        &self,
        shell: &str,
        stdin: Option<&[u8]>,
        cancel: &Cancel,
    ) -> Result<CommandOutput, RemoteFileError> {
        let command = ShellCommand { shell, directory: None, stdin, timeout: LIMIT };
        Ok(self.environment.run(command, cancel).await?)
    }
}

impl RemotePathInfo {
    fn read(said: &str) -> Result<Self, RemoteFileError> {
        let (found, content) = Self::read_with(said)?;
        let decode = |text| base64::decode(text).ok_or_else(unreadable);
        Ok(Self { content: content.strip_prefix('=').map(decode).transpose()?, ..found })
    }

    /// Parses the response and returns the content of its third line too.
    fn read_with(said: &str) -> Result<(Self, &str), RemoteFileError> {
        let mut lines = said.splitn(4, '\n');
        let (Some(kind), Some(figures), Some(more), Some(real)) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(RemoteFileError::Failed(said.to_owned()));
        };
        let (size, modified) = figures.split_once(' ').unwrap_or((figures, ""));
        let look = match kind {
            "d" => RemotePathKind::Folder,
            "f" => RemotePathKind::File { size: number(size)? },
            "o" => RemotePathKind::Other,
            _ => RemotePathKind::Missing,
        };
        let modified = modified.parse().ok();
        Ok((Self { real: real.to_owned(), kind: look, modified, content: None }, more))
    }
}

/// Returns the checksum that the `cksum` program prints for these bytes.
fn checksum(bytes: &[u8]) -> u32 {
    let mut length = Vec::new();
    let mut rest = bytes.len();
    while rest > 0 {
        length.push(u8::try_from(rest & 0xff).unwrap_or_default());
        rest >>= 8;
    }
    let mut sum = 0_u32;
    for byte in bytes.iter().chain(&length) {
        sum ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            sum = if sum & 0x8000_0000 == 0 { sum << 1 } else { (sum << 1) ^ 0x04c1_1db7 };
        }
    }
    !sum
}

const CHECK: &str = "[ -e \"$__p\" ] || exit 44\n[ ! -d \"$__p\" ] || exit 45\n[ -r \"$__p\" ] || exit 46\n";

fn unreadable() -> RemoteFileError {
    RemoteFileError::Failed("the contents could not be read back; is there a base64 program?".to_owned())
}

fn number(text: &str) -> Result<u64, RemoteFileError> {
    text.trim().parse().map_err(|_| RemoteFileError::Failed(format!("{text:?} is no number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_program() {
        for (text, sum) in [("", 4_294_967_295), ("a", 1_220_704_766), ("hello\n", 3_015_617_425)] {
            assert_eq!(checksum(text.as_bytes()), sum, "{text:?}");
        }
    }
}
