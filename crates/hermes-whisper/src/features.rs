//! What a model hears: how loud a recording is, by time and by height, as logarithms.
//!
//! Frames of 25 ms every 10 ms, weighted by a Hann window. Their spectrum is a product with the matrix of the discrete Fourier
//! transform, whose length is no power of two. The bands are those of Slaney's scale, which the models were trained with.

#![expect(clippy::cast_precision_loss, reason = "indexes of samples, frames and bands are small")]

use std::f64::consts::TAU;

use ndarray::{Array1, Array2, Axis, Zip, s};

use crate::SAMPLE_RATE;

/// The samples between two frames.
pub(crate) const HOP: usize = 160;
/// The samples of a frame.
const FRAME: usize = 400;
const SPECTRUM: usize = FRAME / 2 + 1;
/// The quietest value that is told apart from silence, and what the loudest may exceed the quietest by, as logarithms.
const QUIETEST: f32 = 1e-10;
const RANGE: f32 = 8.0;
/// Below this height nobody speaks; models make up words for it.
const SILENCE: f32 = 1e-3;
/// A long recording is cut at the quietest place in the last part of a window.
const CUT_SEARCH: usize = 6;

/// Turns samples into features.
#[derive(Debug)]
pub(crate) struct MelFeatures {
    /// The window and the transform in one: the real parts, then the imaginary parts.
    transform: Array2<f32>,
    /// Spectrum by band.
    bands: Array2<f32>,
}

impl MelFeatures {
    pub(crate) fn new(bands: usize) -> Self {
        let transform = Array2::from_shape_fn((FRAME, SPECTRUM * 2), |(sample, column)| {
            let phase = TAU * sample as f64 / FRAME as f64;
            let window = 0.5 - 0.5 * phase.cos();
            // The whole turns are left out before the sine: the phase stays exact.
            let turn = TAU * ((sample * (column % SPECTRUM)) % FRAME) as f64 / FRAME as f64;
            narrow(window * if column < SPECTRUM { turn.cos() } else { turn.sin() })
        });
        Self { transform, bands: mel_bands(bands) }
    }

    /// Returns the features of samples that are continued by silence to a length: a row per frame, a column per band.
    pub(crate) fn of_window(&self, samples: &[f32], length: usize) -> Array2<f32> {
        // The frames are centred; before the beginning and behind the end, the recording is mirrored.
        let edge = FRAME / 2;
        let sample_at = |at: usize| {
            let place = at.abs_diff(edge);
            let place = if place >= length { (2 * length).saturating_sub(place + 2) } else { place };
            samples.get(place).copied().unwrap_or(0.0)
        };
        let padded = Array1::from_shape_fn(length + 2 * edge, sample_at);
        let count = length / HOP;
        let mut frames = Array2::zeros((count, FRAME));
        for (number, mut frame) in frames.axis_iter_mut(Axis(0)).enumerate() {
            frame.assign(&padded.slice(s![number * HOP..number * HOP + FRAME]));
        }
        let spectrum = frames.dot(&self.transform);
        let (real, imaginary) = spectrum.view().split_at(Axis(1), SPECTRUM);
        let power =
            Zip::from(real).and(imaginary).map_collect(|real, imaginary| real * real + imaginary * imaginary);
        let mut mel = power.dot(&self.bands);
        mel.mapv_inplace(|value| value.max(QUIETEST).log10());
        let loudest = mel.fold(f32::MIN, |loudest, value| loudest.max(*value));
        mel.mapv_inplace(|value| (value.max(loudest - RANGE) + 4.0) / 4.0);
        mel
    }
}

/// Returns the bands: triangles with the same area, evenly distributed on a scale that is linear below 1 kHz and logarithmic above.
fn mel_bands(bands: usize) -> Array2<f32> {
    const LINEAR_STEP: f64 = 200.0 / 3.0;
    const KNEE: f64 = 1000.0;
    let log_step = 6.4_f64.ln() / 27.0;
    let knee_mel = KNEE / LINEAR_STEP;
    let nyquist = f64::from(SAMPLE_RATE) / 2.0;
    let highest = knee_mel + (nyquist / KNEE).ln() / log_step;
    let hertz = |mel: f64| {
        if mel < knee_mel { mel * LINEAR_STEP } else { KNEE * ((mel - knee_mel) * log_step).exp() }
    };
    let edges: Vec<f64> =
        (0..bands + 2).map(|edge| hertz(highest * edge as f64 / (bands + 1) as f64)).collect();
    Array2::from_shape_fn((SPECTRUM, bands), |(line, band)| {
        let frequency = nyquist * line as f64 / (SPECTRUM - 1) as f64;
        let (low, middle, high) = (edges[band], edges[band + 1], edges[band + 2]);
        let rising = (frequency - low) / (middle - low);
        let falling = (high - frequency) / (high - middle);
        narrow(rising.min(falling).max(0.0) * 2.0 / (high - low))
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the numbers of a model have 32 bits")]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// Tells whether nothing can be heard.
pub(crate) fn is_silent(samples: &[f32]) -> bool {
    samples.iter().all(|sample| sample.abs() < SILENCE)
}

/// Returns where the next window of a recording ends: at the end of the recording, or where it is quiet, so that no word is cut.
pub(crate) fn window_end(samples: &[f32], length: usize) -> usize {
    let Some(window) = samples.get(..length).filter(|_| samples.len() > length) else { return samples.len() };
    let step = HOP * 10;
    let begin = length - length / CUT_SEARCH;
    let loudness = |piece: &[f32]| piece.iter().map(|sample| sample * sample).sum::<f32>();
    let pieces = window.get(begin..).unwrap_or_default().chunks_exact(step).enumerate();
    let quietest = pieces.min_by(|(_, one), (_, other)| loudness(one).total_cmp(&loudness(other)));
    quietest.map_or(length, |(number, _)| begin + number * step + step / 2)
}
