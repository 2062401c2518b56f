//! Pure steps between a file's tree and the tree in force: fold old spellings, merge onto defaults, expand `${VAR}`,
//! make values fit their keys.

use crate::Env;
use crate::keys::{self, Fit, Problem};
use crate::yaml::{Map, Value};

/// Moves older spellings to where today's readers look. The file itself keeps them.
pub(crate) fn fold(tree: &mut Map) {
    fold_model(tree);
    let turns = tree.get("max_turns").filter(|value| !value.is_null()).cloned();
    if let Some(turns) = turns
        && let Some(agent) = section(tree, "agent")
        && !agent.contains("max_turns")
    {
        agent.insert("max_turns", turns);
    }
    if let Some(Value::Bool(on)) = tree.get("checkpoints") {
        let on = *on;
        tree.insert("checkpoints", Value::Map(Map::from_iter([("enabled".to_owned(), Value::Bool(on))])));
    }
    if let Some(on) = tree.get("stt_enabled").cloned()
        && let Some(stt) = section(tree, "stt")
        && !stt.contains("enabled")
    {
        stt.insert("enabled", on);
    }
    if let Some(Value::Map(terminal)) = tree.get_mut("terminal")
        && let Some(backend) = terminal.get("env_type").filter(|value| !value.is_null()).cloned()
        && terminal.get("backend").is_none_or(Value::is_null)
    {
        // T41-11: `backend` wins when both are there.
        terminal.insert("backend", backend);
    }
}

/// A mapping under `name`, created when nothing is there; `None` when something else is.
fn section<'tree>(tree: &'tree mut Map, name: &str) -> Option<&'tree mut Map> {
    let slot = tree.slot(name);
    if slot.is_null() {
        *slot = Value::Map(Map::new());
    }
    slot.as_map_mut()
}

/// `model` becomes a mapping with `default`, and the root's `provider`, `base_url` and `context_length` move in.
fn fold_model(tree: &mut Map) {
    let loose: Vec<(&str, Value)> = ["provider", "base_url", "context_length"]
        .into_iter()
        .filter_map(|name| tree.get(name).filter(|value| !value.is_null()).map(|value| (name, value.clone())))
        .collect();
    let mut model = match tree.get("model") {
        Some(Value::Map(map)) => map.clone(),
        Some(value @ (Value::Str(_) | Value::Int(_) | Value::Float(_))) => {
            let name = value.scalar_text().unwrap_or_default();
            Map::from_iter((!name.trim().is_empty()).then(|| ("default".to_owned(), Value::Str(name))))
        }
        _ if loose.is_empty() => return,
        _ => Map::new(),
    };
    let missing = |model: &Map, name: &str| {
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
    tree.insert("model", Value::Map(model));
}

/// Mappings recurse; everything else, null included, replaces what was there.
pub(crate) fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Map(base), Value::Map(over)) => {
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

/// Replaces `${NAME}` in every text below `value`, keys excepted. An unset name stays as written.
pub(crate) fn expand(value: &mut Value, env: &Env) {
    match value {
        Value::Str(text) if text.contains("${") => *text = expand_text(text, env),
        Value::Seq(items) => items.iter_mut().for_each(|item| expand(item, env)),
        Value::Map(map) => map.iter_mut().for_each(|(_, child)| expand(child, env)),
        _ => {}
    }
}

/// [`expand`] for one text.
pub fn expand_text(text: &str, env: &Env) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        match after.split_once('}') {
            Some((name, tail)) if !name.is_empty() => {
                if let Some(value) = env.present(name) {
                    out.push_str(value);
                } else {
                    out.extend(["${", name, "}"]);
                }
                rest = tail;
            }
            // `${}` names nothing, and an open brace may be followed by a proper one.
            _ => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Makes documented values fit; what cannot be used gives way to the default and is reported.
pub(crate) fn normalise(tree: &mut Value) -> Vec<keys::Finding> {
    let mut findings = Vec::new();
    let mut path = Vec::new();
    visit(tree, &mut path, &mut findings);
    findings
}

fn visit(value: &mut Value, path: &mut Vec<String>, findings: &mut Vec<keys::Finding>) {
    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
    if let Some(spec) = keys::find_at(&segments) {
        match keys::fit(spec, value) {
            Fit::AsIs => {}
            Fit::Read(read) => *value = read,
            Fit::Wrong => {
                let problem = match spec.kind {
                    keys::Kind::Choice(allowed) => Problem::NotAllowed { allowed },
                    kind => Problem::WrongType { expected: kind.name(), found: value.kind_name() },
                };
                findings.push(keys::Finding { key: path.join("."), problem });
                *value = keys::default_value(spec).unwrap_or_default();
            }
        }
    } else if !path.is_empty() && keys::is_section(&segments) && !matches!(value, Value::Map(_) | Value::Null)
    {
        let problem = Problem::WrongType { expected: "a mapping", found: value.kind_name() };
        findings.push(keys::Finding { key: path.join("."), problem });
        let dotted = path.join(".");
        *value = keys::default_tree(keys::Defaults::Effective).lookup(&dotted).cloned().unwrap_or_default();
    }
    if let Value::Map(map) = value {
        for (key, child) in map.iter_mut() {
            path.push(key.to_owned());
            visit(child, path, findings);
            path.pop();
        }
    }
}
