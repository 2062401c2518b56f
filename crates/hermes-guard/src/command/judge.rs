//! Going through everything a command leads to.

use std::collections::HashSet;

use hermes_types::Danger;

use super::Judgement;
use super::argv::Argv;
use super::flow::{Consumer, Flow, here_texts};
use super::memory::Memory;
use super::output::Output;
use super::rule::{
    Finding, OUTSIDE, check, check_setting, is_grave, is_interpreter, is_run_by_name, opens_shell,
    redirected, runs_gateway, sends_given, tells_secrets,
};
use super::shell::{Direction, Script, Stage, Substitution, Variables, Word, read};
use super::unwrap::{Run, Via, is_shell, only_talks, program, script_file, text_in, unwrap};

const DEEPEST: usize = 16;
const TOO_DEEP: &str = "command nested too deeply to check";
const AMBIGUOUS: &str = "shell syntax that can be read in two ways";
pub(super) const UNSEEN: &str = "shell command via -c/-lc flag";
pub(super) const REMOTE: &str = "pipe remote content to shell";
pub(super) const REMOTE_FILE: &str = "execute remote script via process substitution";
pub(super) const DECODED: &str = "decoded content piped to shell";
pub(super) const HEREDOC: &str = "script execution via heredoc";
pub(super) const SENT: &str = "send secrets away";

/// How sure it is that what is judged will be run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    #[default]
    Sure,
    Guess,
}

/// Collects what speaks against a command.
#[derive(Debug, Default)]
pub(super) struct Judge {
    dangers: Vec<Danger>,
    denied: Option<Danger>,
    pub(super) memory: Memory,
    pub(super) functions: HashSet<String>,
    /// What names are known to stand for; a text that is run knows them too.
    variables: Variables,
    depth: usize,
    /// The words of commands that are surely run.
    pub(super) executed: Vec<Vec<Option<String>>>,
    /// Whether what is read now runs on another machine or in a container.
    pub(super) elsewhere: bool,
    certainty: Certainty,
}

impl Judge {
    pub(super) fn finish(self) -> Judgement {
        match (self.denied, self.dangers) {
            (Some(danger), _) => Judgement::Deny(danger),
            (None, dangers) if dangers.is_empty() => Judgement::Allow,
            (None, dangers) => Judgement::Ask(dangers),
        }
    }

    /// Tells whether everything could be read in one way.
    pub(super) fn is_certain(&self) -> bool {
        !self.dangers.iter().any(|danger| matches!(danger.key.as_str(), TOO_DEEP | AMBIGUOUS))
    }

    /// A text a shell would read.
    pub(super) fn text(&mut self, text: &str) {
        if self.depth > DEEPEST {
            return self.add(Finding::Ask(TOO_DEEP), "");
        }
        self.depth += 1;
        let script = read(text, &self.variables);
        self.variables = script.variables.clone();
        if script.too_deep {
            self.add(Finding::Ask(TOO_DEEP), "");
        }
        if script.ambiguous {
            self.add(Finding::Ask(AMBIGUOUS), "");
        }
        self.functions.extend(script.functions.iter().cloned());
        self.script(&script);
        self.depth -= 1;
    }

    pub(super) fn add(&mut self, finding: Finding, shown: &str) {
        let (key, denied) = match finding {
            Finding::Ask(key) => (key, false),
            Finding::Deny(key) => (key, true),
        };
        let reason = if shown.is_empty() { key.to_owned() } else { format!("{key}: {shown}") };
        let danger = Danger { key: key.to_owned(), reason };
        if denied {
            self.denied.get_or_insert(danger);
        } else {
            self.push(danger);
        }
    }

    fn push(&mut self, danger: Danger) {
        if self.dangers.iter().all(|known| known.key != danger.key) {
            self.dangers.push(danger);
        }
    }

    /// Judges what may be run. Only what is grave counts, and a guess never forbids.
    fn perhaps(&mut self, judged: impl FnOnce(&mut Self)) {
        if self.certainty == Certainty::Guess {
            return;
        }
        let mut guess = Self {
            depth: self.depth + 1,
            certainty: Certainty::Guess,
            variables: self.variables.clone(),
            ..Self::default()
        };
        judged(&mut guess);
        let found = guess.dangers.into_iter().chain(guess.denied);
        for danger in found.filter(|danger| is_grave(&danger.key)) {
            self.push(danger);
        }
    }

    pub(super) fn perhaps_text(&mut self, text: &str) {
        self.perhaps(|guess| guess.text(text));
    }

    pub(super) fn script(&mut self, script: &Script) {
        let mut flow = Flow::default();
        for (at, pipeline) in script.pipelines.iter().enumerate() {
            for (at, stage) in pipeline.stages.iter().enumerate() {
                let before = at.checked_sub(1).and_then(|at| pipeline.stages.get(at));
                self.stage(stage, before);
            }
            self.pipeline(pipeline, script.pipelines.get(..at).unwrap_or_default(), &mut flow);
        }
        if runs_what_it_reads(script) || runs_its_input(script) {
            let groups = script.stages().filter(|stage| stage.words.is_empty());
            let texts: Vec<&Word> = groups.flat_map(here_texts).collect();
            for text in texts {
                self.text(&text.text);
            }
        }
        let disowns = |stage: &Stage| stage.words.first().is_some_and(|word| word.text == "disown");
        if script.stages().any(disowns) && script.stages().any(starts_gateway) {
            self.add(Finding::Ask(OUTSIDE), "");
        }
    }

