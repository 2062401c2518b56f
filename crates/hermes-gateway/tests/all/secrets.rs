//! Tests of secrets that are added while a gateway runs.

use hermes_config::{Env, Home};
use hermes_gateway::LiveSettings;
use hermes_guard::{Redaction, redact};
use hermes_testkit::TempHome;

#[test]
fn a_secret_added_while_a_gateway_runs_is_masked() {
    let temp = TempHome::builder().config_yaml("model: {default: m}\n").env_file("").build().unwrap();
    let home = Home::new(temp.path());
    let live = LiveSettings::new(home, Env::from_pairs([("HOME", "/nowhere")]), temp.path().to_owned());
    let text = "it says correct-Horse-7-battery";
    assert_eq!(redact(text, Redaction::default()), text);
    std::fs::write(temp.env_file(), "INTERNAL_WIKI_PASSWORD=correct-Horse-7-battery\n").unwrap();
    live.current();
    let masked = redact(text, Redaction::default());
    assert!(!masked.contains("Horse"), "{masked}");
}
