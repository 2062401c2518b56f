//! The scripts that a remote shell runs.
//!
//! The module only produces text. A script and the command's input travel as one stream: the script, a NUL,
//! the input. The shell reads up to the NUL byte by byte, so that the command reads exactly its own input.

use std::fmt::Write as _;

use super::ForwardedVariables;
use crate::shell::quote;

/// The command with which every shell is started: it reads its script and evaluates it.
pub(crate) const LOADER: &str = r#"IFS= builtin read -r -d "" __hermes; builtin eval "$__hermes""#;

/// The marks of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrameMarks {
    pub(crate) begin: String,
    pub(crate) end: String,
}

impl FrameMarks {
    pub(crate) fn new(id: &str) -> Self {
        Self { begin: format!("__HERMES_RUN_{id}__"), end: format!("__HERMES_CWD_{id}__") }
    }
}

/// Selects the folder in which the command begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartFolder<'a> {
    /// The folder in which the last command ended, or its nearest existing parent.
    Last(&'a str),
    /// Exactly this folder; without it the command is not run.
    Given(&'a str),
}

/// Describes one call.
#[derive(Debug)]
pub(crate) struct ShellCall<'a> {
    pub(crate) command: &'a str,
    pub(crate) start: StartFolder<'a>,
    pub(crate) exports: &'a ForwardedVariables,
    /// The snapshot to read and to update.
    pub(crate) dump: Option<&'a str>,
    pub(crate) input: CallInput,
    pub(crate) input_end: InputEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallInput {
    None,
    Given { bytes: usize },
}

/// Selects when the stream that a shell reads ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputEnd {
    /// The stream ends with the command's input.
    Known,
    /// The stream ends when the local client is gone, and the command is ended then.
    WithUs,
}

/// Returns the stream that a shell started with [`LOADER`] reads.
pub(crate) fn payload(script: &str, stdin: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = script.as_bytes().to_vec();
    bytes.push(0);
    bytes.extend_from_slice(stdin.unwrap_or_default());
    bytes
}

/// Returns a script that saves the state of a login shell: functions, aliases, options and exports.
pub(crate) fn dump_script(dump: &str, exports: &ForwardedVariables, marks: &FrameMarks) -> String {
    format!(
        "builtin unset __hermes\n{}\n{}\n{FORGET_GROUP}\n\
         umask 077\n\
         if [ -r ~/.bashrc ]; then . ~/.bashrc; fi </dev/null >/dev/null 2>&1\n\
         {{ declare -F | while read -r _ _ name; do case $name in _[!_]*) ;; *) declare -f -- \"$name\";; esac; done\n\
         alias -p\n\
         shopt -p\n\
         echo 'shopt -s expand_aliases'; }} >| {dump}.sh 2>/dev/null\n\
         export -p >| {dump}.new && command mv -f {dump}.new {dump}.env\n\
         __hermes_code=$?\n\
         builtin printf '\\n{end}%s:%s{end}\\n' \"$__hermes_code\" /",
        export_lines(exports),
        begin_script(marks),
        end = marks.end,
    )
}

pub(crate) fn call_script(call: &ShellCall<'_>, marks: &FrameMarks, id: &str) -> String {
    let ShellCall { command, start, exports, dump, input, input_end } = call;
    let mut text = format!("builtin unset __hermes\n{}\n", export_lines(exports));
    let renew = match dump {
        Some(dump) => {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{{ . {dump}.sh; . {dump}.env; }} 2>/dev/null");
            format!(
                "( umask 077; export -p >| {dump}.{id} && command mv -f {dump}.{id} {dump}.env ) 2>/dev/null; "
            )
        }
        None => String::new(),
    };
    let end = &marks.end;
    let (enter, unset) = match start {
        StartFolder::Given(folder) => {
            (format!("builtin cd -- {} || builtin exit 126", path_word(folder)), "")
        }
        StartFolder::Last(folder) => (
            format!(
                "__hermes_dir={}\n\
                 until builtin cd -- \"$__hermes_dir\" 2>/dev/null; do case $__hermes_dir in \
                 /?*/*) __hermes_dir=${{__hermes_dir%/*}};; *) builtin cd /; break;; esac; done",
                path_word(folder)
            ),
            "builtin unset __hermes_dir\n",
        ),
    };
    let from = if *input == CallInput::None { " </dev/null" } else { "" };
    let (watch, unwatch) = match input_end {
        InputEnd::Known => (String::new(), ""),
        InputEnd::WithUs => (watch(*input), UNWATCH),
    };
    // The trap handles a command that exits the shell by itself. The command is evaluated as a whole, so that
    // a heredoc or a comment at its end cannot affect the lines after it.
    let _ = write!(
        text,
        "__hermes_end() {{ builtin trap - EXIT; {unwatch}{renew}\
         builtin printf '\\n{end}%s:%s{end}\\n' \"$1\" \"$PWD\"; builtin exit \"$1\"; }}\n\
         builtin trap '__hermes_end $?' EXIT\n{}\n{watch}{FORGET_GROUP}\n{enter}\n{unset}eval {}{from}\n__hermes_end $?",
        begin_script(marks),
        quote(command),
    );
    text
}

