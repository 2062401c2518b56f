//! The browser tools in the program: a scripted turn in a real browser, and what is left of it after a kill.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hermes_testkit::{BrowserSite, ModelScript, ModelServer, TempHome, peer_is_missing};
use serde_json::{Value, json};

use super::life::hermes;
use super::support::until;

struct BrowserHome {
    site: BrowserSite,
    server: ModelServer,
    home: TempHome,
    temp: tempfile::TempDir,
}

impl BrowserHome {
    /// Returns the home, or nothing where no browser is installed.
    fn new(replies: impl FnOnce(&BrowserSite) -> Value, more: &Value) -> Option<Self> {
        if !Path::new("/usr/bin/chromium").exists() {
            peer_is_missing("chromium");
            return None;
        }
        let site = BrowserSite::start("127.0.0.1", "localhost").unwrap();
        let script = json!({"replies": replies(&site), "default": "echo"}).to_string();
        let server =
            ModelServer::start_blocking(ModelScript::from_yaml("browser", &script).unwrap()).unwrap();
        let mut config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
            "auxiliary": {"vision": {"base_url": server.base_url(), "model": "eye", "api_key": "k-123456"}},
            "terminal": {"sandbox": "off"},
            "browser": {"allow_private_urls": true},
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file("").build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        // The browser puts a socket there, whose path must be short.
        let temp = tempfile::tempdir_in("/tmp").unwrap();
        Some(Self { site, server, home, temp })
    }

