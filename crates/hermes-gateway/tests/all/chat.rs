//! Tests of what users see in a chat.

use std::sync::Arc;

use hermes_gateway::{AttachmentContent, AttachmentRequest, MessageExpansion, ProcessInfo, SkillPrompts};
use hermes_testkit::FakeChannel;
use hermes_types::{
    Attachment, AttachmentKind, BoxFuture, ChatPart, Clock as _, ContentPart, MessageContent, MessageStatus,
    ModelError, Role,
};

use super::support::{GatewayFixture, GatewayFixturePlan, ModelStep, TestModel};

#[tokio::test]
async fn a_message_is_acknowledged_answered_and_closed() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.write("ann", "hello");
    assert_eq!(bench.channel.until_said("ann", "hello").await, "you said: hello");
    bench.until_quiet().await;
    assert_eq!(bench.channel.acknowledged(), ["1"]);
    let posted = bench.channel.posted();
    assert_eq!(posted.len(), 1);
    assert_eq!(posted[0].reply_to.as_deref(), Some("m1"));
    assert!(bench.channel.typing() > 0);
}

#[tokio::test]
async fn a_conversation_goes_on_and_people_are_kept_apart() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{said} after {}", request.messages.len() - 1))
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "one");
    bench.channel.until_said("ann", "one after 0").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "two");
    bench.channel.until_said("ann", "two after 2").await;
    bench.channel.write("bob", "mine");
    bench.channel.until_said("bob", "mine after 0").await;
}

#[tokio::test]
async fn the_same_message_twice_is_answered_once() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    let envelope = bench.channel.envelope("ann", "once");
    bench.channel.deliver(envelope.clone());
    bench.channel.deliver(envelope);
    bench.channel.until_acknowledged(2).await;
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann"), ["you said: once"]);
}

#[tokio::test]
async fn a_new_message_interrupts_and_several_are_said_as_one() {
    let model = TestModel::new(|said, _| match said {
        "long" => ModelStep::Hang,
        said => ModelStep::Say(format!("[{said}]")),
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "long");
    bench.until_asked(1).await;
    bench.channel.write("ann", "short");
    bench.channel.until_said("ann", "[short]").await;
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann"), ["[short]"], "the interrupted answer is not said");
}

#[tokio::test]
async fn stop_is_heard_while_a_turn_hangs() {
    let bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Stuck)).await;
    bench.channel.write("ann", "go");
    bench.until_asked(1).await;
    bench.channel.write("ann", "/stop");
    bench.channel.until_said("ann", "Force-stopped").await;
    // The turn does not stop when told to; after the grace period it is abandoned.
    while !bench.clock.slept().contains(&std::time::Duration::from_secs(5)) {
        tokio::task::yield_now().await;
    }
    bench.clock.advance(std::time::Duration::from_secs(6));
    bench.until_quiet().await;
    assert_eq!(bench.store.inbox_depth().await.unwrap().waiting, 0);
    assert!(bench.store.running_turns().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_waits_behind_a_stopped_turn_is_dropped_and_new_begins_anew() {
    let model = TestModel::new(|said, request| match said {
        "go" => ModelStep::Hang,
        said => ModelStep::Say(format!("{said} after {}", request.messages.len() - 1)),
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "go");
    bench.until_asked(1).await;
    bench.channel.write("ann", "/new");
    bench.channel.until_said("ann", "✨").await;
    bench.channel.write("ann", "hello");
    bench.channel.until_said("ann", "hello after 0").await;
    bench.until_quiet().await;
    let ended = bench.witness.ended.lock().unwrap().clone();
    assert_eq!(ended, ["agent:main:fake:dm:chat-ann"], "what tools kept for the old conversation is gone");
}

#[tokio::test]
async fn commands_are_answered_while_busy_without_disturbing_the_turn() {
    let bench =
        GatewayFixture::with(TestModel::new(|said, _| ModelStep::Gate(format!("done: {said}")))).await;
    bench.channel.write("ann", "work");
    bench.until_asked(1).await;
    bench.channel.write("ann", "/status");
    let status = bench.channel.until_said("ann", "Gateway Status").await;
    assert!(status.contains("**Agent running:** Yes"), "{status}");
    bench.channel.write("ann", "/undo");
    bench.channel.until_said("ann", "/undo has to wait").await;
    bench.channel.write("ann", "/queue and then this");
    bench.channel.until_acknowledged(4).await;
    bench.model.gate.add_permits(9);
    bench.channel.until_said("ann", "done: work").await;
    bench.channel.until_said("ann", "done: and then this").await;
}

#[tokio::test]
async fn an_approval_is_asked_for_and_given_by_word_or_button() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say(message.content.text().into_owned()),
        _ => ModelStep::Call("risky", "{}"),
    });
    let bench = GatewayFixture::with(model).await;
    for (reply, outcome) in [
        ("yes", "Approval(Once)"),
        ("/approve session", "Approval(Session)"),
        ("/approve always", "Approval(Always)"),
        ("no", "Approval(Deny)"),
        ("/deny", "Approval(Deny)"),
    ] {
        let before = bench.channel.posted().len();
        bench.channel.write("ann", "do it");
        let asked = |posted: &[hermes_testkit::PostedMessage]| {
            posted.iter().skip(before).find(|p| p.text.contains("requires approval")).cloned()
        };
        let question = bench.channel.until(asked).await;
        let words: Vec<&str> = question.choices.iter().filter_map(|says| says.split(" #").next()).collect();
        assert_eq!(words, ["/approve", "/approve session", "/approve always", "/deny"]);
        assert!(question.text.contains("rm -rf ./build"));
        bench.channel.write("ann", reply);
        let answered = |posted: &[hermes_testkit::PostedMessage]| {
            posted.iter().skip(before).find(|p| p.text.contains(outcome)).map(|_| ())
        };
        bench.channel.until(answered).await;
        bench.until_quiet().await;
    }
}

