//! Snapshots of a shell's state: exports, functions, aliases, options.
//!
//! One login shell runs once; every call then starts a bare bash that reads the snapshot, which is much
//! faster and has the same result. Each task has exports of its own, so one task cannot change another's. The
//! files are private and are removed with their owner.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hermes_types::random_hex;

use crate::shell::quote;
use crate::watchdog::remove_on_exit;

/// The length from which a command is passed through a file: one argument of a program may not be longer than
/// 128 KiB.
const LONGEST_ARGUMENT: usize = 100_000;

const LONGEST_EXPORTS: u64 = 4 * 1024 * 1024;

/// The snapshot files, which are removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct ShellSnapshot {
    /// The common beginning of the paths of the files.
    base: PathBuf,
    /// The folder in which a call leaves its new state; commands may write there.
    open: PathBuf,
    /// The lines with which the script of every call begins.
    prelude: String,
}

impl ShellSnapshot {
    /// Creates a snapshot with files in `folder`; calls leave their new state in `open`.
    pub(crate) fn new(folder: &Path, open: &Path) -> Self {
        Self { base: remove_on_exit(folder, "hermes-snap-"), open: open.to_owned(), prelude: String::new() }
    }

    /// Makes every call export these variables where they are not set.
    #[must_use]
    pub(crate) fn with_exports(mut self, variables: &[(&'static str, String)]) -> Self {
        let one = |(name, value): &(&str, String)| {
            format!("[ -n \"${{{name}+x}}\" ] || export {name}={}\n", quote(value))
        };
        self.prelude = variables.iter().map(one).collect();
        self
    }

    /// Makes every call add these options to a variable that does not contain them yet.
    #[must_use]
    pub(crate) fn adding(mut self, options: &[(&'static str, String, String)]) -> Self {
        let one = |(name, shown, option): &(&str, String, String)| {
            format!(
                "case \"${name}\" in *{}*) ;; *) export {name}=\"${{{name}:+${name} }}\"{} ;; esac\n",
                quote(shown),
                quote(option)
            )
        };
        self.prelude.extend(options.iter().map(one));
        self
    }

    fn file(&self, ending: &str) -> PathBuf {
        let mut path = self.base.clone().into_os_string();
        path.push(format!(".{ending}"));
        path.into()
    }

    /// Returns the path of the file with functions, aliases and options.
    fn definitions(&self) -> PathBuf {
        self.file("sh")
    }

    fn exports(&self) -> PathBuf {
        self.file("env")
    }

    /// Returns the script with which a login shell fills both files.
    pub(crate) fn fill_script(&self, path: &str) -> String {
        Self::dump_script(path, &shell_path(&self.definitions()), &shell_path(&self.exports()))
    }

    /// Writes both files.
    pub(crate) fn fill(&self, definitions: &[u8], exports: &[u8]) -> io::Result<()> {
        write_private(&self.definitions(), definitions)?;
        write_private(&self.exports(), exports)
    }

    /// Returns the script with which a login shell fills two files. Folders of the user's own path that the
    /// login shell's path lacks come first, each folder once.
    pub(crate) fn dump_script(path: &str, definitions: &str, exports: &str) -> String {
        let given = quote(path);
        format!(
            "umask 077\n\
             if [ -r ~/.bashrc ]; then . ~/.bashrc; fi </dev/null >/dev/null 2>&1\n\
             __more= __ifs=$IFS IFS=:\n\
             for __one in {given}; do case :$PATH: in *\":$__one:\"*) ;; *) __more=$__more$__one:;; esac; done\n\
             __all=$__more$PATH __path=\n\
             for __one in $__all; do case :$__path: in *\":$__one:\"*) ;; *) __path=$__path:$__one;; esac; done\n\
             IFS=$__ifs; export PATH=${{__path#:}}; unset __more __one __ifs __all __path\n\
             {{ declare -F | while read -r _ _ name; do case $name in _[!_]*) ;; *) declare -f -- \"$name\";; esac; done\n\
             alias -p\n\
             shopt -p\n\
             echo 'shopt -s expand_aliases'; }} >| {definitions} 2>/dev/null\n\
             export -p >| {exports}"
        )
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.definitions().is_file() && self.exports().is_file()
    }

    /// Returns a copy that a task may change.
    pub(crate) fn fork(&self) -> io::Result<Self> {
        let copy = Self::new(self.base.parent().unwrap_or(Path::new("/")), &self.open);
        for (from, to) in [(self.definitions(), copy.definitions()), (self.exports(), copy.exports())] {
            fs::copy(from, to)?;
        }
        Ok(copy)
    }

    /// Returns the script of one call, with the files it leaves.
    pub(crate) fn call(&self, command: &str, directory: &Path) -> io::Result<CallScript> {
        let id = random_hex(12);
        let new_exports = remove_on_exit(&self.open, "hermes-snap-");
        let (text, file) = self.eval(command, &id)?;
        let mark = format!("__HERMES_CWD_{id}__");
        let script = format!(
            "{}\nbuiltin cd -- {} || exit 126\n{text}\n__hermes_code=$?\n\
             {{ builtin umask 077; builtin export -p >| {}; }} 2>/dev/null\n\
             builtin printf '\\n{mark}%s{mark}\\n' \"$PWD\"\nbuiltin exit $__hermes_code",
            self.source_lines(),
            shell_path(directory),
            shell_path(&new_exports),
        );
        Ok(CallScript { script, mark, new_exports, exports: self.exports(), file })
    }

    /// Returns the script of a background process, which leaves nothing for later calls.
    pub(crate) fn background(&self, command: &str, directory: &Path) -> io::Result<CallScript> {
        let id = random_hex(12);
        let (text, file) = self.eval(command, &id)?;
        let script =
            format!("{}\nbuiltin cd -- {} || exit 126\n{text}", self.source_lines(), shell_path(directory));
        let nowhere = self.file(&id);
        Ok(CallScript { script, mark: String::new(), new_exports: nowhere, exports: self.exports(), file })
    }

    fn source_lines(&self) -> String {
        let (definitions, exports) = (shell_path(&self.definitions()), shell_path(&self.exports()));
        format!("{{ . {definitions}; . {exports}; }} 2>/dev/null\n{}", self.prelude)
    }

    /// Returns a line that evaluates the command as a whole, so that a heredoc or a comment at its end cannot
    /// affect the lines after it.
    fn eval(&self, command: &str, id: &str) -> io::Result<(String, Option<PathBuf>)> {
        if command.len() <= LONGEST_ARGUMENT {
            return Ok((format!("eval {}", quote(command)), None));
        }
        let file = self.file(&format!("{id}.cmd"));
        write_private(&file, command.as_bytes())?;
        Ok((format!("eval \"$(<{})\"", shell_path(&file)), Some(file)))
    }
}

impl Drop for ShellSnapshot {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.definitions());
        let _ = fs::remove_file(self.exports());
    }
}

/// The script of one call. Its files are removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct CallScript {
    pub(crate) script: String,
    mark: String,
    new_exports: PathBuf,
    exports: PathBuf,
    file: Option<PathBuf>,
}

impl CallScript {
    pub(crate) fn without_files(script: String, mark: String) -> Self {
        Self { script, mark, new_exports: PathBuf::new(), exports: PathBuf::new(), file: None }
    }

    /// Returns the texts before and after the working folder at the end of the output.
    pub(crate) fn mark(&self) -> (String, String) {
        (format!("\n{}", self.mark), format!("{}\n", self.mark))
    }

    /// Makes the exports of a completed script apply to later calls.
    pub(crate) fn persist_exports(&self) {
        let Some(exports) = read_plain(&self.new_exports).filter(|exports| !exports.is_empty()) else {
            return;
        };
        let beside = self.exports.with_extension("new");
        let _ = fs::remove_file(&beside);
        if write_private(&beside, &exports).is_ok() {
            let _ = fs::rename(&beside, &self.exports);
        }
    }
}

impl Drop for CallScript {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.new_exports);
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
    }
}

fn shell_path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

/// Reads a regular file that a command left. A link is refused, because it could lead to a file that the
/// command cannot read itself.
fn read_plain(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_EXPORTS).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}
