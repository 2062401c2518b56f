//! All tests of this crate in one binary.
#![expect(clippy::unwrap_used, reason = "a failed unwrap in a test is a failed test")]

mod all {
    mod context_files;
    mod memory;
    mod personality;
    mod skill_edit;
    mod skill_sync;
    mod skills;
    mod soul;
}