#[tokio::test]
async fn silence_is_no_approval() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say(message.content.text().into_owned()),
        _ => ModelStep::Call("risky", "{}"),
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "do it");
    bench.channel.until_said("ann", "requires approval").await;
    bench.clock.advance(std::time::Duration::from_secs(301));
    bench.channel.until_said("ann", "Approval expired").await;
    bench.channel.until_said("ann", "TimedOut").await;
    bench.channel.write("ann", "/approve");
    bench.channel.until_said("ann", "No pending command to approve.").await;
}

#[tokio::test]
async fn yes_is_a_word_like_any_other_when_nothing_is_asked() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.write("ann", "yes");
    bench.channel.until_said("ann", "you said: yes").await;
}

#[tokio::test]
async fn tools_and_the_answer_are_shown_as_they_come() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say("the answer in many words".to_owned()),
        _ => ModelStep::Call("risky", "{}"),
    });
    let mut plan = GatewayFixturePlan::new(model);
    plan.config = "streaming: {enabled: true}\ndisplay: {tool_progress: all}\n";
    plan.clock = hermes_testkit::TestClock::auto_advance_up_to(std::time::Duration::from_secs(1));
    let bench = plan.start().await;
    bench.channel.write("ann", "go");
    bench.channel.until_said("ann", "⚡ risky").await;
    bench.channel.write("ann", "yes");
    let whole = |posted: &[hermes_testkit::PostedMessage]| {
        posted.iter().find(|p| p.text == "the answer in many words").cloned()
    };
    let answer = bench.channel.until(whole).await;
    bench.until_quiet().await;
    assert!(answer.key.is_none(), "the message that showed it growing holds the whole");
    assert!(!answer.earlier.is_empty() && answer.earlier.iter().all(|text| text.ends_with('▉')));
    let texts = bench.channel.texts("ann");
    assert_eq!(texts.iter().filter(|text| text.contains("the answer")).count(), 1, "{texts:?}");
}

#[tokio::test]
async fn a_long_answer_comes_in_parts_and_in_order() {
    let long = (0..400).map(|at| format!("sentence number {at}.")).collect::<Vec<_>>().join(" ");
    let expected = long.clone();
    let bench = GatewayFixture::with(TestModel::new(move |_, _| ModelStep::Say(long.clone()))).await;
    bench.channel.write("ann", "tell me");
    let done = |posted: &[hermes_testkit::PostedMessage]| {
        posted.iter().any(|p| p.text.contains("399")).then_some(())
    };
    bench.channel.until(done).await;
    let texts = bench.channel.texts("ann");
    assert!(texts.len() > 3);
    let mut whole = String::new();
    for (at, text) in texts.iter().enumerate() {
        let bare = text.strip_suffix(&format!(" ({}/{})", at + 1, texts.len())).unwrap();
        whole.push_str(bare);
        whole.push(' ');
    }
    assert_eq!(whole.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_failing_model_is_said_and_the_message_stays() {
    let failure = ModelError::GiveUp { message: "quota is used up".into(), status: Some(429) };
    let bench = GatewayFixture::with(TestModel::new(move |_, _| ModelStep::Fail(failure.clone()))).await;
    bench.channel.write("ann", "hello");
    let text = bench.channel.until_said("ann", "Sorry").await;
    assert!(text.contains("quota is used up") && text.contains("rate limit"), "{text}");
    bench.until_quiet().await;
    bench.channel.write("ann", "/retry");
    bench.channel.until_acknowledged(2).await;
    bench.until_asked(2).await;
    assert_eq!(bench.model.questions(), ["hello", "hello"]);
}

#[tokio::test]
async fn a_name_means_a_session_of_ones_own() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{said} after {}", request.messages.len() - 1))
    });
    let bench = GatewayFixture::with(model).await;
    for (person, title) in [("ann", "Trip"), ("bob", "Trip #2")] {
        bench.channel.write(person, "hello");
        bench.channel.until_said(person, "hello after 0").await;
        bench.until_quiet().await;
        bench.channel.write(person, &format!("/title {title}"));
        bench.channel.until_said(person, &format!("✏️ Session title set: **{title}**")).await;
        bench.channel.write(person, "/new");
        bench.channel.until_said(person, "✨ Session reset!").await;
    }
    // The newest of the series is Bob's, and Ann must neither get it nor be kept from hers.
    bench.channel.write("ann", "/resume Trip");
    bench.channel.until_said("ann", "↻ Resumed session **Trip** (2 messages)").await;
    bench.channel.write("bob", "/resume Trip");
    bench.channel.until_said("bob", "↻ Resumed session **Trip #2** (2 messages)").await;
    bench.channel.write("ann", "/resume Trip #2");
    bench.channel.until_said("ann", "No session named 'Trip #2' was found").await;
}

#[tokio::test]
async fn undo_title_resume_and_background() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{said} after {}", request.messages.len() - 1))
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "first");
    bench.channel.until_said("ann", "first after 0").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "/title Holiday plans");
    bench.channel.until_said("ann", "✏️ Session title set: **Holiday plans**").await;
    bench.channel.write("ann", "/new");
    bench.channel.until_said("ann", "✨ Session reset!").await;
    bench.channel.write("ann", "/resume");
    bench.channel.until_said("ann", "• **Holiday plans**").await;
    bench.channel.write("bob", "/resume Holiday plans");
    bench.channel.until_said("bob", "No session named").await;
    bench.channel.write("ann", "/resume Holiday plans");
    bench.channel.until_said("ann", "↻ Resumed session **Holiday plans** (2 messages)").await;
    bench.channel.write("ann", "second");
    bench.channel.until_said("ann", "second after 2").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "/undo");
    bench.channel.until_said("ann", "↩️ Undid 2 message(s).").await;
    bench.channel.write("ann", "/undo soon");
    bench.channel.until_said("ann", "Usage: /undo [N]").await;
    bench.channel.write("ann", "/undo 5");
    bench.channel.until_said("ann", "↩️ Undid 2 message(s).\nRemoved: \"first\"").await;
    bench.channel.write("ann", "/background look into it");
    bench.channel.until_said("ann", "🔄 Background task started").await;
    bench
        .channel
        .until_said("ann", "✅ Background task complete\nPrompt: \"look into it\"\n\nlook into it after 0")
        .await;
}

