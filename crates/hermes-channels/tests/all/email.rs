//! The mail channel against an emulated server.

use std::sync::Arc;

use hermes_task::SystemClock;
use hermes_testkit::mail::{ADDRESS, FakeMail, MailFault, PASSWORD, SERVER};
use hermes_types::{
    Attachment, AttachmentKind, Channel, ChannelError, ChatAddress, ChatKind, ChatPart, Clock,
    ConnectionStatus, DeliveryCertainty, Timestamp,
};
use serde_json::{Value, json};

use super::support::{
    ListeningChannel, MemoryHost, PNG, RecordingIntake, listen, open, options, place, reply,
};

const ANN: &str = "ann@example.org";

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn settings(server: &FakeMail, more: &[(&str, &str)], extra: &Value) -> hermes_channels::Options {
    let (imap, smtp) = (server.imap_port().to_string(), server.smtp_port().to_string());
    let mut variables = vec![
        ("EMAIL_ADDRESS", ADDRESS),
        ("EMAIL_PASSWORD", PASSWORD),
        ("EMAIL_IMAP_HOST", "127.0.0.1"),
        ("EMAIL_IMAP_PORT", imap.as_str()),
        ("EMAIL_SMTP_HOST", "127.0.0.1"),
        ("EMAIL_SMTP_PORT", smtp.as_str()),
        ("EMAIL_AUTHSERV_ID", SERVER),
        ("EMAIL_POLL_INTERVAL", "1"),
    ];
    for (name, value) in more {
        variables.retain(|(known, _)| known != name);
        variables.push((name, value));
    }
    let mut all = json!({"imap_security": "plain", "smtp_security": "plain"});
    for (key, value) in extra.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    options(&variables, all)
}

fn start_with(server: &FakeMail, host: &Arc<MemoryHost>, inbox: &Arc<RecordingIntake>) -> ListeningChannel {
    listen("email", &settings(server, &[], &json!({})), host, inbox, &clock())
}

/// Listens, with nothing known from before.
async fn start(server: &FakeMail) -> ListeningChannel {
    let running = start_with(server, &MemoryHost::new(), &Arc::default());
    assert_eq!(running.inbox.until_connections(1).await, [ConnectionStatus::Up]);
    running
}

fn sender(server: &FakeMail, host: &Arc<MemoryHost>) -> Arc<dyn Channel> {
    open("email", &settings(server, &[], &json!({})), host, &clock()).unwrap()
}

fn chat() -> ChatAddress {
    place(ChatKind::Dm, ANN, None)
}

#[tokio::test]
async fn new_mail_comes_in_at_once_and_old_mail_never() {
    let server = FakeMail::start().unwrap();
    server.says(ANN, "Old", "from before");
    let running = start(&server).await;
    server.until_waiting(1).await;
    let id = server.says("Ann@Example.org", "Lunch", "today?\n\n-- \nAnn");
    let taken = running.inbox.until_taken(1).await;
    assert_eq!(taken[0].text(), "[Subject: Lunch]\n\ntoday?");
    assert_eq!((taken[0].place.kind, taken[0].place.chat_id.as_str()), (ChatKind::Dm, ANN));
    assert_eq!(taken[0].sender.user_id.as_deref(), Some(ANN));
    assert_eq!(taken[0].message_id.as_deref(), Some(id.as_str()));
    assert_eq!(taken[0].platform_key, format!("{id}|{ANN}"));
    server.until_read(2).await;
    assert_eq!(server.read_numbers(), [2], "the old mail is left alone");
}

#[tokio::test]
async fn mail_is_looked_for_where_the_server_does_not_tell() {
    let server = FakeMail::start().unwrap();
    server.without_idle();
    let running = start(&server).await;
    server.says(ANN, "", "hello");
    server.says(ANN, "", "again");
    running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["hello", "again"]);
}

