//! Tests of files inside an environment, read and written by its own commands.

use hermes_exec::{OutputBounds, RemoteFileError, RemoteFiles, RemotePathKind};
use hermes_types::{BoxFuture, Cancel, CommandOutput, Environment, RunError, ShellCommand};

use super::remote::RemoteFixture;
use super::support::LocalFixture;

pub(crate) async fn works_on_files(files: RemoteFiles<'_>, there: RemoteFixture<'_>) {
    let cancel = Cancel::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_001).collect();
    let path = "new folder/it's.bin";
    assert_eq!(files.path_kind(path, &cancel).await, Ok(RemotePathKind::Missing));
    assert_eq!(files.read(path, 0, 10, &cancel).await, Err(RemoteFileError::Missing));
    files.write(path, &bytes, &cancel).await.unwrap();
    assert_eq!(files.path_kind(path, &cancel).await, Ok(RemotePathKind::File { size: 100_001 }));
    assert_eq!(files.read(path, 0, usize::MAX, &cancel).await.as_deref(), Ok(bytes.as_slice()));
    assert_eq!(files.read(path, 100_000, 50, &cancel).await.as_deref(), Ok(&bytes[100_000..]));
    assert_eq!(files.read(path, 5, 3, &cancel).await.as_deref(), Ok(&[5, 6, 7][..]));
    assert_eq!(files.read(path, 200_000, 3, &cancel).await.as_deref(), Ok(&[][..]));

    files.write("text", b"one\ntwo\nthree\nfour", &cancel).await.unwrap();
    assert_eq!(files.line_count("text", &cancel).await, Ok(3));
    assert_eq!(files.lines("text", 2, 3, 1000, &cancel).await.as_deref(), Ok(&b"two\nthree\n"[..]));
    assert_eq!(files.lines("text", 4, 9, 1000, &cancel).await.as_deref(), Ok(&b"four"[..]));
    assert_eq!(files.lines("text", 1, 9, 5, &cancel).await.as_deref(), Ok(&b"one\nt"[..]));
    assert_eq!(files.lines("text", 3, 2, 5, &cancel).await.as_deref(), Ok(&b""[..]));

    there.check("chmod 750 text; ln -s text link", "").await;
    files.write("link", b"new", &cancel).await.unwrap();
    there
        .check("cat text; readlink link; stat -c %a text; ls -A | grep -c hermes-; true", "newtext\n750\n0\n")
        .await;
    files.write("empty", b"", &cancel).await.unwrap();
    assert_eq!(files.path_kind("empty", &cancel).await, Ok(RemotePathKind::File { size: 0 }));

    let found = files.path_info("link", &cancel).await.unwrap();
    assert_eq!((found.kind, found.content.as_deref()), (RemotePathKind::File { size: 3 }, Some(&b"new"[..])));
    let written = files.replace("link", Some(b"new"), b"newer", &cancel).await.unwrap();
    assert_eq!((written.kind, written.real), (RemotePathKind::File { size: 5 }, found.real));
    assert_eq!(files.replace("link", Some(b"new"), b"lost", &cancel).await, Err(RemoteFileError::Changed));
    files.replace("text", None, b"new", &cancel).await.unwrap();
    there.check("cat text; readlink link", "newtext\n").await;

    files.make_folder("a/b", &cancel).await.unwrap();
    assert_eq!(files.path_kind("a/b", &cancel).await, Ok(RemotePathKind::Folder));
    assert_eq!(files.path_kind("/dev/null", &cancel).await, Ok(RemotePathKind::Other));
    assert_eq!(files.write("a/b", b"x", &cancel).await, Err(RemoteFileError::Folder));
    assert_eq!(files.read("a", 0, 1, &cancel).await, Err(RemoteFileError::Folder));
    files.rename("text", "moved/there", &cancel).await.unwrap();
    assert_eq!(files.path_kind("text", &cancel).await, Ok(RemotePathKind::Missing));
    assert_eq!(files.read("moved/there", 0, 9, &cancel).await.as_deref(), Ok(&b"new"[..]));
    files.remove("moved/there", &cancel).await.unwrap();
    assert_eq!(files.remove("moved/there", &cancel).await, Err(RemoteFileError::Missing));
    files.write("~/in-home", b"h", &cancel).await.unwrap();
    there.check("cat \"$HOME/in-home\"; rm \"$HOME/in-home\"", "h").await;
    assert_eq!(files.has_program("cat", &cancel).await, Ok(true));
    assert_eq!(files.has_program("no-such-program", &cancel).await, Ok(false));
    // Relative paths follow the current folder.
    there.check("cd a && echo below > here", "").await;
    assert_eq!(files.read("here", 0, 9, &cancel).await.as_deref(), Ok(&b"below\n"[..]));
}

#[tokio::test]
async fn the_same_commands_work_on_this_machine() {
    let place = LocalFixture::new();
    works_on_files(RemoteFiles::new(&place.local, OutputBounds::default()), RemoteFixture(&place.local))
        .await;
}

#[tokio::test]
async fn small_outputs_only_mean_more_of_them() {
    let place = LocalFixture::new();
    let cancel = Cancel::new();
    let files = RemoteFiles::new(&place.local, OutputBounds::with_total(100));
    let bytes = vec![7; 400];
    files.write("x", &bytes, &cancel).await.unwrap();
    assert_eq!(files.read("x", 0, 1000, &cancel).await, Ok(bytes));
}

#[tokio::test]
async fn processes_run_on_and_are_found_by_their_files() {
    let place = LocalFixture::new();
    super::remote::keeps_processes(RemoteFixture(&place.local)).await;
}

/// An environment that loses the second half of every input.
struct Leaky<'a>(&'a dyn Environment);

impl Environment for Leaky<'_> {
    fn run<'a>(
        &'a self,
        command: ShellCommand<'a>,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<CommandOutput, RunError>> {
        let stdin = command.stdin.and_then(|bytes| bytes.get(..bytes.len() / 2));
        self.0.run(ShellCommand { stdin, ..command }, cancel)
    }
}

#[tokio::test]
async fn half_a_file_replaces_nothing() {
    let place = LocalFixture::new();
    let cancel = Cancel::new();
    std::fs::write(place.path().join("x"), "old").unwrap();
    let leaky = Leaky(&place.local);
    let files = RemoteFiles::new(&leaky, OutputBounds::default());
    assert_eq!(files.write("x", b"new content", &cancel).await, Err(RemoteFileError::Cut));
    assert_eq!(std::fs::read_to_string(place.path().join("x")).unwrap(), "old");
    assert_eq!(
        std::fs::read_dir(place.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().contains("hermes-"))
            .count(),
        0
    );
}
