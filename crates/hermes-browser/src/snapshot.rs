//! A page as text: its accessibility tree, with a reference at everything that can be used.
//!
//! Pure. Invariant: no tree makes it recurse or write without bound, and an element keeps its reference as long as its
//! document lives.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::Value;

/// The deepest nesting that is followed.
const DEEPEST: usize = 300;
/// The longest text, in bytes; the rest of a page is left out.
const LONGEST: usize = 1_500_000;
/// The longest name or text of one element in a compact snapshot, in characters.
const COMPACT_TEXT: usize = 300;
const FULL_TEXT: usize = 2_000;
/// The most descendants that are looked at to name an element.
const MOST_DESCENDANTS: usize = 400;
/// The most options of one list in a compact snapshot.
const MOST_OPTIONS: usize = 25;

/// The detail of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotDetail {
    /// What can be used, and texts.
    Compact,
    /// The structure of the page, too, and where links lead.
    Full,
}

/// An element that a reference stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementReference {
    pub(crate) session: String,
    pub(crate) frame: String,
    /// The number of the element in its process.
    pub(crate) node: i64,
    pub role: String,
    pub name: String,
}

/// The references of a task. Numbers are never used twice, so that an old one cannot mean another element.
#[derive(Debug, Default)]
pub(crate) struct References {
    last: u32,
    by_number: HashMap<u32, ElementReference>,
    numbers: HashMap<(String, i64), u32>,
}

impl References {
    /// Returns the element of a reference as a model writes it: `@e5` or `e5`.
    pub(crate) fn find(&self, given: &str) -> Option<(u32, &ElementReference)> {
        let digits = given.trim().trim_start_matches('@').strip_prefix('e')?;
        let number = digits.parse().ok()?;
        self.by_number.get(&number).map(|element| (number, element))
    }

    /// Forgets the elements of documents that are gone.
    pub(crate) fn clear(&mut self) {
        self.by_number.clear();
        self.numbers.clear();
    }

    fn number(&mut self, element: ElementReference) -> u32 {
        let key = (element.session.clone(), element.node);
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.last += 1;
            self.last
        });
        self.by_number.insert(number, element);
        number
    }
}

/// The accessibility tree of one frame.
#[derive(Debug, Default)]
pub(crate) struct FrameTree {
    session: String,
    frame: String,
    root: Option<String>,
    nodes: HashMap<String, Value>,
    /// Elements without a role that react to the mouse.
    clickable: HashSet<i64>,
}

impl FrameTree {
    /// Takes the answer of `Accessibility.getFullAXTree`.
    pub(crate) fn new(session: &str, frame: &str, answer: &Value, clickable: HashSet<i64>) -> Self {
        let mut tree =
            Self { session: session.to_owned(), frame: frame.to_owned(), clickable, ..Self::default() };
        for node in answer["nodes"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some(id) = node["nodeId"].as_str() else { continue };
            if tree.root.is_none() && node.get("parentId").is_none() {
                tree.root = Some(id.to_owned());
            }
            tree.nodes.insert(id.to_owned(), node.clone());
        }
        tree
    }
}

/// A page with its frames.
#[derive(Debug, Default)]
pub(crate) struct PageTree {
    /// The first one is the page itself.
    pub(crate) frames: Vec<FrameTree>,
    /// The frame in an element, by the session and the number of the element.
    pub(crate) owners: HashMap<(String, i64), usize>,
}

/// A snapshot for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSnapshot {
    pub text: String,
    /// The references in the text, in its order.
    pub elements: Vec<(u32, ElementReference)>,
}

/// Writes a page as text.
pub(crate) fn write_snapshot(
    page: &PageTree,
    detail: SnapshotDetail,
    references: &mut References,
) -> PageSnapshot {
    let mut writer = SnapshotWriter {
        page,
        detail,
        references,
        text: String::new(),
        elements: Vec::new(),
        seen: HashSet::new(),
        visited: HashSet::new(),
    };
    writer.frame(0, 0, 0);
    PageSnapshot { text: writer.text.trim_end().to_owned(), elements: writer.elements }
}

struct SnapshotWriter<'a> {
    page: &'a PageTree,
    detail: SnapshotDetail,
    references: &'a mut References,
    text: String,
    elements: Vec<(u32, ElementReference)>,
    /// Frames that were written, because a broken tree might contain one twice.
    seen: HashSet<usize>,
    /// Nodes that were written, for the same reason.
    visited: HashSet<(&'a str, &'a str)>,
}

