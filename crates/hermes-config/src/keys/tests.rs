use super::{DefaultsScope, ValueFit, all, check, default_of, default_tree, find, fit, markdown};
use crate::yaml::{YamlValue, parse};

#[test]
fn every_default_is_yaml_and_fits_its_own_key() {
    for spec in all() {
        if spec.default.is_empty() {
            continue;
        }
        let value = parse(spec.default).unwrap_or_else(|error| panic!("{}: {error}", spec.path));
        assert_eq!(fit(spec, &value), ValueFit::AsIs, "{}", spec.path);
    }
}

#[test]
fn paths_are_unique_and_described() {
    let mut paths: Vec<&str> = all().map(|spec| spec.path).collect();
    paths.sort_unstable();
    let before = paths.len();
    paths.dedup();
    assert_eq!(before, paths.len());
    assert!(all().all(|spec| spec.about.len() > 3 && !spec.about.ends_with('.')));
}

#[test]
fn disputed_defaults_follow_the_ruling() {
    for (path, default) in [
        ("agent.max_turns", "60"),
        ("compression.threshold", "0.85"),
        ("delegation.max_iterations", "25"),
        ("terminal.docker_image", "python:3.11-slim"),
        ("approvals.mode", "manual"),
        ("checkpoints.enabled", "true"),
        ("display.show_reasoning", "false"),
        ("terminal.sandbox", "auto"),
        ("gateway.stale_after_hours", "24"),
        ("budget.per_turn_usd", "null"),
    ] {
        assert_eq!(default_of(path).expect(path), parse(default).expect(default), "{path}");
    }
    assert_eq!(default_of("stt.provider"), None);
}

/// Shows that `display.streaming` and `stt.provider` are never written to a file by default.
#[test]
fn t41_2_some_keys_are_not_saved() {
    let saved = default_tree(DefaultsScope::Saved);
    for path in ["display.streaming", "stt.provider", "agent.gateway_timeout", "terminal.sandbox", "budget"] {
        assert!(saved.lookup(path).is_none(), "{path}");
    }
    assert_eq!(
        default_tree(DefaultsScope::Effective).lookup("display.streaming"),
        Some(&YamlValue::Bool(true))
    );
    assert_eq!(saved.lookup("model"), Some(&YamlValue::from("anthropic/claude-opus-4.6")));
    assert_eq!(saved.lookup("auxiliary.compression.timeout"), Some(&YamlValue::Int(120)));
}

#[test]
fn wildcards_match_one_segment() {
    for (path, found) in [
        ("mcp_servers.github.command", Some("mcp_servers.*.command")),
        ("mcp_servers.a.sampling.max_rpm", Some("mcp_servers.*.sampling.max_rpm")),
        ("auxiliary.vision.provider", Some("auxiliary.vision.provider")),
        ("auxiliary.curator.provider", Some("auxiliary.*.provider")),
        ("platforms.telegram.token", Some("platforms.*.token")),
        ("mcp_servers.a.b.command", None),
    ] {
        assert_eq!(find(path).map(|spec| spec.path), found, "{path}");
    }
}

fn check_findings(text: &str, expected: &[&str]) {
    let findings: Vec<String> = check(&parse(text).expect("yaml")).iter().map(ToString::to_string).collect();
    assert_eq!(findings, expected, "for {text:?}");
}

