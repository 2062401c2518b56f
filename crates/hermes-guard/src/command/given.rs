//! What is handed to a shell, or to another program that acts on text: here-documents, files, output of commands.

use super::argv::Argv;
use super::flow::{Consumer, decodes, fetches, has_sink, here_texts};
use super::judge::{DECODED, HEREDOC, Judge, REMOTE, REMOTE_FILE, UNSEEN};
use super::memory::printed_text;
use super::output::Output;
use super::rule::{Finding, find_sql, is_interpreter, is_sql_client, suspicious, wipes_store};
use super::shell::{Direction, Script, Stage, Substitution, Word};
use super::unwrap::{Via, marked, script_file};

impl Judge {
    /// `bash <(…)`.
    pub(super) fn substituted(&mut self, argv: &Argv<'_>, stage: &Stage) {
        let inputs = stage.redirects.iter().filter(|redirect| redirect.direction != Direction::Out);
        let files = argv.args.iter().chain(inputs.map(|redirect| &redirect.target));
        let files = files.flat_map(|word| &word.inner).filter(|inner| inner.kind == Substitution::File);
        let scripts: Vec<&Script> = files.map(|inner| &inner.script).collect();
        if scripts.iter().any(|script| fetches(script)) {
            return self.add(Finding::Ask(REMOTE_FILE), "");
        }
        if scripts.iter().any(|script| script.stages().any(decodes)) {
            return self.add(Finding::Ask(DECODED), "");
        }
        let is_script = script_file(argv.args).is_none_or(|file| !file.inner.is_empty());
        if let Some(script) = scripts.first().filter(|_| is_script && !is_interpreter(&argv.name)) {
            self.given_output(script);
        }
    }

    /// What a shell reads from its input: here-documents, files the command has written, descriptors.
    pub(super) fn inputs(&mut self, stage: &Stage) {
        let fed = !stage.redirects.is_empty() || has_sink(stage);
        let consumer = if fed { Consumer::of(stage) } else { Consumer::Other };
        if consumer == Consumer::Other {
            return;
        }
        for text in here_texts(stage) {
            self.consumed(&consumer, text, stage);
        }
        if has_sink(stage)
            && let Some(text) = printed_text(stage, None)
        {
            self.consumed(&consumer, &Word::plain(text), stage);
        }
        for redirect in &stage.redirects {
            let text = match redirect.direction {
                Direction::In => self.memory.take_written(&redirect.target.text),
                Direction::Descriptor => self.memory.take_descriptor(),
                Direction::Out | Direction::Text => None,
            };
            if let Some(text) = text {
                self.consumed(&consumer, &Word::plain(text), stage);
            }
            let file = redirect.target.inner.iter().find(|inner| inner.kind == Substitution::File);
            if let (Some(inner), Consumer::Shell(_)) = (file, &consumer) {
                self.given_output(&inner.script);
            }
        }
    }

    /// A text that reaches what acts on it.
    pub(super) fn consumed(&mut self, consumer: &Consumer, word: &Word, stage: &Stage) {
        match consumer {
            Consumer::Shell(via) => self.given_via(word, *via, stage),
            Consumer::Code if suspicious(&word.text) => self.add(Finding::Ask(HEREDOC), ""),
            Consumer::Named(name) => {
                let finding =
                    if is_sql_client(name) { find_sql(&word.text) } else { wipes_store(name, &word.text) };
                if let Some(finding) = finding {
                    self.add(finding, name);
                }
                for text in marked(name, &word.text) {
                    self.text(&text);
                }
                if matches!(name.as_str(), "make" | "gmake") {
                    self.perhaps_text(&word.text);
                }
            }
            Consumer::Code | Consumer::Other => {}
        }
    }

    pub(super) fn given_via(&mut self, word: &Word, via: Via, stage: &Stage) {
        let before = self.elsewhere;
        self.elsewhere |= via == Via::Elsewhere;
        self.given_text(word, stage);
        self.elsewhere = before;
    }

    /// What is handed to a shell as text.
    fn given_text(&mut self, word: &Word, stage: &Stage) {
        if word.inner.iter().any(|inner| fetches(&inner.script)) {
            return self.add(Finding::Ask(REMOTE), "");
        }
        if word.inner.iter().any(|inner| inner.script.stages().any(decodes)) {
            return self.add(Finding::Ask(DECODED), "");
        }
        let unseen = !word.known && word.text.starts_with('$') && !word.text.contains(char::is_whitespace);
        if !unseen {
            return self.text(&word.text);
        }
        if let [inner] = word.inner.as_slice()
            && word.text == "$()"
        {
            return self.given_output(&inner.script);
        }
        // It is only said for later, and by whoever runs the script.
        if !stage.words.first().is_some_and(|word| matches!(word.text.as_str(), "trap" | "alias")) {
            self.add(Finding::Ask(UNSEEN), "");
        }
    }

    /// What a script prints for a shell to run.
    pub(super) fn given_output(&mut self, script: &Script) {
        let stage = script.pipelines.last().and_then(|pipeline| pipeline.stages.last());
        self.written_files(stage);
        match Output::of_script(script, &self.memory) {
            Output::Text(text) => self.text(&text),
            Output::Usual => {}
            Output::Unseen => self.add(Finding::Ask(UNSEEN), ""),
        }
    }

    /// `cat file` into a shell, where the command has written the file itself.
    pub(super) fn written_files(&mut self, stage: Option<&Stage>) {
        let words = stage.map(|stage| stage.words.as_slice()).unwrap_or_default();
        if words.first().is_some_and(|word| word.text == "cat") {
            for word in words.iter().skip(1) {
                if self.memory.is_written(&word.text) {
                    let text = self.memory.take_written(&word.text).unwrap_or_default();
                    self.text(&text);
                }
            }
        }
    }
}
