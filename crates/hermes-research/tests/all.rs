//! Runs over datasets, against a model inside the test.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod all {
    pub(crate) mod support;

    mod compress;
    mod distribution;
    mod environment;
    mod queue;
    mod run;
    #[cfg(feature = "tokenizers")]
    mod tokenizer;
    mod trajectory;
}
