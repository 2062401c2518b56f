//! The search path of a service, which has no login shell to set it.

use std::path::{Path, PathBuf};

const STANDARD: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The folders below the user's home that are included if they exist.
const USER_FOLDERS: [&str; 4] = [".local/bin", ".cargo/bin", "go/bin", ".npm-global/bin"];

/// Builds the search path: our folder, that of `node`, the user's own, then `rest`.
pub(crate) fn search_path(binary: &Path, node: Option<PathBuf>, user: &Path, rest: &[String]) -> String {
    let own = binary.parent().map(Path::to_owned);
    let users = USER_FOLDERS.iter().map(|name| user.join(name)).filter(|folder| folder.is_dir());
    let rest = rest.iter().filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let mut folders: Vec<String> = Vec::new();
    for folder in own.into_iter().chain(node).chain(users).chain(rest) {
        let folder = folder.to_string_lossy().into_owned();
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders.join(":")
}

/// Returns the folders every system has.
pub(crate) fn standard() -> Vec<String> {
    STANDARD.map(str::to_owned).to_vec()
}

/// Returns the folder of the real `node` binary, found in these paths. The path the service has already comes
/// first, and folders it has anyway do not count: a definition must not depend on the shell that checks it.
pub(crate) fn node_folder(paths: &[Option<&str>]) -> Option<PathBuf> {
    let folders = paths.iter().flatten().flat_map(|path| path.split(':'));
    let mut folders = folders.filter(|folder| !STANDARD.contains(folder));
    let node =
        folders.find_map(|folder| Some(Path::new(folder).join("node")).filter(|node| node.is_file()))?;
    node.canonicalize().ok()?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_folder_is_first_and_none_is_named_twice() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(user.path().join(".cargo/bin")).unwrap();
        let node = user.path().join("node/bin");
        std::fs::create_dir_all(&node).unwrap();
        std::fs::write(node.join("node"), "").unwrap();
        let listed = format!("/nowhere:{}", node.display());
        let found = node_folder(&[None, Some("/nowhere"), Some(&listed)]);
        let path = search_path(Path::new("/usr/bin/hermes"), found, user.path(), &standard());
        let user = user.path().canonicalize().unwrap();
        let blank = path.replace(&*user.to_string_lossy(), "~");
        assert_eq!(
            blank,
            "/usr/bin:~/node/bin:~/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
        );
    }
}
