//! The layer law: which crate may use which, checked against the dependencies that cargo reports.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const TABLE: &str = include_str!("../layers.txt");

/// A row of the table.
struct Rule<'a> {
    layer: Layer,
    uses: Uses<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Product(u8),
    /// Tests and development tools; no crate of the product may use them.
    Development,
}

enum Uses<'a> {
    Anything,
    Only(Vec<&'a str>),
}

/// The part of `cargo metadata` that is used.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

/// Returns every dependency that breaks the law, as a sentence each.
pub(crate) fn check(metadata: &Metadata) -> Result<Vec<String>> {
    let rules = parse(TABLE)?;
    let mut breaches = Vec::new();
    for package in &metadata.packages {
        let Some(rule) = rules.get(package.name.as_str()) else {
            breaches.push(format!("{} is not in layers.txt", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(used) = rules.get(dependency.name.as_str()) else {
                continue;
            };
            breaches.extend(judge(package, rule, dependency, used));
        }
    }
    Ok(breaches)
}

fn judge(package: &Package, rule: &Rule<'_>, dependency: &Dependency, used: &Rule<'_>) -> Option<String> {
    let (from, to) = (&package.name, &dependency.name);
    if dependency.kind.as_deref() == Some("dev") {
        // A test may use any crate below it, and the testkit; it may not use a higher one, which would make the
        // graph circular.
        let upward = used.layer > rule.layer && used.layer != Layer::Development;
        return upward.then(|| format!("{from} tests itself with {to}, which is in a higher layer"));
    }
    if used.layer == Layer::Development && rule.layer != Layer::Development {
        return Some(format!("{from} uses {to}, which is for development only"));
    }
    if used.layer > rule.layer {
        return Some(format!("{from} uses {to}, which is in a higher layer"));
    }
    match &rule.uses {
        Uses::Anything => None,
        Uses::Only(allowed) if allowed.contains(&to.trim_start_matches("hermes-")) => None,
        Uses::Only(_) => Some(format!("{from} uses {to}, which layers.txt does not allow")),
    }
}

fn parse(table: &str) -> Result<BTreeMap<&str, Rule<'_>>> {
    let mut rules = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (Some(layer), Some(name)) = (words.next(), words.next()) else { bail!("layers.txt: {line}") };
        let layer = match layer {
            "dev" => Layer::Development,
            number => Layer::Product(number.parse().with_context(|| format!("layers.txt: {line}"))?),
        };
        let uses: Vec<&str> = words.collect();
        let uses = if uses == ["*"] { Uses::Anything } else { Uses::Only(uses) };
        rules.insert(name, Rule { layer, uses });
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(from: &str, to: &str, kind: Option<&str>) -> Vec<String> {
        let dependency = Dependency { name: to.into(), kind: kind.map(str::to_owned) };
        let package = Package { name: from.into(), dependencies: vec![dependency] };
        check(&Metadata { packages: vec![package] }).unwrap()
    }

    #[test]
    fn the_workspace_keeps_its_layers() {
        let breaches = check(&crate::workspace::metadata().unwrap()).unwrap();
        assert!(breaches.is_empty(), "{breaches:#?}");
    }

    #[test]
    fn an_upward_edge_is_found() {
        assert_eq!(
            breaches("hermes-types", "hermes-text", None),
            ["hermes-types uses hermes-text, which is in a higher layer"]
        );
        assert_eq!(
            breaches("hermes-store", "hermes-agent", None),
            ["hermes-store uses hermes-agent, which is in a higher layer"]
        );
        assert_eq!(
            breaches("hermes-store", "hermes-agent", Some("dev")),
            ["hermes-store tests itself with hermes-agent, which is in a higher layer"]
        );
    }

    #[test]
    fn a_sideways_edge_must_be_in_the_table() {
        assert_eq!(
            breaches("hermes-config", "hermes-text", None),
            ["hermes-config uses hermes-text, which layers.txt does not allow"]
        );
        assert!(breaches("hermes-store", "hermes-text", None).is_empty());
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert!(breaches("hermes-store", "hermes-testkit", Some("dev")).is_empty());
        assert_eq!(
            breaches("hermes", "hermes-testkit", None),
            ["hermes uses hermes-testkit, which is for development only"]
        );
    }

    #[test]
    fn a_crate_the_table_does_not_know_is_found() {
        assert_eq!(breaches("hermes-extra", "serde", None), ["hermes-extra is not in layers.txt"]);
    }
}
