//! Draws samples as older releases did, so that the same seed draws the same lines.
//!
//! The generator is the Mersenne Twister, seeded by an array, as the standard library of Python has it.

use std::collections::HashSet;

const SIZE: usize = 624;
const SHIFT: usize = 397;

/// Generates numbers from a seed.
#[derive(Debug, Clone)]
pub struct SampleGenerator {
    state: Vec<u32>,
    next: usize,
}

/// How much of a file is drawn, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleShare(f64);

impl SampleShare {
    /// Returns `None` for what is no share: not above 0, or above 100.
    pub fn new(percent: f64) -> Option<Self> {
        (percent > 0.0 && percent <= 100.0).then_some(Self(percent))
    }

    /// Returns how many of these are drawn: at least one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number of lines"
    )]
    pub fn of(self, count: usize) -> usize {
        ((count as f64 * self.0 / 100.0) as usize).max(1).min(count)
    }
}

impl SampleGenerator {
    pub fn new(seed: u32) -> Self {
        let mut state = vec![0_u32; SIZE];
        let mut last = 19_650_218_u32;
        for (at, slot) in state.iter_mut().enumerate() {
            if at > 0 {
                let index = u32::try_from(at).unwrap_or_default();
                last = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(index);
            }
            *slot = last;
        }
        let mut generator = Self { state, next: SIZE };
        generator.mix(seed);
        generator
    }

    fn get(&self, at: usize) -> u32 {
        self.state.get(at % SIZE).copied().unwrap_or_default()
    }

    fn set(&mut self, at: usize, value: u32) {
        if let Some(slot) = self.state.get_mut(at) {
            *slot = value;
        }
    }

    /// Mixes the seed, an array of one number, into the state.
    fn mix(&mut self, seed: u32) {
        let mut at = 1;
        let step = |generator: &mut Self, at: &mut usize| {
            *at += 1;
            if *at >= SIZE {
                generator.set(0, generator.get(SIZE - 1));
                *at = 1;
            }
        };
        for _ in 0..SIZE {
            let before = self.get(at - 1);
            let mixed = self.get(at) ^ (before ^ (before >> 30)).wrapping_mul(1_664_525);
            self.set(at, mixed.wrapping_add(seed));
            step(self, &mut at);
        }
        for _ in 1..SIZE {
            let before = self.get(at - 1);
            let mixed = self.get(at) ^ (before ^ (before >> 30)).wrapping_mul(1_566_083_941);
            self.set(at, mixed.wrapping_sub(u32::try_from(at).unwrap_or_default()));
            step(self, &mut at);
        }
        self.set(0, 0x8000_0000);
    }

    fn next_u32(&mut self) -> u32 {
        if self.next >= SIZE {
            for at in 0..SIZE {
                let joined = (self.get(at) & 0x8000_0000) | (self.get(at + 1) & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.set(at, self.get(at + SHIFT) ^ (joined >> 1) ^ odd);
            }
            self.next = 0;
        }
        let mut value = self.get(self.next);
        self.next += 1;
        value ^= value >> 11;
        value ^= (value << 7) & 0x9d2c_5680;
        value ^= (value << 15) & 0xefc6_0000;
        value ^ (value >> 18)
    }

    /// Returns a number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        let (high, low) = (self.next_u32() >> 5, self.next_u32() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    /// Returns a number below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX).max(1);
        let bits = 32 - limit.leading_zeros();
        loop {
            let drawn = self.next_u32() >> (32 - bits);
            if drawn < limit {
                return drawn as usize;
            }
        }
    }

    /// Draws so many different numbers below `population`, in the order in which they are drawn.
    pub fn sample(&mut self, population: usize, count: usize) -> Vec<usize> {
        let count = count.min(population);
        let mut pool_limit = 21_usize;
        if count > 5 {
            let mut power = 1;
            while power < count * 3 {
                power *= 4;
            }
            pool_limit += power;
        }
        if population <= pool_limit {
            let mut pool: Vec<usize> = (0..population).collect();
            return (0..count)
                .filter_map(|drawn| {
                    let at = self.below(population - drawn);
                    let last = pool.get(population - drawn - 1).copied()?;
                    pool.get_mut(at).map(|slot| std::mem::replace(slot, last))
                })
                .collect();
        }
        let mut seen = HashSet::new();
        let mut result = Vec::with_capacity(count);
        while result.len() < count {
            let drawn = self.below(population);
            if seen.insert(drawn) {
                result.push(drawn);
            }
        }
        result
    }
}
