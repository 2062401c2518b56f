//! Ending processes.

use super::RuleFinding::{self, Ask, Deny};
use crate::command::argv::Argv;
use crate::command::unwrap::InvocationKind;

pub(super) fn check(argv: &Argv<'_>) -> Option<RuleFinding> {
    match argv.name.as_str() {
        "kill" => kill(argv),
        "pkill" | "killall" => by_name(argv),
        "killall5" => Some(Ask("kill all processes")),
        _ => None,
    }
}

fn kill(argv: &Argv<'_>) -> Option<RuleFinding> {
    let texts: Vec<&str> = argv.texts().collect();
    // `-1` alone is a signal where a pid follows, and means every process where it is the pid.
    let everyone = match texts.as_slice() {
        ["-1"] => true,
        [.., last] => *last == "-1",
        [] => false,
    };
    if everyone {
        return Some(Deny("kill all processes"));
    }
    // Ending the first process ends all others.
    let asks_only = argv.has("-0") || argv.has("-l");
    let named = usize::from(argv.has("-s") || argv.has("-n") || argv.has("--signal"));
    if !asks_only && argv.plain().skip(named).any(|pid| pid == "1") && argv.via == InvocationKind::Directly {
        return Some(Ask("kill all processes"));
    }
    let found = argv.args.iter().any(|word| {
        word.inner.iter().any(|inner| {
            let stages = inner.script.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
            stages
                .filter_map(|stage| stage.words.first())
                .any(|word| matches!(word.text.as_str(), "pgrep" | "pidof" | "lsof"))
        })
    });
    (found && argv.via == InvocationKind::Directly || argv.via == InvocationKind::Xargs)
        .then_some(Ask("kill processes found by name"))
}

fn by_name(argv: &Argv<'_>) -> Option<RuleFinding> {
    let named = |text: &str| {
        let text = text.to_lowercase();
        ["hermes", "gateway", "cli.py"].iter().any(|name| text.contains(name))
    };
    if argv.texts().any(named) {
        return Some(Ask("kill hermes/gateway process (self-termination)"));
    }
    if argv.name == "pkill" && argv.plain().any(|pattern| matches!(pattern, "." | ".*" | "")) {
        return Some(Ask("force kill processes"));
    }
    let mut texts = argv.texts().peekable();
    while let Some(text) = texts.next() {
        let next = texts.peek().copied().unwrap_or_default();
        let force =
            matches!(text, "-9" | "-KILL" | "-SIGKILL" | "--signal=9" | "--signal=KILL" | "--signal=SIGKILL")
                || matches!(text, "-s" | "--signal") && matches!(next, "9" | "KILL" | "SIGKILL")
                || argv.name == "killall" && matches!(text, "-r" | "--regexp");
        if force {
            return Some(Ask("force kill processes"));
        }
    }
    // All of a user's processes, if nothing else selects among them.
    let all = (argv.has("-u") || argv.has("--user")) && argv.plain().count() <= 1;
    all.then_some(Ask("force kill processes"))
}