#[tokio::test]
async fn a_chat_begins_anew_after_silence_and_says_so() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{} messages: {said}", request.messages.len()))
    });
    let mut plan = GatewayFixturePlan::new(model);
    plan.config = "session_reset: {mode: idle, idle_minutes: 60}\n";
    let bench = plan.start().await;
    bench.channel.write("ann", "one");
    bench.channel.until_said("ann", "1 messages: one").await;
    bench.until_quiet().await;
    bench.clock.advance(std::time::Duration::from_mins(61));
    bench.channel.write("ann", "two");
    bench.channel.until_said("ann", "◐ Session automatically reset (inactive for 1h)").await;
    bench.channel.until_said("ann", "1 messages: [System note").await;
}

/// A process list that reports a running process until told otherwise.
#[derive(Default)]
struct AtWork(std::sync::atomic::AtomicBool);

impl ProcessInfo for AtWork {
    fn has_running_process(&self, task: &hermes_types::TaskId) -> bool {
        assert!(task.as_str().contains("chat-ann"), "{task}");
        !self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_chat_with_a_running_process_does_not_begin_anew() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{} messages: {said}", request.messages.len()))
    });
    let at_work = Arc::new(AtWork::default());
    let mut plan = GatewayFixturePlan { processes: at_work.clone(), ..GatewayFixturePlan::new(model) };
    plan.config = "session_reset: {mode: both, idle_minutes: 60}\n";
    let bench = plan.start().await;
    bench.channel.write("ann", "one");
    bench.channel.until_said("ann", "1 messages: one").await;
    bench.until_quiet().await;
    bench.clock.advance(std::time::Duration::from_hours(30));
    bench.channel.write("ann", "two");
    bench.channel.until_said("ann", "3 messages: two").await;
    bench.until_quiet().await;
    at_work.0.store(true, std::sync::atomic::Ordering::Relaxed);
    bench.clock.advance(std::time::Duration::from_hours(30));
    bench.channel.write("ann", "three");
    bench.channel.until_said("ann", "◐ Session automatically reset").await;
}

#[tokio::test]
async fn a_quick_command_is_the_users_own() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.config = "quick_commands:\n  fresh: {type: alias, target: new}\n  odd: {type: dance}\n";
    let bench = plan.start().await;
    bench.channel.write("ann", "/fresh");
    bench.channel.until_said("ann", "✨ New session started!").await;
    bench.channel.write("ann", "/odd");
    bench.channel.until_said("ann", "has the type `dance`").await;
    bench.channel.write("ann", "/branch");
    bench.channel.until_said("ann", "There is nothing to branch from yet.").await;
    bench.channel.write("ann", "/nobody knows this");
    bench.channel.until_said("ann", "you said: /nobody knows this").await;
}

#[tokio::test]
async fn a_branch_takes_the_place_of_the_conversation() {
    let model = TestModel::new(|said, request| {
        ModelStep::Say(format!("{} messages: {said}", request.messages.len()))
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "one");
    bench.channel.until_said("ann", "1 messages: one").await;
    bench.channel.write("ann", "/branch another way");
    let said = bench.channel.until_said("ann", "⑂ Branched: this is session").await;
    bench.channel.write("ann", "two");
    bench.channel.until_said("ann", "3 messages: two").await;
    let original = said.split("`/resume ").nth(1).and_then(|rest| rest.split('`').next()).unwrap().to_owned();
    bench.channel.write("ann", &format!("/resume {original}"));
    bench.channel.until_said("ann", "(2 messages). Conversation restored.").await;
    bench.channel.write("ann", "/compress --preview");
    bench.channel.until_said("ann", "at least 4 messages").await;
}

#[tokio::test]
async fn sethome_is_kept_and_help_lists_the_commands() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.write("ann", "/sethome");
    bench.channel.until_said("ann", "✅ Home channel set to **ann's name** (ID: chat-ann).").await;
    let kept = std::fs::read_to_string(bench.folder.path().join("config.yaml")).unwrap();
    assert!(kept.contains("FAKE_HOME_CHANNEL: chat-ann"), "{kept}");
    bench.channel.write("ann", "/help");
    let help = bench.channel.until_said("ann", "📖 **Hermes Commands**").await;
    assert!(
        help.contains("`/compress, /compact [what matters | --preview]`") && !help.contains("/start"),
        "{help}"
    );
}

#[tokio::test]
async fn conversations_that_rest_cost_no_slot() {
    let bench = GatewayFixturePlan {
        channel: FakeChannel::new("fake"),
        ..GatewayFixturePlan::new(TestModel::echo())
    }
    .start()
    .await;
    for at in 0..50 {
        bench.channel.write(&format!("user{at}"), "hi");
    }
    bench.channel.until(|posted| (posted.len() == 50).then_some(())).await;
    bench.until_quiet().await;
    assert_eq!(bench.gateway.status().active_turns(), 0);
}