pub(crate) fn end_group_script(group: u32) -> String {
    format!(
        "kill -TERM -- -{group} 2>/dev/null; kill -CONT -- -{group} 2>/dev/null\n\
         for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 -- -{group} 2>/dev/null || exit 0; sleep 0.1; done\n\
         kill -KILL -- -{group} 2>/dev/null"
    )
}

pub(crate) fn remove_dump_script(dump: &str) -> String {
    format!("rm -f -- {dump}.sh {dump}.env {dump}.new")
}

/// Returns the path as a shell word in which `~` and `~user` are expanded.
pub(crate) fn path_word(path: &str) -> String {
    let Some(rest) = path.strip_prefix('~') else { return quote(path) };
    let (user, below) = rest.split_once('/').map_or((rest, None), |(user, below)| (user, Some(below)));
    if !user.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')) {
        return quote(path);
    }
    match below {
        None => format!("~{user}"),
        Some("") => format!("~{user}/"),
        Some(below) => format!("~{user}/{}", quote(below)),
    }
}

/// Returns the lines that report the start of the shell and its process group. Both outputs are merged in the
/// remote shell, so that they arrive in the order in which they were written.
fn begin_script(marks: &FrameMarks) -> String {
    let mark = &marks.begin;
    format!(
        "exec 2>&1\n\
         __hermes_group=\n\
         {{ builtin read -r _ _ _ _ __hermes_group _ </proc/self/stat; }} 2>/dev/null\n\
         __hermes_group=${{__hermes_group:-$$}}\n\
         builtin printf '\\n{mark}%s{mark}\\n' \"$__hermes_group\""
    )
}

const FORGET_GROUP: &str = "builtin unset __hermes_group";
const UNWATCH: &str = "builtin kill -KILL \"$__hermes_watch\" 2>/dev/null; ";

/// Returns the lines that start a remote process which ends the command's group when the stream that the
/// shell reads ends, because then no local process is left to do so. It is not a child of the shell, whose
/// `wait` would wait for it, and it has a group of its own through job control. Its pid is reported, so that
/// it is ended with the command. The command's own input passes through it.
fn watch(input: CallInput) -> String {
    const END: &str = "[ \"$__hermes_group\" -le 1 ] || builtin kill -KILL -- \"-$__hermes_group\"";
    match input {
        CallInput::None => format!(
            "__hermes_watch=$( set -m; {{ builtin printf %s \"$BASHPID\" >&3; exec 3>&-; \
             while IFS= builtin read -r __hermes_line; do :; done; {END}; }} 3>&1 <&0 >/dev/null 2>&1 & )\n"
        ),
        CallInput::Given { bytes } => format!(
            "exec 0< <( set -m; {{ builtin printf '%s\\n' \"$BASHPID\"; command head -c {bytes}; exec >/dev/null; command cat; \
             {END}; }} <&0 2>/dev/null & )\n\
             IFS= builtin read -r __hermes_watch\n"
        ),
    }
}

fn export_lines(exports: &ForwardedVariables) -> String {
    let lines: Vec<String> =
        exports.pairs().map(|(name, value)| format!("builtin export {name}={}", quote(value))).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_its_tilde_and_loses_its_edge() {
        for (path, word) in [
            ("/a b", "'/a b'"),
            ("~", "~"),
            ("~/", "~/"),
            ("~/it's", r"~/'it'\''s'"),
            ("~bob/x", "~bob/'x'"),
            ("~$(reboot)/x", "'~$(reboot)/x'"),
            ("-x", "'-x'"),
        ] {
            assert_eq!(path_word(path), word);
        }
    }
}
