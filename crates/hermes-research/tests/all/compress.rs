//! Compression of trajectories.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_research::{
    CompressionJob, CompressionTarget, RegionChoice, SampleGenerator, SampleShare, SummaryModel,
    TrajectoryCompression, TrajectoryLimits, TrajectoryTurn, choose_region, dry_run, summary_input,
};
use hermes_testkit::{ModelStep, TestClock, TestModel};
use hermes_text::JsonTree;
use hermes_types::{Cancel, CivilTime, ModelError};
use proptest::prelude::*;

use super::support::Notices;

/// A text is as many tokens as it has words.
fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn fifteen_turns() -> Vec<(&'static str, u64)> {
    let mut turns = vec![("system", 10), ("human", 5), ("gpt", 10), ("tool", 20)];
    for _ in 0..5 {
        turns.extend([("gpt", 10), ("tool", 30)]);
    }
    turns.push(("gpt", 10));
    turns
}

fn settings(target: u64) -> TrajectoryLimits {
    TrajectoryLimits { target_tokens: target, summary_tokens: 10, ..TrajectoryLimits::default() }
}

#[test]
fn regions_follow_the_published_vectors() {
    let check = |target, expected| {
        assert_eq!(choose_region(&fifteen_turns(), &settings(target)), expected, "target {target}");
    };
    check(300, RegionChoice::Keep);
    check(255, RegionChoice::Keep);
    check(230, RegionChoice::Replace { start: 4, end: 6 });
    check(200, RegionChoice::Replace { start: 4, end: 8 });
    check(150, RegionChoice::Replace { start: 4, end: 10 });
    check(100, RegionChoice::Replace { start: 4, end: 10 });
    check(0, RegionChoice::Replace { start: 4, end: 10 });
    let seven = ["system", "human", "gpt", "tool", "gpt", "tool", "gpt"].map(|from| (from, 50));
    assert_eq!(choose_region(&seven, &settings(10)), RegionChoice::TooLong);
    assert_eq!(choose_region(&[], &settings(0)), RegionChoice::Keep);
}

proptest! {
    #[test]
    fn a_region_lies_between_protected_turns_and_parts_no_result_from_its_call(
        turns in prop::collection::vec((prop::sample::select(vec!["system", "human", "gpt", "tool"]), 0_u64..50), 0..40),
        target in 0_u64..600,
        last in 0_usize..8,
    ) {
        let mut settings = settings(target);
        settings.protected.last_turns = last;
        let total: u64 = turns.iter().map(|(_, tokens)| tokens).sum();
        match choose_region(&turns, &settings) {
            RegionChoice::Keep => prop_assert!(total <= target),
            RegionChoice::TooLong => prop_assert!(total > target),
            RegionChoice::Replace { start, end } => {
                prop_assert!(total > target && start < end && end <= turns.len());
                prop_assert!(end <= turns.len() - last.min(turns.len()));
                for role in ["system", "human", "gpt", "tool"] {
                    let first = turns.iter().position(|(from, _)| *from == role);
                    prop_assert!(first.is_none_or(|at| !(start..end).contains(&at)), "{role}");
                }
                // Unless everything from the start on is results.
                let clean = turns[start..end].iter().any(|(from, _)| *from != "tool");
                prop_assert!(!clean || turns[start].0 != "tool");
            }
        }
    }
}

#[test]
fn samples_are_those_of_older_releases() {
    assert!((SampleGenerator::new(42).unit() - 0.639_426_798_457_883_7).abs() < 1e-16);
    assert_eq!(SampleGenerator::new(42).sample(20, 3), [3, 0, 8]);
    let mut all = SampleGenerator::new(7).sample(1000, 400);
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), *all.last().unwrap() < 1000), (400, true));
    assert_eq!(SampleGenerator::new(7).sample(3, 9).len(), 3);
    let share = |percent: f64, count| SampleShare::new(percent).map(|share| share.of(count));
    assert_eq!(
        [share(10.0, 25), share(1.0, 5), share(100.0, 7), share(1.0, 0)],
        [Some(2), Some(1), Some(7), Some(0)]
    );
    assert!([0.0, -1.0, 100.1, f64::NAN].into_iter().all(|percent| SampleShare::new(percent).is_none()));
}

#[test]
fn long_turns_are_cut_for_the_summary() {
    let turn = |from: &str, value: String| TrajectoryTurn { from: from.to_owned(), value };
    let long = format!("{}{}", "é".repeat(3000), "z");
    let text = summary_input(&[turn("gpt", "a".to_owned()), turn("tool", long)], 4);
    let cut = format!("{}\n...[truncated]...\n{}z", "é".repeat(1500), "é".repeat(499));
    assert_eq!(text, format!("[Turn 4 - GPT]:\na\n\n[Turn 5 - TOOL]:\n{cut}"));
}

