//! `hermes profile`: homes of their own under `profiles/`, each with its settings, memory and sessions.

mod about;
mod distribution;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hermes_config::{Config, Env, Home, user_home, write};
use hermes_gateway::process;

use super::backup;
use crate::cli::{self, CreateProfileArguments, InstallProfileArguments, ProfileCommand};
use crate::context::{ProgramContext, local_time, now};
use crate::output::{Confirmation, Console};

use about::ProfileAbout;
use distribution::{ConfigHandling, Distribution};

const RESERVED: [&str; 6] = ["hermes", "default", "test", "tmp", "root", "sudo"];
const FOLDERS: [&str; 9] =
    ["memories", "sessions", "skills", "skins", "logs", "plans", "workspace", "cron", "home"];
/// What `--clone` copies.
const CLONED: [&str; 6] =
    ["config.yaml", ".env", "SOUL.md", "skills", "memories/MEMORY.md", "memories/USER.md"];
/// What `--clone-all` leaves out: state, and what belongs to other profiles.
const NOT_CLONED: [&str; 14] = [
    "state.db",
    "state.db-wal",
    "state.db-shm",
    "sessions",
    "backups",
    "checkpoints",
    "profiles",
    "active_profile",
    "gateway.pid",
    "gateway_state.json",
    "processes.json",
    "logs",
    "auth.lock",
    ".config.lock",
];
/// The first line of a command that `hermes profile alias` wrote.
const ALIAS_MARK: &str = "# hermes profile alias";

