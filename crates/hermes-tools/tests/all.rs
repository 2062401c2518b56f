//! The tools, called as a turn calls them.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod checkpoint;
    mod clarify;
    mod delegate;
    mod memory;
    mod patch;
    mod read_file;
    mod registry;
    mod search_files;
    mod session_search;
    mod terminal;
    mod todo;
    mod write_file;
}
