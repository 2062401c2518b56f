//! Distributions: how likely each toolset is to be given to a conversation.
//!
//! The probabilities are independent of each other. Invariant: a conversation has at least one toolset, where one of its
//! distribution exists.
// table: exempt from the length limit

use hermes_types::random_hex;
use sha2::{Digest as _, Sha256};

/// A named distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolsetDistribution {
    pub name: &'static str,
    pub description: &'static str,
    /// The toolsets in the order in which they are drawn, with their probabilities in percent.
    pub toolsets: &'static [(&'static str, u8)],
}

#[rustfmt::skip]
pub const DISTRIBUTIONS: &[ToolsetDistribution] = &[
    ToolsetDistribution { name: "default", description: "Every toolset, always",
        toolsets: &[("web", 100), ("vision", 100), ("image_gen", 100), ("terminal", 100), ("file", 100), ("moa", 100), ("browser", 100)] },
    ToolsetDistribution { name: "image_gen", description: "Mostly making and looking at pictures",
        toolsets: &[("image_gen", 90), ("vision", 90), ("web", 55), ("terminal", 45), ("moa", 10)] },
    ToolsetDistribution { name: "research", description: "Reading the web, with a browser and some reasoning",
        toolsets: &[("web", 90), ("browser", 70), ("vision", 50), ("moa", 40), ("terminal", 10)] },
    ToolsetDistribution { name: "science", description: "Computing with files and a terminal, beside reading the web",
        toolsets: &[("web", 94), ("terminal", 94), ("file", 94), ("vision", 65), ("browser", 50), ("image_gen", 15), ("moa", 10)] },
    ToolsetDistribution { name: "development", description: "Programming: terminal and files, often with reasoning",
        toolsets: &[("terminal", 80), ("file", 80), ("moa", 60), ("web", 30), ("vision", 10)] },
    ToolsetDistribution { name: "safe", description: "Everything but commands and files",
        toolsets: &[("web", 80), ("browser", 70), ("vision", 60), ("image_gen", 60), ("moa", 50)] },
    ToolsetDistribution { name: "balanced", description: "Every toolset half of the time",
        toolsets: &[("web", 50), ("vision", 50), ("image_gen", 50), ("terminal", 50), ("file", 50), ("moa", 50), ("browser", 50)] },
    ToolsetDistribution { name: "minimal", description: "Only the web", toolsets: &[("web", 100)] },
    ToolsetDistribution { name: "terminal_only", description: "Only commands and files",
        toolsets: &[("terminal", 100), ("file", 100)] },
    ToolsetDistribution { name: "terminal_web", description: "Commands, files and the web",
        toolsets: &[("terminal", 100), ("file", 100), ("web", 100)] },
    ToolsetDistribution { name: "creative", description: "Pictures, with some reading",
        toolsets: &[("image_gen", 90), ("vision", 90), ("web", 30)] },
    ToolsetDistribution { name: "reasoning", description: "Mostly several models that reason together",
        toolsets: &[("moa", 90), ("web", 30), ("terminal", 20)] },
    ToolsetDistribution { name: "browser_use", description: "A browser, with reading and looking",
        toolsets: &[("browser", 100), ("web", 80), ("vision", 70)] },
    ToolsetDistribution { name: "browser_only", description: "Only a browser", toolsets: &[("browser", 100)] },
    ToolsetDistribution { name: "browser_tasks", description: "Tasks in a browser",
        toolsets: &[("browser", 97), ("vision", 12), ("terminal", 15)] },
    ToolsetDistribution { name: "terminal_tasks", description: "Tasks in a terminal, with the web at hand",
        toolsets: &[("terminal", 97), ("file", 97), ("web", 97), ("browser", 75), ("vision", 50), ("image_gen", 10)] },
    ToolsetDistribution { name: "mixed_tasks", description: "Tasks in a browser and a terminal",
        toolsets: &[("browser", 92), ("terminal", 92), ("file", 92), ("web", 35), ("vision", 15), ("image_gen", 15)] },
];

/// Finds a distribution by its name.
pub fn find_distribution(name: &str) -> Option<&'static ToolsetDistribution> {
    DISTRIBUTIONS.iter().find(|distribution| distribution.name == name)
}

/// Describes all distributions, by name, each with its toolsets by descending probability.
pub fn describe_distributions() -> String {
    use std::fmt::Write as _;
    let mut all: Vec<&ToolsetDistribution> = DISTRIBUTIONS.iter().collect();
    all.sort_unstable_by_key(|distribution| distribution.name);
    let mut text = String::new();
    for distribution in all {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{}\n  {}", distribution.name, distribution.description);
        let mut toolsets = distribution.toolsets.to_vec();
        toolsets.sort_by_key(|(_, percent)| std::cmp::Reverse(*percent));
        for (toolset, percent) in toolsets {
            let _ = writeln!(text, "  {toolset:<10} {percent:>3} %");
        }
        text.push('\n');
    }
    text
}

/// Draws toolsets. The same seed gives each prompt the same toolsets, in whatever order prompts are run.
#[derive(Debug, Clone)]
pub struct DistributionSampler {
    distribution: &'static ToolsetDistribution,
    /// The toolsets of the distribution that exist.
    known: Vec<(&'static str, u8)>,
    seed: String,
}

impl DistributionSampler {
    /// Creates a sampler. Toolsets that `exists` refuses are never drawn.
    pub fn new(
        distribution: &'static ToolsetDistribution,
        seed: Option<u64>,
        exists: impl Fn(&str) -> bool,
    ) -> Self {
        let seed = seed.map_or_else(|| random_hex(16), |seed| seed.to_string());
        let known = distribution.toolsets.iter().copied().filter(|(name, _)| {
            let exists = exists(name);
            if !exists {
                tracing::warn!(toolset = name, "a toolset of the distribution does not exist");
            }
            exists
        });
        Self { distribution, known: known.collect(), seed }
    }

    pub fn distribution(&self) -> &'static ToolsetDistribution {
        self.distribution
    }

    /// Draws the toolsets of a prompt, in the order of the distribution.
    pub fn sample(&self, prompt: usize) -> Vec<&'static str> {
        let drawn = self.known.iter().enumerate();
        let drawn = drawn.filter(|(at, (_, percent))| self.draw(prompt, *at) * 100.0 < f64::from(*percent));
        let names: Vec<&'static str> = drawn.map(|(_, (name, _))| *name).collect();
        if !names.is_empty() {
            return names;
        }
        let most = self.known.iter().map(|(_, percent)| *percent).max();
        let likely = self.known.iter().find(|(_, percent)| Some(*percent) == most);
        likely.map(|(name, _)| *name).into_iter().collect()
    }

    /// Returns a number from 0 up to but not including 1.
    fn draw(&self, prompt: usize, at: usize) -> f64 {
        let hash = Sha256::digest(format!("{}:{prompt}:{at}", self.seed));
        let bits = hash.iter().take(4).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}
