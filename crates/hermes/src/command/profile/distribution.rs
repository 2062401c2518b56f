//! Distributions: profiles that are passed on as a folder or a git repository with a `distribution.yaml`.
//!
//! Invariant: what belongs to the user (keys, sign-ins, sessions, memory, the database) is neither taken from a
//! distribution nor changed by one, and no link in it is followed.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hermes_config::yaml::{YamlValue, parse};
use hermes_config::{Home, write};
use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_guard::SkillVerdict;
use hermes_knowledge::scan_folder;
use hermes_task::SystemClock;
use hermes_types::Cancel;

use super::copy_entry;
use crate::context::ProgramContext;
use crate::random;
use crate::wiring::child_variables;

const MANIFEST: &str = "distribution.yaml";
/// What a distribution brings if it does not say.
const USUALLY_OWNED: [&str; 6] =
    ["SOUL.md", "config.yaml", "mcp.json", "skills", "cron", "distribution.yaml"];
/// What stays the user's, whatever a distribution says.
const NEVER_OWNED: [&str; 10] = [
    ".env",
    "auth.json",
    "state.db",
    "sessions",
    "memories",
    "pairing",
    "profile.yaml",
    "logs",
    "mcp-tokens",
    "shell-hooks-allowlist.json",
];
const CLONE_LIMIT: Duration = Duration::from_mins(5);

/// A distribution that is present as a folder.
pub(super) struct Distribution {
    pub(super) source: String,
    folder: PathBuf,
    /// Removed when this is dropped.
    _clone: Option<TemporaryFolder>,
    manifest: YamlValue,
}

/// A variable that a distribution needs.
pub(super) struct DistributionVariable {
    pub(super) name: String,
    description: String,
    pub(super) is_required: bool,
    default: String,
}

/// Says whether an update replaces config.yaml.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigHandling {
    /// Only where there is none.
    Keep,
    Replace,
}

impl Distribution {
    /// Reads a folder, or clones a repository.
    pub(super) fn fetch(source: &str, context: &ProgramContext) -> Result<Self> {
        let local = Path::new(source);
        let (folder, clone, source) = if local.is_dir() {
            let folder = local.canonicalize()?;
            let source = folder.display().to_string();
            (folder, None, source)
        } else {
            let url = git_url(source)?;
            let clone = TemporaryFolder::create()?;
            let folder = clone.0.join("repository");
            git(&["clone", "--quiet", "--depth", "1", "--", &url, &folder.to_string_lossy()], context)
                .with_context(|| format!("{url} cannot be cloned"))?;
            (folder, Some(clone), url)
        };
        let text = fs::read_to_string(folder.join(MANIFEST))
            .with_context(|| format!("{source} has no readable {MANIFEST}, so it is no distribution"))?;
        let manifest = parse(&text).with_context(|| format!("{MANIFEST} of {source}"))?;
        let own = Self { source, folder, _clone: clone, manifest };
        own.check_version()?;
        own.owned()?;
        Ok(own)
    }

    /// Reads the manifest that an installed distribution left in its profile.
    pub(super) fn installed(home: &Home) -> Option<Self> {
        let text = fs::read_to_string(home.join(MANIFEST)).ok()?;
        let manifest = parse(&text).ok()?;
        let folder = home.path().to_owned();
        Some(Self { source: String::new(), folder, _clone: None, manifest })
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.manifest.get(key).and_then(YamlValue::scalar_text).filter(|text| !text.is_empty())
    }

    pub(super) fn variables(&self) -> Vec<DistributionVariable> {
        let entries = self.manifest.get("env_requires").and_then(YamlValue::as_seq).unwrap_or_default();
        let read = |entry: &YamlValue| {
            let text = |key: &str| entry.get(key).and_then(YamlValue::scalar_text).unwrap_or_default();
            let name = entry.as_str().map_or_else(|| text("name"), str::to_owned);
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            is_name.then(|| DistributionVariable {
                name,
                description: text("description"),
                is_required: entry.get("required").and_then(YamlValue::as_bool).unwrap_or(true),
                default: text("default"),
            })
        };
        entries.iter().filter_map(read).collect()
    }