/// What surrounds a node.
#[derive(Clone, Copy)]
struct Surroundings<'a> {
    indent: usize,
    depth: usize,
    /// The name of the element around, which already tells the texts that are in it.
    told: &'a str,
}

impl<'a> SnapshotWriter<'a> {
    fn frame(&mut self, index: usize, indent: usize, depth: usize) {
        let page = self.page;
        let Some(frame) = page.frames.get(index) else { return };
        if !self.seen.insert(index) {
            return;
        }
        if let Some(root) = &frame.root {
            self.children(frame, root, Surroundings { indent, depth, told: "" });
        }
    }

    fn children(&mut self, frame: &'a FrameTree, id: &'a str, around: Surroundings<'_>) {
        let Some(node) = frame.nodes.get(id) else { return };
        if !self.visited.insert((&frame.frame, id)) {
            return;
        }
        let children = node["childIds"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut texts = String::new();
        let mut options = 0_usize;
        for child in children.iter().filter_map(Value::as_str) {
            let Some(child_node) = frame.nodes.get(child) else { continue };
            if role(child_node) == "StaticText" {
                append(&mut texts, name(child_node));
                continue;
            }
            self.text_line(&mut texts, around);
            if role(child_node) == "option" {
                options += 1;
                if options > MOST_OPTIONS && self.detail == SnapshotDetail::Compact {
                    continue;
                }
            }
            self.node(frame, child, child_node, around);
        }
        self.text_line(&mut texts, around);
        if options > MOST_OPTIONS && self.detail == SnapshotDetail::Compact {
            self.line(around.indent, &format!("… {} more options", options - MOST_OPTIONS));
        }
    }

    fn text_line(&mut self, texts: &mut String, around: Surroundings<'_>) {
        let text = std::mem::take(texts);
        let text = self.clipped(text.trim());
        if !text.is_empty() && !around.told.contains(text.as_str()) {
            self.line(around.indent, &format!("text: {text}"));
        }
    }

    fn node(&mut self, frame: &'a FrameTree, id: &'a str, node: &'a Value, around: Surroundings<'_>) {
        if self.text.len() > LONGEST || around.depth > DEEPEST {
            return;
        }
        let inner = Surroundings { depth: around.depth + 1, ..around };
        let number = node["backendDOMNodeId"].as_i64();
        let role = role(node);
        if node["ignored"].as_bool() == Some(true) || is_transparent(role) {
            let clickable = number.filter(|number| frame.clickable.contains(number));
            if let Some(number) = clickable
                && !contains_usable(frame, node, &mut { MOST_DESCENDANTS })
            {
                let label = all_text(frame, node, &mut { MOST_DESCENDANTS });
                if !label.is_empty() {
                    let label = self.clipped(&label);
                    self.element(frame, number, "clickable", &label, &[], around.indent);
                    return;
                }
            }
            return self.children(frame, id, inner);
        }
        if matches!(role, "InlineTextBox" | "LineBreak" | "ListMarker") {
            return;
        }
        let label = self.clipped(name(node).trim());
        if role.starts_with("Iframe") {
            self.line(around.indent, &titled("iframe", &label, &[]));
            if let Some(number) = number
                && let Some(index) = self.page.owners.get(&(frame.session.clone(), number))
            {
                self.frame(*index, around.indent + 1, inner.depth);
            }
            return;
        }
        let facts = facts(node);
        if is_usable(role) {
            let Some(number) = number else { return };
            self.element(frame, number, &shown_role(role), &label, &facts, around.indent);
            let told = Surroundings { indent: around.indent + 1, told: &label, ..inner };
            return self.children(frame, id, told);
        }
        let is_told = self.detail == SnapshotDetail::Full || is_content(role) || !label.is_empty();
        if !is_told || (around.told.contains(label.as_str()) && !around.told.is_empty()) {
            return self.children(frame, id, inner);
        }
        self.line(around.indent, &titled(&shown_role(role), &label, &facts));
        let told = Surroundings { indent: around.indent + 1, told: &label, ..inner };
        self.children(frame, id, told);
    }

    fn element(
        &mut self,
        frame: &FrameTree,
        number: i64,
        role: &str,
        label: &str,
        facts: &[String],
        indent: usize,
    ) {
        let element = ElementReference {
            session: frame.session.clone(),
            frame: frame.frame.clone(),
            node: number,
            role: role.to_owned(),
            name: label.to_owned(),
        };
        let reference = self.references.number(element.clone());
        self.elements.push((reference, element));
        let (value, facts): (Vec<&String>, Vec<&String>) = facts.iter().partition(|fact| is_value(fact));
        let mut facts: Vec<String> = facts
            .into_iter()
            .filter(|fact| self.detail == SnapshotDetail::Full || !fact.starts_with("url="))
            .cloned()
            .collect();
        facts.push(format!("ref=e{reference}"));
        let mut line = titled(role, label, &facts);
        if let Some(value) = value.first() {
            let _ = write!(line, ": {}", self.clipped(value.trim_start_matches("value=")));
        }
        self.line(indent, &line);
    }

    fn line(&mut self, indent: usize, text: &str) {
        if self.text.len() <= LONGEST {
            let indent = indent.min(40) * 2;
            // Writing to a `String` cannot fail.
            let _ = writeln!(self.text, "{:indent$}- {text}", "");
        }
    }

    fn clipped(&self, text: &str) -> String {
        let limit = if self.detail == SnapshotDetail::Compact { COMPACT_TEXT } else { FULL_TEXT };
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match joined.char_indices().nth(limit) {
            Some((end, _)) => format!("{}…", joined.get(..end).unwrap_or_default()),
            None => joined,
        }
    }
}

fn is_value(fact: &str) -> bool {
    fact.starts_with("value=")
}

fn titled(role: &str, label: &str, facts: &[String]) -> String {
    let mut line = role.to_owned();
    if !label.is_empty() {
        let _ = write!(line, " \"{}\"", label.replace('"', "'"));
    }
    if !facts.is_empty() {
        let _ = write!(line, " [{}]", facts.join(", "));
    }
    line
}

/// Adds a piece of text to those before it.
fn append(texts: &mut String, more: &str) {
    if texts.len() < LONGEST {
        if !texts.is_empty() && !texts.ends_with(' ') && !more.starts_with(' ') {
            texts.push(' ');
        }
        texts.push_str(more);
    }
}

fn role(node: &Value) -> &str {
    node["role"]["value"].as_str().unwrap_or_default()
}

fn name(node: &Value) -> &str {
    node["name"]["value"].as_str().unwrap_or_default()
}

/// Tells whether a role says nothing about what is in it.
fn is_transparent(role: &str) -> bool {
    matches!(
        role,
        "none" | "presentation" | "generic" | "RootWebArea" | "" | "LabelText" | "MenuListPopup" | "Legend"
    )
}

fn is_usable(role: &str) -> bool {
    matches!(
        role,
        "button"
            | "link"
            | "textbox"
            | "searchbox"
            | "checkbox"
            | "radio"
            | "combobox"
            | "listbox"
            | "option"
            | "menuitem"
            | "menuitemcheckbox"
            | "menuitemradio"
            | "slider"
            | "spinbutton"
            | "switch"
            | "tab"
            | "treeitem"
            | "DisclosureTriangle"
            | "DisclosureTriangleGrouped"
            | "Date"
            | "DateTime"
            | "InputTime"
            | "ColorWell"
            | "Video"
            | "Audio"
    )
}

/// Tells whether a role matters even without a name.
fn is_content(role: &str) -> bool {
    matches!(
        role,
        "heading" | "table" | "dialog" | "alertdialog" | "alert" | "status" | "form" | "progressbar"
    )
}

fn shown_role(role: &str) -> String {
    match role {
        "DisclosureTriangle" | "DisclosureTriangleGrouped" => "disclosure".to_owned(),
        role => role.to_lowercase(),
    }
}

/// Returns the properties of a node that tell its state.
fn facts(node: &Value) -> Vec<String> {
    let mut facts = Vec::new();
    for property in node["properties"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let value = &property["value"]["value"];
        let text = value.as_str();
        match (property["name"].as_str().unwrap_or_default(), value) {
            (name @ ("disabled" | "required" | "selected" | "expanded" | "readonly"), Value::Bool(true)) => {
                facts.push(name.to_owned());
            }
            ("expanded", Value::Bool(false)) => facts.push("collapsed".to_owned()),
            (name @ ("checked" | "pressed"), _) if text == Some("true") => facts.push(name.to_owned()),
            (name @ ("checked" | "pressed"), _) if text == Some("mixed") => {
                facts.push(format!("{name}=mixed"));
            }
            ("level", level) if level.is_number() => facts.push(format!("level={level}")),
            ("invalid", _) if text.is_some_and(|text| text != "false") => facts.push("invalid".to_owned()),
            ("url", _) => facts.extend(text.map(|url| format!("url={url}"))),
            _ => {}
        }
    }
    match &node["value"]["value"] {
        Value::String(value) if !value.is_empty() && !matches!(role(node), "link" | "button" | "option") => {
            facts.push(format!("value={value}"));
        }
        Value::Number(value) => facts.push(format!("value={value}")),
        _ => {}
    }
    facts
}

/// Tells whether something in a node can be used by itself. Looks at no more than `budget` descendants.
fn contains_usable(frame: &FrameTree, node: &Value, budget: &mut usize) -> bool {
    let children = node["childIds"].as_array().map(Vec::as_slice).unwrap_or_default();
    children.iter().filter_map(Value::as_str).filter_map(|child| frame.nodes.get(child)).any(|child| {
        let is_clickable = child["backendDOMNodeId"].as_i64().is_some_and(|id| frame.clickable.contains(&id));
        *budget = budget.saturating_sub(1);
        *budget == 0
            || (is_usable(role(child)) && child["ignored"].as_bool() != Some(true))
            || is_clickable
            || role(child).starts_with("Iframe")
            || contains_usable(frame, child, budget)
    })
}

/// Returns the text in a node. Looks at no more than `budget` descendants.
fn all_text(frame: &FrameTree, node: &Value, budget: &mut usize) -> String {
    let mut text = String::new();
    let children = node["childIds"].as_array().map(Vec::as_slice).unwrap_or_default();
    for child in children.iter().filter_map(Value::as_str).filter_map(|child| frame.nodes.get(child)) {
        *budget = budget.saturating_sub(1);
        if *budget == 0 {
            break;
        }
        match role(child) {
            "StaticText" | "image" => append(&mut text, name(child)),
            _ => append(&mut text, &all_text(frame, child, budget)),
        }
    }
    text.trim().to_owned()
}

/// Returns the elements without a role that react to the mouse, from the answer of `DOMSnapshot.captureSnapshot`.
pub(crate) fn clickable_elements(answer: &Value) -> HashSet<i64> {
    let mut found = HashSet::new();
    let strings = answer["strings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pointer = strings.iter().position(|text| text == "pointer").map(|index| index as u64);
    for document in answer["documents"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let nodes = &document["nodes"];
        let number = |index: usize| nodes["backendNodeId"].get(index).and_then(Value::as_i64);
        let tag = |index: usize| {
            let name = nodes["nodeName"].get(index).and_then(Value::as_u64);
            name.and_then(|name| strings.get(usize::try_from(name).ok()?)?.as_str()).unwrap_or_default()
        };
        for index in nodes["isClickable"]["index"].as_array().into_iter().flatten().filter_map(index_of) {
            if !matches!(tag(index), "HTML" | "BODY" | "#document") {
                found.extend(number(index));
            }
        }
        let layout = &document["layout"];
        let indices = layout["nodeIndex"].as_array().map(Vec::as_slice).unwrap_or_default();
        let pointed: HashSet<usize> = indices
            .iter()
            .zip(layout["styles"].as_array().map(Vec::as_slice).unwrap_or_default())
            .filter(|(_, styles)| pointer.is_some() && styles.get(0).and_then(Value::as_u64) == pointer)
            .filter_map(|(index, _)| index_of(index))
            .collect();
        for index in &pointed {
            let parent = nodes["parentIndex"].get(*index).and_then(index_of);
            // The kind of pointer is inherited: only the outermost element counts.
            if !parent.is_some_and(|parent| pointed.contains(&parent)) && !tag(*index).starts_with('#') {
                found.extend(number(*index));
            }
        }
    }
    found
}

fn index_of(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|index| usize::try_from(index).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(id: u32, role: &str, name: &str, children: &[u32]) -> Value {
        let children: Vec<String> = children.iter().map(ToString::to_string).collect();
        let parent = (id > 1).then(|| "0".to_owned());
        let mut node = json!({
            "nodeId": id.to_string(), "role": {"value": role}, "name": {"value": name},
            "childIds": children, "backendDOMNodeId": id,
        });
        if let Some(parent) = parent {
            node["parentId"] = parent.into();
        }
        node
    }

    fn page(nodes: &[Value]) -> PageTree {
        let tree = FrameTree::new("s", "f", &json!({"nodes": nodes}), HashSet::new());
        PageTree { frames: vec![tree], owners: HashMap::new() }
    }

    fn written(nodes: &[Value], detail: SnapshotDetail) -> String {
        write_snapshot(&page(nodes), detail, &mut References::default()).text
    }

    #[test]
    fn what_can_be_used_has_a_reference_and_texts_are_told_once() {
        let mut field = node(5, "textbox", "Name", &[]);
        field["value"] = json!({"value": "Ada"});
        field["properties"] = json!([{"name": "required", "value": {"value": true}}]);
        let mut heading = node(6, "heading", "Sign in", &[7]);
        heading["properties"] = json!([{"name": "level", "value": {"value": 1}}]);
        let nodes = [
            node(1, "RootWebArea", "Page", &[2, 5, 6]),
            node(2, "paragraph", "", &[3, 4]),
            node(3, "StaticText", "Read the", &[]),
            node(4, "link", "terms \"of\" use", &[8]),
            field,
            heading,
            node(7, "StaticText", "Sign in", &[]),
            node(8, "StaticText", "terms \"of\" use", &[]),
        ];
        assert_eq!(
            written(&nodes, SnapshotDetail::Compact),
            "- text: Read the\n- link \"terms 'of' use\" [ref=e1]\n- textbox \"Name\" [required, ref=e2]: Ada\n\
             - heading \"Sign in\" [level=1]"
        );
        assert!(written(&nodes, SnapshotDetail::Full).starts_with("- paragraph\n  - text: Read the\n"));
    }

    #[test]
    fn an_element_keeps_its_number_and_a_forgotten_one_is_not_used_again() {
        let mut references = References::default();
        let first =
            [node(1, "RootWebArea", "", &[2, 3]), node(2, "button", "A", &[]), node(3, "button", "B", &[])];
        let second =
            [node(1, "RootWebArea", "", &[3, 4]), node(3, "button", "B", &[]), node(4, "button", "C", &[])];
        write_snapshot(&page(&first), SnapshotDetail::Compact, &mut references);
        let later = write_snapshot(&page(&second), SnapshotDetail::Compact, &mut references);
        assert_eq!(later.text, "- button \"B\" [ref=e2]\n- button \"C\" [ref=e3]");
        for given in ["@e2", "e2", " @e2 "] {
            assert_eq!(references.find(given).unwrap().1.name, "B", "{given}");
        }
        references.clear();
        assert_eq!(references.find("@e2"), None);
        let fresh = write_snapshot(&page(&first), SnapshotDetail::Compact, &mut references);
        assert_eq!(fresh.text, "- button \"A\" [ref=e4]\n- button \"B\" [ref=e5]");
        for given in ["", "e", "@e", "x5", "@e99999999999", "é"] {
            assert_eq!(references.find(given), None, "{given}");
        }
    }

    #[test]
    fn broken_trees_end() {
        // Each node is its own child, or the child of what it contains.
        let circle = [
            node(1, "RootWebArea", "", &[2]),
            node(2, "generic", "", &[3]),
            node(3, "list", "x", &[2, 3, 9]),
        ];
        let text = written(&circle, SnapshotDetail::Full);
        assert!(text.len() < 3 * LONGEST, "{}", text.len());
        assert_eq!(written(&[], SnapshotDetail::Full), "");
        assert_eq!(
            write_snapshot(&PageTree::default(), SnapshotDetail::Full, &mut References::default()).text,
            ""
        );
        let odd = json!({"nodes": [{"nodeId": 5}, {"nodeId": "1"}, null, {"nodeId": "2", "childIds": "x"}]});
        let tree = FrameTree::new("s", "f", &odd, HashSet::new());
        let page = PageTree { frames: vec![tree], owners: HashMap::new() };
        assert_eq!(write_snapshot(&page, SnapshotDetail::Full, &mut References::default()).text, "");
    }

    #[test]
    fn elements_that_only_react_to_the_mouse_are_found() {
        let answer = json!({
            "strings": ["DIV", "pointer", "auto", "BODY", "#text"],
            "documents": [{
                "nodes": {
                    "backendNodeId": [10, 11, 12, 13],
                    "parentIndex": [-1, 0, 1, 1],
                    "nodeName": [3, 0, 0, 4],
                    "isClickable": {"index": [0, 1]},
                },
                "layout": {"nodeIndex": [0, 1, 2, 3], "styles": [[2], [1], [1], [1]]},
            }],
        });
        assert_eq!(clickable_elements(&answer), HashSet::from([11]));
        assert!(clickable_elements(&json!({"documents": [{}, 5], "strings": 7})).is_empty());
        let mut tree = page(&[
            node(1, "RootWebArea", "", &[2]),
            node(2, "generic", "", &[3]),
            node(3, "StaticText", "Add to cart", &[]),
        ]);
        tree.frames[0].clickable.insert(2);
        let text = write_snapshot(&tree, SnapshotDetail::Compact, &mut References::default()).text;
        assert_eq!(text, "- clickable \"Add to cart\" [ref=e1]");
    }
}
