//! Work on the rows or columns of a matrix, shared among the processors.

use std::num::NonZero;
use std::thread;

use ndarray::{ArrayViewMut2, Axis};

/// More threads than this wait for memory.
const MOST_THREADS: usize = 8;

/// Calls `work` with parts of a matrix along an axis and the index at which each begins. Every part has a multiple of `unit` rows or
/// columns, except perhaps the last.
pub(crate) fn in_parts(
    matrix: &mut ArrayViewMut2<'_, f32>,
    axis: Axis,
    unit: usize,
    work: impl Fn(usize, ArrayViewMut2<'_, f32>) + Sync,
) {
    let length = matrix.len_of(axis);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let units = length.div_ceil(unit.max(1));
    let part = units.div_ceil(threads).max(1) * unit.max(1);
    if part >= length {
        return work(0, matrix.view_mut());
    }
    thread::scope(|scope| {
        for (number, view) in matrix.axis_chunks_iter_mut(axis, part).enumerate() {
            let work = &work;
            scope.spawn(move || work(number * part, view));
        }
    });
}