#[test]
fn settings_are_read_over_the_defaults() {
    let text = "tokenizer: {name: x}\ncompression: {target_max_tokens: 29000}\nprotected_turns: {last_n_turns: 2, first_tool: false}\n\
                summarization: {base_url: '', retry_delay: 1, temperature: 0.5}\nprocessing: {per_trajectory_timeout: 9, num_workers: 4}\n\
                output: {output_suffix: _c}\nmetrics: {per_trajectory: false}\n";
    let read = TrajectoryLimits::from_yaml(text).unwrap();
    let usual = TrajectoryLimits::default();
    assert_eq!((read.target_tokens, read.summary_tokens, read.protected.last_turns), (29_000, 750, 2));
    assert_eq!(read.protected.first, ["system", "human", "gpt"]);
    assert!(!read.metrics_per_trajectory);
    assert_eq!(read.summary.base_url, usual.summary.base_url);
    assert_eq!(read.trajectory_timeout, Duration::from_secs(9));
    assert_eq!(TrajectoryLimits::from_yaml("").unwrap(), usual);
    for (text, key) in [
        ("compression: {target_max_tokens: many}", "compression.target_max_tokens"),
        ("processing: {per_trajectory_timeout: -1}", "processing.per_trajectory_timeout"),
        ("output: {add_summary_notice: 3}", "output.add_summary_notice"),
    ] {
        assert!(TrajectoryLimits::from_yaml(text).unwrap_err().to_string().contains(key), "{text}");
    }
}

/// Returns a line with the fifteen turns, each of so many words.
fn line(mark: &str) -> String {
    let turns = fifteen_turns().into_iter().enumerate().map(|(at, (from, tokens))| {
        let value = vec![format!("{mark}{at}"); usize::try_from(tokens).unwrap()].join(" ");
        TrajectoryTurn { from: from.to_owned(), value }.to_json()
    });
    JsonTree::object([
        ("id", mark.into()),
        ("conversations", turns.collect()),
        ("n", JsonTree::Number("1.0".into())),
    ])
    .to_string()
}

struct Compressed {
    report: TrajectoryCompression,
    notices: Vec<String>,
    model: Arc<TestModel>,
}

async fn compress(
    target: &CompressionTarget,
    settings: TrajectoryLimits,
    model: Arc<TestModel>,
) -> Compressed {
    let clock = Arc::new(TestClock::auto_advance_up_to(Duration::from_secs(100)));
    let observer = Arc::new(Notices::default());
    let job = CompressionJob {
        settings: Arc::new(settings),
        model: SummaryModel { model: model.clone(), name: "m".to_owned(), clock },
        count_tokens: Arc::new(words),
        share: None,
        seed: 42,
        calendar: Arc::new(CivilTime::utc),
        observer: observer.clone(),
    };
    let report = job.run(target, &Cancel::new()).await.unwrap();
    let notices = std::mem::take(&mut *observer.0.lock().unwrap());
    Compressed { report, notices, model }
}

fn ten_words() -> Arc<TestModel> {
    TestModel::new(|_, _| ModelStep::Say("a b c d e f g h".to_owned()))
}

fn target(input: &Path) -> CompressionTarget {
    CompressionTarget::new(input, None, &[], &TrajectoryLimits::default()).unwrap()
}

