//! Judges pipelines: what one command writes to the next.

use super::effects::printed_text;
use super::flow::{Consumer, Flow, decodes, here_texts, stage_fetches};
use super::judge::{CommandJudge, DECODED, REMOTE, SENT, UNSEEN, starts_gateway};
use super::output::ShellOutput;
use super::rule::{OUTSIDE, RuleFinding, SHELL_FOR_OTHERS, prints_secrets, sends_input};
use super::shell::{Pipeline, PipelineEnd, PipelineStage, ShellWord};
use super::unwrap::InvocationKind;

impl CommandJudge {
    pub(super) fn judge_pipeline(&mut self, pipeline: &Pipeline, earlier: &[Pipeline], before: &mut Flow) {
        let bomb = |stage: &&PipelineStage| {
            stage.words.first().is_some_and(|word| self.functions.contains(&word.text))
        };
        if pipeline.stages.iter().filter(bomb).count() > 1 {
            self.add(RuleFinding::Deny("fork bomb"), "");
        }
        if pipeline.end == PipelineEnd::Background && pipeline.stages.iter().any(starts_gateway) {
            self.add(RuleFinding::Ask(OUTSIDE), "");
        }
        // `… | { ls; sh; }` is parsed flat: a shell without other input may read what was printed before.
        if let Some(first) = pipeline.stages.first()
            && !earlier.is_empty()
            && first.redirects.is_empty()
            && let consumer @ Consumer::Shell(_) = Consumer::of(first)
        {
            let printed = earlier.get(before.seen..).unwrap_or_default();
            self.judge_piped_output(&mut printed.iter().flat_map(|pipeline| &pipeline.stages), &consumer);
            before.seen += printed.len();
        }
        if pipeline.stages.len() > 1 {
            self.judge_pipes(pipeline, earlier, before);
        } else if let [stage] = pipeline.stages.as_slice() {
            before.fetches |= stage_fetches(stage);
            before.decodes |= decodes(stage);
        }
    }

    fn judge_pipes(&mut self, pipeline: &Pipeline, earlier: &[Pipeline], before: &mut Flow) {
        // The end of a group that was parsed flat: it stands for everything before it.
        let grouped = pipeline.stages.first().is_some_and(PipelineStage::is_empty);
        let mut flow = Flow::default();
        let mut after_shell = false;
        for (at, stage) in pipeline.stages.iter().enumerate() {
            let reader = Consumer::of(stage);
            let consumer = if at == 0 { Consumer::Other } else { reader.clone() };
            if flow.prints_secrets && sends_input(stage) {
                self.add(RuleFinding::Ask(SENT), "");
            }
            if after_shell && sends_input(stage) {
                self.add(SHELL_FOR_OTHERS, "");
            }
            let runs = matches!(consumer, Consumer::Shell(_) | Consumer::Code);
            if runs && (flow.fetches || grouped && before.fetches) {
                self.add(RuleFinding::Ask(REMOTE), "");
            } else if runs && (flow.decodes || grouped && before.decodes) {
                self.add(RuleFinding::Ask(DECODED), "");
            } else if let Consumer::Shell(_) = consumer
                && let Some(last) = at.checked_sub(1).and_then(|at| pipeline.stages.get(at))
            {
                self.judge_written_files(Some(last));
                if last.body.is_none() && ShellOutput::of(last, &self.effects) == ShellOutput::Unknown {
                    self.add(RuleFinding::Ask(UNSEEN), "");
                }
            }
            if consumer != Consumer::Other {
                let here = pipeline.stages.get(flow.seen..at).unwrap_or_default();
                self.judge_piped_output(&mut here.iter(), &consumer);
                flow.seen = at;
                if grouped {
                    let earlier = earlier.get(before.seen..).unwrap_or_default();
                    self.judge_piped_output(
                        &mut earlier.iter().flat_map(|pipeline| &pipeline.stages),
                        &consumer,
                    );
                    before.seen += earlier.len();
                }
            }
            flow.fetches |= stage_fetches(stage);
            flow.decodes |= decodes(stage);
            flow.prints_secrets |= prints_secrets(stage);
            after_shell = reader == Consumer::Shell(InvocationKind::Directly);
        }
        before.fetches |= flow.fetches;
        before.decodes |= flow.decodes;
    }

    /// Judges the output of commands that goes to a consumer.
    fn judge_piped_output(&mut self, stages: &mut dyn Iterator<Item = &PipelineStage>, consumer: &Consumer) {
        for stage in stages {
            if let Some(body) = &stage.body {
                self.judge_piped_output(&mut body.stages(), consumer);
            }
            let text = printed_text(stage, None);
            match (text, consumer) {
                (Some(text), _) => self.judge_consumed_text(consumer, &ShellWord::plain(text), stage),
                // Any program may print its words to a database.
                (None, Consumer::Named(_)) => {
                    for word in stage.words.iter().chain(here_texts(stage)) {
                        self.judge_consumed_text(consumer, word, stage);
                    }
                }
                (None, _) => {}
            }
        }
    }
}