#[tokio::test]
async fn a_mail_is_read_only_after_it_was_taken() {
    let server = FakeMail::start().unwrap();
    let running = start(&server).await;
    running.inbox.set_paused(true);
    server.says(ANN, "", "one");
    running.inbox.until_attempted(1).await;
    assert!(server.read_numbers().is_empty());
    let seen = running.host.document("email_seen.json").unwrap();
    assert_eq!(seen["last_uid"], 0, "what is not taken does not count as seen");
    // The program dies before it is taken, and starts again with what it had on disk.
    let (inbox, host) = running.kill().await;
    inbox.set_paused(false);
    let running = start_with(&server, &host, &inbox);
    server.until_read(1).await;
    server.says(ANN, "", "two");
    running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["one", "two"]);
    assert_eq!(running.inbox.duplicates(), 0);
}

#[tokio::test]
async fn what_came_while_it_was_away_is_read_once_whoever_read_it_meanwhile() {
    let server = FakeMail::start().unwrap();
    let running = start(&server).await;
    server.says(ANN, "", "before");
    running.inbox.until_taken(1).await;
    server.until_read(1).await;
    let (inbox, host) = running.stop().await;
    server.says(ANN, "", "while you were away");
    server.read_all();
    let running = start_with(&server, &host, &inbox);
    running.inbox.until_taken(2).await;
    assert_eq!(running.inbox.texts(), ["before", "while you were away"]);
    // The same mail once more, as through a list, is known by its id.
    server.repeat_last();
    running.inbox.until_duplicates(1).await;
}

#[tokio::test]
async fn a_mailbox_that_is_numbered_anew_is_read_again_without_doubles() {
    let server = FakeMail::start().unwrap();
    server.says(ANN, "", "old and read");
    server.read_all();
    let running = start(&server).await;
    server.says(ANN, "", "first");
    running.inbox.until_taken(1).await;
    server.until_read(2).await;
    server.until_waiting(1).await;
    server.says(ANN, "", "second");
    server.renumber();
    running.inbox.until_taken(2).await;
    server.says(ANN, "", "third");
    running.inbox.until_taken(3).await;
    assert_eq!(running.inbox.texts(), ["first", "second", "third"]);
}

#[tokio::test]
async fn the_connection_is_made_again() {
    let mut server = FakeMail::start().unwrap();
    let running = start(&server).await;
    server.until_waiting(1).await;
    server.drop_connections();
    running.inbox.until_connections(3).await;
    server.stop();
    let connections = running.inbox.until_connections(4).await;
    assert!(matches!(connections[3], ConnectionStatus::Down(_)), "{connections:?}");
    server.says(ANN, "", "meanwhile");
    server.start_again().unwrap();
    assert_eq!(running.inbox.until_taken(1).await[0].text(), "meanwhile");
}

#[tokio::test]
async fn machines_lists_and_forged_senders_are_left_in_the_mailbox() {
    let server = FakeMail::start().unwrap();
    let running = start(&server).await;
    server.receives(ANN, &[("List-Id", "<news.example.org>")], "news");
    server.receives(ANN, &[("Auto-Submitted", "auto-replied")], "I am on holiday");
    server.receives(ANN, &[("Precedence", "bulk")], "offers");
    server.says("mailer-daemon@example.org", "Undelivered", "it came back");
    server.says(ADDRESS, "", "to myself");
    // Nobody checked this one, and this one claims that somebody did.
    server.deliver(&format!("From: <{ANN}>\nMessage-ID: <f1@x>\n\npay now\n"));
    server.deliver(&format!(
        "Authentication-Results: {SERVER}; dmarc=fail header.from=example.org\n\
         Authentication-Results: {SERVER}; dmarc=pass header.from=example.org\nFrom: <{ANN}>\nMessage-ID: <f2@x>\n\npay now\n"
    ));
    server.deliver(&format!(
        "Authentication-Results: {SERVER}; dmarc=pass header.from=evil.org\nFrom: <{ANN}>\nMessage-ID: <f3@x>\n\npay now\n"
    ));
    server.deliver("this is no mail at all");
    server.says(ANN, "", "it is me");
    running.inbox.until_taken(1).await;
    assert_eq!(running.inbox.texts(), ["it is me"]);
    server.until_read(10).await;
    assert_eq!(server.read_numbers(), [10], "what was left out is still unread for people");
}

