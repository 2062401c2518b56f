//! A very long conversation: its size stays within the window, and its first task stays in the requests.

use hermes_agent::message_tokens;
use hermes_types::ToolOutcome;

use super::support::{AgentFixture, ScriptedTool, call_answer, text_answer};

const WINDOW: u64 = 24_000;

/// Runs turns with large results; returns the fixture, the size of the largest request and the number of
/// sessions.
async fn talk(turns: usize) -> (AgentFixture, u64, usize) {
    let mut bench = AgentFixture::new([])
        .tool(ScriptedTool::new("big", |_| ToolOutcome::done("0123456789 lorem ipsum\n".repeat(260))));
    *bench.model.window.lock().unwrap() = WINDOW;
    *bench.model.input.lock().unwrap() = None;
    let side = AgentFixture::new([]);
    *side.model.fallback_answer.lock().unwrap() =
        Some(text_answer("## Goal\nfind the blue teapot\n## Progress\n### Done\nmuch"));
    bench.set_side_model(side.model.clone(), std::time::Duration::from_mins(1));
    bench.set_iterations(20);
    let mut conversation = bench.conversation();
    let (mut largest, mut sessions) = (0, 1);
    for turn in 0..turns {
        let asked = if turn == 0 {
            "Find the blue teapot, please.".to_owned()
        } else {
            format!("turn {turn}: and then?")
        };
        bench.script([call_answer(&[("big", "{}")]), text_answer(&format!("answer {turn}"))]);
        let before = conversation.session().clone();
        bench.say(&mut conversation, &asked).await;
        sessions += usize::from(*conversation.session() != before);
        let mut asked = bench.model.asked.lock().unwrap();
        let size =
            |request: &hermes_types::ModelRequest| request.messages.iter().map(message_tokens).sum::<u64>();
        largest = largest.max(asked.iter().map(size).max().unwrap_or_default());
        // Only the last request is looked at; keeping all of them would be this test's own leak.
        let keep = asked.len().saturating_sub(1);
        asked.drain(..keep);
        side.model.asked.lock().unwrap().clear();
    }
    (bench, largest, sessions)
}

#[tokio::test]
async fn two_hundred_turns_stay_within_the_window_and_keep_their_task() {
    let (bench, largest, sessions) = talk(200).await;
    assert!(largest < WINDOW, "the largest request had {largest} tokens");
    assert!(sessions > 3, "{sessions} sessions");
    let last = bench.asked(bench.calls() - 1);
    let first = last.messages.first().unwrap().content.text().into_owned();
    assert_eq!(first, "Find the blue teapot, please.");
}

/// Returns the resident memory of this process in kilobytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4
}

#[tokio::test]
#[ignore = "a measurement: run it by hand with --no-capture"]
async fn two_thousand_turns() {
    talk(100).await;
    let before = resident();
    let (_, largest, sessions) = talk(2_000).await;
    let after = resident();
    println!(
        "2,000 turns: memory {before} kB before, {after} kB after; {sessions} sessions; largest request {largest} tokens of {WINDOW}"
    );
    assert!(largest < WINDOW);
}
