//! What a call of a file tool costs, with the kernel's rules around it and without, and a search over 20,000 files.
//!
//! `cargo bench -p hermes-tools`. Prints a table beside the budgets and judges nothing: a timing is no test.
#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run says so and ends")]

use std::path::Path;
use std::time::Duration;

use hermes_config::Home;
use hermes_exec::{Sandbox, SandboxActivation, SandboxPaths};
use hermes_task::SystemClock;
use hermes_tools::{FileGuard, FileOptions, FileTools, ToolRegistry};
use hermes_types::{
    BoxFuture, Cancel, Clock, Deadline, Frontend, ToolContext, ToolEvent, ToolInvocation, TurnEvent,
    UserAnswer, UserQuestion,
};
use serde_json::{Value, json};

const CALLS: usize = 200;
const SEARCHES: usize = 15;
const FOLDERS: usize = 400;
const FILES_IN_EACH: usize = 50;
const BUDGET: Duration = Duration::from_millis(1);

struct Nobody;

impl Frontend for Nobody {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

fn main() {
    // `cargo test --benches` asks for a look, not for numbers.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let top = tempfile::Builder::new().tempdir_in("/var/tmp").expect("a temporary folder");
    let root = top.path().canonicalize().expect("a real path");
    fill(&root.join("proj/tree"));
    std::fs::write(root.join("proj/a.txt"), "line of text\n".repeat(200)).expect("a file");
    println!("{:<44} {:>10} {:>10}", "call", "p50", "p99");
    let mut read = Vec::new();
    for mode in [SandboxActivation::Off, SandboxActivation::Auto] {
        let what = if mode == SandboxActivation::Off { "by names" } else { "by the kernel" };
        let registry = registry(&root, mode);
        let times = measure(CALLS, |at| {
            call(
                &registry,
                "read_file",
                json!({"path": "a.txt", "offset": at % 100 + 1, "limit": 50 + at / 100}),
            );
        });
        show(&format!("read_file, held {what}"), &times);
        read.push(times);
        let times = measure(CALLS, |at| {
            call(&registry, "write_file", json!({"path": "b.txt", "content": format!("{at}\n")}));
        });
        show(&format!("write_file, held {what}"), &times);
        for (name, query) in [
            ("a rare word", json!({"pattern": "veryrareword", "path": "tree"})),
            ("a common word", json!({"pattern": "word1[0-9]", "path": "tree"})),
            ("names", json!({"pattern": "f17.rs", "target": "files", "path": "tree"})),
        ] {
            let times = measure(SEARCHES, |at| {
                let mut query = query.clone();
                query["limit"] = json!(40 + at);
                call(&registry, "search_files", query);
            });
            show(&format!("search_files, {name}, held {what}"), &times);
        }
    }
    let over = |times: &[Duration]| times.get(times.len() / 2).copied().unwrap_or_default();
    if let [off, on] = read.as_slice() {
        println!(
            "the kernel's rules cost {:.2?} a call (budget {BUDGET:?})",
            over(on).saturating_sub(over(off))
        );
    }
}

fn fill(tree: &Path) {
    for folder in 0..FOLDERS {
        let path = tree.join(format!("d{}", folder % 20)).join(format!("e{folder}"));
        std::fs::create_dir_all(&path).expect("a folder");
        for file in 0..FILES_IN_EACH {
            let line = format!("word{} word{} some more words of a line\n", folder % 97, file);
            std::fs::write(path.join(format!("f{file}.rs")), line.repeat(60)).expect("a file");
        }
    }
    std::fs::write(tree.join("d3/e3/rare.rs"), "here is a veryrareword\n").expect("a file");
}

fn registry(root: &Path, mode: SandboxActivation) -> ToolRegistry {
    #[expect(clippy::disallowed_methods, reason = "the real home is what a real user's rules are about")]
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let places = SandboxPaths {
        user_home: home.clone(),
        hermes_home: home.join(".hermes"),
        ..SandboxPaths::default()
    };
    let guard = FileGuard::new(root.join("proj"), home.clone(), &Home::new(home.join(".hermes")));
    let files = FileTools::new(guard, FileOptions::default()).with_sandbox(Sandbox::new(mode, places));
    ToolRegistry::file_tools(&files)
}

fn call(registry: &ToolRegistry, name: &str, arguments: Value) {
    let Value::Object(arguments) = arguments else { return };
    let tool = registry.find(name).expect("the tool");
    let call = ToolInvocation {
        id: "c".into(),
        name: name.to_owned(),
        arguments,
        session: "s".into(),
        turn: "t".into(),
        task: "k".into(),
    };
    let cancel = Cancel::new();
    let deadline = Deadline::after(&SystemClock::new(), Duration::from_mins(1));
    let context = ToolContext { frontend: &Nobody, cancel: &cancel, deadline, spawn: None, turn_model: None };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    tool.on_event(&"k".into(), ToolEvent::CallStarting("other"));
    runtime.block_on(tool.run(&call, context));
}

fn measure(calls: usize, mut work: impl FnMut(usize)) -> Vec<Duration> {
    let clock = SystemClock::new();
    (0..3).for_each(|at| work(900 + at));
    let mut times: Vec<Duration> = (0..calls)
        .map(|at| {
            let start = clock.monotonic();
            work(at);
            clock.monotonic().saturating_sub(start)
        })
        .collect();
    times.sort();
    times
}

fn show(what: &str, times: &[Duration]) {
    let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
    println!("{what:<44} {:>10.2?} {:>10.2?}", at(50), at(99));
}
