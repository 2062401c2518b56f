//! Tests of platforms that do not accept what is sent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_gateway::{FileSendPolicy, PlatformCatalog};
use hermes_store::OutboxState;
use hermes_task::SystemClock;
use hermes_testkit::{FakeChannel, SendFault};
use hermes_types::{
    ChannelCapabilities, ChatPart, Clock as _, DeliveryCertainty, MessageSender as _, OutboxId,
    OutgoingMessage, WebImage,
};

use super::support::{GatewayFixture, GatewayFixturePlan, ModelStep, TestModel};

/// Advances the clock until the text has arrived.
async fn in_time(bench: &GatewayFixture, part: &str) {
    passing(bench, bench.channel.until_said("ann", part)).await;
}

/// Advances the clock until the future completes.
async fn passing<T>(bench: &GatewayFixture, come: impl Future<Output = T>) {
    let time = async {
        loop {
            bench.clock.advance(Duration::from_secs(2));
            SystemClock::new().sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = come => {}
        () = time => {}
    }
}

#[tokio::test]
async fn what_is_not_taken_is_sent_again_and_the_order_stays() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.fail_next(SendFault::Retry);
    bench.channel.fail_next(SendFault::Retry);
    bench.channel.write("ann", "one");
    in_time(&bench, "you said: one").await;
    bench.channel.write("ann", "two");
    bench.channel.until_said("ann", "you said: two").await;
    assert_eq!(bench.channel.texts("ann"), ["you said: one", "you said: two"]);
}

#[tokio::test]
async fn a_chat_that_does_not_take_anything_does_not_hold_others_up() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.fail_next(SendFault::Hang);
    bench.channel.write("ann", "lost in thought");
    bench.channel.until_failed().await;
    bench.channel.write("bob", "hello");
    bench.channel.until_said("bob", "you said: hello").await;
}

#[tokio::test]
async fn a_refused_text_is_said_plainly_once() {
    let bench = GatewayFixture::with(TestModel::new(|_, _| ModelStep::Say("*odd [format".into()))).await;
    bench.channel.fail_next(SendFault::Refuse);
    bench.channel.write("ann", "go");
    let text = bench.channel.until_said("ann", "odd").await;
    assert_eq!(text, "(Response formatting failed, plain text:)\n*odd [format");
    bench.until_quiet().await;
    bench.channel.fail_next(SendFault::Refuse);
    bench.channel.fail_next(SendFault::Refuse);
    bench.channel.write("ann", "again");
    bench.until_asked(2).await;
    bench.until_quiet().await;
    assert_eq!(bench.channel.texts("ann").len(), 1, "after the second refusal it is left");
}

#[tokio::test]
async fn a_file_that_is_named_is_sent_after_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(folder.path()).unwrap().join("chart.png");
    std::fs::write(&path, "x").unwrap();
    let text = format!("Here it is.\nMEDIA:{}", path.display());
    let bench = GatewayFixture::with(TestModel::new(move |_, _| ModelStep::Say(text.clone()))).await;
    bench.channel.write("ann", "draw");
    bench.channel.until(|posted| posted.iter().any(|p| !p.files.is_empty()).then_some(())).await;
    let posted = bench.channel.posted();
    assert_eq!(posted[0].text, "Here it is.");
    assert_eq!(posted[1].files, [path.to_string_lossy()]);
}

#[tokio::test]
async fn a_file_waits_for_the_configured_delay() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(folder.path()).unwrap().join("chart.png");
    std::fs::write(&path, "x").unwrap();
    let text = format!("Here it is.\nMEDIA:{}", path.display());
    let mut plan = GatewayFixturePlan::new(TestModel::new(move |_, _| ModelStep::Say(text.clone())));
    plan.env = &[
        ("FAKE_ALLOW_ALL_USERS", "1"),
        ("FAKE_HOME_CHANNEL", "home"),
        ("HERMES_HUMAN_DELAY_MODE", "custom"),
        ("HERMES_HUMAN_DELAY_MIN_MS", "60000"),
        ("HERMES_HUMAN_DELAY_MAX_MS", "60000"),
    ];
    let bench = plan.start().await;
    bench.channel.write("ann", "draw");
    bench.channel.until_said("ann", "Here it is.").await;
    let before = bench.clock.monotonic();
    let file = bench.channel.until(|posted| posted.iter().any(|p| !p.files.is_empty()).then_some(()));
    passing(&bench, file).await;
    let waited = bench.clock.monotonic().saturating_sub(before);
    assert!(waited >= Duration::from_mins(1), "the file was sent after {waited:?}");
}

#[tokio::test]
async fn a_reply_whose_fate_is_unknown_is_sent_again_and_marked() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    bench.channel.fail_next(SendFault::TakeAndFail);
    bench.channel.fail_next(SendFault::Retry);
    bench.channel.write("ann", "hello");
    let again = bench.channel.until(|posted| (posted.len() == 2).then_some(()));
    passing(&bench, again).await;
    bench.until_quiet().await;
    let posted = bench.channel.posted();
    assert_eq!(posted[0].key, posted[1].key, "the same key, so that whoever can tell can tell");
    let state = bench.store.outbox_state(OutboxId(1)).await.unwrap();
    assert!(
        matches!(&state, Some(OutboxState::Sent(receipt)) if receipt.certainty == DeliveryCertainty::AtLeastOnce),
        "{state:?}"
    );
}

