//! A tokenizer and a chat template from files, as models are published with them.

use std::fs;
use std::path::Path;

use hermes_research::{ChatTokenizer as _, SpecialTokens, TokenizerFile};
use serde_json::{Value, json};

const TEMPLATE: &str = "{{ bos_token }}{%- if tools %}\n{{- tools | tojson }}\n{% endif %}{%- for message in messages %}\n\
    {{- message.role.strip() + ': ' + message['content'] }}<end>\n\
    {%- endfor %}{%- if add_generation_prompt %}assistant: {% endif %}";

fn write(folder: &Path, template: Value) {
    let words = ["<bos>", "<end>", "<unk>", "user", "assistant", ":", "hello", "world"];
    let vocabulary: serde_json::Map<String, Value> =
        words.iter().enumerate().map(|(at, word)| ((*word).to_owned(), json!(at))).collect();
    let special = |id: usize, content: &str| json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [special(0, "<bos>"), special(1, "<end>")],
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [0], "tokens": ["<bos>"]}},
        },
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    });
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    let config = json!({"bos_token": {"content": "<bos>"}, "eos_token": "<end>", "chat_template": template});
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
}

#[test]
fn a_tokenizer_counts_and_writes_conversations() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), json!(TEMPLATE));
    let tokenizer = TokenizerFile::open(folder.path()).unwrap();
    assert_eq!(tokenizer.encode("hello world", SpecialTokens::Include).unwrap(), [0, 6, 7]);
    assert_eq!(tokenizer.encode("hello<end>", SpecialTokens::Omit).unwrap(), [6, 1]);
    assert_eq!(tokenizer.count("hello other world").unwrap(), 4, "with the token at the beginning");
    assert_eq!(tokenizer.decode(&[6, 1], SpecialTokens::Omit).unwrap(), "hello");
    assert!(tokenizer.decode(&[6, 1], SpecialTokens::Include).unwrap().contains("<end>"));
    assert_eq!(tokenizer.first_token(), Some(0));
    let messages = [json!({"role": "user", "content": "hello"})];
    assert_eq!(tokenizer.render(&messages, &[], true).unwrap(), "<bos>user: hello<end>assistant: ");
    let tools = [json!({"name": "t<x>", "n": [1, 2]})];
    assert_eq!(
        tokenizer.render(&messages, &tools, false).unwrap(),
        "<bos>[{\"name\": \"t<x>\", \"n\": [1, 2]}]\nuser: hello<end>"
    );
    // Models may have several templates.
    let named = json!([{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ raise_exception('no') }}"}]);
    write(folder.path(), named);
    let tokenizer = TokenizerFile::open(folder.path()).unwrap();
    assert_eq!(tokenizer.render(&messages, &[], false).unwrap(), "plain");
    assert!(tokenizer.render(&messages, &tools, false).unwrap_err().contains("no"));
}

#[test]
fn a_tokenizer_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = TokenizerFile::open(folder.path()).unwrap_err().to_string();
    assert!(missing.contains("tokenizer.json"), "{missing}");
    write(folder.path(), json!("{% if %}"));
    let broken = TokenizerFile::open(folder.path()).unwrap_err().to_string();
    assert!(broken.contains("the chat template"), "{broken}");
}
