//! Tests of the lookup of personalities by name.

use std::path::Path;

use hermes_config::{Config, Env};
use hermes_knowledge::{BUILT_IN_PERSONALITIES, Personality, personality, personality_names};

fn config(text: &str) -> Config {
    Config::from_text(Path::new("config.yaml"), text, &Env::default())
}

#[test]
fn every_built_in_name_has_its_own_words() {
    let none = config("");
    let mut texts: Vec<String> = BUILT_IN_PERSONALITIES
        .iter()
        .map(|name| match personality(name, &none) {
            Some(Personality::Prompt(text)) => text,
            other => panic!("{name}: {other:?}"),
        })
        .collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 14);
    assert_eq!(personality("nobody", &none), None);
    assert_eq!(personality("None", &none), Some(Personality::Plain));
}

#[test]
fn the_users_own_are_listed_and_found_however_they_are_written() {
    let own = config("agent:\n  personalities:\n    Grumpy: Be grumpy.\n    pirate: Be my pirate.\n");
    let names = personality_names(&own);
    assert!(names.starts_with("Grumpy, pirate, helpful"), "{names}");
    assert_eq!(names.matches("pirate").count(), 1, "{names}");
    assert_eq!(personality("grumpy", &own), Some(Personality::Prompt("Be grumpy.".into())));
}

#[test]
fn the_users_own_come_first() {
    let own = config(
        "agent:\n  personalities:\n    noir: Mine.\n    butler: {system_prompt: Serve., tone: dry, style: brief}\n",
    );
    assert_eq!(personality("Noir", &own), Some(Personality::Prompt("Mine.".to_owned())));
    let expected = "Serve.\nTone: dry\nStyle: brief".to_owned();
    assert_eq!(personality("butler", &own), Some(Personality::Prompt(expected)));
}
