//! The effects of earlier parts of a command on later ones: files fetched or written, names given to programs.

use std::collections::{HashMap, HashSet};

use super::flow::stage_fetches;
use super::shell::{Direction, PipelineStage, ShellWord, printed};
use super::unwrap::program;

/// The longest alias value that is followed: each use would cost as much again.
const LONGEST_ALIAS: usize = 100;
/// The longest file whose copy is followed: copies of copies would cost too much.
const LONGEST_COPY: usize = 2_000;
/// The key for a text that was put on a descriptor.
const DESCRIPTOR: &str = "&";

#[derive(Debug, Default)]
pub(super) struct CommandEffects {
    fetched: HashSet<String>,
    written: HashMap<String, String>,
    /// Aliases and copies, with the words they stand for.
    names: HashMap<String, Vec<String>>,
}

impl CommandEffects {
    /// Records the effects of a command; `before` is the stage that feeds it.
    pub(super) fn record(&mut self, stage: &PipelineStage, before: Option<&PipelineStage>) {
        if stage_fetches(stage) {
            self.record_fetched(stage);
        }
        self.record_written(stage, before);
        self.record_name(stage);
    }

    pub(super) fn is_fetched(&self, path: &str) -> bool {
        self.fetched.contains(plain_path(path))
    }

    pub(super) fn is_written(&self, path: &str) -> bool {
        self.written.contains_key(file_name(path))
    }

    /// Returns the text of a file that the command itself has written. Each is returned once: it is judged only
    /// once, and a file that is run repeatedly would be read as often.
    pub(super) fn take_written(&mut self, path: &str) -> Option<String> {
        self.written.remove(file_name(path))
    }

    pub(super) fn take_descriptor(&mut self) -> Option<String> {
        self.written.remove(DESCRIPTOR)
    }

    /// Returns the words that an alias or a copy of a program stands for.
    pub(super) fn real_words(&self, words: &[ShellWord]) -> Option<Vec<ShellWord>> {
        let (first, rest) = words.split_first()?;
        let names = self.names.get(plain_path(&first.text))?;
        Some(names.iter().map(ShellWord::plain).chain(rest.iter().cloned()).collect())
    }

    fn record_written(&mut self, stage: &PipelineStage, before: Option<&PipelineStage>) {
        let Some(text) = printed_text(stage, before) else { return };
        let is_tee = stage.words.first().is_some_and(|word| program(word) == "tee");
        let files = stage.words.iter().skip(1).filter(|word| is_tee && !word.text.starts_with('-'));
        let outs = stage.redirects.iter().filter(|redirect| redirect.direction == Direction::Out);
        for file in files.chain(outs.map(|redirect| &redirect.target)).filter(|file| file.known) {
            let known = self.written.entry(file_name(&file.text).to_owned()).or_default();
            known.push_str(&text);
            known.push('\n');
        }
        if stage.words.first().is_some_and(|word| word.text == "exec") {
            self.written.insert(DESCRIPTOR.to_owned(), text);
        }
    }

    fn record_name(&mut self, stage: &PipelineStage) {
        let Some((first, rest)) = stage.words.split_first() else { return };
        match program(first).as_str() {
            "alias" => {
                for (name, value) in rest.iter().filter_map(|word| word.text.split_once('=')) {
                    if value.len() <= LONGEST_ALIAS && !value.trim().is_empty() {
                        let words = value.split_whitespace().map(str::to_owned).collect();
                        self.names.insert(name.to_owned(), words);
                    }
                }
            }
            "hash" => {
                if let [option, path, name] = rest
                    && option.text == "-p"
                {
                    self.names.insert(name.text.clone(), vec![program(path)]);
                }
            }
            "cp" | "ln" | "mv" | "install" => self.record_copy(rest),
            _ => {}
        }
    }

    /// Records for a copy what is known about the original file or program.
    fn record_copy(&mut self, rest: &[ShellWord]) {
        let plain: Vec<&ShellWord> = rest.iter().filter(|word| !word.text.starts_with('-')).collect();
        let [source, target] = plain.as_slice() else { return };
        let text = self.written.get(file_name(&source.text)).filter(|text| text.len() <= LONGEST_COPY);
        if let Some(text) = text.cloned() {
            self.written.insert(file_name(&target.text).to_owned(), text);
        }
        // Only programs: `cp rm notes` copies a file that happens to have that name.
        if source.text.contains("bin/") || !source.inner.is_empty() {
            self.names.insert(plain_path(&target.text).to_owned(), vec![program(source)]);
        }
    }

    fn record_fetched(&mut self, stage: &PipelineStage) {
        for redirect in stage.redirects.iter().filter(|redirect| redirect.direction == Direction::Out) {
            self.fetched.insert(plain_path(&redirect.target.text).to_owned());
        }
        let mut words = stage.words.iter().map(|word| word.text.as_str());
        while let Some(word) = words.next() {
            match word {
                "-o" | "--output" | "--output-document" => {
                    self.fetched.extend(words.next().map(|file| plain_path(file).to_owned()));
                }
                // `-O` names a file for wget and means "the remote file's name" for curl.
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
        for nothing in ["", "/dev/null", "-"] {
            self.fetched.remove(nothing);
        }
    }
}

/// Returns what a command writes, where that can be determined.
pub(super) fn printed_text(stage: &PipelineStage, before: Option<&PipelineStage>) -> Option<String> {
    let first = stage.words.first().map(program).unwrap_or_default();
    if let Some(text) = printed(&stage.words) {
        return Some(text);
    }
    let here = stage.redirects.iter().rfind(|redirect| redirect.direction == Direction::Text);
    match first.as_str() {
        "cat" | "tee" | "exec" | "" if here.is_some() => here.map(|redirect| redirect.target.text.clone()),
        "cat" | "tee" => printed_text(before?, None),
        _ => None,
    }
}

/// Returns the file name. Written files are identified by their names alone, because the working directory may have
/// changed.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn plain_path(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}