#[tokio::test]
async fn a_picture_on_the_web_is_sent_after_the_text_and_named_when_it_is_refused() {
    let text = "Here.\n![a cat](https://e.org/cat.png)\nAnd more.";
    let bench = GatewayFixture::with(TestModel::new(move |_, _| ModelStep::Say(text.into()))).await;
    bench.channel.write("ann", "draw");
    bench.channel.until(|posted| (posted.len() == 2).then_some(())).await;
    bench.until_quiet().await;
    let seen = |bench: &GatewayFixture| -> Vec<_> {
        bench.channel.posted().into_iter().map(|posted| (posted.text, posted.files)).collect()
    };
    let cat = vec!["https://e.org/cat.png".to_owned()];
    assert_eq!(seen(&bench), [("Here.\n\nAnd more.".to_owned(), vec![]), ("a cat".to_owned(), cat)]);

    let place = bench.channel.envelope("ann", "").place;
    let picture = WebImage { url: "https://e.org/no.png".to_owned(), caption: None };
    let reply = OutgoingMessage {
        platform: "fake".to_owned(),
        place,
        pieces: vec![ChatPart::Picture(picture)],
        reply_to: None,
        choices: Vec::new(),
        draft: None,
        idempotency_key: "refused".to_owned(),
    };
    bench.channel.fail_next(SendFault::Refuse);
    bench.sender.outbox().enqueue(reply).await.unwrap();
    let said = bench.channel.until_said("ann", "https://e.org/no.png").await;
    assert_eq!(said, "(Response formatting failed, plain text:)\n🖼️ Image: https://e.org/no.png");
}

#[tokio::test]
async fn where_pictures_cannot_be_shown_their_address_stays_in_the_text() {
    let text = "![a cat](https://e.org/cat.png)";
    let mut plan = GatewayFixturePlan::new(TestModel::new(move |_, _| ModelStep::Say(text.into())));
    plan.channel = plan.channel.with(ChannelCapabilities::default());
    let bench = plan.start().await;
    bench.channel.write("ann", "draw");
    assert_eq!(bench.channel.until_said("ann", "cat").await, text);
}

/// A catalog that knows one platform, which is not connected.
struct OneMore;

impl PlatformCatalog for OneMore {
    fn abilities(&self, platform: &str) -> Option<ChannelCapabilities> {
        (platform == "small")
            .then(|| ChannelCapabilities { max_length: 100, ..ChannelCapabilities::default() })
    }

    fn is_set_up(&self, _: &str) -> bool {
        false
    }
}

#[tokio::test]
async fn what_waits_for_a_platform_is_cut_to_its_size_before_it_is_connected() {
    let mut plan = GatewayFixturePlan::new(TestModel::echo());
    plan.platforms = Arc::new(OneMore);
    let bench = plan.start().await;
    let text = "word ".repeat(50);
    let post = bench.sender.deliver("small:chat-ann", &text, None);
    let queued = async {
        let clock = SystemClock::new();
        while bench.store.outbox_depth().await.unwrap().waiting < 3 {
            clock.sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        _ = post => panic!("nobody is there to take it"),
        () = queued => {}
    }
    let small = FakeChannel::new("small");
    bench.sender.delivery().connect(Arc::new(small.clone()));
    bench.sender.delivery().flush(Duration::from_mins(1)).await;
    let said = small.texts("ann");
    assert_eq!(said.len(), 3, "all of it has left");
    assert!(said.iter().all(|part| part.chars().count() <= 100), "{said:?}");
}

#[tokio::test]
async fn a_long_answer_of_a_command_is_sent_whole() {
    let bench = GatewayFixture::with(TestModel::echo()).await;
    let text = (0..2_000).map(|number| format!("line {number}")).collect::<Vec<_>>().join("\n");
    let place = hermes_types::ChatAddress::new(hermes_types::ChatKind::Dm, "chat-ann");
    let reply = hermes_types::OutgoingMessage {
        platform: "fake".into(),
        place,
        pieces: vec![hermes_types::ChatPart::Text { text: text.clone() }],
        reply_to: None,
        choices: Vec::new(),
        draft: None,
        idempotency_key: "long".into(),
    };
    bench.sender.outbox().enqueue(reply).await.unwrap();
    bench.channel.until_said("ann", "line 1999").await;
    let texts = bench.channel.texts("ann");
    assert!(texts.len() > 1, "{} messages", texts.len());
    for number in 0..2_000 {
        assert!(texts.iter().any(|text| text.contains(&format!("line {number}"))), "line {number}");
    }
}

/// Refuses every file with one name.
struct NoDiaries;

impl FileSendPolicy for NoDiaries {
    fn refuses(&self, path: &Path) -> bool {
        path.ends_with("diary.pdf")
    }
}

#[tokio::test]
async fn a_file_the_program_refuses_is_named_and_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, "x").unwrap();
        std::fs::canonicalize(path).unwrap().to_string_lossy().into_owned()
    };
    let (diary, report) = (file("diary.pdf"), file("report.pdf"));
    let text = format!("MEDIA:{diary}\nMEDIA:{report}");
    let plan = GatewayFixturePlan::new(TestModel::new(move |_, _| ModelStep::Say(text.clone())));
    let bench = GatewayFixturePlan { files: Arc::new(NoDiaries), ..plan }.start().await;
    bench.channel.write("ann", "send me both");
    let said = bench.channel.until_said("ann", "diary.pdf").await;
    assert!(said.contains(&format!("📎 File: {diary}")), "{said}");
    bench.until_quiet().await;
    let files: Vec<String> = bench.channel.posted().into_iter().flat_map(|posted| posted.files).collect();
    assert_eq!(files, [report]);
}