    fn stage(&mut self, stage: &Stage, before: Option<&Stage>) {
        let targets = stage.redirects.iter().map(|redirect| &redirect.target);
        for word in stage.words.iter().chain(&stage.assignments).chain(targets) {
            for inner in &word.inner {
                self.script(&inner.script);
            }
        }
        self.files(stage);
        if let Some(body) = &stage.body {
            self.script(body);
        }
        self.redirects(stage);
        self.settings(stage);
        self.words(&stage.words, stage);
        if let Some(words) = self.memory.real_words(&stage.words) {
            self.words(&words, stage);
        }
        self.inputs(stage);
        self.memory.note(stage, before);
    }

    /// `program <(…)`: a program that is not known may run what it is given as a file.
    fn files(&mut self, stage: &Stage) {
        let Some((first, rest)) = stage.words.split_first() else { return };
        let files = rest.iter().flat_map(|word| &word.inner).filter(|inner| inner.kind == Substitution::File);
        for inner in files.filter(|_| !only_talks(&program(first))) {
            if let Output::Text(text) = Output::of_script(&inner.script, &self.memory) {
                self.consumed(&Consumer::Named(program(first)), &Word::plain(text.as_str()), stage);
                self.perhaps_text(&text);
            }
        }
    }

    fn redirects(&mut self, stage: &Stage) {
        for redirect in &stage.redirects {
            if redirect.direction == Direction::Out
                && let Some(finding) = redirected(&redirect.target.text)
            {
                self.add(finding, &format!("> {}", redirect.target.text));
            }
            if let Some(finding) = opens_shell(stage, redirect) {
                self.add(finding, &redirect.target.text);
            }
        }
    }

    /// Names set for a command, and those that are run wherever they are set.
    fn settings(&mut self, stage: &Stage) {
        let named = stage.words.first().map(|word| word.text.as_str());
        let exported = matches!(named, Some("export" | "declare" | "typeset" | "env" | "sudo" | "doas"));
        let words = stage.words.iter().skip(1).filter(|_| exported);
        for word in stage.assignments.iter().chain(words) {
            let Some((name, value)) = word.text.split_once('=') else { continue };
            if let Some(finding) = check_setting(name, value) {
                self.add(finding, &word.text);
            }
            self.set_variable(name, word, stage);
            let for_command = named.is_some() && !exported;
            if let Some(text) = text_in(value).filter(|_| for_command || is_run_by_name(name)) {
                self.perhaps_text(text);
            }
        }
    }

    fn words(&mut self, words: &[Word], stage: &Stage) {
        for run in unwrap(words) {
            match run {
                Run::Command { words, via } => {
                    let via = if self.elsewhere && via == Via::Directly { Via::Elsewhere } else { via };
                    if let Some(argv) = Argv::of(&words, via) {
                        self.command(&argv, &words, stage);
                    }
                }
                Run::Text { word, via } => self.given_via(&word, via, stage),
                Run::MaybeCommand(words) => self.perhaps(|guess| guess.words(&words, &Stage::default())),
                Run::MaybeText(text) => self.perhaps_text(&text),
            }
        }
    }

    fn command(&mut self, argv: &Argv<'_>, words: &[Word], stage: &Stage) {
        self.executed.push(words.iter().map(|word| word.known.then(|| word.text.clone())).collect());
        if words.first().is_some_and(|word| word.hidden) {
            self.add(Finding::Ask(UNSEEN), &argv.shown());
        }
        self.evaluated(argv);
        if let Some(finding) = check(argv) {
            self.add(finding, &argv.shown());
        }
        let name = argv.name.as_str();
        if sends_given(name)
            && argv
                .args
                .iter()
                .flat_map(|word| &word.inner)
                .any(|inner| inner.script.stages().any(tells_secrets))
        {
            self.add(Finding::Ask(SENT), "");
        }
        let runs_file = is_shell(name) || matches!(name, "source" | ".");
        let reads_code = runs_file || is_interpreter(name);
        if reads_code {
            self.substituted(argv, stage);
        }
        let path = if reads_code { script_file(argv.args) } else { words.first() };
        let Some(path) = path else { return };
        if self.memory.is_fetched(&path.text) {
            self.add(Finding::Ask(REMOTE), &argv.shown());
        }
        match self.memory.take_written(&path.text) {
            Some(text) if is_interpreter(name) => self.consumed(&Consumer::Code, &Word::plain(text), stage),
            Some(text) if runs_file || path.text.contains('/') => self.text(&text),
            _ => {}
        }
    }
}

/// `while read x; do $x; done`.
fn runs_what_it_reads(script: &Script) -> bool {
    let reads = |stage: &&Stage| stage.words.first().is_some_and(|word| word.text == "read");
    let names: HashSet<String> = script
        .stages()
        .filter(reads)
        .flat_map(|stage| stage.words.iter().skip(1).map(|word| format!("${}", word.text)))
        .collect();
    !names.is_empty()
        && script.stages().any(|stage| stage.words.first().is_some_and(|word| names.contains(&word.text)))
}

/// `{ bash; } <<E`: a shell within a group reads what the group is given.
fn runs_its_input(script: &Script) -> bool {
    script.stages().any(|stage| {
        matches!(Consumer::of(stage), Consumer::Shell(_)) || stage.body.as_ref().is_some_and(runs_its_input)
    })
}

pub(super) fn starts_gateway(stage: &Stage) -> bool {
    Argv::of(&stage.words, Via::Directly).is_some_and(|argv| !only_talks_here(&argv) && runs_gateway(&argv))
}

fn only_talks_here(argv: &Argv<'_>) -> bool {
    only_talks(&argv.name) && argv.name != "hermes"
}