    /// Returns what the distribution brings, relative to the profile.
    fn owned(&self) -> Result<Vec<PathBuf>> {
        let named = self.manifest.get("distribution_owned").and_then(YamlValue::as_seq);
        let names: Vec<String> = match named {
            None => USUALLY_OWNED.map(str::to_owned).to_vec(),
            Some(names) => names.iter().filter_map(YamlValue::scalar_text).collect(),
        };
        let mut paths = vec![PathBuf::from(MANIFEST)];
        for name in names {
            let path = PathBuf::from(name.trim_end_matches('/'));
            let parts: Vec<Component<'_>> = path.components().collect();
            let first = parts.first().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
            let is_users = first.is_none_or(|first| {
                NEVER_OWNED.contains(&first.as_str())
                    || first.starts_with("state.db")
                    || first.starts_with(".env")
            });
            if !is_plain || is_users {
                bail!("{MANIFEST} names `{name}`, which a distribution cannot bring; nothing was changed");
            }
            paths.push(path);
        }
        paths.dedup();
        Ok(paths)
    }

    fn check_version(&self) -> Result<()> {
        let Some(wanted) = self.text("hermes_requires") else { return Ok(()) };
        let own = env!("CARGO_PKG_VERSION");
        match is_satisfied(&wanted, own) {
            Some(true) => Ok(()),
            // The releases of the other program have numbers of their own, which say nothing about this one.
            Some(false) if wanted.trim_start_matches(['>', '=']).starts_with("0.") => Ok(()),
            Some(false) => bail!("this distribution needs Hermes {wanted}; this is {own}"),
            None => bail!("{MANIFEST}: `hermes_requires: {wanted}` is not a version"),
        }
    }

    /// Describes what a person should know before it is installed.
    pub(super) fn warnings(&self) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for path in self.owned()? {
            let from = self.folder.join(&path);
            match path.to_str() {
                Some("cron") if from.is_dir() => warnings.push(
                    "it brings scheduled jobs (cron/), which run when the profile's gateway runs".to_owned(),
                ),
                Some("config.yaml") if from.is_file() => {
                    let tree = fs::read_to_string(&from).ok().and_then(|text| parse(&text).ok());
                    let has = |key: &str| tree.as_ref().is_some_and(|tree| tree.lookup(key).is_some());
                    for key in
                        ["mcp_servers", "hooks", "quick_commands", "approvals.mode", "terminal.sandbox"]
                    {
                        if has(key) {
                            warnings.push(format!("its config.yaml sets {key}"));
                        }
                    }
                }
                _ => {}
            }
        }
        for skill in self.skills()? {
            let scan = scan_folder(&skill)?;
            if scan.verdict == SkillVerdict::Dangerous
                && let Some(worst) = scan.findings.first()
            {
                let name = skill.file_name().unwrap_or_default().to_string_lossy().into_owned();
                warnings.push(format!(
                    "the skill {name} looks dangerous: {} ({})",
                    worst.description, worst.file
                ));
            }
        }
        Ok(warnings)
    }

    /// Returns the folders of the skills it brings.
    fn skills(&self) -> Result<Vec<PathBuf>> {
        let owned = self.owned()?;
        let roots = owned.iter().filter(|path| path.starts_with("skills")).map(|path| self.folder.join(path));
        let mut open: Vec<PathBuf> = roots.collect();
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            if folder.join("SKILL.md").is_file() {
                found.push(folder);
                continue;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if entry.file_type()?.is_dir() {
                    open.push(entry.path());
                }
            }
        }
        Ok(found)
    }

    /// Copies what it brings into a profile. Skills and jobs that it does not bring stay.
    pub(super) fn copy_to(&self, home: &Home, config: ConfigHandling) -> Result<()> {
        for path in self.owned()? {
            let (from, to) = (self.folder.join(&path), home.join(&path));
            let is_config = path == Path::new("config.yaml");
            if is_config && config == ConfigHandling::Keep && to.exists() {
                continue;
            }
            refuse_links(home.path(), &path)?;
            if path.starts_with("skills") {
                continue;
            }
            if from.is_file() {
                write::replace(&to, &fs::read(&from)?)?;
            } else {
                copy_entry(&from, &to)?;
            }
        }
        for skill in self.skills()? {
            let Ok(path) = skill.strip_prefix(&self.folder) else { continue };
            refuse_links(home.path(), path)?;
            let to = home.join(path);
            if to.exists() {
                fs::remove_dir_all(&to)?;
            }
            copy_entry(&skill, &to)?;
        }
        self.write_example(home)
    }

    /// Writes the variables it needs as a file to copy from.
    fn write_example(&self, home: &Home) -> Result<()> {
        let variables = self.variables();
        if variables.is_empty() {
            return Ok(());
        }
        let line = |variable: &DistributionVariable| {
            let about = variable.description.replace('\n', " ");
            let kind = if variable.is_required { "required" } else { "optional" };
            let default = variable.default.replace('\n', " ");
            format!("# {about} ({kind})\n{}={default}\n", variable.name)
        };
        let text: String = variables.iter().map(line).collect();
        Ok(write::replace(&home.join(".env.EXAMPLE"), text.as_bytes())?)
    }
}

