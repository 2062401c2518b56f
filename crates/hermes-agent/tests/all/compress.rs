//! Tests of long conversations: what leaves them, what stays, and what happens when no summary can be produced.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_agent::{Conversation, Naming, ReviewIntervals, TurnInput as Words};
use hermes_types::{Message, ModelError, Role, ToolCall, ToolDescriptor, ToolOutcome, ToolRole};

use super::support::{
    AgentFixture, RecordingFrontend, ScriptedAnswer, ScriptedModel, ScriptedTool, call_answer, text_answer,
    texts,
};

/// Creates a fixture whose summaries come from a model of their own.
fn bench(
    window: u64,
    summaries: impl IntoIterator<Item = ScriptedAnswer>,
) -> (AgentFixture, Arc<ScriptedModel>) {
    let mut bench = AgentFixture::new([]);
    *bench.model.window.lock().unwrap() = window;
    *bench.model.input.lock().unwrap() = None;
    let side = AgentFixture::new(summaries);
    bench.set_side_model(side.model.clone(), std::time::Duration::from_secs(5));
    (bench, side.model)
}

async fn exchange(bench: &AgentFixture, conversation: &mut Conversation, count: usize, chars: usize) {
    for at in 0..count {
        bench.script([text_answer(&format!("answer {at} {}", "a".repeat(chars)))]);
        bench.say(conversation, &format!("question {at} {}", "q".repeat(chars))).await;
    }
}

/// Checks that no two neighbours among user and assistant share a role, and that every result follows its call.
fn check_shape(messages: &[Message]) {
    for pair in messages.windows(2) {
        let same = pair[0].role == pair[1].role && pair[0].role != Role::Tool;
        assert!(!same, "{:#?}", texts(messages));
    }
}

#[tokio::test]
async fn a_full_conversation_is_summarised_and_goes_on_in_a_new_session() {
    let (bench, side) = bench(8_000, [text_answer("## Goal\nthe goal")]);
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 18, 900).await;
    let child = conversation.session().clone();
    assert_ne!(child.as_str(), "s");
    let parent = bench.agent.store().session(&"s".into()).await.unwrap().unwrap();
    assert_eq!(parent.end_reason.as_deref(), Some("compression"));
    let row = bench.agent.store().session(&child).await.unwrap().unwrap();
    assert_eq!(row.parent.as_ref().map(hermes_types::SessionId::as_str), Some("s"));
    let kept = texts(conversation.messages());
    assert!(kept[0].starts_with("user: question 0 "), "the first words stay: {}", kept[0]);
    let summary = kept.iter().find(|text| text.contains("[CONTEXT COMPACTION]")).unwrap();
    assert!(summary.contains("## Goal\nthe goal"), "{summary}");
    check_shape(conversation.messages());
    assert_eq!(bench.stored_in(&child).await.len(), conversation.messages().len());
    let asked = side.asked.lock().unwrap();
    assert!(
        asked[0].messages[0].content.text().contains("[USER]: question 2 "),
        "the middle is the material"
    );
    assert_eq!(asked[0].temperature, Some(0.3));
}

#[tokio::test]
async fn a_later_compression_brings_the_earlier_summary_up_to_date() {
    let (bench, side) = bench(8_000, [text_answer("## Goal\nfirst"), text_answer("## Goal\nsecond")]);
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 40, 900).await;
    let asked = side.asked.lock().unwrap();
    assert!(asked.len() >= 2, "{}", asked.len());
    let material = asked[1].messages[0].content.text().into_owned();
    assert!(material.contains("<previous_summary>\n## Goal\nfirst"), "{material}");
    let summaries = texts(conversation.messages());
    let summaries: Vec<&String> =
        summaries.iter().filter(|text| text.contains("[CONTEXT COMPACTION]")).collect();
    assert_eq!(summaries.len(), 1, "one summary, with one prefix: {summaries:?}");
    assert_eq!(summaries[0].matches("[CONTEXT COMPACTION]").count(), 1);
    check_shape(conversation.messages());
}