#[tokio::test]
async fn a_first_chat_is_told_about_home_once_and_watchers_about_each_step() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.env = &[("FAKE_ALLOW_ALL_USERS", "1")];
    let bench = plan.start().await;
    bench.channel.write("ann", "hello");
    bench.channel.until_said("ann", "📬 No home channel is set for Fake. /sethome").await;
    bench.channel.until_said("ann", "you said: hello").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "/new");
    bench.channel.until_said("ann", "✨").await;
    bench.channel.write("ann", "again");
    bench.channel.until_said("ann", "you said: again").await;
    bench.until_quiet().await;
    let texts = bench.channel.texts("ann");
    assert_eq!(texts.iter().filter(|text| text.starts_with('📬')).count(), 1, "{texts:?}");
    let events = bench.events.0.lock().unwrap().clone();
    let expected = [
        "session:start",
        "agent:start",
        "agent:step",
        "agent:end",
        "command:new",
        "session:end",
        "session:reset",
        "agent:start",
        "agent:step",
        "agent:end",
    ];
    assert_eq!(events, expected);
}

#[tokio::test]
async fn pieces_that_come_within_the_quiet_time_are_answered_together() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    let quiet = std::time::Duration::from_millis(600);
    let piece = |text: &str| {
        let mut envelope = bench.channel.envelope("ann", text);
        envelope.quiet_ms = 600;
        envelope
    };
    let waits = |count: usize| {
        let clock = bench.clock.clone();
        async move {
            while clock.slept().iter().filter(|slept| **slept == quiet).count() < count {
                tokio::task::yield_now().await;
            }
        }
    };
    bench.channel.deliver(piece("first half,"));
    waits(1).await;
    bench.channel.deliver(piece("second half"));
    bench.channel.until_acknowledged(2).await;
    bench.clock.advance(quiet);
    // The second piece has its own quiet time.
    waits(2).await;
    assert_eq!(bench.channel.texts("ann"), Vec::<String>::new());
    bench.clock.advance(quiet);
    assert_eq!(bench.channel.until_said("ann", "you said").await, "you said: first half,\nsecond half");
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann").len(), 1);
}

#[tokio::test]
async fn what_was_said_before_a_restart_is_not_waited_for_again() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    let mut envelope = bench.channel.envelope("ann", "old");
    envelope.quiet_ms = 600;
    envelope.received_at = bench.clock.now().minus(std::time::Duration::from_secs(5));
    bench.channel.deliver(envelope);
    bench.channel.until_said("ann", "you said: old").await;
}

#[tokio::test]
async fn messages_are_marked_as_seen_and_by_what_became_of_them() {
    let model = TestModel::new(|said, _| match said {
        "bad" => ModelStep::Fail(ModelError::GiveUp { status: Some(400), message: "no".to_owned() }),
        said => ModelStep::Say(said.to_owned()),
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "good");
    let marks = bench.channel.until_marked(2).await;
    assert_eq!(
        marks,
        [("m1".to_owned(), MessageStatus::Processing), ("m1".to_owned(), MessageStatus::Answered)]
    );
    bench.until_quiet().await;
    bench.channel.write("ann", "bad");
    let marks = bench.channel.until_marked(4).await;
    assert_eq!(
        marks[2..],
        [("m2".to_owned(), MessageStatus::Processing), ("m2".to_owned(), MessageStatus::Failed)]
    );
}

#[tokio::test]
async fn the_very_first_conversation_begins_with_an_introduction() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    for (user, text, introduced) in
        [("ann", "one", true), ("ann", "two", true), ("bob", "three", false), ("ann", "four", false)]
    {
        bench.channel.write(user, text);
        bench.channel.until_said(user, &format!("you said: {text}")).await;
        bench.until_quiet().await;
        let asked = bench.model.requests.lock().unwrap();
        // Naming the conversation is a separate request, not a turn.
        let turn =
            asked.iter().rfind(|request| request.messages.last().unwrap().content.text() == text).unwrap();
        assert_eq!(turn.system.contains("/help lists the commands"), introduced, "{user}: {text}");
    }
}

#[tokio::test]
async fn reasoning_is_shown_where_that_is_wanted() {
    let model = || TestModel::new(|_, _| ModelStep::Think("one\n```\ntwo", "the answer"));
    let mut plan = GatewayFixturePlan::new(model());
    plan.config = "display:\n  show_reasoning: true\n";
    let bench = plan.start().await;
    bench.channel.write("ann", "why?");
    let said = bench.channel.until_said("ann", "the answer").await;
    assert_eq!(said, "💭 **Reasoning:**\n```\none\n'''\ntwo\n```\n\nthe answer");
    let bench = GatewayFixture::with(model()).await;
    bench.channel.write("ann", "why?");
    assert_eq!(bench.channel.until_said("ann", "the answer").await, "the answer");
}

#[tokio::test]
async fn files_a_tool_made_are_sent_even_if_the_answer_does_not_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let picture = std::fs::canonicalize(folder.path()).unwrap().join("made.png");
    std::fs::write(&picture, "x").unwrap();
    let words = format!("MEDIA:{}", picture.display());
    let model = TestModel::new(move |said, request| {
        let called = request.messages.iter().any(|message| message.role == Role::Tool);
        match said {
            "again" => ModelStep::Say("nothing new".to_owned()),
            _ if called => ModelStep::Say("here it is".to_owned()),
            _ => ModelStep::Call("plain", "{}"),
        }
    });
    let mut plan = GatewayFixturePlan::new(model);
    plan.says = Some(words);
    let bench = plan.start().await;
    bench.channel.write("ann", "draw");
    bench.channel.until(|posted| posted.iter().find(|posted| !posted.files.is_empty()).cloned()).await;
    bench.until_quiet().await;
    bench.channel.write("ann", "again");
    bench.channel.until_said("ann", "nothing new").await;
    bench.until_quiet().await;
    let files: Vec<String> = bench.channel.posted().into_iter().flat_map(|posted| posted.files).collect();
    assert_eq!(files, [picture.to_string_lossy()]);
}

