//! Going through everything a command leads to.

use std::collections::HashSet;

use hermes_types::Danger;

use super::Judgement;
use super::argv::Argv;
use super::rule::{
    Finding, OUTSIDE, check, find_sql, is_interpreter, is_sql_client, only_talks, redirected, runs_gateway,
    suspicious,
};
use super::shell::{Direction, End, Pipeline, Script, Stage, Substitution, Word, read};
use super::unwrap::{Run, Via, is_shell, script_file, shell_text, unwrap};

const DEEPEST: usize = 16;
const TOO_DEEP: &str = "command nested too deeply to check";
const UNSEEN: &str = "shell command via -c/-lc flag";
const REMOTE: &str = "pipe remote content to shell";
const REMOTE_FILE: &str = "execute remote script via process substitution";
const DECODED: &str = "decoded content piped to shell";
const HEREDOC: &str = "script execution via heredoc";

/// Collects what speaks against a command.
#[derive(Debug, Default)]
pub(super) struct Judge {
    dangers: Vec<Danger>,
    denied: Option<Danger>,
    /// Files this command itself fetches.
    fetched: HashSet<String>,
    functions: HashSet<String>,
    depth: usize,
    /// Whether what is read now runs on another machine or in a container.
    elsewhere: bool,
}

impl Judge {
    pub(super) fn finish(self) -> Judgement {
        match (self.denied, self.dangers) {
            (Some(danger), _) => Judgement::Deny(danger),
            (None, dangers) if dangers.is_empty() => Judgement::Allow,
            (None, dangers) => Judgement::Ask(dangers),
        }
    }

    /// A text a shell would read.
    pub(super) fn text(&mut self, text: &str) {
        if self.depth > DEEPEST {
            return self.add(Finding::Ask(TOO_DEEP), "");
        }
        self.depth += 1;
        let script = read(text);
        if script.too_deep {
            self.add(Finding::Ask(TOO_DEEP), "");
        }
        self.functions.extend(script.functions.iter().cloned());
        self.script(&script);
        self.depth -= 1;
    }

    fn add(&mut self, finding: Finding, shown: &str) {
        let (key, denied) = match finding {
            Finding::Ask(key) => (key, false),
            Finding::Deny(key) => (key, true),
        };
        let reason = if shown.is_empty() { key.to_owned() } else { format!("{key}: {shown}") };
        let danger = Danger { key: key.to_owned(), reason };
        if denied {
            self.denied.get_or_insert(danger);
        } else if self.dangers.iter().all(|known| known.key != key) {
            self.dangers.push(danger);
        }
    }

    fn script(&mut self, script: &Script) {
        let mut flow = Flow::default();
        for (at, pipeline) in script.pipelines.iter().enumerate() {
            for stage in &pipeline.stages {
                self.stage(stage);
            }
            self.pipeline(pipeline, script.pipelines.get(..at).unwrap_or_default(), &mut flow);
        }
        let disowns = |stage: &Stage| stage.words.first().is_some_and(|word| word.text == "disown");
        if stages(&script.pipelines).any(disowns) && stages(&script.pipelines).any(starts_gateway) {
            self.add(Finding::Ask(OUTSIDE), "");
        }
    }

    fn stage(&mut self, stage: &Stage) {
        let targets = stage.redirects.iter().map(|redirect| &redirect.target);
        for word in stage.words.iter().chain(&stage.assignments).chain(targets) {
            for inner in &word.inner {
                self.script(&inner.script);
            }
        }
        if let Some(body) = &stage.body {
            self.script(body);
        }
        for redirect in stage.redirects.iter().filter(|redirect| redirect.direction == Direction::Out) {
            if let Some(finding) = redirected(&redirect.target.text) {
                self.add(finding, &format!("> {}", redirect.target.text));
            }
        }
        let runs = unwrap(&stage.words);
        for run in &runs {
            match run {
                Run::Command { words, via } => {
                    let via = if self.elsewhere && *via == Via::Directly { Via::Elsewhere } else { *via };
                    if let Some(argv) = Argv::of(words, via) {
                        self.command(&argv, words, stage);
                    }
                }
                Run::Text { word, via } => {
                    let before = self.elsewhere;
                    self.elsewhere |= *via == Via::Elsewhere;
                    self.given_text(word, stage);
                    self.elsewhere = before;
                }
            }
        }
        self.remember_fetched(stage);
    }