#[tokio::test]
async fn without_a_summary_a_digest_takes_its_place_and_the_user_is_told() {
    // The main model is not asked instead: it would cost the same money.
    let (bench, _) = bench(8_000, [Err(ModelError::Budget("no credit".into()))]);
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 12, 900).await;
    let watcher = RecordingFrontend::default();
    for at in 12..18 {
        bench.script([text_answer(&"b".repeat(900))]);
        let words = Words::text(format!("question {at} {}", "q".repeat(900)));
        bench.agent.run_turn(&mut conversation, words, &watcher, &watcher.cancel).await.unwrap();
    }
    let told = watcher.notices.lock().unwrap().join("\n");
    assert!(told.contains("The summary could not be made (no credit)."), "{told}");
    let kept = texts(conversation.messages());
    let digest = kept.iter().find(|text| text.contains("[CONTEXT COMPACTION]")).unwrap();
    assert!(digest.contains("- User: question 3 "), "{digest}");
    check_shape(conversation.messages());
}

#[tokio::test]
async fn old_results_go_to_files_before_anything_is_summarised() {
    let (bench, side) = bench(60_000, []);
    let big = ScriptedTool::new("big", |_| ToolOutcome::done("r".repeat(7_000)));
    let mut bench = bench.tool(big);
    bench.set_iterations(60);
    bench.set_protect_last(2);
    let mut conversation = bench.conversation();
    for _ in 0..30 {
        bench.script([call_answer(&[("big", "{}")])]);
    }
    bench.script([text_answer("done")]);
    let result = bench.say(&mut conversation, "go").await;
    assert_eq!(result.response.as_deref(), Some("done"));
    assert_ne!(conversation.session().as_str(), "s");
    assert_eq!(side.asked.lock().unwrap().len(), 0, "no model was needed");
    let kept = texts(conversation.messages());
    let retired = kept.iter().find(|text| text.contains("[Old tool output cleared")).unwrap();
    let path = retired.split("whole in ").nth(1).unwrap().trim_end_matches(']');
    assert_eq!(std::fs::read_to_string(path).unwrap().len(), 7_000);
}

#[tokio::test]
async fn the_latest_instruction_open_tasks_and_files_survive() {
    struct List(hermes_types::ToolSpec);
    impl hermes_types::Tool for List {
        fn spec(&self) -> &hermes_types::ToolSpec {
            &self.0
        }
        fn run<'a>(
            &'a self,
            _: &'a hermes_types::ToolInvocation,
            _: hermes_types::ToolContext<'a>,
        ) -> hermes_types::BoxFuture<'a, ToolOutcome> {
            Box::pin(std::future::ready(ToolOutcome::done("ok")))
        }
        fn carry_over(&self, _: &hermes_types::TaskId) -> Option<String> {
            Some(
                "[Your active task list was preserved across context compression]\n- [ ] 1. test (pending)"
                    .into(),
            )
        }
    }
    let (mut bench, _) =
        bench(8_000, [text_answer("## Goal\nx"), text_answer("## Goal\ny"), text_answer("## Goal\nz")]);
    let spec = hermes_types::ToolSpec { name: "todo".into(), ..bench.agent.tools()[0].spec().clone() };
    bench.change(|agent| agent.tool(Arc::new(List(spec))));
    bench.set_iterations(60);
    bench.set_protect_last(4);
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 2, 10).await;
    for at in 0..30 {
        let arguments = format!("{{\"path\":\"src/file{at}.rs\",\"text\":\"{}\"}}", "t".repeat(1_200));
        bench.script([call_answer(&[("echo_back", &arguments)])]);
    }
    bench.script([text_answer("done")]);
    bench.say(&mut conversation, "rename every frobnicator, please").await;
    let last = bench.asked(bench.calls() - 1);
    let sent = texts(&last.messages).join("\n");
    assert!(sent.contains("rename every frobnicator, please"), "{sent}");
    assert!(sent.contains("- src/file0.rs") && sent.contains("- src/file9.rs"), "{sent}");
    assert!(sent.contains("- [ ] 1. test (pending)"), "{sent}");
    assert!(sent.contains("question 0 "), "the first words: {sent}");
}