#[tokio::test]
async fn a_conversation_that_runs_out_leaves_its_notes_once() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.config = "session_reset:\n  mode: idle\n  idle_minutes: 30\n";
    plan.env = &[("NOTED_ALLOW_ALL_USERS", "1"), ("NOTED_HOME_CHANNEL", "home")];
    plan.channel = FakeChannel::new("noted");
    let bench = plan.start().await;
    for text in ["one", "two"] {
        bench.channel.write("ann", text);
        bench.channel.until_said("ann", text).await;
        bench.until_quiet().await;
    }
    bench.gateway.start_maintenance();
    let rounds = |span: std::time::Duration, count: usize| {
        let clock = bench.clock.clone();
        async move {
            while clock.slept().iter().filter(|slept| **slept == span).count() < count {
                tokio::task::yield_now().await;
            }
        }
    };
    let notes = || bench.model.questions().iter().filter(|text| text.contains("memory tool")).count();
    let (minute, every) = (std::time::Duration::from_mins(1), std::time::Duration::from_mins(5));
    rounds(minute, 1).await;
    bench.clock.advance(minute);
    rounds(every, 1).await;
    assert_eq!(notes(), 0, "it has not run out yet");
    for round in 2..4 {
        bench.clock.advance(std::time::Duration::from_hours(1));
        rounds(every, round).await;
        assert_eq!(notes(), 1, "{:?}", bench.model.questions());
    }
}

#[tokio::test]
async fn a_button_answers_its_own_question_and_no_other() {
    let model = TestModel::new(|said, request| match (said, request.messages.last().unwrap().role) {
        (_, Role::Tool) => ModelStep::Say(format!("it came to: {said}")),
        _ => ModelStep::Call("risky", "{}"),
    });
    let bench = GatewayFixture::with(model).await;
    let question = |count: usize| {
        bench.channel.until(move |posted| {
            posted
                .iter()
                .filter(|posted| !posted.choices.is_empty())
                .nth(count)
                .map(|posted| posted.choices.clone())
        })
    };
    bench.channel.write("ann", "first");
    let old = question(0).await;
    assert!(old[0].starts_with("/approve #"), "{old:?}");
    bench.channel.write("ann", &old[3]);
    bench.channel.until_said("ann", "Command denied").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "second");
    let new = question(1).await;
    // The old button is pressed again: its question is already settled.
    bench.channel.write("ann", &old[0]);
    bench.channel.until_said("ann", "no longer open").await;
    assert_eq!(bench.channel.texts("ann").iter().filter(|text| text.contains("approved")).count(), 0);
    bench.channel.write("ann", &new[0]);
    bench.channel.until_said("ann", "Command approved").await;
}

/// Expands the word after `@` and rejects `@all` as too large.
struct Pointing;

impl SkillPrompts for Pointing {
    fn prompt(&self, name: &str, rest: &str) -> Option<String> {
        (name == "review").then(|| format!("look at @all, {rest}"))
    }

