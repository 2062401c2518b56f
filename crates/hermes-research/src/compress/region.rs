//! Decides which turns of a trajectory are replaced. Pure.

use super::config::TrajectoryLimits;

/// What happens to a trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionChoice {
    /// It is short enough.
    Keep,
    /// It is too long, and nothing can be replaced.
    TooLong,
    /// The turns from `start` up to but not including `end` are replaced.
    Replace { start: usize, end: usize },
}

/// Chooses the turns. `turns` are who speaks, and how many tokens each takes.
pub fn choose_region(turns: &[(&str, u64)], settings: &TrajectoryLimits) -> RegionChoice {
    let total: u64 = turns.iter().map(|(_, tokens)| tokens).sum();
    if total <= settings.target_tokens {
        return RegionChoice::Keep;
    }
    let protected = protected_turns(turns, settings);
    let half = turns.len() / 2;
    let mut start = protected.iter().filter(|at| **at < half).max().map_or(0, |at| at + 1);
    let end = protected.iter().copied().filter(|at| *at >= half).min().unwrap_or(turns.len());
    if start >= end {
        return RegionChoice::TooLong;
    }
    let needed = (total - settings.target_tokens).saturating_add(settings.summary_tokens);
    let mut until = start;
    let mut gained = 0;
    while until < end && gained < needed {
        gained += turns.get(until).map_or(0, |(_, tokens)| *tokens);
        until += 1;
    }
    // A result of a tool must not be parted from its call.
    let is_clean = |at: usize| turns.get(at).is_none_or(|(from, _)| *from != "tool");
    start = (start..end).find(|at| is_clean(*at)).unwrap_or(start);
    let forwards = (until..=end).find(|at| is_clean(*at));
    let backwards = || (start..until).rev().find(|at| is_clean(*at));
    until = forwards.or_else(backwards).unwrap_or(until);
    if until <= start { RegionChoice::TooLong } else { RegionChoice::Replace { start, end: until } }
}

fn protected_turns(turns: &[(&str, u64)], settings: &TrajectoryLimits) -> Vec<usize> {
    let wanted = &settings.protected;
    let first = wanted.first.iter().filter_map(|role| turns.iter().position(|(from, _)| from == role));
    let last = turns.len().saturating_sub(wanted.last_turns)..turns.len();
    first.chain(last).collect()
}
