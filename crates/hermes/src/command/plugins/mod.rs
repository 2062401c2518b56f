//! `hermes plugins`: installs, lists and removes plugins, and says which are loaded.

mod install;

use std::fs;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use hermes_config::yaml::{KeyPath, YamlValue};
use hermes_config::{Config, ManagedMode, set};
use hermes_exec::exec_program;
use hermes_plugins::{FoundPlugin, LoadedPlugin, PluginActivation, PluginOrigin, command_line, find_plugins};

use crate::cli::PluginsCommand;
use crate::command::table::table;
use crate::context::ProgramContext;
use crate::output::Console;
use crate::wiring::{extensions, working_folder};

pub(crate) fn run(command: PluginsCommand, context: &ProgramContext, output: &Console) -> Result<ExitCode> {
    let config = context.config(output);
    let commands = PluginCommands { context, config, output };
    match command {
        PluginsCommand::List => commands.list()?,
        PluginsCommand::Install { source, force, enable } => commands.install(&source, force, enable)?,
        PluginsCommand::Update { name } => commands.update(&name)?,
        PluginsCommand::Remove { name } => commands.remove(&name)?,
        PluginsCommand::Enable { name } => commands.enable(&name)?,
        PluginsCommand::Disable { name } => commands.disable(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command of a plugin in place of this program. Returns if no plugin is enabled.
pub(crate) fn exec_command(words: &[String], unknown: &str, context: &ProgramContext) -> Result<()> {
    let config = Config::load(&context.home, &context.env);
    let folder = working_folder(context, &config)?;
    let mut found = find_plugins(&context.home, &folder, &config, &context.env);
    found.retain(FoundPlugin::is_enabled);
    if found.is_empty() {
        return Ok(());
    }
    let python = extensions::python(&context.env, &context.home);
    let arguments = command_line(context.home.path(), &found, words, unknown);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let named = found.iter().flat_map(|plugin| &plugin.manifest.requires_env);
    let home = context.home.path().to_string_lossy();
    let variables: Vec<(&str, &str)> = named
        .filter_map(|variable| Some((variable.name.as_str(), context.env.get(&variable.name)?)))
        .chain([("HERMES_HOME", &*home)])
        .collect();
    let error = exec_program(&python, &arguments, &variables);
    Err(anyhow!("{unknown}\n(plugins were not asked: {python}: {error})"))
}

struct PluginCommands<'a> {
    context: &'a ProgramContext,
    config: Config,
    output: &'a Console,
}

impl PluginCommands<'_> {
    fn found(&self) -> Result<Vec<FoundPlugin>> {
        let folder = working_folder(self.context, &self.config)?;
        Ok(find_plugins(&self.context.home, &folder, &self.config, &self.context.env))
    }

    /// Finds an installed plugin.
    fn installed(&self, name: &str) -> Result<FoundPlugin> {
        let is_named = |plugin: &FoundPlugin| {
            plugin.manifest.name == name || plugin.folder.file_name().is_some_and(|folder| folder == name)
        };
        let found = self
            .found()?
            .into_iter()
            .find(|plugin| is_named(plugin) && !plugin.folder.as_os_str().is_empty());
        match found {
            Some(plugin) => Ok(plugin),
            None => bail!("there is no plugin `{name}`; `hermes plugins list` shows those there are"),
        }
    }

    fn list(&self) -> Result<()> {
        let found = self.found()?;
        if self.context.env.bool("HERMES_SAFE_MODE") == Some(true) {
            self.output.line("HERMES_SAFE_MODE is set: no plugin is loaded.");
            return Ok(());
        }
        if found.is_empty() {
            self.output.line("No plugins are installed.");
            self.output.line("Install one: hermes plugins install owner/repo");
            return Ok(());
        }
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        let header = ["Name", "Version", "State", "Source", "Description"];
        self.output.text(&table(&header, &[30, 12, 14, 10, 60], &rows));
        for plugin in &found {
            let name = &plugin.manifest.name;
            match &plugin.activation {
                PluginActivation::Unusable(reason) => self.output.line(&format!("{name}: {reason}")),
                PluginActivation::Enabled if !plugin.missing_variables.is_empty() => {
                    let missing = plugin.missing_variables.join(", ");
                    self.output
                        .line(&format!("{name}: its tools are off until these are set in .env: {missing}"));
                }
                PluginActivation::Enabled | PluginActivation::Disabled => {}
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let plugin = self.installed(name)?;
        if plugin.origin != PluginOrigin::Home {
            bail!("{} belongs to the project; remove the folder yourself", plugin.folder.display());
        }
        // A link is removed, not what it leads to.
        if plugin.folder.is_symlink() {
            fs::remove_file(&plugin.folder)?;
        } else {
            fs::remove_dir_all(&plugin.folder)?;
        }
        self.set_listed("plugins.enabled", &plugin, Listing::Absent)?;
        self.set_listed("plugins.disabled", &plugin, Listing::Absent)?;
        self.output.line(&format!("Removed {}.", plugin.manifest.name));
        Ok(())
    }

    fn enable(&self, name: &str) -> Result<()> {
        let plugin = self.installed(name)?;
        if let PluginActivation::Unusable(reason) = &plugin.activation {
            bail!("{name} cannot be used: {reason}");
        }
        self.set_listed("plugins.disabled", &plugin, Listing::Absent)?;
        self.set_listed("plugins.enabled", &plugin, Listing::Present)?;
        self.output.line(&format!(
            "{} is enabled: its code runs outside the sandbox, with your permissions, from the next start on.",
            plugin.manifest.name
        ));
        if !plugin.missing_variables.is_empty() {
            let missing = plugin.missing_variables.join(", ");
            self.output.line(&format!("Set these in {}: {missing}", self.context.home.dotenv().display()));
        }
        Ok(())
    }

    fn disable(&self, name: &str) -> Result<()> {
        let plugin = self.installed(name)?;
        self.set_listed("plugins.enabled", &plugin, Listing::Absent)?;
        self.output.line(&format!("{} is not loaded from the next start on.", plugin.manifest.name));
        Ok(())
    }

    /// Adds a plugin to a list of the configuration, or takes it off.
    fn set_listed(&self, key: &str, plugin: &FoundPlugin, listing: Listing) -> Result<()> {
        let Some(path) = KeyPath::parse(key) else { return Ok(()) };
        let folder = plugin.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let before = self.config.list(key);
        let mut names = before.clone();
        names.retain(|name| *name != plugin.manifest.name && Some(name) != folder.as_ref());
        if listing == Listing::Present {
            names.push(plugin.manifest.name.clone());
        }
        if names == before {
            return Ok(());
        }
        let management = ManagedMode::detect(&self.context.home, &self.context.env);
        let value = YamlValue::Seq(names.into_iter().map(YamlValue::Str).collect());
        Ok(set::set_value(&self.context.home, management, &path, &value)?)
    }
}

/// Says whether a plugin is in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Present,
    Absent,
}

fn row(plugin: &FoundPlugin) -> Vec<String> {
    let state = match plugin.activation {
        PluginActivation::Enabled => "enabled",
        PluginActivation::Disabled => "not enabled",
        PluginActivation::Unusable(_) => "unusable",
    };
    let source = match plugin.origin {
        PluginOrigin::Package => "package",
        PluginOrigin::Project => "project",
        PluginOrigin::Home if plugin.is_checkout() => "git",
        PluginOrigin::Home => "local",
    };
    vec![
        plugin.manifest.name.clone(),
        plugin.manifest.version.clone(),
        state.to_owned(),
        source.to_owned(),
        plugin.manifest.description.clone(),
    ]
}

/// Describes the plugins of a running program, for chats.
pub(crate) fn describe_loaded(plugins: &[LoadedPlugin]) -> String {
    if plugins.is_empty() {
        return "No plugins are installed. `hermes plugins install owner/repo` installs one.".to_owned();
    }
    let mut lines = Vec::new();
    for loaded in plugins {
        let manifest = &loaded.plugin.manifest;
        let version =
            if manifest.version.is_empty() { String::new() } else { format!(" {}", manifest.version) };
        let state = match loaded.plugin.activation {
            PluginActivation::Enabled => format!(
                "{} tools, {} hooks, {} commands",
                loaded.tools.len(),
                loaded.hooks.len(),
                loaded.commands.len()
            ),
            PluginActivation::Disabled => format!("not enabled; `hermes plugins enable {}`", manifest.name),
            PluginActivation::Unusable(_) => "unusable".to_owned(),
        };
        lines.push(format!("{}{version}: {state}", manifest.name));
        lines.extend(loaded.problems.iter().map(|problem| format!("  ⚠️ {problem}")));
    }
    lines.join("\n")
}
