//! `config migrate` and `config check`.

use std::fs;

use hermes_config::migrate::{MigrationMode, migrate, status};
use hermes_config::yaml::{YamlValue, parse};

use crate::support::{ConfigFixture, env};

/// Shows that a file without a version does not count as a current one.
#[test]
fn t41_8_the_version_comes_from_the_raw_file() {
    let temp = ConfigFixture::with_config("model: x\n");
    let shell = env(&[("FAL_KEY", "k")]);
    let report = status(&temp.load(&shell), &shell);
    assert_eq!((report.current, report.latest), (None, 10));
    assert_eq!(report.version_line(), "none → 10");
    assert!(
        report.missing_variables.contains(&"TAVILY_API_KEY")
            && !report.missing_variables.contains(&"FAL_KEY")
    );
    assert!(report.new_options.contains(&"agent".to_owned()));
    let current = ConfigFixture::with_config("_config_version: 5\n");
    assert_eq!(status(&current.load(&shell), &shell).missing_variables, ["TAVILY_API_KEY"]);
}

/// Shows that a file from a later release is not changed.
#[test]
fn t41_9_later_files_are_untouched() {
    let text = "# later\n_config_version: 33 # theirs\nmodel: x\n";
    let temp = ConfigFixture::with_config(text);
    fs::write(temp.home.dotenv(), "ANTHROPIC_TOKEN=a\n").expect("write");
    let report = migrate(&temp.home, &env(&[]), MigrationMode::Apply).expect("fine");
    assert_eq!((report.from, report.to), (Some(33), 33));
    assert_eq!(temp.config_text(), text);
    assert_eq!(temp.dotenv_text(), "ANTHROPIC_TOKEN=a\n");
}

#[test]
fn steps_run_in_order_and_comments_stay() {
    let before = "# my file\nagent:\n  max_turns: 5 # low\n\n# tail\n";
    let temp = ConfigFixture::with_config(before);
    fs::write(temp.home.dotenv(), "ANTHROPIC_TOKEN=old\nOPENAI_API_KEY=sk-1FAL_KEY=k\n").expect("write");
    let shell = env(&[("HERMES_TOOL_PROGRESS_MODE", "new"), ("HERMES_TIMEZONE", "Europe/Rome")]);
    let report = migrate(&temp.home, &shell, MigrationMode::Apply).expect("migrated");
    assert_eq!((report.from, report.to), (None, 10));
    assert_eq!(temp.dotenv_text(), "ANTHROPIC_TOKEN=\nOPENAI_API_KEY=sk-1\nFAL_KEY=k\n");
    let text = temp.config_text();
    assert!(
        text.starts_with("# my file\nagent:\n  max_turns: 5 # low\n") && text.contains("# tail\n"),
        "{text}"
    );
    let tree = parse(&text).expect("reads");
    assert_eq!(tree.lookup("display.tool_progress"), Some(&YamlValue::from("new")));
    assert_eq!(tree.lookup("timezone"), Some(&YamlValue::from("Europe/Rome")));
    assert_eq!(tree.lookup("agent.max_turns"), Some(&YamlValue::Int(5)));
    assert_eq!(tree.lookup("agent.verbose"), Some(&YamlValue::Bool(false)));
    assert_eq!(tree.lookup("_config_version"), Some(&YamlValue::Int(10)));
    assert!(tree.get("model").is_none(), "naming a model would overrule HERMES_MODEL");
    assert_eq!(report.lines[0], "✓ Repaired .env file (1 corrupted entries fixed)");
    assert!(report.lines.contains(&"  ✓ Added timezone = Europe/Rome".to_owned()), "{:?}", report.lines);
    assert!(report.lines.contains(&"  ✓ Added agent.verbose = false".to_owned()));
    assert!(report.ask_for.contains(&"TAVILY_API_KEY"));
    let again = migrate(&temp.home, &shell, MigrationMode::Apply).expect("again");
    assert!(again.lines.is_empty(), "{:?}", again.lines);
    assert_eq!(temp.config_text(), text);
}

#[test]
fn added_sections_do_not_overrule_variables_in_use() {
    let temp = ConfigFixture::with_config("");
    migrate(
        &temp.home,
        &env(&[("TERMINAL_ENV", "docker"), ("CONTEXT_COMPRESSION_THRESHOLD", "0.5")]),
        MigrationMode::Apply,
    )
    .expect("migrated");
    let tree = parse(&temp.config_text()).expect("reads");
    assert!(tree.get("terminal").is_none() && tree.get("compression").is_none());
    assert!(tree.get("memory").is_some());
}

#[test]
fn broken_files_stop_the_migration() {
    let temp = ConfigFixture::with_config("a: [\n");
    assert!(migrate(&temp.home, &env(&[]), MigrationMode::Apply).is_err());
    assert_eq!(temp.config_text(), "a: [\n");
}
