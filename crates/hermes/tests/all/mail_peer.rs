//! Chats by mail over a real Postfix and Dovecot, with TLS, as `scripts/peers/mail` starts them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use hermes_testkit::{ModelScript, ModelServer, TempHome, fixture};
use serde_json::{Value, json};

use super::life::start_gateway;
use super::support::{until, until_found};

const ALICE: &str = "alice@example.test";

/// The ports and the authority of the server, and the mailbox of one test.
struct MailPeer {
    account: &'static str,
    ports: [String; 3],
    ca: String,
    folder: tempfile::TempDir,
}

impl MailPeer {
    #[expect(clippy::disallowed_methods, reason = "the script says there where the server is")]
    fn started(account: &'static str) -> Option<Self> {
        let found = std::env::var("HERMES_TEST_MAIL").ok().zip(std::env::var("HERMES_TEST_MAIL_CA").ok());
        let Some((ports, ca)) = found else {
            hermes_testkit::peer_is_missing("HERMES_TEST_MAIL is not set (scripts/peers/mail start)");
            return None;
        };
        let ports: Vec<String> = ports.split(':').map(str::to_owned).collect();
        Some(Self { account, ports: ports.try_into().ok()?, ca, folder: tempfile::tempdir().unwrap() })
    }

    fn run(&self, arguments: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/mail.py");
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script).arg(&self.ca).args(&self.ports).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn hand_in(&self, how: &str, from: &str, mails: &[String]) {
        let file = self.folder.path().join(format!("{how}.json"));
        std::fs::write(&file, json!(mails).to_string()).unwrap();
        let to = format!("{}@example.test", self.account);
        self.run(&[how, from, &to, &file.to_string_lossy()]);
    }

    fn send(&self, mails: &[String]) {
        self.hand_in("send", ALICE, mails);
    }

    /// Returns the mails of the agent.
    fn received(&self) -> Vec<Value> {
        serde_json::from_str(&self.run(&["read"])).unwrap()
    }

    /// Waits for a mail in a thread of this run.
    fn until_received(&self, tag: &str, part: &str) -> Value {
        let text = |mail: &Value, key: &str| mail[key].as_str().unwrap_or_default().to_owned();
        let wanted =
            |mail: &Value| text(mail, "references").contains(tag) && text(mail, "text").contains(part);
        until_found(
            || format!("a mail with {part}"),
            || self.received().into_iter().find(|mail| wanted(mail)),
        )
    }

    fn home(&self, model: &ModelServer) -> TempHome {
        let config = json!({
            "model": {"provider": "custom", "base_url": model.base_url(), "default": "m"},
            "platforms": {"email": {"extra": {"imap_security": "tls", "smtp_security": "starttls"}}},
        });
        let [imaps, submission, _] = &self.ports;
        let env = format!(
            "EMAIL_ADDRESS={0}@example.test\nEMAIL_PASSWORD=pw-{0}\nEMAIL_IMAP_HOST=localhost\nEMAIL_IMAP_PORT={1}\n\
             EMAIL_SMTP_HOST=localhost\nEMAIL_SMTP_PORT={2}\nEMAIL_AUTHSERV_ID=mail.example.test\n\
             EMAIL_ALLOWED_USERS={ALICE}\nSSL_CERT_FILE={3}\n",
            self.account, imaps, submission, self.ca
        );
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file(&env).build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        std::fs::write(home.join("user/report.csv"), "a,b\n1,2\n").unwrap();
        home
    }
}

fn mail(id: &str, fields: &str, text: &str) -> String {
    format!(
        "From: Alice <{ALICE}>\nTo: bot@example.test\nMessage-ID: <{id}@example.test>\n{fields}\n{text}\n"
    )
}

fn until_connected(home: &TempHome) {
    until("it is connected", || {
        let text = std::fs::read_to_string(home.join("gateway_state.json")).unwrap_or_default();
        text.contains("\"connected\"")
    });
}

