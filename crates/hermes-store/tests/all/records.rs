//! Named records in a file of their own.

use hermes_store::{Error, NamedRecords, RecordChange};

fn put(name: &str, value: &str) -> RecordChange {
    RecordChange::Put { kind: "k", name: name.to_owned(), value: value.as_bytes().to_vec() }
}

#[test]
fn a_write_is_whole_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.db");
    let file = NamedRecords::open(&path).unwrap();
    let remove = RecordChange::Remove { kind: "k", name: "b1".to_owned() };
    file.write(&[put("a1", "1"), put("b1", "2"), put("a2", "3"), put("a%", "4"), put("a1", "5"), remove])
        .unwrap();
    // Nobody else can have it open meanwhile.
    assert!(matches!(NamedRecords::open(&path), Err(Error::Busy { .. })));
    drop(file);
    let file = NamedRecords::open(&path).unwrap();
    assert_eq!(file.get("k", "a1").unwrap().as_deref(), Some(&b"5"[..]));
    assert_eq!((file.get("k", "b1").unwrap(), file.get("other", "a1").unwrap()), (None, None));
    let names = |begin: &str, after: Option<&str>, limit: usize| -> Vec<String> {
        file.list("k", begin, after, limit).unwrap().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names("a", None, 9), ["a%", "a1", "a2"]);
    assert_eq!(names("a%", None, 9), ["a%"]);
    assert_eq!(names("", Some("a%"), 1), ["a1"]);
    assert_eq!(file.count("k").unwrap(), 3);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.db");
    std::fs::write(&path, "not a database, but long enough to be taken for one by somebody").unwrap();
    assert!(matches!(NamedRecords::open(&path), Err(Error::Damaged { .. })));
}