#[tokio::test]
async fn the_check_of_the_sender_is_turned_off_only_on_request() {
    let server = FakeMail::start().unwrap();
    let (host, inbox) = (MemoryHost::new(), Arc::<RecordingIntake>::default());
    let unset = settings(&server, &[("EMAIL_AUTHSERV_ID", "")], &json!({}));
    let refused = listen("email", &unset, &host, &inbox, &clock()).ended().await.unwrap_err();
    assert!(
        matches!(&refused, ChannelError::Refused(why) if why.contains("EMAIL_AUTHSERV_ID")),
        "{refused:?}"
    );
    let trusting = settings(&server, &[("EMAIL_TRUST_FROM_HEADER", "true")], &json!({}));
    let running = listen("email", &trusting, &host, &inbox, &clock());
    running.inbox.until_connections(1).await;
    server.deliver(&format!("From: <{ANN}>\nMessage-ID: <f1@x>\n\nhello\n"));
    assert_eq!(running.inbox.until_taken(1).await[0].text(), "hello");
}

#[tokio::test]
async fn files_come_in() {
    let server = FakeMail::start().unwrap();
    let running = start(&server).await;
    server.shares(ANN, "Re: picture", "look", ("cat.png", "image/png", PNG));
    server.shares(ANN, "Re: note", "", ("note.txt", "text/plain", b"the word is plum"));
    server.shares(ANN, "Re: program", "run it", ("a.exe", "application/x-msdownload", b"MZ"));
    let taken = running.inbox.until_taken(3).await;
    let files: Vec<_> = taken.iter().flat_map(|envelope| envelope.files().cloned()).collect();
    assert_eq!(
        files.iter().map(|file| file.kind).collect::<Vec<_>>(),
        [AttachmentKind::Image, AttachmentKind::Document]
    );
    assert_eq!(std::fs::read(&files[0].path).unwrap(), PNG);
    assert_eq!(std::fs::read(&files[1].path).unwrap(), b"the word is plum");
    assert_eq!(taken[0].text(), "look");
    assert!(
        taken[2].text().contains("run it") && taken[2].text().contains("not taken here"),
        "{}",
        taken[2].text()
    );
}

#[tokio::test]
async fn files_are_left_out_when_configured_so() {
    let server = FakeMail::start().unwrap();
    let (host, inbox) = (MemoryHost::new(), Arc::<RecordingIntake>::default());
    let without = settings(&server, &[], &json!({"skip_attachments": true}));
    let running = listen("email", &without, &host, &inbox, &clock());
    running.inbox.until_connections(1).await;
    server.shares(ANN, "Re: picture", "look", ("cat.png", "image/png", PNG));
    let taken = running.inbox.until_taken(1).await;
    assert_eq!(
        (taken[0].files().count(), taken[0].text().as_str()),
        (0, "look\n\n[1 attached files were left out.]")
    );
}

#[tokio::test]
async fn an_answer_belongs_to_its_question_also_after_a_restart() {
    let server = FakeMail::start().unwrap();
    let running = start(&server).await;
    let asked = server.receives(
        ANN,
        &[("Subject", "Größe?"), ("References", "<a@x> <b@x>"), ("In-Reply-To", "<b@x>")],
        "how big?",
    );
    running.inbox.until_taken(1).await;
    let (_, host) = running.stop().await;
    let channel = sender(&server, &host);
    let mut answer = reply("email", &chat(), "**Big**, <see> [here](https://e.org)");
    answer.reply_to = Some(asked.clone());
    let file = Attachment {
        kind: AttachmentKind::Document,
        path: host.file("report.csv", b"a,b\n"),
        name: None,
        mime: None,
    };
    answer.pieces.push(ChatPart::File(file));
    let receipt = channel.send(&answer).await.unwrap();
    assert_eq!(receipt.certainty, DeliveryCertainty::Once);
    let sent = server.sent(ANN);
    let [mail] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((mail.from.as_str(), mail.subject().as_str()), (ADDRESS, "Re: Größe?"));
    assert_eq!(mail.field("In-Reply-To"), Some(format!("<{asked}>")));
    assert_eq!(mail.field("References"), Some(format!("<a@x> <b@x> <{asked}>")));
    assert_eq!(mail.field("Message-ID"), Some(format!("<{}>", receipt.message_ids[0])));
    assert_eq!(mail.field("Auto-Submitted").as_deref(), Some("auto-replied"));
    assert_eq!(mail.text(), "Big, <see> here (https://e.org)");
    assert!(
        mail.html().contains("<b>Big</b>, &lt;see&gt; <a href=\"https://e.org\">here</a>"),
        "{}",
        mail.html()
    );
    assert_eq!(mail.files(), [("report.csv".to_owned(), b"a,b\n".to_vec())]);
}

