//! The tokenizer and the chat template of a model, from the files that are published with it.

use std::fmt;
use std::fs;
use std::path::Path;

use hermes_text::JsonTree;
use minijinja::value::{Kwargs, Value as TemplateValue};
use minijinja::{Environment, Error as TemplateError, ErrorKind, context};
use serde_json::Value;
use tokenizers::Tokenizer;

use super::tokenizer::{ChatTokenizer, SpecialTokens};
use crate::error::Error;

/// The names of the templates of a model that has several, with tools and without.
const TEMPLATES: [&str; 2] = ["tool_use", "default"];

/// A tokenizer from a folder with `tokenizer.json`, and perhaps `tokenizer_config.json` and `chat_template.jinja`.
pub struct TokenizerFile {
    tokenizer: Tokenizer,
    templates: Environment<'static>,
    begin: String,
    end: String,
}

impl fmt::Debug for TokenizerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenizerFile").finish_non_exhaustive()
    }
}

impl TokenizerFile {
    /// Reads the files of a folder. Without a template, the tokenizer only counts.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("tokenizer.json");
        let unusable =
            |path: &Path, why: &dyn fmt::Display| Error::Unusable(format!("{}: {why}", path.display()));
        let tokenizer = Tokenizer::from_file(&path).map_err(|error| unusable(&path, &error))?;
        let config_path = folder.join("tokenizer_config.json");
        let config: Value = match fs::read_to_string(&config_path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| unusable(&config_path, &error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
            Err(error) => return Err(Error::file(&config_path)(error)),
        };
        let mut templates = environment();
        let mut add = |name: &str, text: &str| {
            templates
                .add_template_owned(name.to_owned(), text.to_owned())
                .map_err(|error| unusable(&config_path, &format!("the chat template: {error}")))
        };
        if let Ok(text) = fs::read_to_string(folder.join("chat_template.jinja")) {
            add("default", &text)?;
        } else {
            match config.get("chat_template") {
                Some(Value::String(text)) => add("default", text)?,
                Some(Value::Array(named)) => {
                    for template in named {
                        let part = |name: &str| template.get(name).and_then(Value::as_str);
                        if let (Some(name), Some(text)) = (part("name"), part("template")) {
                            add(name, text)?;
                        }
                    }
                }
                _ => {}
            }
        }
        let special = |name: &str| {
            let token = config.get(name);
            let text = token.and_then(Value::as_str).or_else(|| token?.get("content")?.as_str());
            text.unwrap_or_default().to_owned()
        };
        Ok(Self { tokenizer, templates, begin: special("bos_token"), end: special("eos_token") })
    }

    /// Returns how many tokens a text has, with those that the tokenizer adds.
    pub fn count(&self, text: &str) -> Result<u64, String> {
        Ok(self.encode(text, SpecialTokens::Include)?.len() as u64)
    }
}

/// Returns templates that know what the published ones use.
fn environment() -> Environment<'static> {
    let mut templates = Environment::new();
    templates.set_trim_blocks(true);
    templates.set_lstrip_blocks(true);
    templates.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    templates.add_filter("tojson", |value: TemplateValue, options: Kwargs| {
        let indent: Option<usize> = options.get("indent")?;
        let failed = |_| TemplateError::new(ErrorKind::BadSerialization, "a value is no JSON");
        if let Some(indent) = indent {
            let indent = " ".repeat(indent.min(16));
            let mut out = Vec::new();
            let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            let mut writer = serde_json::Serializer::with_formatter(&mut out, formatter);
            serde::Serialize::serialize(&value, &mut writer).map_err(failed)?;
            return Ok(TemplateValue::from_safe_string(String::from_utf8_lossy(&out).into_owned()));
        }
        let text = serde_json::to_string(&value).map_err(failed)?;
        let text = JsonTree::parse(&text).map_or(text, |tree| tree.to_string());
        Ok(TemplateValue::from_safe_string(text))
    });
    templates.add_function("raise_exception", |reason: String| -> Result<String, TemplateError> {
        Err(TemplateError::new(ErrorKind::InvalidOperation, reason))
    });
    templates
}

impl ChatTokenizer for TokenizerFile {
    fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>, String> {
        let encoding = self.tokenizer.encode_fast(text, special == SpecialTokens::Include);
        encoding.map(|encoding| encoding.get_ids().to_vec()).map_err(|error| error.to_string())
    }

    fn decode(&self, tokens: &[u32], special: SpecialTokens) -> Result<String, String> {
        self.tokenizer.decode(tokens, special == SpecialTokens::Omit).map_err(|error| error.to_string())
    }

    fn render(&self, messages: &[Value], tools: &[Value], generation: bool) -> Result<String, String> {
        let wanted = if tools.is_empty() { &TEMPLATES[1..] } else { &TEMPLATES[..] };
        let template = wanted.iter().find_map(|name| self.templates.get_template(name).ok());
        let template = template.ok_or("the tokenizer has no chat template")?;
        let tools = (!tools.is_empty()).then_some(tools);
        let rendered = template.render(context! {
            messages => messages,
            tools => tools,
            add_generation_prompt => generation,
            bos_token => self.begin,
            eos_token => self.end,
        });
        rendered.map_err(|error| format!("the chat template: {error:#}"))
    }

    fn first_token(&self) -> Option<u32> {
        if self.begin.is_empty() { None } else { self.tokenizer.token_to_id(&self.begin) }
    }
}
