//! Distributions of toolsets.

use hermes_research::{DISTRIBUTIONS, DistributionSampler, describe_distributions, find_distribution};

#[test]
fn toolsets_are_drawn_by_their_probabilities() {
    for distribution in DISTRIBUTIONS {
        let sampler = DistributionSampler::new(distribution, Some(7), |_| true);
        let draws: Vec<Vec<&str>> = (0..4000).map(|prompt| sampler.sample(prompt)).collect();
        assert!(draws.iter().all(|drawn| !drawn.is_empty()), "{}", distribution.name);
        // The rare conversations that got nothing get the most probable one.
        let none: f64 = distribution.toolsets.iter().map(|(_, p)| 1.0 - f64::from(*p) / 100.0).product();
        for (toolset, percent) in distribution.toolsets {
            let count = draws.iter().filter(|drawn| drawn.contains(toolset)).count();
            let share = f64::from(u32::try_from(count).unwrap()) / 4000.0;
            let expected = f64::from(*percent) / 100.0;
            let within = expected - 0.04..=expected + 0.04 + none;
            assert!(within.contains(&share), "{} {toolset}: {share}", distribution.name);
        }
    }
}

#[test]
fn the_same_seed_draws_the_same_in_any_order() {
    let balanced = find_distribution("balanced").unwrap();
    let (one, other) = (
        DistributionSampler::new(balanced, Some(3), |_| true),
        DistributionSampler::new(balanced, Some(3), |_| true),
    );
    let forwards: Vec<_> = (0..50).map(|prompt| one.sample(prompt)).collect();
    let mut backwards: Vec<_> = (0..50).rev().map(|prompt| other.sample(prompt)).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    let unseeded = DistributionSampler::new(balanced, None, |_| true);
    assert_ne!(forwards, (0..50).map(|prompt| unseeded.sample(prompt)).collect::<Vec<_>>());
}

#[test]
fn toolsets_that_do_not_exist_are_never_drawn() {
    let reasoning = find_distribution("reasoning").unwrap();
    let sampler = DistributionSampler::new(reasoning, Some(1), |name| name != "moa");
    let draws: Vec<_> = (0..500).map(|prompt| sampler.sample(prompt)).collect();
    assert!(draws.iter().all(|drawn| !drawn.is_empty() && !drawn.contains(&"moa")));
    assert!(draws.contains(&vec!["terminal"]) && draws.contains(&vec!["web", "terminal"]));
    assert_eq!(DistributionSampler::new(reasoning, None, |_| false).sample(0), Vec::<&str>::new());
    assert!(find_distribution("none").is_none());
}

#[test]
fn the_list_is_by_name_and_by_probability() {
    let text = describe_distributions();
    let names: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).collect();
    assert!(names.is_sorted() && names.len() == DISTRIBUTIONS.len(), "{names:?}");
    let science = text.split("\nscience\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let last: Vec<&str> = science.lines().rev().take(2).map(str::trim).collect();
    assert_eq!(last, ["moa         10 %", "image_gen   15 %"]);
}
