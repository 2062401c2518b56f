//! The environments that come with the program.

mod benchmark;
mod software;
mod terminal_test;
mod web_research;

use std::sync::Arc;

use super::definition::TrainingEnvironment;

/// An environment that comes with the program.
#[derive(Debug, Clone, Copy)]
pub struct ShippedEnvironment {
    pub name: &'static str,
    pub summary: &'static str,
    pub build: fn() -> Arc<dyn TrainingEnvironment>,
}

/// All of them, by name.
pub const SHIPPED_ENVIRONMENTS: [ShippedEnvironment; 5] = [
    ShippedEnvironment {
        name: "hermes-swe",
        summary: "Programming tasks of a dataset file, judged by their tests",
        build: || Arc::new(software::SoftwareEnvironment::default()),
    },
    ShippedEnvironment {
        name: "openthoughts-tblite",
        summary: "Evaluation on terminal tasks of a dataset file, each in its image",
        build: || Arc::new(benchmark::TerminalBenchmark::new("openthoughts-tblite", 1200)),
    },
    ShippedEnvironment {
        name: "terminal-bench-2",
        summary: "Evaluation on terminal tasks of a dataset file, each in its image",
        build: || Arc::new(benchmark::TerminalBenchmark::new("terminal-bench-2", 1800)),
    },
    ShippedEnvironment {
        name: "terminal-test",
        summary: "Three small tasks in a terminal, to try a set-up",
        build: || Arc::new(terminal_test::TerminalTest::default()),
    },
    ShippedEnvironment {
        name: "web-research",
        summary: "Questions that need the web, judged by a model or by their words",
        build: || Arc::new(web_research::WebResearch::default()),
    },
];
