//! Judges everything that a command leads to.

use std::collections::HashSet;

use hermes_types::Danger;

use super::CommandJudgement;
use super::argv::Argv;
use super::effects::CommandEffects;
use super::flow::{Consumer, Flow, here_texts};
use super::output::ShellOutput;
use super::rule::{
    OUTSIDE, RuleFinding, check, check_setting, is_interpreter, is_run_by_name, is_severe, opens_shell,
    prints_secrets, redirected, runs_gateway, sends_arguments,
};
use super::shell::{Direction, PipelineStage, ShellScript, ShellVariables, ShellWord, Substitution, read};
use super::unwrap::{
    ExecutedItem, InvocationKind, is_inert, is_shell, program, script_file, text_in, unwrap,
};

const DEEPEST: usize = 16;
const TOO_DEEP: &str = "command nested too deeply to check";
const AMBIGUOUS: &str = "shell syntax that can be read in two ways";
const MANY_VALUES: &str = "variables that may have too many values to check";
/// The most combinations of values that are judged, and the most characters that are read for them.
const MOST_COMBINATIONS: usize = 128;
const MOST_READ: usize = 1_000_000;
pub(super) const UNSEEN: &str = "shell command via -c/-lc flag";
pub(super) const REMOTE: &str = "pipe remote content to shell";
pub(super) const REMOTE_FILE: &str = "execute remote script via process substitution";
pub(super) const DECODED: &str = "decoded content piped to shell";
pub(super) const HEREDOC: &str = "script execution via heredoc";
pub(super) const SENT: &str = "send secrets away";

/// Tells how certain it is that the judged text will be run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum JudgeCertainty {
    #[default]
    Sure,
    Guess,
}

/// Collects the dangers of a command.
#[derive(Debug, Default)]
pub(super) struct CommandJudge {
    dangers: Vec<Danger>,
    denied: Option<Danger>,
    pub(super) effects: CommandEffects,
    pub(super) functions: HashSet<String>,
    /// The known values of variables; a text that is run knows them too.
    pub(super) variables: ShellVariables,
    depth: usize,
    /// The words of commands that are certainly run.
    pub(super) executed: Vec<Vec<Option<String>>>,
    /// Set while the judged commands run on another machine or in a container.
    pub(super) remote: bool,
    certainty: JudgeCertainty,
}

impl CommandJudge {
    pub(super) fn finish(self) -> CommandJudgement {
        match (self.denied, self.dangers) {
            (Some(danger), _) => CommandJudgement::Deny(danger),
            (None, dangers) if dangers.is_empty() => CommandJudgement::Allow,
            (None, dangers) => CommandJudgement::Ask(dangers),
        }
    }

    /// Tells whether everything could be read unambiguously.
    pub(super) fn is_certain(&self) -> bool {
        !self.dangers.iter().any(|danger| matches!(danger.key.as_str(), TOO_DEEP | AMBIGUOUS | MANY_VALUES))
    }

    /// Judges a command with every combination of values that its variables may have.
    pub(super) fn of_command(text: &str) -> Self {
        let mut judge = Self::default();
        judge.judge_text(text);
        let most = MOST_COMBINATIONS.min(MOST_READ / text.len().max(1));
        let Some(combinations) = judge.variables.combinations(most) else {
            judge.add(RuleFinding::Ask(MANY_VALUES), "");
            return judge;
        };
        for variables in combinations {
            let mut other = Self { variables, ..Self::default() };
            other.judge_text(text);
            other.dangers.into_iter().for_each(|danger| judge.push(danger));
            judge.denied = judge.denied.or(other.denied);
            judge.executed.append(&mut other.executed);
        }
        judge
    }

