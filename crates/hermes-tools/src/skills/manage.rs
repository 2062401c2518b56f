//! `skill_manage`: creates and changes the agent's own skills. `hermes-knowledge` holds the rules and the files.

use hermes_knowledge::{
    AgentSkillGuard, EditedSkill, SkillAuthor, SkillEdit, SkillEditor, SkillStoreError, SkillUse,
};
use hermes_text::{Occurrences, ellipsize};
use hermes_types::{
    ApprovalDecision, BoxFuture, CallKind, CallPolicy, Danger, ResultAuthor, Tool, ToolContext,
    ToolDescriptor, ToolInvocation, ToolOutcome, ToolRole, ToolSpec, UserAnswer, UserQuestion,
};
use serde_json::{Map, Value, json};

use super::SkillSource;
use crate::answer::{failure_json, success_json};
use crate::argument::{any_text, missing, spec, text};
use crate::off_thread::off_thread;

const MAX_SHOWN_FINDINGS: usize = 10;
/// The most characters of a change that a person is shown.
const MAX_SHOWN_CHANGE: usize = 8_000;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "skill_manage",
    toolset: "skills",
    summary: "Creates, changes and removes skills",
    icon: "📝",
    verb: "skill",
    preview_arguments: &["name"],
    role: Some(ToolRole::SkillEditor),
    guidance: Some(include_str!("../texts/skill_guidance.md")),
    result_author: ResultAuthor::Tool,
    ..ToolDescriptor::unknown("")
};

/// The `skill_manage` tool.
#[derive(Debug)]
pub struct SkillManageTool {
    spec: ToolSpec,
    source: SkillSource,
}

impl SkillManageTool {
    pub fn new(source: SkillSource) -> Self {
        let description = include_str!("../texts/skill_manage.md");
        let spec = spec(&DESCRIPTOR, description, include_str!("../texts/skill_manage.json"));
        Self { spec, source }
    }
}

impl Tool for SkillManageTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let source = self.source.clone();
        let Some(name) = text(&call.arguments, "name").map(|name| name.trim().to_owned()) else {
            return Box::pin(std::future::ready(missing("skill_manage", "name")));
        };
        let request = match request(&call.arguments) {
            Ok(request) => request,
            Err(words) => return Box::pin(std::future::ready(refused(&words))),
        };
        let author = SkillAuthor {
            at: self.source.clock.now(),
            by: "agent".to_owned(),
            session: Some(call.session.to_string()),
        };
        Box::pin(async move {
            if source.config.flag("skills.write_approval")
                && let Err(refusal) = approve(&name, &request.edit, context).await
            {
                return refused(refusal);
            }
            let made = off_thread("skill_manage", move || manage(&source, &name, &request, &author)).await;
            match made {
                Ok(Ok(answer)) => success_json(&answer),
                Ok(Err(refusal)) => failure_json(&refusal),
                Err(failure) => failure,
            }
        })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { kind: CallKind::Housekeeping, ..CallPolicy::default() }
    }
}

