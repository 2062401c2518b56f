//! `skill_view`: the text of a skill, or one of its files.
//!
//! Loading a skill is its use: it is counted, and counted as a success when the turn comes to its end.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use hermes_exec::CredentialFiles;
use hermes_knowledge::{
    RequiredVariable, Skill, SkillFile, SkillFileError, SkillSet, SkillStatus, SkillUsageEvent, SkillUse,
    SkillView, fill_in_outputs, record_skill_usage,
};
use hermes_types::{
    BoxFuture, CallPolicy, Concurrency, ResultSize, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent,
    ToolInvocation, ToolOutcome, ToolRole, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::SkillSource;
use super::inline_shell::InlineShell;
use super::setup::VariableSetup;
use crate::answer::{failure_json, success_json};
use crate::argument::{missing, spec, text};
use crate::off_thread::off_thread;
use crate::task_variables::TaskVariables;

const MAX_SUGGESTED: usize = 20;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "skill_view",
    toolset: "skills",
    summary: "Loads a skill or one of its files",
    icon: "📚",
    verb: "skill",
    preview_arguments: &["name"],
    role: Some(ToolRole::SkillReader),
    ..ToolDescriptor::unknown("")
};

/// The `skill_view` tool.
#[derive(Debug)]
pub struct SkillViewTool {
    spec: ToolSpec,
    source: SkillSource,
    variables: TaskVariables,
    /// The skills that the running turn of each task has loaded.
    loaded: Mutex<HashMap<TaskId, BTreeSet<String>>>,
    /// Held while a person is asked, so that skills loaded at once ask one after another.
    asking: tokio::sync::Mutex<()>,
    inline_shell: Option<InlineShell>,
    credentials: Option<CredentialFiles>,
}

impl SkillViewTool {
    /// Builds the tool. `variables` are those of the tools that run commands.
    pub fn new(source: SkillSource, variables: TaskVariables) -> Self {
        let description = include_str!("../texts/skill_view.md");
        let spec = spec(&DESCRIPTOR, description, include_str!("../texts/skill_view.json"));
        Self {
            spec,
            source,
            variables,
            loaded: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            inline_shell: None,
            credentials: None,
        }
    }

    /// Runs the commands in texts of skills. Without it they stay as they are.
    #[must_use]
    pub fn with_inline_shell(self, shell: Option<InlineShell>) -> Self {
        Self { inline_shell: shell, ..self }
    }

    /// Passes the credential files of skills to remote environments.
    #[must_use]
    pub fn with_credentials(self, credentials: Option<CredentialFiles>) -> Self {
        Self { credentials, ..self }
    }

    /// Makes the files of the home that a skill names available where its commands run.
    fn provide_credentials(&self, paths: &[String]) {
        let Some(credentials) = &self.credentials else { return };
        for path in paths {
            if let Err(problem) = credentials.add(path) {
                tracing::warn!(problem, "a credential file of a skill is not passed on");
            }
        }
    }

    async fn load(&self, name: String, call: &ToolInvocation, context: ToolContext<'_>) -> ToolOutcome {
        let source = self.source.clone();
        let at = source.clock.now();
        let session = call.session.as_str().to_owned();
        let loaded = off_thread("skill_view", move || {
            let loaded = load(&source, &name, &session)?;
            record_skill_usage(&source.home, &loaded.0.name, SkillUsageEvent::Loaded, at);
            Ok(loaded)
        });
        let (skill, mut view) = match loaded.await {
            Ok(Ok(loaded)) => loaded,
            Ok(Err(refusal)) => return failure_json(&refusal),
            Err(failure) => return failure,
        };
        if let Some(shell) = self.inline_shell.as_ref().filter(|_| !view.commands.is_empty()) {
            let outputs = shell.run(&view.commands, context.cancel).await;
            view.content = fill_in_outputs(&view.content, &outputs);
        }
        self.provide_credentials(&view.credential_files);
        self.lock().entry(call.task.clone()).or_default().insert(skill.name.clone());
        let setup = if view.variables.is_empty() {
            VariableSetup::default()
        } else {
            let _alone = self.asking.lock().await;
            self.source.set_up(&view.variables, &call.task, &self.variables, context).await
        };
        success_json(&whole_answer(&self.source, &skill, view, &setup))
    }

