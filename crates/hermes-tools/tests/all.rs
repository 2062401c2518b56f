//! The tools, called as a turn calls them.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod read_file;
    mod search_files;
}
