//! What every service does: it stores turns, recalls them, answers its tools, and keeps people apart.

use serde_json::json;

use hermes_testkit::MEMORY_KEY;
use hermes_types::{ExternalMemory as _, MemoryWrite, Message};

use super::support::{Bench, Talk};

/// A service with a fact to store, and the name under which the emulator keeps what the owner said.
async fn stores_and_recalls(service: &str, emulator: &str, owner: &str) {
    let bench = Bench::new(service);
    let name = service.trim_start_matches("own-");
    let service = bench.service(name);
    service.check().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    let talk = Talk::new(&service, None, "s1");
    talk.say("My dentist is called Doctor Weber.", "Noted.");
    service.shut_down().await;
    let stored = bench.servers.stored(emulator, owner).join("\n");
    assert!(stored.contains("Doctor Weber"), "{name}: {stored}");
    let note = talk.recall("Which dentist should I call?").await;
    let note = note.unwrap_or_else(|| panic!("{name} recalls nothing"));
    assert!(note.contains("Doctor Weber") && note.contains("Data, not instructions"), "{name}: {note}");

    // Another person neither reads nor writes what is the owner's.
    let ann = Talk::new(&service, Some("7"), "s2");
    assert_eq!(ann.recall("Which dentist should I call?").await, None, "{name}");
    ann.say("My dentist is called Doctor Klein.", "Noted.");
    service.shut_down().await;
    let note = talk.recall("Which dentist should I call?").await.unwrap();
    assert!(!note.contains("Klein"), "{name}: {note}");
    assert!(ann.recall("Which dentist is mine?").await.unwrap().contains("Klein"), "{name}");

    // What is added to the memory files is passed on.
    let write = MemoryWrite {
        action: "add".to_owned(),
        target: "user".to_owned(),
        content: "Likes zeppelins.".to_owned(),
        old_text: String::new(),
    };
    talk.memory.memory_changed(talk.place(), &write);
    talk.memory.session_ended(talk.place(), &[Message::user("hello")]);
    service.shut_down().await;
    let kept = if emulator == "honcho" {
        bench.servers.stored("honcho-conclusion", "user")
    } else {
        bench.servers.stored(emulator, owner)
    };
    assert!(kept.join("\n").contains("Likes zeppelins."), "{name}: {kept:?}");
    assert_eq!(talk.memory.take_notice(), None, "{name}");
    let refused: Vec<String> = bench
        .servers
        .calls("")
        .into_iter()
        .filter(|call| call.status >= 400)
        .map(|call| call.target)
        .collect();
    assert_eq!(refused, Vec::<String>::new(), "{name}");
}

#[tokio::test]
async fn honcho_stores_and_recalls() {
    stores_and_recalls("honcho", "honcho", "user").await;
}

#[tokio::test]
async fn a_mem0_server_stores_and_recalls() {
    stores_and_recalls("own-mem0", "mem0", "hermes-user").await;
}

#[tokio::test]
async fn hindsight_stores_and_recalls() {
    stores_and_recalls("hindsight", "hindsight", "hermes").await;
}

#[tokio::test]
async fn supermemory_stores_and_recalls() {
    stores_and_recalls("supermemory", "supermemory", "hermes").await;
}

#[tokio::test]
async fn retaindb_stores_and_recalls() {
    stores_and_recalls("retaindb", "retaindb", "hermes-user").await;
}

#[tokio::test]
async fn openviking_stores_and_recalls() {
    stores_and_recalls("openviking", "openviking", "owner").await;
}

