//! Data that goes through pipes, here-documents and `>(…)`, and what the receiving commands do with it.

use super::argv::Argv;
use super::rule::{is_interpreter, is_sql_client};
use super::shell::{Direction, PipelineStage, ShellScript, ShellVariables, ShellWord, Substitution, read};
use super::unwrap::{
    ExecutedItem, InvocationKind, is_shell, remote_words, runs_marked, script_file, shell_text, unwrap,
};

/// The nesting depth up to which the reader of an input is searched for.
const DEEPEST: usize = 3;

/// The state of all stages so far in a pipeline or a script. Each stage is examined once, or a text of pipes would
/// take quadratic time.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) fetches: bool,
    pub(super) decodes: bool,
    pub(super) prints_secrets: bool,
    /// The number of stages, or pipelines, that have been passed on.
    pub(super) seen: usize,
}

/// The use that a command makes of its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Consumer {
    /// A shell runs it, locally or remotely.
    Shell(InvocationKind),
    Code,
    /// A program with its own language: a database, an editor, a debugger.
    Named(String),
    Other,
}

impl Consumer {
    pub(super) fn of(stage: &PipelineStage) -> Self {
        Self::within(stage, 0)
    }

    fn within(stage: &PipelineStage, depth: usize) -> Self {
        if depth > DEEPEST {
            return Self::Other;
        }
        if let Some(sink) = sinks(stage).next() {
            return Self::first_of(sink, depth + 1);
        }
        if let Some(body) = &stage.body {
            return Self::first_of(body, depth + 1);
        }
        let mut found = Self::Other;
        for run in unwrap(&stage.words) {
            match run {
                ExecutedItem::Command { words, via } => {
                    let Some(argv) = Argv::of(&words, via) else { continue };
                    if reads_input(&argv) {
                        let elsewhere = argv.name == "ssh" || via == InvocationKind::Remote;
                        let via = if elsewhere { InvocationKind::Remote } else { InvocationKind::Directly };
                        return if is_code(&argv.name) { Self::Code } else { Self::Shell(via) };
                    }
                    if acts_on_text(&argv.name) {
                        found = Self::Named(argv.name);
                    }
                }
                // `ssh host 'bash -s'`: the input goes to the command that the text starts.
                ExecutedItem::Text { word, via } => {
                    match Self::first_of(&read(&word.text, &ShellVariables::default()), depth + 1) {
                        Self::Other => {}
                        Self::Shell(_) => return Self::Shell(via),
                        inner => found = inner,
                    }
                }
                ExecutedItem::MaybeCommand(_) | ExecutedItem::MaybeText(_) => {}
            }
        }
        found
    }

    /// Returns the consumer of a whole script's input: the first of its pipelines that uses it.
    fn first_of(script: &ShellScript, depth: usize) -> Self {
        let stages = script.pipelines.iter().filter_map(|pipeline| pipeline.stages.first());
        stages
            .map(|stage| Self::within(stage, depth))
            .find(|found| *found != Self::Other)
            .unwrap_or(Self::Other)
    }
}

/// Returns the scripts of `>(…)` that a command writes to.
fn sinks(stage: &PipelineStage) -> impl Iterator<Item = &ShellScript> {
    let targets = stage.redirects.iter().map(|redirect| &redirect.target);
    let inner = stage.words.iter().chain(targets).flat_map(|word| &word.inner);
    inner.filter(|inner| inner.kind == Substitution::Sink).map(|inner| &inner.script)
}

pub(super) fn has_sink(stage: &PipelineStage) -> bool {
    sinks(stage).next().is_some()
}

/// Returns the texts of here-documents and here-strings.
pub(super) fn here_texts(stage: &PipelineStage) -> impl Iterator<Item = &ShellWord> {
    stage
        .redirects
        .iter()
        .filter(|redirect| redirect.direction == Direction::Text)
        .map(|redirect| &redirect.target)
}

fn is_code(name: &str) -> bool {
    is_interpreter(name) || matches!(name, "awk" | "gawk" | "mawk")
}

fn acts_on_text(name: &str) -> bool {
    is_sql_client(name) || runs_marked(name) || matches!(name, "redis-cli" | "make" | "gmake")
}

/// Tells whether a program runs code from its input.
fn reads_input(argv: &Argv<'_>) -> bool {
    let name = argv.name.as_str();
    if is_shell(name) {
        let text = shell_text(argv.args);
        let filled_in = argv.via == InvocationKind::Xargs
            && text.is_none_or(|text| text.text.trim_start().starts_with("{}"));
        return filled_in || text.is_none() && script_file(argv.args).is_none_or(|file| is_input(&file.text));
    }
    match name {
        "source" | "." => is_input(argv.word(0)),
        "at" | "batch" => !["-f", "-l", "-c", "-d", "-r"].iter().any(|option| argv.has(option)),
        "su" => !argv.has("-c") && !argv.has("--command"),
        "nix-shell" => !argv.has("--run") && !argv.has("--command"),
        "ssh" => remote_words(name, argv.args).is_empty() && !argv.has_letter('N'),
        "awk" | "gawk" | "mawk" => argv.texts().zip(argv.texts().skip(1)).any(|pair| pair == ("-f", "-")),
        _ => {
            is_interpreter(name)
                && argv.texts().all(|text| text == "-" || matches!(text, "-u" | "-s" | "-I" | "-B" | "-q"))
        }
    }
}

fn is_input(file: &str) -> bool {
    matches!(file, "/dev/stdin" | "-" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// Returns every program that a stage runs.
fn programs(stage: &PipelineStage) -> Vec<(String, Vec<String>)> {
    let runs = unwrap(&stage.words).into_iter();
    runs.filter_map(|run| match run {
        ExecutedItem::Command { words, via } => {
            let argv = Argv::of(&words, via)?;
            Some((argv.name.clone(), argv.texts().map(str::to_owned).collect()))
        }
        ExecutedItem::Text { .. } | ExecutedItem::MaybeCommand(_) | ExecutedItem::MaybeText(_) => None,
    })
    .collect()
}

pub(super) fn stage_fetches(stage: &PipelineStage) -> bool {
    let here = programs(stage).iter().any(|(name, _)| {
        matches!(name.as_str(), "curl" | "wget" | "fetch" | "http" | "https" | "aria2c" | "lynx")
    });
    let within = stage.words.iter().flat_map(|word| &word.inner).any(|inner| fetches(&inner.script));
    here || within || stage.body.as_ref().is_some_and(fetches)
}

pub(super) fn fetches(script: &ShellScript) -> bool {
    script.stages().any(stage_fetches)
}

pub(super) fn decodes(stage: &PipelineStage) -> bool {
    programs(stage).iter().any(|(name, args)| {
        let has = |wanted: &[&str]| args.iter().any(|arg| wanted.contains(&arg.as_str()));
        match name.as_str() {
            "base64" | "base32" | "gbase64" => has(&["-d", "-D", "--decode", "-di"]),
            "xxd" => args.iter().any(|arg| arg.starts_with('-') && arg.contains('r')),
            "openssl" => has(&["-d", "base64"]),
            "tr" | "rev" | "gunzip" | "zcat" | "gzip" | "uudecode" => true,
            _ => false,
        }
    })
}