    fn command(&mut self, argv: &Argv<'_>, words: &[Word], stage: &Stage) {
        if let Some(finding) = check(argv) {
            self.add(finding, &argv.shown());
        }
        let name = argv.name.as_str();
        let reads_code = is_shell(name) || is_interpreter(name) || matches!(name, "source" | ".");
        if reads_code {
            let inputs = stage.redirects.iter().filter(|redirect| redirect.direction != Direction::Out);
            let words = argv.args.iter().chain(inputs.map(|redirect| &redirect.target));
            if words
                .flat_map(|word| &word.inner)
                .any(|inner| inner.kind == Substitution::File && fetches(&inner.script))
            {
                self.add(Finding::Ask(REMOTE_FILE), "");
            }
        }
        let path = if reads_code { script_file(argv.args) } else { words.first() };
        if path.is_some_and(|path| self.fetched.contains(plain_path(&path.text))) {
            self.add(Finding::Ask(REMOTE), &argv.shown());
        }
        let texts = stage.redirects.iter().filter(|redirect| redirect.direction == Direction::Text);
        if reads_input(argv) {
            for text in texts {
                if is_interpreter(name) {
                    if suspicious(&text.target.text) {
                        self.add(Finding::Ask(HEREDOC), "");
                    }
                } else {
                    self.given_text(&text.target, stage);
                }
            }
        } else if is_sql_client(name) {
            for finding in texts.filter_map(|text| find_sql(&text.target.text)) {
                self.add(finding, &argv.shown());
            }
        }
    }

    /// What is handed to a shell as text.
    fn given_text(&mut self, word: &Word, stage: &Stage) {
        if word.inner.iter().any(|inner| fetches(&inner.script)) {
            return self.add(Finding::Ask(REMOTE), "");
        }
        // Setting up the shell from a program's output is an everyday thing; the program itself has been judged.
        let sets_up = |word: &Word| matches!(word.text.as_str(), "eval" | "trap" | "alias");
        let unseen = !word.known && word.text.starts_with('$') && !word.text.contains(char::is_whitespace);
        if unseen && !stage.words.iter().any(sets_up) {
            return self.add(Finding::Ask(UNSEEN), "");
        }
        self.text(&word.text);
    }

    fn pipeline(&mut self, pipeline: &Pipeline, earlier: &[Pipeline], before: &mut Flow) {
        let bomb =
            |stage: &&Stage| stage.words.first().is_some_and(|word| self.functions.contains(&word.text));
        if pipeline.stages.iter().filter(bomb).count() > 1 {
            self.add(Finding::Deny("fork bomb"), "");
        }
        if pipeline.end == End::Background && pipeline.stages.iter().any(starts_gateway) {
            self.add(Finding::Ask(OUTSIDE), "");
        }
        // The end of a group that was read flat: it stands for all that came before.
        let grouped = pipeline.stages.first().is_some_and(Stage::is_empty);
        let mut flow = Flow::default();
        for (at, stage) in pipeline.stages.iter().enumerate() {
            let consumer = if at == 0 { Consumer::Other } else { Consumer::of(stage) };
            if consumer == Consumer::Code || consumer == Consumer::Shell {
                if flow.fetches || grouped && before.fetches {
                    self.add(Finding::Ask(REMOTE), "");
                } else if flow.decodes || grouped && before.decodes {
                    self.add(Finding::Ask(DECODED), "");
                }
            }
            if matches!(consumer, Consumer::Shell | Consumer::Database) {
                let here = pipeline.stages.get(flow.seen..at).unwrap_or_default();
                for stage in here {
                    self.handed_on(stage, consumer);
                }
                flow.seen = at;
                if grouped {
                    let earlier = earlier.get(before.seen..).unwrap_or_default();
                    for stage in stages(earlier) {
                        self.handed_on(stage, consumer);
                    }
                    before.seen += earlier.len();
                }
            }
            flow.fetches |= stage_fetches(stage);
            flow.decodes |= decodes(stage);
        }
        before.fetches |= flow.fetches;
        before.decodes |= flow.decodes;
    }

    /// What a stage says to one that acts on it.
    fn handed_on(&mut self, stage: &Stage, consumer: Consumer) {
        if consumer == Consumer::Shell {
            return self.printed(stage);
        }
        let here = stage.redirects.iter().map(|redirect| &redirect.target);
        let texts = stage.words.iter().chain(here);
        for finding in texts.filter_map(|word| find_sql(&word.text)) {
            self.add(finding, "");
        }
    }

    /// What a command prints into a shell.
    fn printed(&mut self, stage: &Stage) {
        let Some((first, rest)) = stage.words.split_first() else { return };
        match first.text.as_str() {
            "echo" | "printf" => {
                let text = rest.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
                let text = text.replace("\\n", "\n");
                if rest.iter().all(|word| !word.known && word.text.starts_with('$')) && !rest.is_empty() {
                    return self.add(Finding::Ask(UNSEEN), "");
                }
                self.text(&text);
            }
            "cat" => {
                let texts = stage.redirects.iter().filter(|redirect| redirect.direction == Direction::Text);
                let texts: Vec<String> = texts.map(|redirect| redirect.target.text.clone()).collect();
                for text in texts {
                    self.text(&text);
                }
            }
            _ => {}
        }
    }

