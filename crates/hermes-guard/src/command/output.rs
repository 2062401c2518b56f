//! The text that a command passes to a shell, as far as the command shows it.

use super::effects::{CommandEffects, printed_text};
use super::shell::{PipelineStage, ShellScript};
use super::unwrap::{is_inert, program};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShellOutput {
    /// The text is known.
    Text(String),
    /// A script that could as well be run by its name, or a program's output that sets up the shell.
    Usual,
    /// The text cannot be determined.
    Unknown,
}

/// Programs that print settings for the shell.
const SET_UP: &[&str] = &[
    "ssh-agent",
    "gpg-agent",
    "dircolors",
    "gdircolors",
    "keychain",
    "lesspipe",
    "lesspipe.sh",
    "resize",
    "direnv",
    "starship",
    "zoxide",
    "fnm",
    "thefuck",
    "register-python-argcomplete",
    "pyenv",
    "rbenv",
    "nodenv",
    "goenv",
];
/// The arguments that make other programs print such settings.
const SET_UP_WORDS: &[&str] = &[
    "init",
    "signin",
    "hook",
    "shellenv",
    "env",
    "activate",
    "docker-env",
    "podman-env",
    "completion",
    "completions",
    "complete",
    "--completion",
    "generate-completion",
    "export",
    "print-env",
    "path",
    "--alias",
    "shell-init",
    "export-credentials",
];
const SCRIPT_ENDINGS: &[&str] = &[".sh", ".bash", ".zsh", ".ksh", ".fish"];

impl ShellOutput {
    pub(super) fn of_script(script: &ShellScript, memory: &CommandEffects) -> Self {
        let stage = script.pipelines.last().and_then(|pipeline| pipeline.stages.last());
        stage.map_or(Self::Usual, |stage| Self::of(stage, memory))
    }

    pub(super) fn of(stage: &PipelineStage, memory: &CommandEffects) -> Self {
        if let Some(text) = printed_text(stage, None) {
            // The text consists of variables that only the shell knows.
            let values: Vec<&str> = text.split_whitespace().collect();
            let unseen = !values.is_empty() && values.iter().all(|value| value.starts_with('$'));
            return if unseen { Self::Unknown } else { Self::Text(text) };
        }
        let Some((first, rest)) = stage.words.split_first() else { return Self::Usual };
        let name = program(first);
        let names: Vec<&str> =
            rest.iter().map(|word| word.text.as_str()).filter(|text| !text.starts_with('-')).collect();
        // A file may have the name of one of these words.
        let asked_to = (!is_inert(&name) || name == "gh")
            && rest.iter().any(|word| SET_UP_WORDS.contains(&word.text.as_str()));
        let sets_up = asked_to
            || SET_UP.contains(&name.as_str())
            || stage.assignments.iter().any(|word| word.text.contains("_COMPLETE="));
        let is_script = |file: &&str| {
            memory.is_written(file) || SCRIPT_ENDINGS.iter().any(|ending| file.ends_with(ending))
        };
        match name.as_str() {
            "cat" | "tee" if !names.is_empty() && names.iter().all(is_script) => Self::Usual,
            "true" | ":" | "done" | "fi" => Self::Usual,
            _ if sets_up => Self::Usual,
            _ => Self::Unknown,
        }
    }
}