    fn list(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl MessageExpansion for Pointing {
    fn expand_references<'a>(
        &'a self,
        words: &'a str,
        window: u64,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        assert!(window > 0);
        let found = words.split_once('@').map(|(before, named)| format!("{}[{named}]", before.trim_end()));
        Box::pin(std::future::ready(if words.contains("@all") {
            Err("too much".to_owned())
        } else {
            Ok(found)
        }))
    }

    fn read_attachment<'a>(&'a self, request: AttachmentRequest<'a>) -> BoxFuture<'a, AttachmentContent> {
        let name = request.file.name.clone().unwrap_or_default();
        Box::pin(std::future::ready(match name.as_str() {
            "seen.png" => {
                AttachmentContent::Picture(format!("data:image/png;base64,{}", request.model.len()))
            }
            "told.png" => AttachmentContent::Text("a red boat".to_owned()),
            "said.ogg" => AttachmentContent::Text("hello there".to_owned()),
            "noise.ogg" => AttachmentContent::Unreadable("no speech recognition is set up".to_owned()),
            _ => AttachmentContent::PathOnly,
        }))
    }
}

#[tokio::test]
async fn what_a_message_points_at_is_attached_and_too_much_is_told() {
    let bench = GatewayFixturePlan {
        skills: Arc::new(Pointing),
        expansion: Arc::new(Pointing),
        ..GatewayFixturePlan::new(TestModel::echo())
    }
    .start()
    .await;
    let mut quoting = bench.channel.envelope("ann", "see @a");
    quoting.reply_to_text = Some("mine: @secret".to_owned());
    bench.channel.deliver(quoting);
    let said = bench.channel.until_said("ann", "see").await;
    assert_eq!(said, "you said: [Replying to: \"mine: @secret\"]\n\nsee[a]");
    bench.until_quiet().await;
    bench.channel.write("ann", "/review please");
    // The text of a skill is not the user's, so its references are not expanded.
    assert_eq!(bench.channel.until_said("ann", "please").await, "you said: look at @all, please");
    bench.until_quiet().await;
    bench.channel.write("ann", "see @all");
    assert_eq!(bench.channel.until_said("ann", "too much").await, "too much");
    bench.until_quiet().await;
    let asked = bench.model.questions();
    assert!(!asked.iter().any(|said| said.contains("see @all")), "it goes no further: {asked:?}");
}

#[tokio::test]
async fn files_of_a_message_reach_the_model_as_far_as_it_can_read_them() {
    let bench =
        GatewayFixturePlan { expansion: Arc::new(Pointing), ..GatewayFixturePlan::new(TestModel::echo()) }
            .start()
            .await;
    let send = |kind: AttachmentKind, name: &str, words: &str| {
        let mut envelope = bench.channel.envelope("ann", words);
        let path = format!("/tmp/{name}");
        envelope.parts.push(ChatPart::File(Attachment {
            kind,
            path,
            mime: None,
            name: Some(name.to_owned()),
        }));
        bench.channel.deliver(envelope);
    };
    send(AttachmentKind::Image, "seen.png", "look one");
    bench.channel.until_said("ann", "look one").await;
    bench.until_quiet().await;
    let requests = bench.model.requests();
    let contents = requests.iter().flat_map(|request| &request.messages).map(|message| &message.content);
    let parts: Vec<&Vec<ContentPart>> = contents
        .filter_map(|content| match content {
            MessageContent::Parts(parts) => Some(parts),
            MessageContent::Text(_) => None,
        })
        .collect();
    let [parts] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(
        matches!(&parts[1], ContentPart::Image { url } if url.starts_with("data:image/png;base64,")),
        "{parts:?}"
    );
    assert!(parts[0].text().unwrap().contains("vision_analyze with /tmp/seen.png"), "{parts:?}");

    for (kind, name, wanted) in [
        (AttachmentKind::Image, "told.png", "Here's what I can see:\na red boat]"),
        (
            AttachmentKind::Voice,
            "said.ogg",
            "Here's what they said: \"hello there\"]\n[The recording is at: /tmp/said.ogg]",
        ),
        (AttachmentKind::Voice, "noise.ogg", "could not be transcribed: no speech recognition is set up"),
    ] {
        send(kind, name, name);
        bench.channel.until_said("ann", wanted).await;
        bench.until_quiet().await;
        let requests = bench.model.requests();
        let request = requests.iter().rfind(|request| request.messages.len() > 1).unwrap();
        // The picture of an earlier message is not sent again; its file is named.
        assert!(
            request.messages.iter().all(|message| matches!(message.content, MessageContent::Text(_))),
            "{name}"
        );
        assert!(
            request.messages.iter().any(|message| message.content.text().contains("/tmp/seen.png")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn words_that_came_before_the_line_broke_are_said_with_the_notice() {
    let model = TestModel::new(|_, _| {
        let error = ModelError::GiveUp { status: Some(500), message: "the line broke".into() };
        ModelStep::CutOff("The first half", error)
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "go");
    let text = bench.channel.until_said("ann", "The first half").await;
    assert!(text.contains("Sorry, I encountered an error (ServerError).\nthe line broke"), "{text}");
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann").len(), 1);
    let session =
        bench.store.list_sessions(hermes_store::SessionFilter::default(), 5).await.unwrap()[0].id.clone();
    let rows = bench.store.transcript(&session).await.unwrap();
    assert_eq!(rows[1].message.content.text(), "The first half", "and stay in the record");
}

#[tokio::test]
async fn a_refusal_is_heard_with_its_reason() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say(message.content.text().into_owned()),
        _ => ModelStep::Call("risky", "{}"),
    });
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "go");
    bench.channel.until_said("ann", "requires approval").await;
    let long = "x".repeat(400);
    bench.channel.write("ann", &format!("/deny use the trash instead {long}"));
    bench.channel.until_said("ann", "❌ Command denied.").await;
    let heard = bench.channel.until_said("ann", "use the trash instead").await;
    assert!(heard.starts_with("Approval(Deny)"), "{heard}");
    assert!(heard.contains(&"x".repeat(200)) && !heard.contains(&"x".repeat(281)), "{heard}");
}

#[tokio::test]
async fn queue_says_that_it_waits_and_what_it_lacks() {
    let bench =
        GatewayFixture::with(TestModel::new(|said, _| ModelStep::Gate(format!("done: {said}")))).await;
    bench.channel.write("ann", "/queue");
    bench.channel.until_said("ann", "`/queue TEXT`").await;
    bench.until_quiet().await;
    assert!(bench.model.questions().is_empty(), "no turn is run for nothing");
    bench.channel.write("ann", "work");
    bench.until_asked(1).await;
    bench.channel.write("ann", "/queue");
    bench.channel.until_acknowledged(3).await;
    bench.channel.write("ann", "/q and then this");
    bench.channel.until_said("ann", "Queued for the next turn.").await;
    bench.model.gate.add_permits(9);
    bench.channel.until_said("ann", "done: work").await;
    bench.channel.until_said("ann", "done: and then this").await;
    bench.until_quiet().await;
    assert!(bench.model.questions().contains(&"and then this".to_owned()));
    assert!(bench.model.questions().iter().all(|asked| !asked.is_empty()), "no turn is run for nothing");
}

#[tokio::test]
async fn a_conversation_in_which_nothing_was_said_has_nothing_to_take_back() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.write("ann", "/new");
    bench.channel.until_said("ann", "✨").await;
    bench.until_quiet().await;
    for (command, words) in [
        ("/retry", "No previous message to retry."),
        ("/undo", "Nothing to undo."),
        ("/compress", "too little to compress"),
    ] {
        bench.channel.write("ann", command);
        bench.channel.until_said("ann", words).await;
        bench.until_quiet().await;
    }
}

#[tokio::test]
async fn verbose_progress_shows_the_arguments() {
    let model = TestModel::new(|_, request| match request.messages.last() {
        Some(message) if message.role == Role::Tool => ModelStep::Say("done".into()),
        _ => ModelStep::Call("plain", "{\"path\": \"a.txt\", \"limit\": 3}"),
    });
    let mut plan = GatewayFixturePlan::new(model);
    plan.config = "display: {tool_progress: verbose}\n";
    let bench = plan.start().await;
    bench.channel.write("ann", "go");
    bench.channel.until_said("ann", "done").await;
    let lines = bench.channel.until_said("ann", "plain(").await;
    assert_eq!(lines, "⚡ plain(['path', 'limit'])\n{\"path\": \"a.txt\", \"limit\": 3}");
}

#[tokio::test]
async fn the_older_file_of_the_gateway_counts_where_the_configuration_is_silent() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let legacy = r#"{"reset_triggers": ["/new", "start over"], "quick_commands": {
        "hi": {"type": "alias", "target": "/whoami"}, "me": {"type": "alias", "target": "/status"}},
        "platforms": {"fake": {"enabled": true, "token": "old", "home_channel": {"platform": "fake", "chat_id": "c9"},
            "extra": {"a": 1, "b": 2}}}}"#;
    std::fs::write(folder.path().join("gateway.json"), legacy).unwrap();
    let mut plan = GatewayFixturePlan::new(TestModel::new(|said, request| {
        ModelStep::Say(format!("{said} after {}", request.messages.len() - 1))
    }));
    plan.env = &[("FAKE_ALLOW_ALL_USERS", "1")];
    plan.config = "quick_commands: {me: {type: alias, target: /help}}\nplatforms: {fake: {extra: {b: 3}}}\n";
    let bench = plan.start_in(folder).await;
    let settings = bench.sender.settings().current();
    assert_eq!(settings.home_channel("fake").as_deref(), Some("c9"));
    assert_eq!(settings.config.text("platforms.fake.token"), "old");
    let extra = |key: &str| settings.config.int(&format!("platforms.fake.extra.{key}"));
    assert_eq!((extra("a"), extra("b")), (Some(1), Some(3)));
    bench.channel.write("ann", "one");
    bench.channel.until_said("ann", "one after 0").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "Start over");
    bench.channel.until_said("ann", "✨ Session reset!").await;
    bench.until_quiet().await;
    bench.channel.write("ann", "two");
    bench.channel.until_said("ann", "two after 0").await;
    bench.channel.write("ann", "/hi");
    bench.channel.until_said("ann", "Platform: fake").await;
    bench.channel.write("ann", "/me");
    bench.channel.until_said("ann", "Hermes Commands").await;
}