#[test]
fn peer_mail_is_answered_in_its_thread_and_only_that_of_people() {
    let Some(peer) = MailPeer::started("bot") else { return };
    let script = json!({"default": "echo", "replies": [
        {"when": {"user_contains": "the word is plum"}, "repeat": "forever", "text": "I read about the plum"},
        {"when": {"user_contains": "the report"}, "repeat": "forever", "text": "**Here** it is. MEDIA:~/report.csv"},
    ]});
    let model =
        ModelServer::start_blocking(ModelScript::from_yaml("mail", &script.to_string()).unwrap()).unwrap();
    let home = peer.home(&model);
    let gateway = start_gateway(&home);
    until_connected(&home);
    let attached = "Content-Type: multipart/mixed; boundary=b\nMIME-Version: 1.0\n";
    let parts = "--b\nContent-Type: text/plain\n\nwhat does it say?\n--b\nContent-Type: text/plain; name=note.txt\n\
                 Content-Disposition: attachment; filename=note.txt\n\nthe word is plum\n--b--";
    let tag = hermes_types::random_hex(8);
    peer.send(&[
        mail(
            &format!("l{tag}"),
            "Subject: List\nList-Id: <l.example.test>\nPrecedence: list\n",
            &format!("list-{tag}"),
        ),
        mail(&format!("v{tag}"), "Subject: Away\nAuto-Submitted: auto-replied\n", &format!("away-{tag}")),
        mail(&format!("q{tag}"), "Subject: =?utf-8?q?Gr=C3=B6=C3=9Fe?=\n", "send the report"),
        mail(&format!("f{tag}"), &format!("Subject: Re: note\n{attached}"), parts),
    ]);
    let claims = "Authentication-Results: mail.example.test; dmarc=pass header.from=example.test\n";
    peer.hand_in(
        "forge",
        ALICE,
        &[format!("{claims}{}", mail(&format!("e{tag}"), "Subject: Pay\n", &format!("forged-{tag}")))],
    );
    peer.until_received(&tag, "I read about the plum");
    let answer = peer.until_received(&tag, "Here it is.");
    assert_eq!(answer["subject"], "Re: Größe");
    assert_eq!(answer["answers"], format!("<q{tag}@example.test>"));
    assert_eq!(answer["has_markup"], true);
    assert_eq!(answer["files"], json!([["report.csv", "a,b\n1,2\n"]]));
    let id = answer["id"].as_str().unwrap();
    let references =
        format!("Subject: Re: Thread\nIn-Reply-To: {id}\nReferences: <q{tag}@example.test> {id}\n");
    peer.send(&[mail(
        &format!("r{tag}"),
        &references,
        &format!("last-{tag}\n\nOn Tue, <bot@example.test> wrote:\n> Here it is."),
    )]);
    let last = peer.until_received(&tag, &format!("last-{tag}"));
    assert_eq!(last["references"].as_str().unwrap().split_whitespace().count(), 3, "{last}");
    assert!(!last["text"].as_str().unwrap().contains("wrote"), "{last}");
    let asked: String = model.requests().iter().map(|request| request.body_text()).collect();
    for left_out in ["list-", "away-", "forged-"] {
        assert!(!asked.contains(&format!("{left_out}{tag}")), "{left_out} reached the model");
    }
    let log = std::fs::read_to_string(home.join("logs/gateway.log")).unwrap_or_default();
    assert!(log.contains("may be forged") && !log.contains("pw-bot"), "{log}");
    drop(gateway);
}

#[test]
fn peer_mail_survives_kills() {
    let Some(peer) = MailPeer::started("carrier") else { return };
    let script = ModelScript::from_yaml("echo", "default: echo\nreplies: []\n").unwrap();
    let model = ModelServer::start_blocking(script).unwrap();
    let home = peer.home(&model);
    let mut gateway = start_gateway(&home);
    until_connected(&home);
    let tag = hermes_types::random_hex(8);
    let token = |number: usize| format!("t{number}of{tag}.");
    for round in 0..10 {
        let mails: Vec<String> = (round * 20..round * 20 + 20)
            .map(|number| mail(&format!("k{number}-{tag}"), "Subject: Re: kills\n", &token(number)))
            .collect();
        peer.send(&mails);
        let known = "SELECT COUNT(*) FROM hx_inbox";
        let wanted = round * 20 + 3;
        until("some of them are taken", || {
            let count = fixture::texts(&home.join("state.db"), known);
            count.first().and_then(|count| count.parse::<usize>().ok()).is_some_and(|count| count >= wanted)
        });
        drop(gateway);
        gateway = start_gateway(&home);
    }
    // Mails that wait are answered together: what counts is that each has reached the conversation once, and that each
    // answer has arrived.
    let end = format!("end-{tag}");
    peer.send(&[mail(&format!("end-{tag}"), "Subject: Re: kills\n", &end)]);
    peer.until_received(&tag, &end);
    let last = model.requests().into_iter().rfind(|request| request.body_text().contains(&end)).unwrap();
    let said: String = last.json()["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["content"].to_string())
        .collect();
    for number in 0..200 {
        assert_eq!(said.matches(&token(number)).count(), 1, "mail {number}");
    }
    let known = |query: &str| fixture::texts(&home.join("state.db"), query);
    until("all answers are sent", || known("SELECT COUNT(*) FROM hx_outbox WHERE state != 'sent'") == ["0"]);
    let ours = |mail: &&Value| mail["references"].as_str().is_some_and(|ids| ids.contains(&tag));
    let mut arrived: BTreeMap<String, usize> = BTreeMap::new();
    for mail in peer.received().iter().filter(ours) {
        *arrived.entry(mail["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let sent = known("SELECT COUNT(*) FROM hx_outbox");
    assert_eq!([arrived.len().to_string()], sent.as_slice(), "each answer has arrived");
    // A server cannot tell whether it took a mail whose connection was cut: then it comes twice under one id, and is marked.
    let doubled = arrived.values().filter(|count| **count > 1).count();
    let marked = known("SELECT COUNT(*) FROM hx_outbox WHERE receipt LIKE '%at_least_once%'");
    assert!(
        marked.iter().all(|count| count.parse::<usize>().unwrap() >= doubled),
        "{doubled} doubled, {marked:?} marked"
    );
    assert_eq!(known("SELECT COUNT(*) FROM hx_inbox"), ["201"], "each mail was taken once");
    println!("201 mails, 10 kills, {} answers, {doubled} doubled and marked", arrived.len());
    drop(gateway);
}