pub(crate) fn run(command: ProfileCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let profiles = Profiles::of(context)?;
    match command {
        ProfileCommand::List => profiles.list(output),
        ProfileCommand::Show { name } => profiles.show(&name, output)?,
        ProfileCommand::Create(arguments) => profiles.create(&arguments, output)?,
        ProfileCommand::Use { name } => {
            profiles.existing(&name)?;
            let text = if name == "default" { String::new() } else { format!("{name}\n") };
            write::replace(&profiles.root.active_profile(), text.as_bytes())?;
            output.line(&format!("✓ Hermes uses the profile {name} now."));
        }
        ProfileCommand::Alias { name, remove, command } => {
            profiles.existing(&name)?;
            let command = command.unwrap_or_else(|| name.clone());
            if remove {
                profiles.remove_alias(&command)?;
            } else {
                profiles.create_alias(&name, &command)?;
            }
            let path = profiles.alias_path(&command);
            output.line(&format!("✓ {} {}", if remove { "Removed" } else { "Created" }, path.display()));
        }
        ProfileCommand::Describe { name, text } => profiles.describe(name, text.as_deref(), output)?,
        ProfileCommand::Install(arguments) => return profiles.install(&arguments, context, output),
        ProfileCommand::Update { name, force_config, yes } => {
            let config = if force_config { ConfigHandling::Replace } else { ConfigHandling::Keep };
            return profiles.update(&name, config, yes, context, output);
        }
        ProfileCommand::Info { name } => profiles.info(&name, output)?,
        ProfileCommand::Rename { name, new_name } => profiles.rename(&name, &new_name, output)?,
        ProfileCommand::Delete { name, yes } => return profiles.delete(&name, yes, output),
        ProfileCommand::Export { name, output: file } => {
            let home = profiles.existing(&name)?;
            let file = file.unwrap_or_else(|| PathBuf::from(format!("{name}.zip")));
            let count = backup::write_archive(&home, &file, backup::ArchiveScope::Shareable)?;
            output.line(&format!(
                "✓ {count} files of {name} in {}; keys and sign-ins are not in it",
                file.display()
            ));
        }
        ProfileCommand::Import { file, name } => {
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
            let name = name.or(stem).context("name the profile: --name NAME")?;
            let home = profiles.new_home(&name)?;
            let outcome = backup::read_archive(&file, &home, backup::ExistingFiles::Keep)?;
            output.line(&format!("✓ Profile {name} created, {} files", outcome.written));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes the profile in use, and names the others.
pub(crate) fn describe(context: &ProgramContext) -> Result<String> {
    let profiles = Profiles::of(context)?;
    let names = profiles.names();
    let current = names.iter().find(|name| profiles.home(name).path() == context.home.path());
    let others: Vec<&str> = names.iter().filter(|name| Some(*name) != current).map(String::as_str).collect();
    let mut text = format!(
        "Profile: {}\nHome:    {}",
        current.map_or("(a home of its own)", String::as_str),
        context.home.path().display()
    );
    if !others.is_empty() {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\nOthers:  {} (`hermes -p NAME` uses one)", others.join(", "));
    }
    Ok(text)
}

/// Tells whether a name can be a profile's.
pub(crate) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.len() <= 64
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'))
}

/// Returns the home of the profile that was asked for, or that `hermes profile use` chose; `None` for the one that the
/// environment names anyway.
pub(crate) fn requested_home(wanted: Option<&str>, env: &Env) -> Result<Option<PathBuf>> {
    let home = Home::resolve(env)?;
    let root = root_of(&home);
    let chosen = match wanted {
        Some(name) => name.to_owned(),
        // A home below `profiles` is a profile already.
        None if root.path() != home.path() => return Ok(None),
        None => match fs::read_to_string(root.active_profile()) {
            Ok(text) if is_name(text.trim()) => text.trim().to_owned(),
            _ => return Ok(None),
        },
    };
    let folder = if chosen == "default" { root.path().to_owned() } else { root.profiles().join(&chosen) };
    if !folder.is_dir() && wanted.is_some() && chosen != "default" {
        bail!("there is no profile '{chosen}'; `hermes profile list` shows those there are");
    }
    Ok(Some(folder).filter(|folder| folder.is_dir() && folder != home.path()))
}

/// Returns the home that holds the profiles.
fn root_of(home: &Home) -> Home {
    match home.path().parent() {
        Some(parent) if parent.file_name().is_some_and(|name| name == "profiles") => {
            Home::new(parent.parent().unwrap_or(parent))
        }
        _ => home.clone(),
    }
}

/// A profile with its home.
pub(crate) struct ProfileHome {
    pub(crate) name: String,
    pub(crate) home: Home,
}

impl ProfileHome {
    /// Returns the inputs of a command for this profile.
    pub(crate) fn context(&self, current: &ProgramContext) -> ProgramContext {
        if self.home.path() == current.home.path() {
            return current.clone();
        }
        let env = Env::process().with_files(&self.home, None);
        ProgramContext { home: self.home.clone(), env }
    }
}

/// Returns the homes of all profiles, the default one first.
pub(crate) fn profile_homes(context: &ProgramContext) -> Result<Vec<ProfileHome>> {
    let profiles = Profiles::of(context)?;
    let home = |name: String| ProfileHome { home: profiles.home(&name), name };
    Ok(profiles.names().into_iter().map(home).collect())
}

struct Profiles {
    root: Home,
    current: Home,
    bin: PathBuf,
}

impl Profiles {
    fn of(context: &ProgramContext) -> Result<Self> {
        let bin = user_home(&context.env)?.join(".local/bin");
        Ok(Self { root: root_of(&context.home), current: context.home.clone(), bin })
    }

    fn home(&self, name: &str) -> Home {
        if name == "default" { self.root.clone() } else { Home::new(self.root.profiles().join(name)) }
    }

    fn existing(&self, name: &str) -> Result<Home> {
        let home = self.home(name);
        if !(is_name(name) && home.path().is_dir()) {
            bail!("there is no profile '{name}'; `hermes profile list` shows those there are");
        }
        Ok(home)
    }

    /// Creates the home of a new profile.
    fn new_home(&self, name: &str) -> Result<Home> {
        if !is_name(name) {
            bail!("`{name}` cannot be a profile's name: small letters, digits, - and _, at most 64");
        }
        if RESERVED.contains(&name) {
            bail!("`{name}` is reserved");
        }
        let home = self.home(name);
        if home.path().exists() {
            bail!("the profile {name} exists already");
        }
        self.root.folder("profiles")?;
        home.ensure()?;
        for folder in FOLDERS {
            home.folder(folder)?;
        }
        Ok(home)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.profiles()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_name(name))
            .collect();
        names.sort();
        names.insert(0, "default".to_owned());
        names
    }

    fn list(&self, output: &Console) {
        output.line(&format!("  {:<20} {:<34} {:<10} Alias", "Profile", "Model", "Gateway"));
        for name in self.names() {
            let home = self.home(&name);
            let mark = if home.path() == self.current.path() { "◆" } else { " " };
            let config = Config::load(&home, &Env::default());
            let model = config.non_empty_text("model.default").unwrap_or_else(|| "—".to_owned());
            let gateway = if process::running_pid(&home).is_some() { "running" } else { "—" };
            let alias = if is_alias(&self.alias_path(&name)) { name.as_str() } else { "—" };
            output.line(&format!("{mark} {name:<20} {model:<34} {gateway:<10} {alias}"));
        }
    }

    fn show(&self, name: &str, output: &Console) -> Result<()> {
        let home = self.existing(name)?;
        let config = Config::load(&home, &Env::default());
        let about = ProfileAbout::read(&home);
        output.line(&format!(
            "Profile: {name}\nHome:    {}\nModel:   {}\nGateway: {}",
            home.path().display(),
            config.non_empty_text("model.default").unwrap_or_else(|| "not set".to_owned()),
            process::running_pid(&home).map_or_else(|| "not running".to_owned(), |pid| format!("PID {pid}")),
        ));
        if let Some(text) = about.description() {
            output.line(&format!("About:   {text}"));
        }
        if let Some(source) = about.source() {
            output.line(&format!("Source:  {source}"));
        }
        Ok(())
    }

    fn create(&self, arguments: &CreateProfileArguments, output: &Console) -> Result<()> {
        let name = &arguments.name;
        let source = match &arguments.clone_from {
            Some(name) => self.existing(name)?,
            None => self.current.clone(),
        };
        let home = self.new_home(name)?;
        if arguments.clone_all {
            copy_folder(source.path(), home.path(), &NOT_CLONED)?;
        } else if arguments.clone || arguments.clone_from.is_some() {
            for entry in CLONED {
                copy_entry(&source.join(entry), &home.join(entry))?;
            }
        }
        let keys = home.dotenv();
        if !keys.exists() {
            fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&keys)?;
        }
        if !home.soul().exists() {
            write::replace(&home.soul(), b"")?;
        }
        if arguments.no_skills {
            write::replace(&home.join(".no-bundled-skills"), b"")?;
        }
        if let Some(text) = &arguments.description {
            write_description(&home, text)?;
        }
        output.line(&format!("✓ Profile {name} created in {}", home.path().display()));
        if !arguments.no_alias {
            match self.create_alias(name, name) {
                Ok(()) => output
                    .line(&format!("✓ The command {name} runs it ({})", self.alias_path(name).display())),
                Err(error) => output.notice(&format!("no command was created: {error:#}")),
            }
        }
        output.line(&format!(
            "  hermes -p {name} setup    set it up\n  hermes profile use {name}  use it from now on"
        ));
        Ok(())
    }

    fn describe(&self, name: Option<String>, text: Option<&str>, output: &Console) -> Result<()> {
        let current = || {
            let is_root = self.current.path() == self.root.path();
            let own = self.current.path().file_name().map(|name| name.to_string_lossy().into_owned());
            if is_root { "default".to_owned() } else { own.unwrap_or_default() }
        };
        let name = name.unwrap_or_else(current);
        let home = self.existing(&name)?;
        if let Some(text) = text {
            write_description(&home, text)?;
            output.line(&format!("✓ {name} is described."));
        } else {
            let about = ProfileAbout::read(&home);
            let missing = format!("(no description set for '{name}')");
            output.line(about.description().unwrap_or(&missing));
        }
        Ok(())
    }

    /// Installs a distribution as a profile.
    fn install(
        &self,
        arguments: &InstallProfileArguments,
        context: &ProgramContext,
        output: &Console,
    ) -> Result<ExitCode> {
        let distribution = Distribution::fetch(&arguments.source, context)?;
        let name =
            arguments.name.clone().or_else(|| distribution.text("name")).map(|name| name.to_lowercase());
        let name = name.context("the distribution has no name; give it one: --name NAME")?;
        let exists = self.home(&name).path().exists();
        if exists && !arguments.force {
            bail!("the profile {name} exists already; --force installs over it and keeps what is yours");
        }
        preview(&distribution, &name, output)?;
        if !is_agreed(arguments.yes, &format!("Install it as the profile {name}?"), output) {
            return Ok(ExitCode::FAILURE);
        }
        let home = if exists { self.existing(&name)? } else { self.new_home(&name)? };
        distribution.copy_to(&home, ConfigHandling::Keep)?;
        finish_installation(&home, &distribution)?;
        output.line(&format!("✓ Profile {name} installed in {}", home.path().display()));
        if arguments.alias {
            self.create_alias(&name, &name)?;
            output.line(&format!("✓ The command {name} runs it ({})", self.alias_path(&name).display()));
        }
        if home.join(".env.EXAMPLE").exists() {
            output.line("  .env.EXAMPLE lists the variables it needs; set them with");
            output.line(&format!("  hermes -p {name} config set NAME VALUE"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Fetches the distribution of a profile again.
    fn update(
        &self,
        name: &str,
        config: ConfigHandling,
        yes: bool,
        context: &ProgramContext,
        output: &Console,
    ) -> Result<ExitCode> {
        let home = self.existing(name)?;
        let about = ProfileAbout::read(&home);
        let source =
            about.source().with_context(|| format!("{name} was not installed from a distribution"))?;
        let distribution = Distribution::fetch(source, context)?;
        preview(&distribution, name, output)?;
        if !is_agreed(yes, &format!("Update the profile {name}?"), output) {
            return Ok(ExitCode::FAILURE);
        }
        distribution.copy_to(&home, config)?;
        finish_installation(&home, &distribution)?;
        output.line(&format!("✓ Profile {name} updated; keys, sessions and memory were not touched"));
        Ok(ExitCode::SUCCESS)
    }

    fn info(&self, name: &str, output: &Console) -> Result<()> {
        let home = self.existing(name)?;
        let about = ProfileAbout::read(&home);
        let distribution =
            Distribution::installed(&home).with_context(|| format!("{name} is not from a distribution"))?;
        describe_distribution(&distribution, output);
        output.line(&format!("Source:    {}", about.source().unwrap_or("unknown")));
        output.line(&format!("Installed: {}", about.installed_at().unwrap_or("unknown")));
        Ok(())
    }

    fn rename(&self, name: &str, new_name: &str, output: &Console) -> Result<()> {
        let home = self.existing(name)?;
        if name == "default" {
            bail!("the default profile cannot be renamed");
        }
        if process::running_pid(&home).is_some() {
            bail!("its gateway is running; stop it first: hermes -p {name} gateway stop");
        }
        if !is_name(new_name) || RESERVED.contains(&new_name) || self.home(new_name).path().exists() {
            bail!("`{new_name}` cannot be used: it is taken, reserved, or no profile's name");
        }
        fs::rename(home.path(), self.home(new_name).path())?;
        if is_alias(&self.alias_path(name)) {
            self.remove_alias(name)?;
            self.create_alias(new_name, new_name)?;
        }
        let active = fs::read_to_string(self.root.active_profile()).unwrap_or_default();
        if active.trim() == name {
            write::replace(&self.root.active_profile(), format!("{new_name}\n").as_bytes())?;
        }
        output.line(&format!("✓ {name} is {new_name} now."));
        Ok(())
    }

    fn delete(&self, name: &str, yes: bool, output: &Console) -> Result<ExitCode> {
        let home = self.existing(name)?;
        if name == "default" {
            bail!("the default profile cannot be deleted; `hermes uninstall --full` removes everything");
        }
        if process::running_pid(&home).is_some() {
            bail!("its gateway is running; stop it first: hermes -p {name} gateway stop");
        }
        let question = format!("Delete the profile {name} with its sessions, memory, settings and keys?");
        if !yes && output.confirm(&question) != Confirmation::Yes {
            output.line("Cancelled.");
            return Ok(ExitCode::SUCCESS);
        }
        fs::remove_dir_all(home.path())?;
        if is_alias(&self.alias_path(name)) {
            self.remove_alias(name)?;
        }
        let active = fs::read_to_string(self.root.active_profile()).unwrap_or_default();
        if active.trim() == name {
            fs::remove_file(self.root.active_profile())?;
        }
        output.line(&format!("✓ {name} was deleted."));
        Ok(ExitCode::SUCCESS)
    }

    fn alias_path(&self, command: &str) -> PathBuf {
        self.bin.join(command)
    }

    fn create_alias(&self, profile: &str, command: &str) -> Result<()> {
        if !is_name(command) || cli::is_command(command) || RESERVED.contains(&command) {
            bail!("`{command}` cannot be a command's name");
        }
        let path = self.alias_path(command);
        if path.exists() && !is_alias(&path) {
            bail!("{} exists and is something else", path.display());
        }
        fs::create_dir_all(&self.bin)?;
        let program = std::env::current_exe()?;
        let quoted = program.display().to_string().replace('\'', "'\\''");
        let script = format!("#!/bin/sh\n{ALIAS_MARK}\nexec '{quoted}' -p {profile} \"$@\"\n");
        write::replace(&path, script.as_bytes())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn remove_alias(&self, command: &str) -> Result<()> {
        let path = self.alias_path(command);
        if !is_alias(&path) {
            bail!("{} is no command of a profile", path.display());
        }
        Ok(fs::remove_file(path)?)
    }
}

fn write_description(home: &Home, text: &str) -> Result<()> {
    let mut about = ProfileAbout::read(home);
    about.describe(text);
    about.write(home)
}

fn describe_distribution(distribution: &Distribution, output: &Console) {
    for (label, key) in [
        ("Name:     ", "name"),
        ("Version:  ", "version"),
        ("About:    ", "description"),
        ("Author:   ", "author"),
    ] {
        if let Some(text) = distribution.text(key) {
            output.line(&format!("{label} {text}"));
        }
    }
    for variable in distribution.variables() {
        let kind = if variable.is_required { "required" } else { "optional" };
        output.line(&format!("Variable:  {} ({kind})", variable.name));
    }
}

/// Shows what a distribution is and what to think about before it is installed.
fn preview(distribution: &Distribution, profile: &str, output: &Console) -> Result<()> {
    output.line(&format!("Distribution for the profile {profile}, from {}", distribution.source));
    describe_distribution(distribution, output);
    for warning in distribution.warnings()? {
        output.line(&format!("⚠ {warning}"));
    }
    Ok(())
}

fn is_agreed(yes: bool, question: &str, output: &Console) -> bool {
    if yes {
        return true;
    }
    match output.confirm(question) {
        Confirmation::Yes => return true,
        Confirmation::No => output.line("Cancelled."),
        Confirmation::NotInteractive => {
            output.error("no terminal to confirm on; -y skips the confirmation. Nothing was changed");
        }
    }
    false
}

/// Records where a distribution came from.
fn finish_installation(home: &Home, distribution: &Distribution) -> Result<()> {
    let mut about = ProfileAbout::read(home);
    about.set_distribution(&distribution.source, &local_time(now()).to_string());
    if about.description().is_none()
        && let Some(text) = distribution.text("description")
    {
        about.describe(&text);
    }
    about.write(home)
}

fn is_alias(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().nth(1) == Some(ALIAS_MARK))
}

/// Copies a file or a folder, if it is there. Links are left out: they may lead out of the home.
pub(crate) fn copy_entry(from: &Path, to: &Path) -> Result<()> {
    let Ok(data) = fs::symlink_metadata(from) else { return Ok(()) };
    if data.is_dir() {
        return copy_folder(from, to, &[]);
    }
    if data.is_file() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path, without: &[&str]) -> Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if without.iter().any(|other| name == *other) {
            continue;
        }
        copy_entry(&entry.path(), &to.join(&name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for (name, good) in
            [("work", true), ("a-1_b", true), ("-x", false), ("Work", false), ("", false), ("a/b", false)]
        {
            assert_eq!(is_name(name), good, "{name:?}");
        }
    }
}
