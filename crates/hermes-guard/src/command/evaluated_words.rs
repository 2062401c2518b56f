//! Words that bash evaluates although they look like plain text.
//!
//! Where bash expects a number or the name of a variable it evaluates its argument, and an index in it may contain
//! a command: `test -v 'a[$(…)]'`. A shell runs the value of some variables, or reads it as a program, when it
//! starts.

use super::argv::Argv;
use super::judge::CommandJudge;
use super::shell::{PipelineStage, ShellWord, Substitution, substitutions};

/// Builtins that take names of variables, or numbers.
const COMPUTE: &[&str] = &[
    "[",
    "[[",
    "test",
    "let",
    "printf",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
    "read",
    "mapfile",
    "readarray",
    "wait",
    "getopts",
    "shift",
    "exit",
    "return",
    "break",
    "continue",
    "ulimit",
    "umask",
    "((",
    "history",
    "fc",
    "kill",
    "jobs",
    "suspend",
    "compgen",
    "complete",
];

/// Variables whose value is the name of a file that a shell runs when it starts.
const START_UP: &[&str] = &["BASH_ENV", "ENV"];

impl CommandJudge {
    /// Judges what a builtin runs while it evaluates its words.
    pub(super) fn judge_evaluated_words(&mut self, argv: &Argv<'_>) {
        if !COMPUTE.contains(&argv.name.as_str()) {
            return;
        }
        for word in argv.args {
            self.judge_index(&word.text);
        }
        if matches!(argv.name.as_str(), "compgen" | "complete") {
            for (option, value) in argv.args.iter().zip(argv.args.iter().skip(1)) {
                match option.text.as_str() {
                    "-W" => self.judge_substitutions(&value.text),
                    "-C" | "-F" => self.judge_text(&value.text),
                    _ => {}
                }
            }
        }
        if matches!(argv.name.as_str(), "mapfile" | "readarray") {
            let called =
                argv.args.iter().zip(argv.args.iter().skip(1)).find(|(option, _)| option.text == "-C");
            if let Some((_, callback)) = called {
                self.judge_text(&callback.text);
            }
        }
    }

    /// Judges what setting a variable may run, now or when a shell starts.
    pub(super) fn set_variable(&mut self, name: &str, word: &ShellWord, stage: &PipelineStage) {
        let value = word.text.split_once('=').map_or("", |(_, value)| value);
        self.judge_index(name);
        self.judge_index(value);
        if START_UP.contains(&name) {
            self.judge_substitutions(value);
            let files = word.inner.iter().filter(|inner| inner.kind == Substitution::File);
            for inner in files {
                self.judge_script_output(&inner.script);
            }
            if let Some(text) = self.effects.take_written(value) {
                self.judge_text(&text);
            }
        }
        // A function exported through the environment.
        if name.starts_with("BASH_FUNC_")
            && let Some(body) = value.trim_start().strip_prefix("()")
        {
            self.judge_text_via(&ShellWord::plain(body), super::unwrap::InvocationKind::Directly, stage);
        }
        // The table of aliases, and that of the programs found so far.
        if name.starts_with("BASH_ALIASES[") || name.starts_with("BASH_CMDS[") {
            self.judge_text(value);
        }
    }

    /// Judges the commands within an index: `name[$(…)]`.
    fn judge_index(&mut self, text: &str) {
        if let Some((_, index)) = text.split_once('[')
            && (index.contains("$(") || index.contains('`'))
        {
            self.judge_substitutions(index);
        }
    }

    fn judge_substitutions(&mut self, text: &str) {
        for script in substitutions(text) {
            self.judge_script(&script);
        }
    }
}