/// A folder for a clone.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn create() -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("hermes-profile-{}", random::hex::<8>()?));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder, readable by its owner alone.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Refuses to write through a link in the profile.
fn refuse_links(home: &Path, path: &Path) -> Result<()> {
    let mut now = home.to_owned();
    for part in path.components() {
        now.push(part);
        if now.is_symlink() {
            bail!(
                "{} is a link; replace it with a folder or file of its own. Nothing was changed there",
                now.display()
            );
        }
    }
    Ok(())
}

/// Returns the address for git.
fn git_url(source: &str) -> Result<String> {
    let has_scheme =
        ["https://", "ssh://", "git://", "file://", "git@"].iter().any(|start| source.starts_with(start));
    if has_scheme {
        return Ok(source.to_owned());
    }
    let host = source.split('/').next().unwrap_or_default();
    let is_host =
        host.contains('.') && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    if is_host && source.contains('/') && !source.starts_with(['.', '-', '/']) {
        return Ok(format!("https://{source}"));
    }
    bail!("`{source}` is neither a folder nor the address of a git repository")
}

fn git(arguments: &[&str], context: &ProgramContext) -> Result<()> {
    let programs = ProgramRunner::new(child_variables(&context.env, &[]), Arc::new(SystemClock::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    let program = Program {
        name: "git",
        arguments: arguments.iter().map(|argument| (*argument).into()).collect(),
        directory: Path::new("/"),
        limit: CLONE_LIMIT,
        stderr: StderrMode::Merge,
    };
    match runtime.block_on(programs.output(program, &Cancel::new())) {
        Ok((_, ProgramExit::Exited(0))) => Ok(()),
        Ok((text, _)) => bail!("{}", text.trim()),
        Err(error) => Err(error).context("cannot run git"),
    }
}

/// Tells whether a version meets a requirement such as `>=0.12.0`; `None` if the requirement is not one.
fn is_satisfied(wanted: &str, own: &str) -> Option<bool> {
    let wanted = wanted.trim();
    let (sign, version) = [">=", "<=", "==", "!=", ">", "<"]
        .iter()
        .find_map(|sign| Some((*sign, wanted.strip_prefix(sign)?)))
        .unwrap_or((">=", wanted));
    let parse = |text: &str| -> Option<Vec<u64>> {
        let mut numbers: Vec<u64> =
            text.trim().split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        numbers.resize(3.max(numbers.len()), 0);
        Some(numbers)
    };
    let (own, version) = (parse(own)?, parse(version)?);
    Some(match sign {
        "<=" => own <= version,
        "==" => own == version,
        "!=" => own != version,
        ">" => own > version,
        "<" => own < version,
        _ => own >= version,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared() {
        for (wanted, met) in [
            (">=0.1.0", Some(true)),
            ("0.2", Some(false)),
            ("<1", Some(true)),
            ("==0.1.0", Some(true)),
            ("!=0.1.0", Some(false)),
            ("> 0.0.9", Some(true)),
            ("newest", None),
        ] {
            assert_eq!(is_satisfied(wanted, "0.1.0"), met, "{wanted}");
        }
    }

    #[test]
    fn addresses_are_completed() {
        assert_eq!(git_url("github.com/kyle/profile").unwrap(), "https://github.com/kyle/profile");
        assert_eq!(git_url("git@github.com:kyle/profile.git").unwrap(), "git@github.com:kyle/profile.git");
        for wrong in ["profile", "./missing", "--upload-pack=x", "/no/such/folder"] {
            assert!(git_url(wrong).is_err(), "{wrong}");
        }
    }
}