    fn ask(&self, question: &str) -> Command {
        let mut command = hermes(&self.home, &["chat", "-Q", "-q", question]);
        command.env("TMPDIR", self.temp.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn bodies(&self) -> Vec<String> {
        self.server.requests().iter().map(|request| request.body_text().into_owned()).collect()
    }

    /// Returns the result of a call as the model got it.
    fn result(&self, id: &str) -> Value {
        let bodies = self.bodies();
        let messages = bodies.iter().filter_map(|body| serde_json::from_str::<Value>(body).ok());
        let all: Vec<Value> =
            messages.flat_map(|body| body["messages"].as_array().cloned().unwrap_or_default()).collect();
        let found = all.iter().find(|message| message["tool_call_id"] == id);
        let content =
            found.unwrap_or_else(|| panic!("no result of {id} in {bodies:#?}"))["content"].as_str().unwrap();
        serde_json::from_str(content).unwrap_or_else(|_| panic!("{content}"))
    }

    /// Returns the processes that have to do with this home.
    fn processes(&self) -> Vec<PathBuf> {
        let folder = self.temp.path().display().to_string();
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let is_ours = |path: &PathBuf| {
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&folder)
        };
        all.filter(is_ours).collect()
    }
}

fn call(name: &str, id: &str, arguments: &Value) -> Value {
    json!({"name": name, "id": id, "arguments": arguments})
}

#[test]
fn peer_chromium_completes_a_form_in_a_scripted_turn() {
    let script = |site: &BrowserSite| {
        json!([
            {"when": {"user_contains": "Elements of the page have a red frame"}, "text": "a greeting, nothing is marked"},
            {"when": {"tool_result": "call_6"}, "text": "Signed in as Ada."},
            {"when": {"tool_result": "call_5"}, "tool": call("browser_vision", "call_6", &json!({"question": "what is there", "annotate": true}))},
            {"when": {"tool_result": "call_4"}, "tool": call("browser_snapshot", "call_5", &json!({"full": true}))},
            {"when": {"tool_result": "call_3"}, "tool": call("browser_press", "call_4", &json!({"key": "Enter"}))},
            {"when": {"tool_result": "call_2"}, "tool": call("browser_type", "call_3", &json!({"ref": "@e2", "text": "secret"}))},
            {"when": {"tool_result": "call_1"}, "tool": call("browser_type", "call_2", &json!({"ref": "e1", "text": "Ada"}))},
            {"when": {"user_contains": "sign me in"}, "tool": call("browser_navigate", "call_1", &json!({"url": site.url("/login")}))},
        ])
    };
    let Some(fixture) = BrowserHome::new(script, &json!({})) else { return };
    let output = fixture.ask("sign me in").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Signed in as Ada."), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let page = fixture.result("call_1");
    assert_eq!(page["success"], true, "{page}");
    assert_eq!((&page["title"], &page["url"]), (&json!("Sign in"), &json!(fixture.site.url("/login"))));
    assert!(
        page["snapshot"].as_str().unwrap().contains("textbox \"User name\" [required, ref=e1]"),
        "{page}"
    );
    assert_eq!(page["stealth_features"], json!(["local"]));
    assert_eq!(fixture.result("call_2"), json!({"success": true, "typed": "Ada", "element": "@e1"}));
    let pressed = fixture.result("call_4");
    assert_eq!((&pressed["pressed"], &pressed["title"]), (&json!("Enter"), &json!("Welcome")), "{pressed}");
    let read = fixture.result("call_5");
    assert!(read["snapshot"].as_str().unwrap().contains("password secret"), "{read}");
    assert_eq!(read["element_count"], 0);
    let seen = fixture.result("call_6");
    assert_eq!(seen["analysis"], "a greeting, nothing is marked", "{seen}");
    let shot = seen["screenshot_path"].as_str().unwrap();
    assert!(shot.starts_with(fixture.home.join("cache/screenshots").to_str().unwrap()), "{shot}");
    assert!(std::fs::read(shot).unwrap().starts_with(b"\x89PNG"));
    assert_eq!(fixture.processes(), Vec::<PathBuf>::new(), "the browser has ended with the program");
    assert_eq!(std::fs::read_dir(fixture.temp.path()).unwrap().count(), 0, "and its profile is gone");
}

#[test]
fn peer_chromium_is_refused_private_addresses_and_marks_what_pages_say() {
    let script = |site: &BrowserSite| {
        json!([
            {"when": {"tool_result": "call_4"}, "text": "Done."},
            {"when": {"tool_result": "call_3"}, "tool": call("browser_close", "call_4", &json!({}))},
            {"when": {"tool_result": "call_2"}, "tool": call("browser_navigate", "call_3", &json!({"url": site.url("/inject")}))},
            {"when": {"tool_result": "call_1"}, "tool": call("browser_navigate", "call_2", &json!({"url": site.url("/leads-to-metadata")}))},
            {"when": {"user_contains": "look"}, "tool": call("browser_click", "call_1", &json!({"ref": "@e1"}))},
            {"when": {"user_contains": "inside"}, "tool": call("browser_navigate", "call_9", &json!({"url": site.url("/secret")}))},
        ])
    };
    let Some(fixture) = BrowserHome::new(script, &json!({})) else { return };
    fixture.ask("look").output().unwrap();
    let early = fixture.result("call_1");
    assert!(early["error"].as_str().unwrap().contains("browser_navigate"), "{early}");
    let refused = fixture.result("call_2");
    assert_eq!(refused["success"], false);
    assert!(refused["error"].as_str().unwrap().contains("redirects to an address"), "{refused}");
    let injected = fixture.result("call_3");
    assert!(injected["_warning"].as_str().unwrap().contains("tries to instruct its reader"), "{injected}");
    assert_eq!(fixture.result("call_4"), json!({"success": true, "closed": true}));

    let Some(closed) = BrowserHome::new(script, &json!({"browser": {}})) else { return };
    closed.ask("inside").output().unwrap();
    let refused = closed.result("call_9");
    assert!(refused["error"].as_str().unwrap().contains("private or internal network address"), "{refused}");
    assert_eq!(closed.site.visits(), Vec::<String>::new());
}

#[test]
fn peer_chromium_does_not_outlive_a_killed_program() {
    let script = |site: &BrowserSite| {
        json!([
            {"when": {"tool_result": "call_1"}, "events": [{"wait": "never"}]},
            {"when": {"user_contains": "open it"}, "tool": call("browser_navigate", "call_1", &json!({"url": site.url("/login")}))},
        ])
    };
    let Some(fixture) = BrowserHome::new(script, &json!({})) else { return };
    let mut child = fixture.ask("open it").spawn().unwrap();
    until("the page was read", || fixture.bodies().iter().any(|body| body.contains("\"call_1\"")));
    assert!(fixture.processes().len() > 2, "the browser runs");
    child.kill().unwrap();
    child.wait().unwrap();
    until("no process is left", || fixture.processes().is_empty());
    until("no profile is left", || std::fs::read_dir(fixture.temp.path()).unwrap().count() == 0);
}

#[test]
fn peer_chromium_gets_only_files_that_the_conversation_may_read() {
    let script = |site: &BrowserSite| {
        let upload = |path: &str| json!({"ref": "@e1", "text": path});
        json!([
            {"when": {"tool_result": "call_4"}, "text": "Handed in."},
            {"when": {"tool_result": "call_3"}, "tool": call("browser_type", "call_4", &upload("report.csv"))},
            {"when": {"tool_result": "call_2"}, "tool": call("browser_type", "call_3", &upload("no-such-file"))},
            {"when": {"tool_result": "call_1"}, "tool": call("browser_type", "call_2", &upload("~/.ssh/id_ed25519"))},
            {"when": {"user_contains": "hand in"}, "tool": call("browser_navigate", "call_1", &json!({"url": site.url("/files")}))},
        ])
    };
    let Some(fixture) = BrowserHome::new(script, &json!({"terminal": {}})) else { return };
    let folder = fixture.home.join("user");
    std::fs::create_dir_all(folder.join(".ssh")).unwrap();
    std::fs::write(folder.join(".ssh/id_ed25519"), "the key").unwrap();
    std::fs::create_dir_all(folder.join("work")).unwrap();
    std::fs::write(folder.join("work/report.csv"), "noon,2\n").unwrap();
    let output = fixture.ask("hand in").current_dir(folder.join("work")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Handed in."), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for (id, words) in [("call_2", ""), ("call_3", "cannot read no-such-file")] {
        let refused = fixture.result(id);
        assert_eq!(refused["success"], false, "{refused}");
        assert!(refused["error"].as_str().is_some_and(|error| error.contains(words)), "{refused}");
    }
    let given = fixture.result("call_4");
    assert_eq!((&given["success"], &given["uploaded"]), (&json!(true), &json!(1)), "{given}");
    let copies = fixture.home.join("cache/uploads");
    let copies: Vec<PathBuf> =
        std::fs::read_dir(copies).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(copies.len(), 1, "what was refused was not copied");
    assert_eq!(std::fs::read_to_string(copies[0].join("report.csv")).unwrap(), "noon,2\n");
}

#[test]
fn tools_are_not_offered_without_a_browser() {
    let script = ModelScript::from_yaml("none", r#"{"default": "echo"}"#).unwrap();
    let server = ModelServer::start_blocking(script).unwrap();
    let config = |browser: &Value| {
        let config = json!({
            "model": {"provider": "custom", "base_url": server.base_url(), "default": "m"},
            "browser": browser,
        });
        let home = TempHome::builder().config_yaml(&config.to_string()).env_file("").build().unwrap();
        std::fs::create_dir_all(home.join("user")).unwrap();
        hermes(&home, &["chat", "-Q", "-q", "hello"]).output().unwrap();
        server.requests().last().unwrap().body_text().into_owned()
    };
    for nothing in [json!({"engine": "no-such-browser"}), json!({"cloud_provider": "browser-use"})] {
        assert!(!config(&nothing).contains("browser_navigate"), "{nothing}");
    }
    let somewhere = config(&json!({"cdp_url": "http://127.0.0.1:9"}));
    assert!(somewhere.contains("browser_navigate"), "{somewhere}");
}