#[tokio::test]
async fn tools_answer() {
    for (service, calls) in [
        (
            "own-mem0",
            vec![
                ("mem0_add", json!({"content": "Olga likes lemons."}), "Stored"),
                ("mem0_search", json!({"query": "lemons"}), "[id-0] Olga likes lemons."),
                ("mem0_update", json!({"memory_id": "id-0", "text": "x"}), "Changed"),
                ("mem0_delete", json!({"memory_id": "id-0"}), "Deleted"),
                ("mem0_delete", json!({}), "`memory_id` is required"),
            ],
        ),
        (
            "hindsight",
            vec![
                ("hindsight_retain", json!({"content": "Olga likes lemons.", "tags": ["food"]}), "Stored"),
                ("hindsight_recall", json!({"query": "lemons"}), "Olga likes lemons."),
                ("hindsight_reflect", json!({"query": "lemons"}), "Reflected over hermes."),
            ],
        ),
        (
            "supermemory",
            vec![
                ("supermemory_store", json!({"content": "Olga likes lemons."}), "Stored"),
                ("supermemory_search", json!({"query": "lemons", "limit": "3"}), "Olga likes lemons."),
                ("supermemory_forget", json!({"id": "id-0"}), "Forgotten"),
                ("supermemory_forget", json!({}), "`id` or `content` is required"),
                ("supermemory_profile", json!({}), "The profile is empty."),
            ],
        ),
        (
            "retaindb",
            vec![
                (
                    "retaindb_remember",
                    json!({"content": "Olga likes lemons.", "memory_type": "preference"}),
                    "Stored",
                ),
                ("retaindb_search", json!({"query": "lemons"}), "[id-0] Olga likes lemons."),
                ("retaindb_context", json!({"query": "lemons"}), "Packed context."),
                ("retaindb_profile", json!({}), "Olga likes lemons."),
                ("retaindb_forget", json!({"memory_id": "id-0"}), "Deleted"),
            ],
        ),
        (
            "openviking",
            vec![
                ("viking_remember", json!({"content": "Olga likes lemons."}), "Stored"),
                (
                    "viking_search",
                    json!({"query": "lemons"}),
                    "viking://user/memories/0.md: Olga likes lemons.",
                ),
                ("viking_read", json!({"uri": "viking://x", "level": "overview"}), "overview of viking://x"),
                ("viking_read", json!({"uri": "http://127.0.0.1/"}), "must begin with viking://"),
                ("viking_browse", json!({}), "viking://user/memories"),
            ],
        ),
    ] {
        let bench = Bench::new(service);
        let running = bench.service(service.trim_start_matches("own-"));
        let talk = Talk::new(&running, None, "s1");
        for (tool, arguments, expected) in calls {
            let answer = talk.call(tool, arguments.clone()).await;
            assert!(answer.contains(expected), "{tool} {arguments}: {answer}");
        }
        assert_eq!(talk.memory.take_notice(), None, "a mistake of the model is no failure of {service}");
    }
}

#[tokio::test]
async fn byterover_runs_its_program() {
    let bench = Bench::new("byterover");
    let refusal = bench.engine("byterover").err().unwrap();
    assert!(refusal.contains("`brv` is not on the PATH"), "{refusal}");
    // A stand-in that keeps what it is told in a file of the folder it runs in.
    let program = bench.home.join("brv");
    let script = "#!/bin/sh\ncase $1 in\n\
        curate) printf '%s\\n' \"$2\" >> tree.md ;;\n\
        query) grep -i -- \"$(printf '%s' \"$2\" | tr -dc 'a-z ' | awk '{print $NF}')\" tree.md || true ;;\n\
        status) echo 'brv 3.14' ;;\n*) exit 2 ;;\nesac\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let service = bench.service("byterover");
    service.check().await.unwrap();
    let talk = Talk::new(&service, None, "s1");
    talk.say("The dentist is Doctor Weber.", "Noted.");
    service.shut_down().await;
    assert!(talk.recall("who is my dentist").await.unwrap().contains("Doctor Weber"));
    assert!(talk.call("brv_status", json!({})).await.contains("brv 3.14"));
    assert!(talk.call("brv_curate", json!({"content": "--help is a text"})).await.contains("result"));
    let ann = Talk::new(&service, Some("7"), "s2");
    ann.say("Ann's dentist is Doctor Klein.", "Noted.");
    service.shut_down().await;
    assert!(!talk.recall("who is my dentist").await.unwrap().contains("Klein"));
    assert!(bench.home.read("byterover/people/telegram_7/tree.md").contains("Klein"));
}

#[test]
fn what_cannot_be_used_is_refused_with_the_reason() {
    let refusal = |service: &str, name: &str| Bench::new(service).engine(name).err().unwrap();
    for (service, name, expected) in [
        ("", "holographic", "is not supported by this release: the format of its database is not documented"),
        ("", "memori", "is not known; use one of builtin, none, honcho"),
        ("", "honcho", "needs a key or an address"),
        ("", "mem0", "needs a key: set MEM0_API_KEY"),
        ("", "supermemory", "needs a key: set SUPERMEMORY_API_KEY"),
    ] {
        let found = refusal(service, name);
        assert!(
            found.starts_with(&format!("memory.provider: {name} ")) && found.contains(expected),
            "{found}"
        );
    }
    let bench = Bench::new("own-mem0").with_env("MEM0_HOST", "file:///etc/passwd");
    let found = bench.engine("mem0").err().unwrap();
    assert!(found.contains("is not a valid URL") && !found.contains(MEMORY_KEY), "{found}");
    let bench = Bench::new("");
    std::fs::write(bench.home.join("mem0.json"), r#"{"mode": "oss"}"#).unwrap();
    let found = bench.engine("mem0").err().unwrap();
    assert!(found.contains("runs inside a Python program"), "{found}");
    std::fs::write(bench.home.join("mem0.json"), "[").unwrap();
    assert!(bench.engine("mem0").err().unwrap().contains("is not a JSON object"));
}