#[tokio::test]
async fn a_provider_that_says_too_large_gets_a_smaller_request_and_then_a_clear_end() {
    let (bench, _) = bench(200_000, [text_answer("## Goal\nx")]);
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 14, 900).await;
    bench.script([Err(ModelError::Compress { limit: Some(5_000) }), text_answer("now it fits")]);
    let result = bench.say(&mut conversation, "and this").await;
    assert_eq!((result.response.as_deref(), result.api_calls), (Some("now it fits"), 1));
    let sizes: Vec<usize> =
        [2, 1].iter().map(|back| bench.asked(bench.calls() - back).messages.len()).collect();
    assert!(sizes[1] < sizes[0], "{sizes:?}");

    let bench = AgentFixture::new((0..9).map(|_| Err(ModelError::Compress { limit: None })));
    let result = bench.run(&RecordingFrontend::default()).await;
    assert!(result.error.unwrap().contains("Cannot compress further"));
    assert!(result.partial && bench.calls() == 1, "a conversation of one message cannot be shortened");
}

#[tokio::test]
async fn it_never_turns_in_circles() {
    // Every message is huge and protected: nothing can be saved, so compression must not be tried endlessly.
    let (bench, side) = bench(2_000, (0..50).map(|_| text_answer("## Goal\nx")));
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 6, 3_000).await;
    assert!(side.asked.lock().unwrap().len() < 20);
}