    fn remember_fetched(&mut self, stage: &Stage) {
        if !stage_fetches(stage) {
            return;
        }
        for redirect in stage.redirects.iter().filter(|redirect| redirect.direction == Direction::Out) {
            self.fetched.insert(plain_path(&redirect.target.text).to_owned());
        }
        let mut words = stage.words.iter().map(|word| word.text.as_str());
        while let Some(word) = words.next() {
            match word {
                "-o" | "--output" | "--output-document" => {
                    self.fetched.extend(words.next().map(|file| plain_path(file).to_owned()));
                }
                // `-O` names a file for wget and says "by its own name" for curl.
                "-O" | "-qO" => {
                    self.fetched.extend(words.clone().next().map(|file| plain_path(file).to_owned()));
                }
                _ if word.contains("://") => {
                    let file = word.rsplit('/').next().unwrap_or_default();
                    let file = file.split(['?', '#']).next().unwrap_or_default();
                    self.fetched.insert(file.to_owned());
                }
                _ => {}
            }
        }
        self.fetched.remove("");
        self.fetched.remove("/dev/null");
        self.fetched.remove("-");
    }
}

/// What is known of everything so far in a pipeline or a script. Each stage is looked at once, or a text of pipes would
/// take quadratic time.
#[derive(Debug, Default)]
struct Flow {
    fetches: bool,
    decodes: bool,
    /// How many stages, or pipelines, have been handed on.
    seen: usize,
}

/// What a stage does with its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consumer {
    Shell,
    Code,
    Database,
    Other,
}

impl Consumer {
    fn of(stage: &Stage) -> Self {
        let mut found = Self::Other;
        for run in unwrap(&stage.words) {
            let Run::Command { words, via } = run else { continue };
            let Some(argv) = Argv::of(&words, via) else { continue };
            if reads_input(&argv) {
                return if is_interpreter(&argv.name) { Self::Code } else { Self::Shell };
            }
            if is_sql_client(&argv.name) {
                found = Self::Database;
            }
        }
        found
    }
}

fn stages(pipelines: &[Pipeline]) -> impl Iterator<Item = &Stage> {
    pipelines.iter().flat_map(|pipeline| &pipeline.stages)
}

fn plain_path(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

/// Every program a stage runs.
fn programs(stage: &Stage) -> Vec<(String, Vec<String>)> {
    let runs = unwrap(&stage.words).into_iter();
    runs.filter_map(|run| match run {
        Run::Command { words, via } => {
            let argv = Argv::of(&words, via)?;
            Some((argv.name.clone(), argv.texts().map(str::to_owned).collect()))
        }
        Run::Text { .. } => None,
    })
    .collect()
}

fn stage_fetches(stage: &Stage) -> bool {
    let here = programs(stage).iter().any(|(name, _)| {
        matches!(name.as_str(), "curl" | "wget" | "fetch" | "http" | "https" | "aria2c" | "lynx")
    });
    let within = stage.words.iter().flat_map(|word| &word.inner).any(|inner| fetches(&inner.script));
    here || within || stage.body.as_ref().is_some_and(fetches)
}

fn fetches(script: &Script) -> bool {
    stages(&script.pipelines).any(stage_fetches)
}

fn decodes(stage: &Stage) -> bool {
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

/// Whether it takes what it runs from its input.
fn reads_input(argv: &Argv<'_>) -> bool {
    let name = argv.name.as_str();
    if is_shell(name) {
        let text = shell_text(argv.args);
        let filled_in =
            argv.via == Via::Xargs && text.is_none_or(|text| text.text.trim_start().starts_with("{}"));
        return filled_in
            || text.is_none()
                && script_file(argv.args)
                    .is_none_or(|file| matches!(file.text.as_str(), "/dev/stdin" | "-"));
    }
    if matches!(name, "source" | ".") {
        return argv.word(0) == "/dev/stdin";
    }
    is_interpreter(name)
        && argv.texts().all(|text| text == "-" || matches!(text, "-u" | "-s" | "-I" | "-B" | "-q"))
}

fn starts_gateway(stage: &Stage) -> bool {
    Argv::of(&stage.words, Via::Directly).is_some_and(|argv| !only_talks_here(&argv) && runs_gateway(&argv))
}

fn only_talks_here(argv: &Argv<'_>) -> bool {
    only_talks(&argv.name) && !is_interpreter(&argv.name) && argv.name != "hermes"
}