#[tokio::test]
async fn a_file_is_compressed_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.jsonl");
    let odd = "{\"no\":  \"conversations\"}";
    fs::write(&input, format!("{}\n\nnot json\n{odd}\n{}\n", line("a"), line("b"))).unwrap();
    let target = target(&input);
    assert_eq!(target.files[0].1, folder.path().join("in_compressed.jsonl"));
    assert_eq!(dry_run(&target, None).unwrap(), [(input.clone(), 3, 3)]);
    let done = compress(&target, settings(200), ten_words()).await;
    assert_eq!(
        done.notices,
        [format!("warning: {}, line 3: it is not JSON; the line is skipped", input.display())]
    );
    let lines: Vec<String> =
        fs::read_to_string(&target.files[0].1).unwrap().lines().map(str::to_owned).collect();
    assert_eq!((lines.len(), lines[1].as_str()), (3, odd));
    let first = JsonTree::parse(&lines[0]).unwrap();
    let turns: Vec<TrajectoryTurn> = first
        .get("conversations")
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .filter_map(TrajectoryTurn::from_json)
        .collect();
    assert_eq!(turns.len(), 12);
    assert_eq!(
        (turns[4].from.as_str(), turns[4].value.as_str()),
        ("human", "[CONTEXT SUMMARY]: a b c d e f g h")
    );
    assert!(turns[0].value.contains("a0\n\nSome of the tool responses") && turns[5].value.starts_with("a8 "));
    assert_eq!(first.get("n").unwrap().to_string(), "1.0");
    let metrics = first.get("compression_metrics").unwrap();
    let region = r#"{"start_idx": 4, "end_idx": 8, "turns_count": 4}"#;
    assert_eq!(metrics.get("compression_region").unwrap().to_string(), region);
    assert_eq!(metrics.get("original_tokens").unwrap().as_u64(), Some(255));
    assert!(lines[2].contains("b8 b8") && !lines[2].contains("a8"), "the order is that of the input");
    let totals = &done.report.totals;
    assert_eq!((totals.trajectories, totals.compressed, totals.failed, totals.api_calls), (3, 2, 0, 2));
    let metrics = fs::read_to_string(folder.path().join("in_compressed_metrics.json")).unwrap();
    let metrics = JsonTree::parse(&metrics).unwrap();
    assert_eq!(metrics.get("summary").unwrap().get("compression_rate").unwrap().to_string(), "0.6667");
    let asked = done.model.requests();
    let request = asked.iter().find(|request| request.messages[0].content.text().contains("a4 a4")).unwrap();
    let text = request.messages[0].content.text().into_owned();
    assert!(
        text.contains("[Turn 4 - GPT]:\na4 ")
            && text.contains("[Turn 7 - TOOL]:")
            && !text.contains("[Turn 8")
    );
    assert_eq!((request.max_tokens, request.temperature), (Some(20), Some(0.3)));
}

#[tokio::test]
async fn summaries_are_asked_for_again_and_then_done_without() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.jsonl");
    fs::write(&input, line("a")).unwrap();
    let failing = || ModelStep::Fail(ModelError::GiveUp { message: "busy".to_owned(), status: Some(503) });
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let model = TestModel::new(move |_, _| match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => failing(),
        _ => ModelStep::Say("[CONTEXT SUMMARY]: fine ".to_owned()),
    });
    let target = target(&input);
    let done = compress(&target, settings(200), model).await;
    assert_eq!((done.report.totals.api_calls, done.report.totals.errors), (2, 1));
    assert!(fs::read_to_string(&target.files[0].1).unwrap().contains("\"[CONTEXT SUMMARY]: fine\""));
    let never = TestModel::new(move |_, _| failing());
    let done = compress(&target, settings(200), never).await;
    assert_eq!(
        (done.report.totals.api_calls, done.report.totals.errors, done.report.totals.compressed),
        (3, 3, 1)
    );
    let text = fs::read_to_string(&target.files[0].1).unwrap();
    assert!(text.contains("[CONTEXT SUMMARY]: [The summary of this part"), "{text}");
}

#[tokio::test]
async fn what_takes_too_long_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.jsonl");
    fs::write(&input, format!("{}\n{}\n", line("a"), line("b"))).unwrap();
    let model =
        TestModel::new(
            |said, _| {
                if said.contains("a4 a4") { ModelStep::Hang } else { ModelStep::Say("x".to_owned()) }
            },
        );
    let target = target(&input);
    let limited =
        TrajectoryLimits { trajectory_timeout: Duration::from_secs(50), concurrent: 1, ..settings(200) };
    let done = compress(&target, limited, model).await;
    assert_eq!((done.report.totals.failed, done.report.totals.trajectories), (1, 1));
    let text = fs::read_to_string(&target.files[0].1).unwrap();
    assert!(text.lines().count() == 1 && text.contains("\"id\": \"b\""), "{text}");
}

#[tokio::test]
async fn a_folder_keeps_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("run");
    fs::create_dir(&input).unwrap();
    for name in ["trajectories.jsonl", "batch_0.jsonl", "statistics.json"] {
        fs::write(input.join(name), line(name)).unwrap();
    }
    let both = target(&input);
    assert!(both.files.len() == 2 && both.has_records_twice());
    let only = vec!["trajectories.jsonl".to_owned()];
    let one = CompressionTarget::new(&input, None, &only, &TrajectoryLimits::default()).unwrap();
    assert!(!one.has_records_twice());
    compress(&one, settings(1000), ten_words()).await;
    let out = folder.path().join("run_compressed");
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["compression_metrics.json", "trajectories.jsonl"]);
    assert_eq!(
        fs::read_to_string(out.join("trajectories.jsonl")).unwrap().trim_end(),
        line("trajectories.jsonl")
    );
    let same = CompressionTarget::new(&input, Some(&input), &[], &TrajectoryLimits::default());
    assert!(same.unwrap_err().to_string().contains("written over itself"));
    let empty = tempfile::tempdir().unwrap();
    assert!(CompressionTarget::new(empty.path(), None, &[], &TrajectoryLimits::default()).is_err());
}