#[tokio::test]
async fn status_does_not_count_itself() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.write("ann", "/status");
    let status = bench.channel.until_said("ann", "Gateway Status").await;
    assert!(status.contains("**Waiting:** nothing"), "{status}");
}

#[tokio::test]
async fn a_button_of_somebody_elses_question_is_told_so() {
    let model = TestModel::new(|_, _| ModelStep::Call("risky", "{}"));
    let bench = GatewayFixture::with(model).await;
    bench.channel.write("ann", "go");
    bench.channel.until_said("ann", "requires approval").await;
    let says = bench.channel.posted().into_iter().find_map(|posted| posted.choices.first().cloned()).unwrap();
    bench.channel.write("bob", &says);
    bench.channel.until_said("bob", "is for another user").await;
}

#[tokio::test]
async fn sethome_in_a_topic_keeps_the_topic() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    let mut envelope = bench.channel.envelope("ann", "/sethome");
    envelope.place.thread_id = Some("17".to_owned());
    bench.channel.deliver(envelope);
    bench.channel.until_said("ann", "✅ Home channel set").await;
    let config = std::fs::read_to_string(bench.folder.path().join("config.yaml")).unwrap();
    assert!(
        config.contains("FAKE_HOME_CHANNEL_THREAD_ID: '17'")
            || config.contains("FAKE_HOME_CHANNEL_THREAD_ID: \"17\""),
        "{config}"
    );
}

#[tokio::test]
async fn commands_for_owners_are_not_for_everybody() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    for command in ["model x", "restart", "update", "yolo", "rollback", "sethome"] {
        bench.channel.write("bob", &format!("/{command}"));
        let name = command.split(' ').next().unwrap();
        bench.channel.until_said("bob", &format!("/{name} is for owners.")).await;
    }
}

#[tokio::test]
async fn a_compression_can_be_stopped() {
    for summary in [ModelStep::Hang, ModelStep::Stuck] {
        let model = TestModel::new(move |said, request| {
            if request.system.contains("You summarise") {
                summary.clone()
            } else {
                ModelStep::Say(format!("{said} {}", "w".repeat(400)))
            }
        });
        let bench = GatewayFixture::with(model).await;
        for turn in 0..14 {
            bench.channel.write("ann", &format!("turn {turn}"));
            bench.channel.until_said("ann", &format!("turn {turn} ")).await;
            bench.until_quiet().await;
        }
        let session = bench.store.bindings().await.unwrap()[0].session.clone();
        let before = bench.model.requests.lock().unwrap().len();
        bench.channel.write("ann", "/compress");
        bench.until_asked(before + 1).await;
        bench.channel.write("ann", "/stop");
        bench.channel.until_said("ann", "Force-stopped").await;
        // A compression that does not stop by itself gets a grace period of some seconds.
        bench.while_time_passes(bench.channel.until_said("ann", "Compression was stopped")).await;
        bench.while_time_passes(bench.until_quiet()).await;
        assert_eq!(bench.store.bindings().await.unwrap()[0].session, session, "nothing was changed");
        bench.channel.write("ann", "and on");
        bench.channel.until_said("ann", "and on ").await;
    }
}