    /// Judges a text that a shell would read.
    pub(super) fn judge_text(&mut self, text: &str) {
        if self.depth > DEEPEST {
            return self.add(RuleFinding::Ask(TOO_DEEP), "");
        }
        self.depth += 1;
        let script = read(text, &self.variables);
        self.variables = script.variables.clone();
        if script.too_deep {
            self.add(RuleFinding::Ask(TOO_DEEP), "");
        }
        if script.ambiguous {
            self.add(RuleFinding::Ask(AMBIGUOUS), "");
        }
        self.functions.extend(script.functions.iter().cloned());
        self.judge_script(&script);
        self.depth -= 1;
    }

    pub(super) fn add(&mut self, finding: RuleFinding, shown: &str) {
        let (key, denied) = match finding {
            RuleFinding::Ask(key) => (key, false),
            RuleFinding::Deny(key) => (key, true),
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

    /// Judges what may be run. Only severe dangers count, and a guess never forbids.
    fn judge_possible(&mut self, judged: impl FnOnce(&mut Self)) {
        if self.certainty == JudgeCertainty::Guess {
            return;
        }
        let mut guess = Self {
            depth: self.depth + 1,
            certainty: JudgeCertainty::Guess,
            variables: self.variables.clone(),
            ..Self::default()
        };
        judged(&mut guess);
        let found = guess.dangers.into_iter().chain(guess.denied);
        for danger in found.filter(|danger| is_severe(&danger.key)) {
            self.push(danger);
        }
    }

    pub(super) fn judge_possible_text(&mut self, text: &str) {
        self.judge_possible(|guess| guess.judge_text(text));
    }

    pub(super) fn judge_script(&mut self, script: &ShellScript) {
        let mut flow = Flow::default();
        for (at, pipeline) in script.pipelines.iter().enumerate() {
            for (at, stage) in pipeline.stages.iter().enumerate() {
                let before = at.checked_sub(1).and_then(|at| pipeline.stages.get(at));
                self.judge_stage(stage, before);
            }
            self.judge_pipeline(pipeline, script.pipelines.get(..at).unwrap_or_default(), &mut flow);
        }
        if runs_what_it_reads(script) || runs_its_input(script) {
            let groups = script.stages().filter(|stage| stage.words.is_empty());
            let texts: Vec<&ShellWord> = groups.flat_map(here_texts).collect();
            for text in texts {
                self.judge_text(&text.text);
            }
        }
        let disowns = |stage: &PipelineStage| stage.words.first().is_some_and(|word| word.text == "disown");
        if script.stages().any(disowns) && script.stages().any(starts_gateway) {
            self.add(RuleFinding::Ask(OUTSIDE), "");
        }
    }

    fn judge_stage(&mut self, stage: &PipelineStage, before: Option<&PipelineStage>) {
        let targets = stage.redirects.iter().map(|redirect| &redirect.target);
        for word in stage.words.iter().chain(&stage.assignments).chain(targets) {
            for inner in &word.inner {
                self.judge_script(&inner.script);
            }
        }
        self.judge_file_arguments(stage);
        if let Some(body) = &stage.body {
            self.judge_script(body);
        }
        self.judge_redirects(stage);
        self.judge_assignments(stage);
        self.judge_words(&stage.words, stage);
        if let Some(words) = self.effects.real_words(&stage.words) {
            self.judge_words(&words, stage);
        }
        self.judge_inputs(stage);
        self.effects.record(stage, before);
    }

    /// Judges `program <(…)`: an unknown program may run the file it is given.
    fn judge_file_arguments(&mut self, stage: &PipelineStage) {
        let Some((first, rest)) = stage.words.split_first() else { return };
        let files = rest.iter().flat_map(|word| &word.inner).filter(|inner| inner.kind == Substitution::File);
        for inner in files.filter(|_| !is_inert(&program(first))) {
            if let ShellOutput::Text(text) = ShellOutput::of_script(&inner.script, &self.effects) {
                self.judge_consumed_text(
                    &Consumer::Named(program(first)),
                    &ShellWord::plain(text.as_str()),
                    stage,
                );
                self.judge_possible_text(&text);
            }
        }
    }

    fn judge_redirects(&mut self, stage: &PipelineStage) {
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

    /// Judges variables set for a command, and those whose values are run wherever they are set.
    fn judge_assignments(&mut self, stage: &PipelineStage) {
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
                self.judge_possible_text(text);
            }
        }
    }

    fn judge_words(&mut self, words: &[ShellWord], stage: &PipelineStage) {
        for run in unwrap(words) {
            match run {
                ExecutedItem::Command { words, via } => {
                    let via = if self.remote && via == InvocationKind::Directly {
                        InvocationKind::Remote
                    } else {
                        via
                    };
                    if let Some(argv) = Argv::of(&words, via) {
                        self.judge_command(&argv, &words, stage);
                    }
                }
                ExecutedItem::Text { word, via } => self.judge_text_via(&word, via, stage),
                ExecutedItem::MaybeCommand(words) => {
                    self.judge_possible(|guess| guess.judge_words(&words, &PipelineStage::default()));
                }
                ExecutedItem::MaybeText(text) => self.judge_possible_text(&text),
            }
        }
    }

    fn judge_command(&mut self, argv: &Argv<'_>, words: &[ShellWord], stage: &PipelineStage) {
        self.executed.push(words.iter().map(|word| word.known.then(|| word.text.clone())).collect());
        if words.first().is_some_and(|word| word.hidden) {
            self.add(RuleFinding::Ask(UNSEEN), &argv.shown());
        }
        self.judge_evaluated_words(argv);
        if let Some(finding) = check(argv) {
            self.add(finding, &argv.shown());
        }
        let name = argv.name.as_str();
        if sends_arguments(name)
            && argv
                .args
                .iter()
                .flat_map(|word| &word.inner)
                .any(|inner| inner.script.stages().any(prints_secrets))
        {
            self.add(RuleFinding::Ask(SENT), "");
        }
        let runs_file = is_shell(name) || matches!(name, "source" | ".");
        let reads_code = runs_file || is_interpreter(name);
        if reads_code {
            self.judge_process_substitution(argv, stage);
        }
        let path = if reads_code { script_file(argv.args) } else { words.first() };
        let Some(path) = path else { return };
        if self.effects.is_fetched(&path.text) {
            self.add(RuleFinding::Ask(REMOTE), &argv.shown());
        }
        match self.effects.take_written(&path.text) {
            Some(text) if is_interpreter(name) => {
                self.judge_consumed_text(&Consumer::Code, &ShellWord::plain(text), stage);
            }
            Some(text) if runs_file || path.text.contains('/') => self.judge_text(&text),
            _ => {}
        }
    }
}

/// Detects `while read x; do $x; done`.
fn runs_what_it_reads(script: &ShellScript) -> bool {
    let reads = |stage: &&PipelineStage| stage.words.first().is_some_and(|word| word.text == "read");
    let names: HashSet<String> = script
        .stages()
        .filter(reads)
        .flat_map(|stage| stage.words.iter().skip(1).map(|word| format!("${}", word.text)))
        .collect();
    !names.is_empty()
        && script.stages().any(|stage| stage.words.first().is_some_and(|word| names.contains(&word.text)))
}

/// Detects `{ bash; } <<E`: a shell within a group reads the group's input.
fn runs_its_input(script: &ShellScript) -> bool {
    script.stages().any(|stage| {
        matches!(Consumer::of(stage), Consumer::Shell(_)) || stage.body.as_ref().is_some_and(runs_its_input)
    })
}

pub(super) fn starts_gateway(stage: &PipelineStage) -> bool {
    Argv::of(&stage.words, InvocationKind::Directly)
        .is_some_and(|argv| !is_inert_here(&argv) && runs_gateway(&argv))
}

fn is_inert_here(argv: &Argv<'_>) -> bool {
    is_inert(&argv.name) && argv.name != "hermes"
}
