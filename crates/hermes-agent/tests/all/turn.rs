//! Tests of the turn loop: the requests, the stored messages, the text for the user.

use hermes_store::ChargeRange;
use hermes_types::{
    CallKind, CallPolicy, Concurrency, FinishReason, Message, ModelError, Timestamp, ToolCall,
    ToolDescriptor, ToolOutcome, TurnState,
};

use super::support::{
    AgentFixture, LIMITS, RecordingFrontend, ScriptedTool, answer_with_reason, call_answer, pairs,
    text_answer, texts,
};
use hermes_agent::{TurnLimits, UnknownPricePolicy};

#[tokio::test]
async fn a_turn_with_a_tool_is_stored_step_by_step() {
    let bench = AgentFixture::new([
        call_answer(&[("echo_back", r#"{"a":1}"#)]),
        text_answer("<think>hm</think>done"),
    ]);
    let watcher = RecordingFrontend::default();
    let result = bench.run(&watcher).await;
    assert_eq!(
        (result.response.as_deref(), result.state, result.api_calls),
        (Some("done"), TurnState::Done, 2)
    );
    assert_eq!((result.usage.total(), result.cost.micro_usd), (30, Some(200)));
    let spent = bench.agent.store().spending(ChargeRange::Since(Timestamp(0.0))).await.unwrap();
    assert_eq!((spent.calls, spent.tokens, spent.micro_usd), (2, 30, 200), "the ledger has both calls");
    let session = bench.agent.store().session(&"s".into()).await.unwrap().unwrap();
    assert_eq!((session.usage, session.estimated_cost_usd), (result.usage, Some(0.0002)));
    let stored = bench.stored().await;
    let expected = [
        ("user", "hello"),
        ("assistant", ""),
        ("tool", r#"{"a":1}"#),
        ("assistant", "<think>hm</think>done"),
    ];
    assert_eq!(pairs(&stored), expected);
    assert!(bench.agent.store().running_turns().await.unwrap().is_empty());
    let asked = bench.model.asked.lock().unwrap();
    assert_eq!((asked[0].messages.len(), asked[1].messages.len()), (1, 3));
    assert_eq!(asked[0].tools[0].name, "echo_back");
}

#[tokio::test]
async fn names_written_a_little_differently_are_understood() {
    let bench = AgentFixture::new([
        call_answer(&[("Echo-Back", r#"{"n":1}"#)]),
        call_answer(&[("echoback", r#"{"n":2}"#)]),
        call_answer(&[("echo_back", "")]),
        text_answer("ok"),
    ]);
    bench.run(&RecordingFrontend::default()).await;
    let stored = bench.stored().await;
    let answers: Vec<&str> =
        stored.iter().filter(|(role, _)| role == "tool").map(|(_, text)| text.as_str()).collect();
    assert_eq!(answers, [r#"{"n":1}"#, r#"{"n":2}"#, "{}"]);
}

#[tokio::test]
async fn a_name_of_an_older_release_is_understood_in_the_form_of_today() {
    let bench = AgentFixture::new([call_answer(&[("repeat_words", r#"{"n":1}"#)]), text_answer("ok")]);
    bench.run(&RecordingFrontend::default()).await;
    let stored = bench.stored().await;
    assert!(
        stored.contains(&("tool".to_owned(), r#"{"n":1,"once":"repeat_words"}"#.to_owned())),
        "{stored:?}"
    );
}

#[tokio::test]
async fn an_unknown_name_runs_nothing_and_every_call_is_answered() {
    let bench =
        AgentFixture::new([call_answer(&[("nonsense", "{}"), ("echo_back", "{}")]), text_answer("ok")]);
    bench.run(&RecordingFrontend::default()).await;
    let stored = bench.stored().await;
    assert_eq!(stored[2].1, "Tool 'nonsense' does not exist. Available tools: echo_back");
    assert!(stored[3].1.starts_with("Skipped: another call"), "{}", stored[3].1);
}

#[tokio::test]
async fn the_third_unknown_name_in_a_row_ends_the_turn() {
    let bench = AgentFixture::new((0..3).map(|_| call_answer(&[("nonsense", "{}")])));
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!(result.error.as_deref(), Some("Model generated invalid tool call: nonsense"));
    assert!(result.partial && !result.completed());
}

#[tokio::test]
async fn broken_arguments_are_asked_for_again_twice_in_silence() {
    let broken = || call_answer(&[("echo_back", "{broken"), ("echo_back", "{}")]);
    let bench = AgentFixture::new([broken(), broken(), broken(), text_answer("ok")]);
    bench.run(&RecordingFrontend::default()).await;
    let stored = bench.stored().await;
    assert_eq!(stored.len(), 5, "only the third attempt is stored: {stored:?}");
    assert!(stored[2].1.starts_with("Error: Invalid JSON arguments. "), "{}", stored[2].1);
    assert_eq!(stored[3].1, "Skipped: other tool call in this response had invalid JSON.");
}

#[tokio::test]
async fn equal_calls_run_once_and_only_three_delegations() {
    let calls: Vec<(&str, String)> = (0..5).map(|n| ("delegate_task", format!("{{\"n\":{n}}}"))).collect();
    let mut calls: Vec<(&str, &str)> =
        calls.iter().map(|(name, arguments)| (*name, arguments.as_str())).collect();
    calls.extend([("echo_back", "{}"), ("echo_back", "{}")]);
    let bench = AgentFixture::new([call_answer(&calls), text_answer("ok")]).tool(
        ScriptedTool::new("delegate_task", |_| ToolOutcome::done("sent"))
            .with_facts(|tool| ToolDescriptor { max_calls_per_answer: Some(3), ..tool }),
    );
    bench.run(&RecordingFrontend::default()).await;
    let answered = bench.stored().await.iter().filter(|(role, _)| role == "tool").count();
    assert_eq!(answered, 4);
    assert_eq!(bench.asked(1).messages[1].tool_calls.len(), 4, "dropped calls are not in the history either");
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_run() {
    let cut = || answer_with_reason(call_answer(&[("echo_back", r#"{"a":1}"#)]), FinishReason::Length);
    let bench = AgentFixture::new([cut(), text_answer("ok")]);
    bench.run(&RecordingFrontend::default()).await;
    assert_eq!(pairs(&bench.stored().await), [("user", "hello"), ("assistant", "ok")]);
    assert_eq!(bench.asked(1).max_tokens, Some(2048), "the second request may be longer");

    let bench = AgentFixture::new((0..9).map(|_| cut()));
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!(result.error.as_deref(), Some("First response truncated due to output length limit"));
    assert_eq!((result.state, bench.calls()), (TurnState::Failed, 5));
}

#[tokio::test]
async fn a_text_that_was_cut_off_is_continued_and_put_together() {
    let cut = |text: &str| answer_with_reason(text_answer(text), FinishReason::Length);
    let bench = AgentFixture::new([cut("one "), cut("two "), text_answer("three")]);
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!(result.response.as_deref(), Some("one two three"));
    assert!(bench.asked(1).messages.last().unwrap().content.text().starts_with("[System: "));

    let bench = AgentFixture::new((0..9).map(|_| cut("more ")));
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!(result.error.as_deref(), Some("Response remained truncated after 3 continuation attempts"));
    assert!(result.partial && bench.calls() == 3);
}

#[tokio::test]
async fn thinking_without_an_answer_ends_at_once() {
    let bench =
        AgentFixture::new([answer_with_reason(text_answer("<think>and on and on"), FinishReason::Length)]);
    let result = bench.run(&RecordingFrontend::default()).await;
    assert!(result.response.unwrap().contains("reasoning_effort"));
    assert!(result.partial && bench.calls() == 1);
}

#[tokio::test]
async fn nothing_to_read_is_asked_for_again_and_thought_is_the_last_resort() {
    let empty = || text_answer("<think>hm</think>");
    let bench = AgentFixture::new([empty(), empty(), text_answer("there")]);
    assert_eq!(bench.run(&RecordingFrontend::default()).await.response.as_deref(), Some("there"));
    assert_eq!(bench.stored().await.len(), 2, "the empty ones are not stored");

    let bench = AgentFixture::new([empty(), empty(), empty()]);
    assert_eq!(bench.run(&RecordingFrontend::default()).await.response.as_deref(), Some("hm"));

    let bench = AgentFixture::new([text_answer(""), text_answer(""), text_answer("")]);
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!(result.error.as_deref(), Some("The model sent an empty answer three times"));
}

#[tokio::test]
async fn what_was_said_beside_a_call_may_have_been_the_answer() {
    let Ok(mut message) = call_answer(&[("echo_back", "{}")]) else { unreachable!() };
    message.content = "All is well.".into();
    let bench = AgentFixture::new([Ok(message), text_answer("")]);
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!((result.response.as_deref(), result.previewed), (Some("All is well."), true));
}

#[tokio::test]
async fn an_open_scratchpad_is_thrown_away() {
    let open = || text_answer("<REASONING_SCRATCHPAD>never closed");
    let bench = AgentFixture::new([open(), text_answer("fine")]);
    assert_eq!(bench.run(&RecordingFrontend::default()).await.response.as_deref(), Some("fine"));
    let bench = AgentFixture::new([open(), open(), open()]);
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!(result.error.as_deref(), Some("Incomplete REASONING_SCRATCHPAD after 2 retries"));
}

#[tokio::test]
async fn a_long_result_is_kept_on_disk_and_can_be_read_there() {
    let bench = AgentFixture::new([call_answer(&[("echo_back", r#"{"times":20000}"#)]), text_answer("ok")]);
    bench.run(&RecordingFrontend::default()).await;
    let result = &bench.stored().await[2].1;
    assert!(result.starts_with("<persisted-output>") && result.contains("300,000 chars"), "{result}");
    let path = result.split("saved whole to ").nth(1).unwrap().lines().next().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap().len(), 300_000);
}

#[tokio::test]
async fn results_come_in_the_order_of_the_calls() {
    let together = CallPolicy { concurrency: Concurrency::Parallel, ..CallPolicy::default() };
    let bench = AgentFixture::new([call_answer(&[("a", "{}"), ("b", "{}"), ("c", "{}")]), text_answer("ok")])
        .tool(ScriptedTool::new("a", |_| ToolOutcome::done("first")).with_policy(together.clone()))
        .tool(ScriptedTool::new("b", |_| panic!("a broken tool")).with_policy(together.clone()))
        .tool(ScriptedTool::new("c", |_| ToolOutcome::done("third")).with_policy(together));
    bench.run(&RecordingFrontend::default()).await;
    let stored = bench.stored().await;
    assert_eq!((stored[2].1.as_str(), stored[4].1.as_str()), ("first", "third"));
    assert!(stored[3].1.contains("Tool execution failed: b"), "a tool that panics costs its own answer only");
}

#[tokio::test]
async fn scripts_do_not_count_against_the_limit() {
    let script = CallPolicy { kind: CallKind::Script, ..CallPolicy::default() };
    let mut answers: Vec<_> = (0..4).map(|_| call_answer(&[("execute_code", "{}")])).collect();
    answers.push(text_answer("done"));
    let bench = AgentFixture::new(answers)
        .tool(ScriptedTool::new("execute_code", |_| ToolOutcome::done("ran")).with_policy(script));
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!((result.response.as_deref(), result.api_calls), (Some("done"), 5));
    assert!(!result.completed(), "the number of calls is what it is");
}

#[tokio::test]
async fn the_model_is_told_when_its_steps_run_out_and_nothing_of_it_is_stored() {
    let mut answers: Vec<_> = (0..4).map(|_| call_answer(&[("echo_back", r#"{"a":1}"#)])).collect();
    answers.push(text_answer("done"));
    let bench = AgentFixture::new(answers);
    bench.run(&RecordingFrontend::default()).await;
    let last = |at: usize| bench.asked(at).messages.last().unwrap().content.text().into_owned();
    assert!(!last(3).contains("BUDGET"), "{}", last(3));
    assert!(last(4).contains("[BUDGET: Iteration 4/5. "), "{}", last(4));
    assert!(bench.stored().await.iter().all(|(_, text)| !text.contains("BUDGET")));
}

#[tokio::test]
async fn the_prompt_is_built_once_and_used_byte_for_byte_after() {
    let bench = AgentFixture::new([text_answer("one"), text_answer("two")]);
    let mut conversation = bench.conversation();
    bench.say(&mut conversation, "first").await;
    std::fs::write(bench.folder.path().join("project/AGENTS.md"), "new rules").unwrap();
    let mut again = bench.agent.load_conversation(&"s".into()).await.unwrap().conversation;
    bench.say(&mut again, "second").await;
    assert_eq!(bench.asked(0).system, bench.asked(1).system);
    assert!(bench.asked(0).system.starts_with("You are Hermes Agent"), "{}", bench.asked(0).system);
    assert_eq!(texts(&bench.asked(1).messages), ["user: first", "assistant: one", "user: second"]);
}

#[tokio::test]
async fn an_orphaned_result_and_an_open_call_are_repaired_in_the_copy_only() {
    let bench = AgentFixture::new([text_answer("ok")]);
    let mut conversation = bench.conversation();
    bench.say(&mut conversation, "one").await;
    let call = ToolCall::new(None, "echo_back", "{}");
    let rows = [
        Message::assistant("").with_calls(vec![call]),
        Message::tool(&ToolCall::new(None, "x", "{}"), "lost"),
    ];
    for message in rows {
        let row = hermes_store::NewMessage::new(message, Timestamp(1.0));
        bench.agent.store().append(&"s".into(), row).await.unwrap();
    }
    let mut again = bench.agent.load_conversation(&"s".into()).await.unwrap().conversation;
    bench.script([text_answer("fine")]);
    bench.say(&mut again, "two").await;
    let sent = bench.asked(1).messages;
    let last = texts(&sent);
    assert_eq!(last.len(), 5, "{last:?}");
    assert!(last[3].starts_with("tool: [Not started"), "{last:?}");
    assert!(!last.iter().any(|text| text.contains("lost")), "{last:?}");
}

#[tokio::test]
async fn a_model_that_fails_leaves_the_question_in_the_database() {
    let failure = ModelError::GiveUp { message: "HTTP 500: on fire".into(), status: Some(500) };
    let bench = AgentFixture::new([Err(failure.clone())]);
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!((result.state, result.failure, result.response), (TurnState::Failed, Some(failure), None));
    assert_eq!(result.error.as_deref(), Some("HTTP 500: on fire"));
    assert_eq!(pairs(&bench.stored().await), [("user", "hello")]);
    assert!(bench.agent.store().running_turns().await.unwrap().is_empty());
}

#[tokio::test]
async fn cancelling_ends_the_turn_and_keeps_what_there_is() {
    let bench = AgentFixture::new([call_answer(&[("echo_back", "{}")]), text_answer("never")]);
    let watcher = RecordingFrontend { cancel_at: Some("ToolEnded"), ..RecordingFrontend::default() };
    let result = bench.run(&watcher).await;
    assert_eq!((result.state, result.failure), (TurnState::Interrupted, Some(ModelError::Cancelled)));
    assert_eq!(bench.stored().await.len(), 3, "the call and its answer are kept");
}

#[tokio::test]
async fn an_interrupt_between_calls_leaves_the_rest_unstarted() {
    let bench = AgentFixture::new([
        call_answer(&[("echo_back", r#"{"n":1}"#), ("echo_back", r#"{"n":2}"#)]),
        text_answer("never"),
    ]);
    let watcher = RecordingFrontend { cancel_at: Some("ToolEnded"), ..RecordingFrontend::default() };
    bench.run(&watcher).await;
    let stored = bench.stored().await;
    assert_eq!(stored[3].1, "[Tool execution skipped — echo_back was not started. User sent a new message]");
}

#[tokio::test]
async fn an_interrupt_before_the_batch_cancels_all_of_it() {
    let bench = AgentFixture::new([call_answer(&[("echo_back", "{}")]), text_answer("never")]);
    let watcher = RecordingFrontend { cancel_at: Some("SegmentEnded"), ..RecordingFrontend::default() };
    bench.run(&watcher).await;
    let words = "[Tool execution cancelled — echo_back was skipped due to user interrupt]";
    assert_eq!(bench.stored().await[2].1, words);
}

#[tokio::test]
async fn a_model_that_never_stops_calling_sums_up_in_the_end() {
    let mut answers: Vec<_> = (0..5).map(|_| call_answer(&[("echo_back", "{}")])).collect();
    answers.push(text_answer("That is how far I came."));
    let bench = AgentFixture::new(answers);
    let result = bench.run(&RecordingFrontend::default()).await;
    assert_eq!((result.api_calls, result.completed()), (5, false));
    assert_eq!(result.response.as_deref(), Some("That is how far I came."));
    assert!(bench.asked(5).tools.is_empty(), "the summary is asked for without tools");
}

#[tokio::test]
async fn the_surface_is_told_what_happens() {
    let bench = AgentFixture::new([call_answer(&[("echo_back", "{}")]), text_answer("ok")]);
    let watcher = RecordingFrontend::default();
    bench.run(&watcher).await;
    let events = watcher.events.lock().unwrap();
    let told: Vec<&str> = events.iter().map(String::as_str).filter(|name| *name != "Spent").collect();
    let expected = [
        "TurnStarted",
        "Step",
        "Delta",
        "SegmentEnded",
        "ToolStarted",
        "ToolEnded",
        "Step",
        "Delta",
        "TurnEnded",
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_limit_in_dollars_says_once_that_it_does_not_count_a_model_without_a_price() {
    for (unpriced, notices, calls) in [
        (UnknownPricePolicy::Ignore, 0, 4),
        (UnknownPricePolicy::Warn, 1, 4),
        (UnknownPricePolicy::Refuse, 0, 1),
    ] {
        let mut bench = AgentFixture::new([
            call_answer(&[("echo_back", "{}")]),
            text_answer("one"),
            call_answer(&[("echo_back", "{}")]),
            text_answer("two"),
        ]);
        bench.change(|agent| agent.limits(TurnLimits { unknown_price: unpriced, ..LIMITS }));
        *bench.model.price.lock().unwrap() = None;
        let watcher = RecordingFrontend::default();
        let mut conversation = bench.conversation();
        for words in ["first", "second"] {
            let said = hermes_agent::TurnInput::text(words);
            let result =
                bench.agent.run_turn(&mut conversation, said, &watcher, &watcher.cancel).await.unwrap();
            if unpriced == UnknownPricePolicy::Refuse {
                assert!(result.error.unwrap().contains("`budget.strict`"));
                break;
            }
            assert!(result.completed());
        }
        let told = watcher.notices.lock().unwrap().iter().filter(|text| text.contains("price of m")).count();
        assert_eq!((told, bench.calls()), (notices, calls), "{unpriced:?}");
    }
}