/// Asks the person whether a change is made.
async fn approve(name: &str, edit: &SkillEdit, context: ToolContext<'_>) -> Result<(), &'static str> {
    let danger = Danger { key: format!("skill:{name}"), reason: "the agent changes its skills".to_owned() };
    let question = UserQuestion::Approve { command: describe(name, edit), danger };
    match context.frontend.ask_before_acting(question, context.cancel).await {
        UserAnswer::Approval(ApprovalDecision::Deny) => {
            Err("The user denied this change; nothing was written.")
        }
        UserAnswer::Approval(_) => Ok(()),
        _ => Err(
            "Changes to skills need the approval of the user (skills.write_approval), and nobody could be asked. \
             Nothing was written.",
        ),
    }
}

/// Shows a person what a change does.
fn describe(name: &str, edit: &SkillEdit) -> String {
    let (file, what) = match edit {
        SkillEdit::Create { content, .. } | SkillEdit::Replace { content } => ("SKILL.md", content.clone()),
        SkillEdit::Patch { file, old, new, .. } => {
            let file = file.as_deref().unwrap_or("SKILL.md");
            (file, format!("--- before\n{old}\n--- after\n{new}"))
        }
        SkillEdit::Delete => ("", "The whole skill is removed.".to_owned()),
        SkillEdit::WriteFile { path, content } => (path.as_str(), content.clone()),
        SkillEdit::RemoveFile { path } => (path.as_str(), "The file is removed.".to_owned()),
    };
    let what = ellipsize(&what, MAX_SHOWN_CHANGE);
    format!("Skill {name}, {}: {file}\n{what}", edit.action())
}

/// A change, and whether it is made although a similar skill exists.
struct SkillRequest {
    edit: SkillEdit,
    similar: SimilarSkills,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SimilarSkills {
    Refuse,
    Allow,
}

fn request(arguments: &Map<String, Value>) -> Result<SkillRequest, String> {
    let action = text(arguments, "action").unwrap_or_default();
    let needed = |name: &str| {
        any_text(arguments, name)
            .map(str::to_owned)
            .ok_or_else(|| format!("Action '{action}' needs `{name}`; call it again with that argument."))
    };
    let is_set = |name: &str| match arguments.get(name) {
        Some(Value::Bool(set)) => *set,
        Some(Value::String(word)) => word.trim().eq_ignore_ascii_case("true"),
        _ => false,
    };
    let edit = match action {
        "create" => SkillEdit::Create {
            category: text(arguments, "category").map(str::to_owned),
            content: needed("content")?,
        },
        "edit" => SkillEdit::Replace { content: needed("content")? },
        "patch" => SkillEdit::Patch {
            file: text(arguments, "file_path").filter(|path| path.trim() != "SKILL.md").map(str::to_owned),
            old: needed("old_string")?,
            new: needed("new_string")?,
            occurrences: if is_set("replace_all") { Occurrences::All } else { Occurrences::One },
        },
        "delete" => SkillEdit::Delete,
        "write_file" => SkillEdit::WriteFile { path: needed("file_path")?, content: needed("file_content")? },
        "remove_file" => SkillEdit::RemoveFile { path: needed("file_path")? },
        other => {
            return Err(format!(
                "Unknown action '{other}'. Use create, patch, edit, delete, write_file or remove_file."
            ));
        }
    };
    let similar = if is_set("allow_similar") { SimilarSkills::Allow } else { SimilarSkills::Refuse };
    Ok(SkillRequest { edit, similar })
}

/// Returns the answer, or the refusal.
fn manage(
    source: &SkillSource,
    name: &str,
    request: &SkillRequest,
    author: &SkillAuthor,
) -> Result<Value, Value> {
    let SkillRequest { edit, similar } = request;
    if let SkillEdit::Create { content, .. } = edit
        && *similar == SimilarSkills::Refuse
    {
        let set = source.load(SkillUse::Command);
        let similar = set.similar(name, content);
        // A skill of this very name is told about as such.
        if !similar.is_empty() && !similar.iter().any(|skill| skill.name == name) {
            let list: Vec<Value> = similar
                .iter()
                .map(
                    |skill| json!({"name": skill.name, "description": skill.description, "same": skill.same}),
                )
                .collect();
            return Err(json!({
                "success": false,
                "error": "A skill that covers this seems to exist; nothing was created.",
                "similar_skills": list,
                "hint": "Look at it with skill_view and improve it with action patch. If this is something else, \
                         call create again with allow_similar.",
            }));
        }
    }
    let is_strict = source.config.flag("skills.guard_agent_created");
    let guard = if is_strict { AgentSkillGuard::Refuse } else { AgentSkillGuard::Warn };
    let editor = SkillEditor::new(source.home.clone(), guard);
    editor
        .apply(name, edit, author)
        .map(|edited| answer(name, edit, &edited))
        .map_err(|error| refusal(&error))
}

fn answer(name: &str, edit: &SkillEdit, edited: &EditedSkill) -> Value {
    let mut answer = json!({"success": true, "message": edited.message, "path": edited.path});
    if let SkillEdit::Create { category, .. } = edit {
        answer["skill_md"] = json!(edited.folder.join("SKILL.md").to_string_lossy());
        if let Some(category) = category {
            answer["category"] = json!(category);
        }
        answer["hint"] = json!(format!(
            "Files beside it are added with action write_file, name '{name}' and a file_path below references/, \
             templates/, scripts/ or assets/."
        ));
    }
    if !edited.findings.is_empty() && *edit != SkillEdit::Delete {
        let shown = edited.findings.iter().take(MAX_SHOWN_FINDINGS).map(|finding| {
            let (severity, file, line) = (finding.severity.as_str(), &finding.file, finding.line);
            format!("{severity} {}: {file}:{line}: {}", finding.pattern_id, finding.description)
        });
        answer["scan_findings"] = json!(shown.collect::<Vec<_>>());
    }
    answer
}

fn refusal(error: &SkillStoreError) -> Value {
    let mut answer = json!({"success": false, "error": error.to_string()});
    match error {
        SkillStoreError::NoMatch { preview } => answer["file_preview"] = json!(preview),
        SkillStoreError::Ambiguous { count } => answer["match_count"] = json!(count),
        SkillStoreError::MissingFile { available, .. } => answer["available_files"] = json!(available),
        SkillStoreError::Blocked { report } => answer["report"] = json!(report),
        _ => {}
    }
    answer
}

fn refused(words: &str) -> ToolOutcome {
    failure_json(&json!({"success": false, "error": words}))
}