#[tokio::test]
async fn what_a_person_answers_is_free_of_what_they_quote() {
    let server = FakeMail::start().unwrap();
    let running = start(&server).await;
    running.channel.send(&reply("email", &chat(), "Shall I delete it?\n.\nReally?")).await.unwrap();
    let asked = server.sent(ANN).remove(0);
    assert_eq!((asked.subject().as_str(), asked.field("In-Reply-To")), ("Hermes Agent", None));
    assert_eq!(asked.text(), "Shall I delete it?\n.\nReally?", "a line of one dot arrives");
    server.answers(ANN, &asked, "/approve\n\nSent from my iPhone");
    let taken = running.inbox.until_taken(1).await;
    assert_eq!(taken[0].text(), "/approve");
    assert_eq!(taken[0].reply_to.as_deref().map(|id| format!("<{id}>")), asked.field("Message-ID"));
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let server = FakeMail::start().unwrap();
    let channel = sender(&server, &MemoryHost::new());
    let hello = reply("email", &chat(), "hello");
    for step in ["MAIL", "RCPT", "DATA", "EHLO"] {
        server.fault(MailFault::Reply(step, "451 4.7.1 later".to_owned()));
        assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::Retry { .. }), "{step}");
    }
    server.fault(MailFault::Reply("RCPT", "552 5.2.2 full".to_owned()));
    assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::Refused(_)));
    let nobody = reply("email", &place(ChatKind::Dm, "nobody@nowhere.invalid", None), "hello");
    let refused = channel.send(&nobody).await.unwrap_err();
    assert!(matches!(&refused, ChannelError::Refused(why) if why.contains("no such user")), "{refused:?}");
    let forged = reply("email", &place(ChatKind::Dm, "a@b.org>\r\nRCPT TO:<c@d.org", None), "hello");
    assert!(matches!(channel.send(&forged).await.unwrap_err(), ChannelError::Refused(_)));
    assert!(server.sent(ANN).is_empty());
    // A mail that the server may have taken goes out again under the same id, and says so.
    server.fault(MailFault::TakeAndCut);
    assert!(matches!(channel.send(&hello).await.unwrap_err(), ChannelError::DeliveryUnknown(_)));
    let receipt = channel.send_again(&hello, Timestamp(0.0)).await.unwrap();
    assert_eq!(receipt.certainty, DeliveryCertainty::AtLeastOnce);
    let ids: Vec<_> = server.sent(ANN).iter().map(|mail| mail.field("Message-ID").unwrap()).collect();
    assert_eq!(ids[0], ids[1]);
    server.set_password("another");
    let wrong = channel.send(&hello).await.unwrap_err();
    assert!(
        matches!(&wrong, ChannelError::Reauthorise(_)) && !wrong.to_string().contains(PASSWORD),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn a_wrong_password_ends_it_and_a_busy_server_does_not() {
    let server = FakeMail::start().unwrap();
    server.fault(MailFault::ImapSignIn("NO [UNAVAILABLE] try later".to_owned()));
    let running = start_with(&server, &MemoryHost::new(), &Arc::default());
    let connections = running.inbox.until_connections(2).await;
    assert!(matches!(&connections[0], ConnectionStatus::Down(why) if why.contains("UNAVAILABLE")));
    assert_eq!(connections[1], ConnectionStatus::Up);
    server.set_password("another");
    server.drop_connections();
    let ended = running.ended().await.unwrap_err();
    let told = ended.to_string();
    assert!(matches!(ended, ChannelError::Reauthorise(_)) && !told.contains(PASSWORD), "{told}");
}