#[tokio::test]
async fn memory_is_asked_for_before_anything_leaves() {
    let (bench, side) =
        bench(8_000, [call_answer(&[("memory", r#"{"action":"add"}"#)]), text_answer("## Goal\nx")]);
    let saved = Arc::new(AtomicUsize::new(0));
    let count = saved.clone();
    let memory = ScriptedTool::new("memory", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        ToolOutcome::done("{}")
    });
    let bench = bench.tool(memory.with_facts(|tool| ToolDescriptor { role: Some(ToolRole::Memory), ..tool }));
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 16, 900).await;
    assert_eq!(saved.load(Ordering::SeqCst), 1);
    let asked = side.asked.lock().unwrap();
    assert_eq!(asked[0].tools.len(), 1, "only the memory tool");
    let traces =
        texts(conversation.messages()).iter().any(|text| text.contains("about to leave your context"));
    assert!(!traces, "nothing of it enters the conversation");
}

#[tokio::test]
async fn a_summary_is_never_torn_from_the_calls_it_stands_between() {
    let (bench, _) = bench(6_000, (0..20).map(|_| text_answer("## Goal\nx")));
    let mut bench = bench;
    bench.set_protect_last(3);
    bench.set_iterations(40);
    let mut conversation = bench.conversation();
    for at in 0..12 {
        let text = "t".repeat(400 + at * 60);
        let arguments = format!("{{\"text\":\"{text}\"}}");
        bench.script([
            call_answer(&[("echo_back", &arguments), ("echo_back", r#"{"n":1}"#)]),
            text_answer("next"),
        ]);
        bench.say(&mut conversation, "go on").await;
    }
    let open: Vec<ToolCall> =
        conversation.messages().iter().flat_map(|message| message.tool_calls.clone()).collect();
    for call in open {
        let answers = conversation
            .messages()
            .iter()
            .filter(|message| message.tool_call_id.as_ref() == Some(&call.id))
            .count();
        assert_eq!(answers, 1, "{}", call.id);
    }
    check_shape(conversation.messages());
}

#[tokio::test]
async fn a_refusal_without_a_number_counts_although_we_thought_there_was_room() {
    for refusal in [ModelError::TooLarge, ModelError::Compress { limit: None }] {
        let (bench, side) = bench(200_000, [text_answer("## Goal\nx")]);
        let mut conversation = bench.conversation();
        exchange(&bench, &mut conversation, 14, 900).await;
        bench.script([Err(refusal), text_answer("now it fits")]);
        let result = bench.say(&mut conversation, "and this").await;
        assert_eq!(result.response.as_deref(), Some("now it fits"));
        assert_eq!(side.asked.lock().unwrap().len(), 1, "it was summarised");
    }
    let bench = AgentFixture::new((0..9).map(|_| Err(ModelError::TooLarge)));
    let error = bench.run(&RecordingFrontend::default()).await.error.unwrap();
    assert!(error.starts_with("Request payload too large (413). Cannot compress further."), "{error}");
}

#[tokio::test]
async fn a_conversation_is_compressed_when_the_user_asks_for_it() {
    let (bench, side) = bench(200_000, [text_answer("## Goal\nthe parser")]);
    let mut conversation = bench.conversation();
    exchange(&bench, &mut conversation, 20, 300).await;
    let watcher = RecordingFrontend::default();
    let done =
        bench.agent.compress(&mut conversation, Some("the parser"), &watcher, &watcher.cancel).await.unwrap();
    let done = done.unwrap();
    assert!(done.messages_after < done.messages_before && done.tokens_after < done.tokens_before, "{done:?}");
    assert!(
        side.asked.lock().unwrap()[0].messages[0].content.text().contains("keep what concerns: the parser")
    );
    bench.script([text_answer("still here")]);
    let result = bench.say(&mut conversation, "and now?").await;
    assert_eq!(result.response.as_deref(), Some("still here"));
}

#[tokio::test]
async fn a_conversation_that_cannot_shrink_costs_nothing() {
    let mut bench = AgentFixture::new([]);
    bench.change(|agent| {
        agent.review_intervals(ReviewIntervals { flush_after: 1, ..ReviewIntervals::default() })
    });
    let mut conversation = bench.conversation();
    for turn in 0..6 {
        bench.script([text_answer(&format!("answer {turn}"))]);
        bench.say(&mut conversation, &format!("question {turn}")).await;
    }
    let before = bench.calls();
    let watcher = RecordingFrontend::default();
    let done = bench.agent.compress(&mut conversation, None, &watcher, &watcher.cancel).await.unwrap();
    assert!(done.is_none());
    assert_eq!(bench.calls(), before, "neither notes nor a summary were asked for");
    assert_eq!(conversation.session().as_str(), "s");
}

#[tokio::test]
async fn a_side_model_that_fails_is_replaced_by_the_main_one() {
    let stale = ModelError::GiveUp { message: "401".into(), status: Some(401) };
    let mut bench = AgentFixture::new([text_answer("an answer"), text_answer("A title")]);
    let side = AgentFixture::new([]);
    *side.model.fallback_answer.lock().unwrap() = Some(Err(stale));
    bench.set_side_model(side.model.clone(), std::time::Duration::from_secs(5));
    let mut conversation = bench.conversation();
    bench.say(&mut conversation, "a question").await;
    assert_eq!(
        bench.agent.follow_up(&conversation, Naming::Automatic, &hermes_types::Cancel::new()).await,
        None
    );
    let row = bench.agent.store().session(conversation.session()).await.unwrap().unwrap();
    assert_eq!(row.title.as_deref(), Some("A title"));
    assert_eq!(side.calls(), 1);
    assert_eq!(bench.asked(1).model, "m");
    let spent = bench
        .agent
        .store()
        .spending(hermes_store::ChargeRange::Since(hermes_types::Timestamp(0.0)))
        .await
        .unwrap();
    assert_eq!(spent.micro_usd, 200, "the title is in the ledger, too");
}
