//! Behaviour of speech recognition, seen from outside: a small model that the tests write, broken files, and real weights.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    mod broken;
    mod model;
    mod peer;
    mod support;
    mod wav;
}
