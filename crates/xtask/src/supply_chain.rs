//! The crates that the released program is made of: a list of them in the form of CycloneDX, and their licenses.
//!
//! Both come from `cargo metadata` for the machine at hand: what is only needed to build or test is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::workspace;

/// The beginnings of the names of files with license texts.
const LICENSE_FILES: &[&str] = &["license", "licence", "copying", "notice", "unlicense"];

#[derive(Debug, Deserialize)]
struct Graph {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
    /// The registry; none for the crates of this workspace.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// None for a dependency of the program itself, else `dev` or `build`.
    kind: Option<String>,
}

/// The crates that are linked into the program, and the crates each of them uses.
struct Parts {
    packages: Vec<Package>,
    uses: BTreeMap<String, Vec<String>>,
}

impl Parts {
    fn read() -> Result<Self> {
        let host = workspace::host()?;
        let manifest = workspace::root().join("crates/hermes/Cargo.toml").display().to_string();
        let arguments = [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            &host,
            "--manifest-path",
            &manifest,
        ];
        let graph: Graph = serde_json::from_slice(&workspace::cargo(&arguments)?)
            .context("cargo metadata has an unexpected shape")?;
        Self::of(graph)
    }

    fn of(graph: Graph) -> Result<Self> {
        let uses: BTreeMap<String, Vec<String>> = graph
            .resolve
            .nodes
            .into_iter()
            .map(|node| {
                let linked =
                    node.deps.into_iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
                (node.id, linked.map(|dep| dep.pkg).collect())
            })
            .collect();
        let root = graph.packages.iter().find(|package| package.name == "hermes" && package.source.is_none());
        let mut reached = BTreeSet::new();
        let mut waiting = vec![root.context("the workspace has no package hermes")?.id.clone()];
        while let Some(id) = waiting.pop() {
            if reached.insert(id.clone()) {
                waiting.extend(uses.get(&id).into_iter().flatten().cloned());
            }
        }
        let mut packages: Vec<Package> =
            graph.packages.into_iter().filter(|package| reached.contains(&package.id)).collect();
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(Self { packages, uses })
    }

    /// Returns the list of the parts. It has no time and no random number, so that two builds give the same file.
    fn bill_of_materials(&self) -> Value {
        let reference: BTreeMap<&str, String> =
            self.packages.iter().map(|package| (package.id.as_str(), package.url())).collect();
        let component = |package: &Package| {
            let mut made = json!({
                "type": if package.name == "hermes" { "application" } else { "library" },
                "bom-ref": package.url(), "name": package.name, "version": package.version, "purl": package.url(),
            });
            if let Some(license) = &package.license {
                made["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
            }
            if let Some(repository) = &package.repository {
                made["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
            }
            made
        };
        let (program, libraries): (Vec<&Package>, Vec<&Package>) =
            self.packages.iter().partition(|package| package.name == "hermes" && package.source.is_none());
        let edges = self.packages.iter().map(|package| {
            let below = self.uses.get(&package.id).into_iter().flatten();
            let mut below: Vec<&String> = below.filter_map(|id| reference.get(id.as_str())).collect();
            below.sort();
            json!({"ref": package.url(), "dependsOn": below})
        });
        json!({
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": program.first().map(|package| component(package))},
            "components": libraries.into_iter().map(component).collect::<Vec<_>>(),
            "dependencies": edges.collect::<Vec<_>>(),
        })
    }

    /// Returns the licenses of the crates that others wrote. Texts that several crates share appear once.
    fn licenses(&self) -> Result<String> {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut out =
            String::from("The program contains these crates. The texts of their licenses follow.\n\n");
        for package in self.packages.iter().filter(|package| package.source.is_some()) {
            let name = format!("{} {}", package.name, package.version);
            let license = package.license.as_deref().unwrap_or("see its text");
            writeln!(out, "{name}: {license}")?;
            let folder = package.manifest_path.parent().unwrap_or(&package.manifest_path);
            for text in license_texts(folder)? {
                texts.entry(text).or_default().push(name.clone());
            }
        }
        for (text, names) in texts {
            writeln!(out, "\n{}\n{}\n\n{text}", "-".repeat(80), names.join(", "))?;
        }
        Ok(out)
    }
}

impl Package {
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Returns the license texts in a crate's folder.
fn license_texts(folder: &Path) -> Result<Vec<String>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            path.is_file() && LICENSE_FILES.iter().any(|beginning| name.starts_with(beginning))
        })
        .collect();
    files.sort();
    let text =
        |path: &PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).trim().to_owned();
    Ok(files.iter().map(text).filter(|text| !text.is_empty()).collect())
}

/// Writes `hermes.cdx.json` and `THIRD-PARTY-LICENSES.txt` into a folder.
pub(crate) fn write(folder: &Path) -> Result<ExitCode> {
    let parts = Parts::read()?;
    fs::create_dir_all(folder)?;
    let list = serde_json::to_string_pretty(&parts.bill_of_materials())? + "\n";
    fs::write(folder.join("hermes.cdx.json"), list)?;
    fs::write(folder.join("THIRD-PARTY-LICENSES.txt"), parts.licenses()?)?;
    println!(
        "{} crates: hermes.cdx.json, THIRD-PARTY-LICENSES.txt in {}",
        parts.packages.len(),
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_with_its_license() {
        let parts = Parts::read().unwrap();
        let list = parts.bill_of_materials();
        let components = list["components"].as_array().unwrap();
        let named = |name: &str| components.iter().find(|component| component["name"] == name);
        assert_eq!(list["metadata"]["component"]["name"], "hermes");
        let tokio = named("tokio").unwrap();
        assert_eq!(tokio["licenses"][0]["expression"], "MIT");
        assert!(tokio["purl"].as_str().unwrap().starts_with("pkg:cargo/tokio@"));
        assert!(named("hermes-store").is_some() && named("xtask").is_none());
        for only_for_tests in ["insta", "proptest", "vt100", "assert_cmd"] {
            assert!(named(only_for_tests).is_none(), "{only_for_tests} is not part of the program");
        }
        let known: BTreeSet<&str> =
            components.iter().map(|component| component["bom-ref"].as_str().unwrap()).collect();
        for edge in list["dependencies"].as_array().unwrap() {
            for below in edge["dependsOn"].as_array().unwrap() {
                assert!(known.contains(below.as_str().unwrap()), "{below} is used and not listed");
            }
        }
        let licenses = parts.licenses().unwrap();
        assert!(licenses.contains("\ntokio 1.") && licenses.contains("Permission is hereby granted"));
        assert!(!licenses.contains("hermes-store"), "only what others wrote");
    }
}
