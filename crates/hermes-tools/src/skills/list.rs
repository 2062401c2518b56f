//! `skills_list`: names, descriptions and categories of the skills.

use std::collections::BTreeSet;
use std::fs;

use hermes_knowledge::SkillUse;
use hermes_types::{
    BoxFuture, CallPolicy, Concurrency, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome,
    ToolRole, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::SkillSource;
use crate::answer::success_json;
use crate::argument::{spec, text};
use crate::off_thread::off_thread;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "skills_list",
    toolset: "skills",
    summary: "Lists the skills with their descriptions",
    icon: "📚",
    verb: "skills",
    preview_arguments: &["category"],
    role: Some(ToolRole::SkillReader),
    ..ToolDescriptor::unknown("")
};

/// The `skills_list` tool.
#[derive(Debug)]
pub struct SkillsListTool {
    spec: ToolSpec,
    source: SkillSource,
}

impl SkillsListTool {
    pub fn new(source: SkillSource) -> Self {
        let description = include_str!("../texts/skills_list.md");
        let spec = spec(&DESCRIPTOR, description, include_str!("../texts/skills_list.json"));
        Self { spec, source }
    }
}

impl Tool for SkillsListTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let source = self.source.clone();
        let category = text(&call.arguments, "category").map(|name| name.trim().to_owned());
        Box::pin(async move {
            let listed = off_thread("skills_list", move || list(&source, category.as_deref())).await;
            listed.map_or_else(|failure| failure, |answer| success_json(&answer))
        })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { concurrency: Concurrency::Parallel, ..CallPolicy::default() }
    }
}

fn list(source: &SkillSource, category: Option<&str>) -> Value {
    // A home that cannot be written has no skills of its own, or a folder that somebody else maintains.
    let _ = fs::create_dir_all(source.home.join("skills"));
    let set = source.load(SkillUse::List);
    let mut names = BTreeSet::new();
    let mut skills: Vec<_> = set
        .skills()
        .filter(|skill| {
            category.is_none_or(|name| skill.list_category.as_deref() == Some(name) || skill.category == name)
        })
        .filter(|skill| names.insert(skill.own_name.clone()))
        .collect();
    skills.sort_by(|a, b| (&a.list_category, &a.own_name).cmp(&(&b.list_category, &b.own_name)));
    let categories: BTreeSet<_> = skills.iter().filter_map(|skill| skill.list_category.as_ref()).collect();
    let entries: Vec<Value> = skills
        .iter()
        .map(|skill| {
            json!({
                "name": skill.own_name,
                "description": skill.list_description(),
                "category": skill.list_category,
            })
        })
        .collect();
    let mut answer = json!({
        "success": true,
        "skills": entries,
        "categories": categories,
        "count": entries.len(),
    });
    if entries.is_empty() {
        answer["message"] = match category {
            Some(name) => json!(format!("There are no skills in the category '{name}'.")),
            None => json!("There are no skills in the home's skills folder."),
        };
    } else {
        answer["hint"] = json!("Load a skill with skill_view(name).");
    }
    answer
}
