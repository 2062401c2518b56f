//! Text passed to a shell, or to another program that executes text: here-documents, files, output of commands.

use super::argv::Argv;
use super::effects::printed_text;
use super::flow::{Consumer, decodes, fetches, has_sink, here_texts};
use super::judge::{CommandJudge, DECODED, HEREDOC, REMOTE, REMOTE_FILE, UNSEEN};
use super::output::ShellOutput;
use super::rule::{RuleFinding, find_sql, is_interpreter, is_sql_client, suspicious, wipes_store};
use super::shell::{Direction, PipelineStage, ShellScript, ShellWord, Substitution};
use super::unwrap::{InvocationKind, marked, script_file};

impl CommandJudge {
    /// Judges `bash <(…)`.
    pub(super) fn judge_process_substitution(&mut self, argv: &Argv<'_>, stage: &PipelineStage) {
        let inputs = stage.redirects.iter().filter(|redirect| redirect.direction != Direction::Out);
        let files = argv.args.iter().chain(inputs.map(|redirect| &redirect.target));
        let files = files.flat_map(|word| &word.inner).filter(|inner| inner.kind == Substitution::File);
        let scripts: Vec<&ShellScript> = files.map(|inner| &inner.script).collect();
        if scripts.iter().any(|script| fetches(script)) {
            return self.add(RuleFinding::Ask(REMOTE_FILE), "");
        }
        if scripts.iter().any(|script| script.stages().any(decodes)) {
            return self.add(RuleFinding::Ask(DECODED), "");
        }
        let is_script = script_file(argv.args).is_none_or(|file| !file.inner.is_empty());
        if let Some(script) = scripts.first().filter(|_| is_script && !is_interpreter(&argv.name)) {
            self.judge_script_output(script);
        }
    }

    /// Judges what a shell reads from its input: here-documents, files the command has written, descriptors.
    pub(super) fn judge_inputs(&mut self, stage: &PipelineStage) {
        let fed = !stage.redirects.is_empty() || has_sink(stage);
        let consumer = if fed { Consumer::of(stage) } else { Consumer::Other };
        if consumer == Consumer::Other {
            return;
        }
        for text in here_texts(stage) {
            self.judge_consumed_text(&consumer, text, stage);
        }
        if has_sink(stage)
            && let Some(text) = printed_text(stage, None)
        {
            self.judge_consumed_text(&consumer, &ShellWord::plain(text), stage);
        }
        for redirect in &stage.redirects {
            let text = match redirect.direction {
                Direction::In => self.effects.take_written(&redirect.target.text),
                Direction::Descriptor => self.effects.take_descriptor(),
                Direction::Out | Direction::Text => None,
            };
            if let Some(text) = text {
                self.judge_consumed_text(&consumer, &ShellWord::plain(text), stage);
            }
            let file = redirect.target.inner.iter().find(|inner| inner.kind == Substitution::File);
            if let (Some(inner), Consumer::Shell(_)) = (file, &consumer) {
                self.judge_script_output(&inner.script);
            }
        }
    }

    /// Judges a text that reaches its consumer.
    pub(super) fn judge_consumed_text(
        &mut self,
        consumer: &Consumer,
        word: &ShellWord,
        stage: &PipelineStage,
    ) {
        match consumer {
            Consumer::Shell(via) => self.judge_text_via(word, *via, stage),
            Consumer::Code if suspicious(&word.text) => self.add(RuleFinding::Ask(HEREDOC), ""),
            Consumer::Named(name) => {
                let finding =
                    if is_sql_client(name) { find_sql(&word.text) } else { wipes_store(name, &word.text) };
                if let Some(finding) = finding {
                    self.add(finding, name);
                }
                for text in marked(name, &word.text) {
                    self.judge_text(&text);
                }
                if matches!(name.as_str(), "make" | "gmake") {
                    self.judge_possible_text(&word.text);
                }
            }
            Consumer::Code | Consumer::Other => {}
        }
    }

    pub(super) fn judge_text_via(&mut self, word: &ShellWord, via: InvocationKind, stage: &PipelineStage) {
        let before = self.remote;
        self.remote |= via == InvocationKind::Remote;
        self.judge_shell_text(word, stage);
        self.remote = before;
    }

    /// Judges a text that is passed to a shell.
    fn judge_shell_text(&mut self, word: &ShellWord, stage: &PipelineStage) {
        if word.inner.iter().any(|inner| fetches(&inner.script)) {
            return self.add(RuleFinding::Ask(REMOTE), "");
        }
        if word.inner.iter().any(|inner| inner.script.stages().any(decodes)) {
            return self.add(RuleFinding::Ask(DECODED), "");
        }
        let unseen = !word.known && word.text.starts_with('$') && !word.text.contains(char::is_whitespace);
        if !unseen {
            return self.judge_text(&word.text);
        }
        if let [inner] = word.inner.as_slice()
            && word.text == "$()"
        {
            return self.judge_script_output(&inner.script);
        }
        // `trap` and `alias` only store the text for later, in the shell of the script.
        if !stage.words.first().is_some_and(|word| matches!(word.text.as_str(), "trap" | "alias")) {
            self.add(RuleFinding::Ask(UNSEEN), "");
        }
    }

    /// Judges what a script prints for a shell to run.
    pub(super) fn judge_script_output(&mut self, script: &ShellScript) {
        let stage = script.pipelines.last().and_then(|pipeline| pipeline.stages.last());
        self.judge_written_files(stage);
        match ShellOutput::of_script(script, &self.effects) {
            ShellOutput::Text(text) => self.judge_text(&text),
            ShellOutput::Usual => {}
            ShellOutput::Unknown => self.add(RuleFinding::Ask(UNSEEN), ""),
        }
    }

    /// Judges `cat file` into a shell, where the command has written the file itself.
    pub(super) fn judge_written_files(&mut self, stage: Option<&PipelineStage>) {
        let words = stage.map(|stage| stage.words.as_slice()).unwrap_or_default();
        if words.first().is_some_and(|word| word.text == "cat") {
            for word in words.iter().skip(1) {
                if self.effects.is_written(&word.text) {
                    let text = self.effects.take_written(&word.text).unwrap_or_default();
                    self.judge_text(&text);
                }
            }
        }
    }
}
