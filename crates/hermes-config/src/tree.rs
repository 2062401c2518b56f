//! Pure steps between a file's tree and the tree in force: move old keys, merge onto defaults, expand `${VAR}`,
//! convert values to the types of their keys.

use crate::Env;
use crate::keys::{self, KeyProblem, ValueFit};
use crate::yaml::{YamlMap, YamlValue};

/// Moves older keys to where current code reads them. The file itself keeps them.
pub(crate) fn fold_legacy_keys(tree: &mut YamlMap) {
    fold_model(tree);
    let turns = tree.get("max_turns").filter(|value| !value.is_null()).cloned();
    if let Some(turns) = turns
        && let Some(agent) = section(tree, "agent")
        && !agent.contains("max_turns")
    {
        agent.insert("max_turns", turns);
    }
    if let Some(YamlValue::Bool(on)) = tree.get("checkpoints") {
        let on = *on;
        tree.insert(
            "checkpoints",
            YamlValue::Map(YamlMap::from_iter([("enabled".to_owned(), YamlValue::Bool(on))])),
        );
    }
    if let Some(on) = tree.get("stt_enabled").cloned()
        && let Some(stt) = section(tree, "stt")
        && !stt.contains("enabled")
    {
        stt.insert("enabled", on);
    }
    if let Some(YamlValue::Map(terminal)) = tree.get_mut("terminal")
        && let Some(backend) = terminal.get("env_type").filter(|value| !value.is_null()).cloned()
        && terminal.get("backend").is_none_or(YamlValue::is_null)
    {
        // `backend` takes precedence when both are set.
        terminal.insert("backend", backend);
    }
}

/// Returns the mapping under `name`, created when nothing is there; `None` when something else is.
fn section<'tree>(tree: &'tree mut YamlMap, name: &str) -> Option<&'tree mut YamlMap> {
    let slot = tree.slot(name);
    if slot.is_null() {
        *slot = YamlValue::Map(YamlMap::new());
    }
    slot.as_map_mut()
}

/// Turns `model` into a mapping with `default`, and moves the root's `provider`, `base_url` and `context_length`
/// into it.
fn fold_model(tree: &mut YamlMap) {
    let loose: Vec<(&str, YamlValue)> = ["provider", "base_url", "context_length"]
        .into_iter()
        .filter_map(|name| tree.get(name).filter(|value| !value.is_null()).map(|value| (name, value.clone())))
        .collect();
    let mut model = match tree.get("model") {
        Some(YamlValue::Map(map)) => map.clone(),
        Some(value @ (YamlValue::Str(_) | YamlValue::Int(_) | YamlValue::Float(_))) => {
            let name = value.scalar_text().unwrap_or_default();
            YamlMap::from_iter(
                (!name.trim().is_empty()).then(|| ("default".to_owned(), YamlValue::Str(name))),
            )
        }
        _ if loose.is_empty() => return,
        _ => YamlMap::new(),
    };
    let missing = |model: &YamlMap, name: &str| {
        model.get(name).is_none_or(|value| value.is_null() || value.as_str() == Some(""))
    };
    for (name, value) in loose {
        if missing(&model, name) {
            model.insert(name, value);
        }
    }
    for (name, other) in [("default", "model"), ("api_key", "api")] {
        if missing(&model, name)
            && let Some(value) = model.get(other).filter(|value| !value.is_null()).cloned()
        {
            model.insert(name, value);
        }
    }
    tree.insert("model", YamlValue::Map(model));
}

/// Merges `over` into `base`: mappings are merged recursively; every other value, null included, replaces the old
/// one.
pub(crate) fn merge(base: &mut YamlValue, over: &YamlValue) {
    match (base, over) {
        (YamlValue::Map(base), YamlValue::Map(over)) => {
            for entry in over.entries() {
                match base.get_mut(&entry.key) {
                    Some(slot) => merge(slot, &entry.value),
                    None => base.push_new(entry.clone()),
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// Replaces `${NAME}` in every text below `value`, except in keys. An unset name stays as written.
pub(crate) fn expand(value: &mut YamlValue, env: &Env) {
    match value {
        YamlValue::Str(text) if text.contains("${") => *text = expand_text(text, env),
        YamlValue::Seq(items) => items.iter_mut().for_each(|item| expand(item, env)),
        YamlValue::Map(map) => map.iter_mut().for_each(|(_, child)| expand(child, env)),
        _ => {}
    }
}

/// Does the same as [`expand`] for one text.
pub fn expand_text(text: &str, env: &Env) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) if !name.is_empty() => {
                if let Some(value) = env.get_raw(name) {
                    out.push_str(value);
                } else {
                    out.extend(["${", name, "}"]);
                }
                rest = tail;
            }
            // `${}` has no name, and an unclosed brace may be followed by a closed one.
            _ => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Converts documented values to the types of their keys; an unusable value is replaced by the default and
/// reported.
pub(crate) fn normalise(tree: &mut YamlValue) -> Vec<keys::KeyFinding> {
    let mut findings = Vec::new();
    let mut path = Vec::new();
    visit(tree, &mut path, &mut findings);
    findings
}

fn visit(value: &mut YamlValue, path: &mut Vec<String>, findings: &mut Vec<keys::KeyFinding>) {
    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
    if let Some(spec) = keys::find_at(&segments) {
        match keys::fit(spec, value) {
            ValueFit::AsIs => {}
            ValueFit::Converted(read) => *value = read,
            ValueFit::Unusable => {
                let problem = match spec.kind {
                    keys::KeyKind::Choice(allowed) => KeyProblem::NotAllowed { allowed },
                    kind => KeyProblem::WrongType { expected: kind.name(), found: value.kind_name() },
                };
                findings.push(keys::KeyFinding { key: path.join("."), problem });
                *value = keys::default_value(spec).unwrap_or_default();
            }
        }
    } else if !path.is_empty()
        && keys::is_section(&segments)
        && !matches!(value, YamlValue::Map(_) | YamlValue::Null)
    {
        let problem = KeyProblem::WrongType { expected: "a mapping", found: value.kind_name() };
        findings.push(keys::KeyFinding { key: path.join("."), problem });
        let dotted = path.join(".");
        *value =
            keys::default_tree(keys::DefaultsScope::Effective).lookup(&dotted).cloned().unwrap_or_default();
    }
    if let YamlValue::Map(map) = value {
        for (key, child) in map.iter_mut() {
            path.push(key.to_owned());
            visit(child, path, findings);
            path.pop();
        }
    }
}