#[tokio::test]
async fn an_answer_near_the_limit_leaves_nothing_behind() {
    use hermes_types::Channel as _;
    let limit = hermes_testkit::FakeChannel::new("fake").capabilities().max_length;
    for spare in [0, 1, 50, 99, 101] {
        let text = format!("{}end", "word ".repeat(limit / 5)).split_off(spare);
        let text = text.chars().take(limit - spare).collect::<String>().trim().to_owned();
        let said = text.clone();
        let mut plan = GatewayFixturePlan::new(TestModel::new(move |_, _| ModelStep::Say(said.clone())));
        plan.config = "streaming: {enabled: true}\n";
        plan.clock = hermes_testkit::TestClock::auto_advance_up_to(std::time::Duration::from_secs(1));
        let bench = plan.start().await;
        bench.channel.write("ann", "go");
        bench.channel.until(|posted| posted.iter().any(|p| p.text == text).then_some(())).await;
        bench.until_quiet().await;
        let texts = bench.channel.texts("ann");
        assert!(texts == [text], "{spare}: {} messages", texts.len());
    }
}

#[tokio::test]
async fn usage_shows_money_and_says_when_a_price_is_not_known() {
    let model = TestModel::new(|said, _| match said {
        "priced" => ModelStep::Say("done: priced".to_owned()),
        _ => ModelStep::SayUnpriced("done: unpriced".to_owned()),
    });
    let bench = GatewayFixture::with(model).await;
    for (seen, (who, says, cost)) in [
        ("ann", "priced", "Cost: $0.0000 (estimated)"),
        ("ann", "unpriced", "Cost: $0.0000 and more: the price of some calls is not known"),
        ("bob", "unpriced", "Cost: not known: there is no price for this model"),
    ]
    .into_iter()
    .enumerate()
    {
        bench.channel.write(who, says);
        bench.channel.until_said(who, &format!("done: {says}")).await;
        bench.until_quiet().await;
        bench.channel.write(who, "/usage");
        let told = |posted: &[hermes_testkit::PostedMessage]| {
            let told: Vec<String> =
                posted.iter().filter(|p| p.text.contains("Token Usage")).map(|p| p.text.clone()).collect();
            (told.len() > seen).then(|| told.last().cloned()).flatten()
        };
        let text = bench.channel.until(told).await;
        assert!(text.ends_with(cost), "{who} {says}: {text}");
        bench.until_quiet().await;
    }
}

#[tokio::test]
async fn a_reset_of_its_own_is_kept_by_platform_and_kind_of_chat() {
    for (config, resets) in [
        ("session_reset: {mode: none, by_platform: {fake: {mode: idle, idle_minutes: 5}}}\n", true),
        ("session_reset: {mode: none, by_type: {dm: {mode: idle, idle_minutes: 5}}}\n", true),
        ("session_reset: {mode: idle, idle_minutes: 5, by_platform: {fake: {mode: none}}}\n", false),
        ("session_reset: {mode: none, by_type: {group: {mode: idle, idle_minutes: 5}}}\n", false),
    ] {
        let model = TestModel::new(|said, request| {
            ModelStep::Say(format!("{} messages: {said}", request.messages.len()))
        });
        let bench = GatewayFixturePlan { config, ..GatewayFixturePlan::new(model) }.start().await;
        bench.channel.write("ann", "one");
        bench.channel.until_said("ann", "1 messages: one").await;
        bench.until_quiet().await;
        bench.clock.advance(std::time::Duration::from_mins(6));
        bench.channel.write("ann", "two");
        let words = if resets { "1 messages: [System note" } else { "3 messages: two" };
        bench.channel.until_said("ann", words).await;
    }
}

#[tokio::test]
async fn a_message_waits_where_that_is_configured() {
    let mut plan =
        GatewayFixturePlan::new(TestModel::new(|said, _| ModelStep::Gate(format!("done: {said}"))));
    plan.config = "display: {busy_input_mode: queue}\n";
    let bench = plan.start().await;
    bench.channel.write("ann", "work");
    bench.until_asked(1).await;
    bench.channel.write("ann", "and then this");
    bench.channel.until_said("ann", "Queued for the next turn").await;
    bench.model.gate.add_permits(9);
    bench.channel.until_said("ann", "done: work").await;
    bench.channel.until_said("ann", "done: and then this").await;
}

#[tokio::test]
async fn what_is_shown_can_differ_by_platform() {
    for (config, shown) in [
        ("display: {tool_progress: all, platforms: {fake: {tool_progress: off}}}\n", false),
        ("display: {tool_progress: off, platforms: {fake: {tool_progress: all}}}\n", true),
        ("display: {tool_progress: all, platforms: {other: {tool_progress: off}}}\n", true),
    ] {
        let model = TestModel::new(|_, request| match request.messages.last() {
            Some(message) if message.role == Role::Tool => ModelStep::Say("the end".to_owned()),
            _ => ModelStep::Call("plain", "{}"),
        });
        let bench = GatewayFixturePlan { config, ..GatewayFixturePlan::new(model) }.start().await;
        bench.channel.write("ann", "go");
        bench.channel.until_said("ann", "the end").await;
        let texts = bench.channel.texts("ann");
        assert_eq!(texts.iter().any(|text| text.contains("plain")), shown, "{config}{texts:?}");
    }
}

#[tokio::test]
async fn a_stopped_answer_keeps_no_cursor() {
    let mut plan = GatewayFixturePlan::new(TestModel::new(|_, _| ModelStep::HangAfter("half of an answer")));
    plan.config = "streaming: {enabled: true}\n";
    plan.clock = hermes_testkit::TestClock::auto_advance_up_to(std::time::Duration::from_secs(1));
    let bench = plan.start().await;
    bench.channel.write("ann", "go");
    bench.channel.until_said("ann", "half of an answer ▉").await;
    bench.channel.write("ann", "/stop");
    bench.channel.until_said("ann", "Force-stopped").await;
    bench.channel.until(|posted| posted.iter().any(|p| p.text == "half of an answer").then_some(())).await;
    bench.until_quiet().await;
    let texts = bench.channel.texts("ann");
    assert!(!texts.iter().any(|text| text.contains('▉')), "{texts:?}");
}
