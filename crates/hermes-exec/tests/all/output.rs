//! Tests of the returned output of a command.

use super::support::LocalFixture;

#[tokio::test]
async fn output_is_exactly_what_was_printed() {
    let place = LocalFixture::new();
    place.check("printf x", "x").await;
    place.check("echo a; echo b >&2; echo c", "a\nb\nc\n").await;
    place.check("true", "").await;
    place.check("printf '\\n'", "\n").await;
    place.check("cat <<'EOF'\nheredoc 'quotes' $HOME\nEOF", "heredoc 'quotes' $HOME\n").await;
    place.check("echo done # a comment", "done\n").await;
    place.check("echo \"it's\"", "it's\n").await;
    place.check("printf '\\xff\\xfe'", "\u{fffd}\u{fffd}").await;
    place.check("echo ünï", "ünï\n").await;
}

#[tokio::test]
async fn codes_come_back_and_a_shell_that_exits_is_clean() {
    let place = LocalFixture::new();
    for (command, output, code) in [
        ("exit 3", "", 3),
        ("false", "", 1),
        ("echo x; exit 130", "x\n", 130),
        ("kill -9 $$", "", 137),
        ("(exit 7)", "", 7),
    ] {
        let finished = place.run(command).await;
        assert_eq!((finished.output.as_str(), finished.exit_code), (output, code), "{command}");
    }
    let finished = place.run("if then").await;
    assert!(finished.exit_code != 0 && finished.output.contains("syntax error"), "{finished:?}");
    let finished = place.run("no-such-command-here").await;
    assert_eq!(finished.exit_code, 127);
}

#[tokio::test]
async fn a_long_output_keeps_both_ends_and_the_true_count() {
    let place = LocalFixture::new();
    let finished = place.run("head -c 300000 /dev/zero | tr '\\0' x; echo the end").await;
    let output = finished.output;
    assert!(output.starts_with("xxx") && output.ends_with("the end\n"));
    assert!(output.contains("[OUTPUT TRUNCATED - 250008 chars omitted out of 300008 total]"));
    assert!(output.chars().count() < 50_200);
    assert!(!output.contains("__HERMES"));
}

#[tokio::test]
async fn input_is_fed_while_output_is_read() {
    let place = LocalFixture::new();
    let bytes = vec![b'y'; 500_000];
    let cancel = hermes_types::Cancel::new();
    let finished = place.run_with("cat | wc -c", Some(&bytes), super::support::LONG, &cancel).await;
    assert_eq!(finished.output.trim(), "500000");
    let finished = place.run_with("head -c 3", Some(&bytes), super::support::LONG, &cancel).await;
    assert_eq!(
        (finished.output.as_str(), finished.exit_code),
        ("yyy", 0),
        "input nobody reads is no failure"
    );
    place.check("cat", "").await;
}

#[tokio::test]
async fn a_command_longer_than_an_argument_may_be_still_runs() {
    let place = LocalFixture::new();
    let long = "x".repeat(200_000);
    let finished = place.run(&format!(": {long}\necho ran")).await;
    assert_eq!(finished.output, "ran\n");
    let leftovers = std::fs::read_dir(place.path().join("tmp")).unwrap();
    assert!(leftovers.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with("hermes-cmd")));
}