    async fn load_file(&self, name: String, path: String) -> ToolOutcome {
        let source = self.source.clone();
        let viewed = off_thread("skill_view", move || {
            let (_, skill) = find(&source, &name)?;
            view_file(&skill, &path)
        });
        match viewed.await {
            Ok(Ok(answer)) => success_json(&answer),
            Ok(Err(refusal)) => failure_json(&refusal),
            Err(failure) => failure,
        }
    }

    /// Records the success of the skills that a turn used.
    fn record_success(&self, task: &TaskId) {
        let Some(names) = self.lock().remove(task) else { return };
        let (home, at) = (self.source.home.clone(), self.source.clock.now());
        let write = move || {
            for name in names {
                record_skill_usage(&home, &name, SkillUsageEvent::Succeeded, at);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("skill-usage".to_owned()).spawn(write) {
            tracing::debug!(%error, "the success of skills was not recorded");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, BTreeSet<String>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tool for SkillViewTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let name = text(&call.arguments, "name").map(|name| name.trim().to_owned());
        let file = text(&call.arguments, "file_path").map(|path| path.trim().to_owned());
        Box::pin(async move {
            let Some(name) = name else { return missing("skill_view", "name") };
            match file {
                Some(path) => self.load_file(name, path).await,
                None => self.load(name, call, context).await,
            }
        })
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        match occasion {
            ToolEvent::TurnCompleted => self.record_success(task),
            ToolEvent::Ended => {
                self.lock().remove(task);
                self.variables.forget(task);
            }
            ToolEvent::Delegated(parent) => self.variables.delegate(task, parent),
            ToolEvent::Resumed(_)
            | ToolEvent::Compressed
            | ToolEvent::OthersWordsRead(_)
            | ToolEvent::CallStarting(_) => {}
        }
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy {
            concurrency: Concurrency::Parallel,
            result_size: ResultSize::Bounded,
            ..CallPolicy::default()
        }
    }
}

/// Finds a skill that may be loaded, or returns the refusal.
fn find(source: &SkillSource, name: &str) -> Result<(SkillSet, Skill), Value> {
    let set = source.load(SkillUse::Command);
    let found = set.find(name).cloned().or_else(|| set.find_flat(name));
    let skill = found.ok_or_else(|| not_found(&set, name))?;
    match skill.status {
        SkillStatus::Disabled => {
            let error = format!(
                "Skill '{name}' is disabled. The user can enable it with `hermes skills`, or in config.yaml \
                 (skills.disabled, skills.platform_disabled)."
            );
            Err(json!({"success": false, "error": error}))
        }
        SkillStatus::Unsupported => {
            let error = format!("Skill '{name}' is not supported on this operating system.");
            Err(json!({"success": false, "error": error, "readiness_status": "unsupported"}))
        }
        SkillStatus::Offered | SkillStatus::Inapplicable | SkillStatus::Shadowed => Ok((set, skill)),
    }
}

fn load(source: &SkillSource, name: &str, session: &str) -> Result<(Skill, SkillView), Value> {
    let (set, skill) = find(source, name)?;
    let view = set.view(&skill, &source.home, Some(session));
    let error = || json!({"success": false, "error": format!("Skill '{name}' could not be read.")});
    view.map(|view| (skill, view)).ok_or_else(error)
}

fn not_found(set: &SkillSet, name: &str) -> Value {
    let known: Vec<&str> = set.skills().map(|skill| skill.own_name.as_str()).take(MAX_SUGGESTED).collect();
    json!({
        "success": false,
        "error": format!("Skill '{name}' not found."),
        "available_skills": known,
        "hint": "skills_list shows all skills.",
    })
}

fn view_file(skill: &Skill, path: &str) -> Result<Value, Value> {
    let answer =
        |content: &str| json!({"success": true, "name": skill.name, "file": path, "content": content});
    match skill.read_file(path) {
        Ok(SkillFile::Text { content, truncated }) => {
            let mut answer = answer(&content);
            let extension = std::path::Path::new(path).extension().and_then(|end| end.to_str());
            answer["file_type"] = json!(extension.map(|end| format!(".{end}")).unwrap_or_default());
            if truncated {
                answer["truncated"] = json!(true);
            }
            Ok(answer)
        }
        Ok(SkillFile::Binary { bytes }) => {
            let mut answer = answer(&format!("[Binary file of {bytes} bytes; its content is not shown]"));
            answer["is_binary"] = json!(true);
            Ok(answer)
        }
        Err(error @ SkillFileError::Missing) => {
            let error = format!("{error} (asked for '{path}')");
            Err(json!({"success": false, "error": error, "available_files": skill.files()}))
        }
        Err(error) => Err(json!({"success": false, "error": error.to_string()})),
    }
}

fn whole_answer(source: &SkillSource, skill: &Skill, view: SkillView, setup: &VariableSetup) -> Value {
    let missing: Vec<&str> = setup.missing.iter().map(String::as_str).collect();
    let is_remote = source.backend != "local";
    let setup_needed = !missing.is_empty()
        || !view.missing_credential_files.is_empty()
        || (is_remote && !view.variables.is_empty());
    let mut answer = json!({
        "success": true,
        "name": skill.own_name,
        "description": skill.list_description(),
        "tags": view.tags,
        "related_skills": view.related_skills,
        "content": view.content,
        "path": skill_path(skill),
        "linked_files": (!view.linked_files.is_empty()).then_some(&view.linked_files),
        "usage_hint": (!view.linked_files.is_empty())
            .then(|| format!("To read one of these files, call skill_view(name=\"{}\", file_path=\"<path>\").", skill.name)),
        "required_environment_variables": view.variables.iter().map(variable).collect::<Vec<_>>(),
        "required_commands": [],
        "missing_required_environment_variables": missing,
        "missing_credential_files": view.missing_credential_files,
        "missing_required_commands": [],
        "setup_needed": setup_needed,
        "setup_skipped": setup.skipped,
        "readiness_status": if setup_needed { "setup_needed" } else { "available" },
    });
    let settings: Map<String, Value> =
        view.settings.iter().map(|setting| (setting.key.clone(), setting.value.clone().into())).collect();
    if !settings.is_empty() {
        answer["settings"] = settings.into();
    }
    let help = view.setup_help.or_else(|| view.variables.iter().find_map(|variable| variable.help.clone()));
    let mut add = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            answer[key] = value;
        }
    };
    add("truncated", view.truncated.then_some(json!(true)));
    add("setup_help", help.filter(|_| setup_needed).map(Value::String));
    let is_messaging = source.platform != "cli";
    add("gateway_setup_hint", (setup_needed && is_messaging).then(|| json!(GATEWAY_HINT)));
    add(
        "setup_note",
        setup_needed.then(|| json!(setup_note(&missing, &view.missing_credential_files, is_remote))),
    );
    add("compatibility", view.compatibility.map(Value::String));
    add("metadata", view.metadata);
    answer
}

const GATEWAY_HINT: &str = "Secrets are not asked for here. The user sets them on the machine itself, with `hermes setup` or in \
     the home's .env file.";

fn setup_note(variables: &[&str], files: &[String], is_remote: bool) -> String {
    let mut parts = Vec::new();
    if !variables.is_empty() {
        parts.push(format!("Not set: {}.", variables.join(", ")));
    }
    if !files.is_empty() {
        parts.push(format!("Not in the home: {}.", files.join(", ")));
    }
    if is_remote {
        parts.push("Commands run in another place; what the skill needs must be there as well.".to_owned());
    }
    parts.join(" ")
}

fn variable(variable: &RequiredVariable) -> Value {
    let mut entry = json!({"name": variable.name, "prompt": variable.prompt});
    if let Some(help) = &variable.help {
        entry["help"] = json!(help);
    }
    if let Some(reason) = &variable.required_for {
        entry["required_for"] = json!(reason);
    }
    entry
}

/// Returns the path of the skill's text below its root.
fn skill_path(skill: &Skill) -> String {
    match skill.path.as_str() {
        "" => "SKILL.md".to_owned(),
        path if skill.folder.is_file() => path.to_owned(),
        path => format!("{path}/SKILL.md"),
    }
}
