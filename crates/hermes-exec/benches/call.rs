//! Measures what a command costs beyond its own run time.
//!
//! Run with `cargo bench -p hermes-exec`. It prints a table with the budget and does not fail: a timing is no
//! test.
#![expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot run says so and ends")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_exec::{
    LocalEnvironment, LocalHost, LocalOptions, OutputBounds, Sandbox, SandboxActivation, SandboxPaths,
    Variables,
};
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock, Environment, ShellCommand};

const WARM_UP: usize = 20;
const CALLS: usize = 300;
const BUDGET: Duration = Duration::from_millis(5);
const FENCE_BUDGET: Duration = Duration::from_millis(3);

fn main() {
    // `cargo test --benches` only checks that the benchmark starts.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let clock = SystemClock::new();
    println!("{:<40} {:>9} {:>9} {:>9}", "`true`", "p50", "p99", "over bash");
    let bare = measure(&clock, || {
        #[expect(clippy::disallowed_methods, reason = "what is compared with is a process without a guard")]
        let status = std::process::Command::new("bash").args(["-c", "true"]).status();
        status.expect("bash runs");
    });
    show("bash -c true, started by hand", &bare, &bare);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut all = Vec::new();
    for (what, mode) in [("guarded", SandboxActivation::Off), ("guarded and fenced", SandboxActivation::Auto)]
    {
        let local = place(mode, folder.path().to_owned());
        let cancel = Cancel::new();
        let times = measure(&clock, || {
            let command =
                ShellCommand { shell: "true", directory: None, stdin: None, timeout: Duration::from_mins(1) };
            runtime.block_on(local.run(command, &cancel)).expect("it runs");
        });
        show(what, &times, &bare);
        all.push(times);
    }
    println!("budget over bash: {BUDGET:?}");
    let middle = |times: &[Duration]| times.get(times.len() / 2).copied().unwrap_or_default();
    if let [guarded, fenced] = all.as_slice() {
        let fence = middle(fenced).saturating_sub(middle(guarded));
        println!("the fence costs {fence:.2?} a command (budget {FENCE_BUDGET:?})");
    }
}

fn place(mode: SandboxActivation, folder: PathBuf) -> LocalEnvironment {
    #[expect(clippy::disallowed_methods, reason = "the real home is what a real user's rules are about")]
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let text = home.to_string_lossy().into_owned();
    let base = [("HOME", text.as_str()), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
    let places = SandboxPaths {
        hermes_home: home.join(".hermes"),
        user_home: home,
        temporary: vec![folder.clone()],
        writable: Vec::new(),
        programs: Vec::new(),
    };
    let options = LocalOptions {
        variables: Variables::for_commands(base, &[], &[]),
        temp: folder.clone(),
        bounds: OutputBounds::default(),
        sandbox: Sandbox::new(mode, places),
    };
    LocalHost::new(options, Arc::new(SystemClock::new())).open(folder)
}

fn measure(clock: &dyn Clock, mut work: impl FnMut()) -> Vec<Duration> {
    (0..WARM_UP).for_each(|_| work());
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let start = clock.monotonic();
            work();
            clock.monotonic().saturating_sub(start)
        })
        .collect();
    times.sort();
    times
}

fn show(what: &str, times: &[Duration], bare: &[Duration]) {
    let at = |times: &[Duration], percent: usize| {
        times.get(times.len() * percent / 100).copied().unwrap_or_default()
    };
    let over = at(times, 50).saturating_sub(at(bare, 50));
    println!("{what:<40} {:>9.2?} {:>9.2?} {over:>9.2?}", at(times, 50), at(times, 99));
}