#[test]
fn findings_say_what_is_wrong() {
    check_findings("agent: {max_turns: 5}\nmodel: x\n", &[]);
    check_findings("agent: {max_turn: 5}\n", &["agent.max_turn: unknown key; did you mean agent.max_turns?"]);
    check_findings(
        "agent: {tool_progress: all}\n",
        &["agent.tool_progress: unknown key; did you mean display.tool_progress?"],
    );
    check_findings("agent.max_turns: 5\n", &["agent.max_turns: unknown key; it is kept but has no effect"]);
    check_findings("zzz: {a: 1}\n", &["zzz: unknown key; it is kept but has no effect"]);
    check_findings(
        "agent: {max_turns: many}\n",
        &["agent.max_turns: expected a whole number, found text; using the default"],
    );
    check_findings("agent: 5\n", &["agent: expected a mapping, found a whole number; using the default"]);
    check_findings(
        "approvals: {mode: maybe}\n",
        &["approvals.mode: must be one of manual, smart, off; using the default"],
    );
    check_findings("approvals: {mode: off}\nterminal: {sandbox: off}\ncheckpoints: false\n", &[]);
    check_findings("MESSAGING_CWD: /x\n", &[]);
    check_findings(
        "model: {api_key: '${NOPE}'}\nmcp_servers: {a: {args: ['${B}']}}\n",
        &[
            "model.api_key: still contains ${…}; set that variable in .env or write the value itself",
            "mcp_servers.a.args: still contains ${…}; set that variable in .env or write the value itself",
        ],
    );
    check_findings(
        "quick_commands: {x: {type: exec, command: ls}}\nplatforms: {telegram: {anything: 1}}\n",
        &[],
    );
    check_findings("model: {defualt: x}\n", &["model.defualt: unknown key; did you mean model.default?"]);
}

/// Shows that booleans, numbers and words are converted in the forms that files contain.
#[test]
fn t41_1_t41_10_values_are_made_to_fit() {
    let read = |path: &str, text: &str| fit(find(path).expect(path), &parse(text).expect(text));
    for (path, text, expected) in [
        ("display.tool_progress", "off", ValueFit::Converted(YamlValue::from("off"))),
        ("display.tool_progress", "on", ValueFit::Converted(YamlValue::from("all"))),
        ("approvals.mode", "off", ValueFit::Converted(YamlValue::from("off"))),
        ("approvals.mode", "on", ValueFit::Unusable),
        ("terminal.sandbox", "on", ValueFit::Converted(YamlValue::from("on"))),
        ("human_delay.mode", "off", ValueFit::Converted(YamlValue::from("off"))),
        ("platforms.mattermost.reply_to_mode", "off", ValueFit::Converted(YamlValue::from("off"))),
        ("approvals.mode", "' Smart '", ValueFit::Converted(YamlValue::from("smart"))),
        ("agent.max_turns", "'-5'", ValueFit::Converted(YamlValue::Int(-5))),
        ("agent.max_turns", "1e2", ValueFit::Converted(YamlValue::Int(100))),
        ("agent.max_turns", "12.0", ValueFit::Converted(YamlValue::Int(12))),
        ("agent.max_turns", "12.5", ValueFit::Unusable),
        ("agent.max_turns", "yes", ValueFit::Unusable),
        ("compression.threshold", "'5e-1'", ValueFit::Converted(YamlValue::Float(0.5))),
        ("compression.threshold", "nan", ValueFit::Unusable),
        ("worktree", "'yes'", ValueFit::Converted(YamlValue::Bool(true))),
        ("worktree", "1", ValueFit::Converted(YamlValue::Bool(true))),
        ("worktree", "maybe", ValueFit::Unusable),
        (
            "skills.disabled",
            "a, b",
            ValueFit::Converted(YamlValue::Seq(vec![YamlValue::from("a"), YamlValue::from("b")])),
        ),
        ("skills.disabled", "{a: 1}", ValueFit::Unusable),
        (
            "terminal.ssh_user",
            "1234567890123456789",
            ValueFit::Converted(YamlValue::from("1234567890123456789")),
        ),
        ("agent.reasoning_effort", "''", ValueFit::AsIs),
        ("agent.max_turns", "~", ValueFit::AsIs),
    ] {
        assert_eq!(read(path, text), expected, "{path}: {text}");
    }
}

#[test]
fn the_reference_names_every_key_once() {
    let page = markdown();
    for spec in all() {
        assert_eq!(page.matches(&format!("| `{}` |", spec.path)).count(), 1, "{}", spec.path);
    }
}
