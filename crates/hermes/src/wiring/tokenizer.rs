//! Where the files of a tokenizer are: in a folder that is named, or among what other programs fetched.

use std::path::{Path, PathBuf};

use hermes_config::{Env, user_home};

/// Finds the folder of a tokenizer by its path, or by the name of its model among fetched ones.
pub(crate) fn find(name: &str, env: &Env) -> Option<PathBuf> {
    let has_file = |folder: &Path| folder.join("tokenizer.json").is_file();
    let named = PathBuf::from(name);
    if has_file(&named) {
        return Some(named);
    }
    if named.file_name().is_some_and(|file| file == "tokenizer.json") && named.is_file() {
        return named.parent().map(Path::to_owned);
    }
    let (owner, model) = name.split_once('/')?;
    if model.contains('/') {
        return None;
    }
    let fetched = match env.get("HF_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => user_home(env).ok()?.join(".cache/huggingface"),
    };
    let versions = fetched.join(format!("hub/models--{owner}--{model}/snapshots"));
    let versions = std::fs::read_dir(versions).ok()?.flatten().map(|entry| entry.path());
    versions.filter(|folder| has_file(folder)).max()
}
