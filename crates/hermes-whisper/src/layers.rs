//! The layers that the network consists of. Rows are positions, columns are what is known about one.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, Zip, s};

use crate::WhisperError;
use crate::parallel::in_parts;
use crate::weights::Weights;

const EPSILON: f32 = 1e-5;

/// A matrix and what is added to its products.
#[derive(Debug)]
pub(crate) struct LinearLayer {
    /// Outputs by inputs.
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

impl LinearLayer {
    pub(crate) fn read(
        weights: &mut Weights,
        name: &str,
        [outputs, inputs]: [usize; 2],
    ) -> Result<Self, WhisperError> {
        let mut layer = Self::read_without_bias(weights, name, [outputs, inputs])?;
        layer.bias = Some(weights.vector(&format!("{name}.bias"), outputs)?);
        Ok(layer)
    }

    pub(crate) fn read_without_bias(
        weights: &mut Weights,
        name: &str,
        shape: [usize; 2],
    ) -> Result<Self, WhisperError> {
        Ok(Self { weight: weights.matrix(&format!("{name}.weight"), shape)?, bias: None })
    }

    /// Reads a convolution over three positions as a matrix over their values.
    pub(crate) fn read_convolution(
        weights: &mut Weights,
        name: &str,
        [outputs, inputs]: [usize; 2],
    ) -> Result<Self, WhisperError> {
        let kernel = weights.cube(&format!("{name}.weight"), [outputs, inputs, 3])?;
        let kernel = kernel.permuted_axes([0, 2, 1]);
        let weight = kernel.to_shape((outputs, 3 * inputs)).map(|kernel| kernel.to_owned());
        let weight = weight.map_err(|error| WhisperError::Weights(format!("{name}: {error}")))?;
        Ok(Self { weight, bias: Some(weights.vector(&format!("{name}.bias"), outputs)?) })
    }

    /// Returns the products of all rows; each value is passed through `then`.
    pub(crate) fn apply(&self, rows: &Array2<f32>, then: fn(f32) -> f32) -> Array2<f32> {
        let mut products = Array2::zeros((rows.nrows(), self.weight.nrows()));
        in_parts(&mut products.view_mut(), Axis(0), 1, |first, mut part| {
            let inputs = rows.slice(s![first..first + part.nrows(), ..]);
            ndarray::linalg::general_mat_mul(1.0, &inputs, &self.weight.t(), 0.0, &mut part);
            for row in part.rows_mut() {
                self.finish(row, then);
            }
        });
        products
    }

    /// Returns the product of one row. Many rows are faster at once, one is faster so.
    pub(crate) fn apply_to_row(&self, row: &Array1<f32>, then: fn(f32) -> f32) -> Array1<f32> {
        let mut product = self.weight.dot(row);
        self.finish(product.view_mut(), then);
        product
    }

    fn finish(&self, mut row: ArrayViewMut1<'_, f32>, then: fn(f32) -> f32) {
        match &self.bias {
            Some(bias) => Zip::from(&mut row).and(bias).for_each(|value, bias| *value = then(*value + bias)),
            None => row.mapv_inplace(then),
        }
    }
}

/// Returns a value as it is.
pub(crate) fn unchanged(value: f32) -> f32 {
    value
}

/// Returns the values of three positions side by side for every position, or for every second one; before the first and after
/// the last there is nothing.
pub(crate) fn neighbours(rows: &Array2<f32>, step: usize) -> Array2<f32> {
    let (count, width) = rows.dim();
    let mut found = Array2::zeros((count.div_ceil(step), 3 * width));
    for (number, mut row) in found.axis_iter_mut(Axis(0)).enumerate() {
        for place in 0..3 {
            let at = number * step + place;
            if (1..=count).contains(&at) {
                row.slice_mut(s![place * width..(place + 1) * width]).assign(&rows.row(at - 1));
            }
        }
    }
    found
}

/// Brings the values of a row to the same mean and spread.
#[derive(Debug)]
pub(crate) struct NormLayer {
    scale: Array1<f32>,
    shift: Array1<f32>,
}

impl NormLayer {
    pub(crate) fn read(weights: &mut Weights, name: &str, width: usize) -> Result<Self, WhisperError> {
        Ok(Self {
            scale: weights.vector(&format!("{name}.weight"), width)?,
            shift: weights.vector(&format!("{name}.bias"), width)?,
        })
    }

    pub(crate) fn apply(&self, rows: &Array2<f32>) -> Array2<f32> {
        let mut normal = rows.clone();
        for row in normal.rows_mut() {
            self.normalize(row);
        }
        normal
    }

    pub(crate) fn apply_to_row(&self, row: &Array1<f32>) -> Array1<f32> {
        let mut normal = row.clone();
        self.normalize(normal.view_mut());
        normal
    }

    fn normalize(&self, mut row: ArrayViewMut1<'_, f32>) {
        #[expect(clippy::cast_precision_loss, reason = "a row has some thousand values")]
        let count = row.len() as f32;
        let mean = row.sum() / count;
        let spread = row.fold(0.0, |sum, value| sum + (value - mean).powi(2)) / count;
        let factor = 1.0 / (spread + EPSILON).sqrt();
        Zip::from(&mut row)
            .and(&self.scale)
            .and(&self.shift)
            .for_each(|value, scale, shift| *value = (*value - mean) * factor * scale + shift);
    }
}

/// What positions can be asked for, and what they answer.
#[derive(Debug)]
pub(crate) struct AttentionMemory {
    /// Positions by width.
    keys: Array2<f32>,
    /// Width by positions, because the sums go over the positions.
    values: Array2<f32>,
    /// The positions that are filled.
    length: usize,
}

impl AttentionMemory {
    pub(crate) fn empty(positions: usize, width: usize) -> Self {
        Self { keys: Array2::zeros((positions, width)), values: Array2::zeros((width, positions)), length: 0 }
    }
}

/// Attention: every position gathers from others what fits its question.
#[derive(Debug)]
pub(crate) struct AttentionLayer {
    query: LinearLayer,
    key: LinearLayer,
    value: LinearLayer,
    output: LinearLayer,
    heads: usize,
}

impl AttentionLayer {
    pub(crate) fn read(
        weights: &mut Weights,
        name: &str,
        width: usize,
        heads: usize,
    ) -> Result<Self, WhisperError> {
        let square = [width, width];
        Ok(Self {
            query: LinearLayer::read(weights, &format!("{name}.q_proj"), square)?,
            key: LinearLayer::read_without_bias(weights, &format!("{name}.k_proj"), square)?,
            value: LinearLayer::read(weights, &format!("{name}.v_proj"), square)?,
            output: LinearLayer::read(weights, &format!("{name}.out_proj"), square)?,
            heads,
        })
    }

    /// Returns what all rows gather from each other.
    pub(crate) fn among(&self, rows: &Array2<f32>) -> Array2<f32> {
        let queries = self.query.apply(rows, unchanged);
        let memory = self.memory_of(rows);
        let width = queries.ncols() / self.heads;
        let mut gathered = Array2::zeros(queries.dim());
        in_parts(&mut gathered.view_mut(), Axis(1), width, |first, mut part| {
            for (number, mut head) in part.axis_chunks_iter_mut(Axis(1), width).enumerate() {
                let columns = s![.., first + number * width..first + (number + 1) * width];
                let mut shares = queries.slice(columns).dot(&memory.keys.slice(columns).t());
                for row in shares.rows_mut() {
                    to_shares(row, scale_of(width));
                }
                let values =
                    memory.values.slice(s![first + number * width..first + (number + 1) * width, ..]);
                ndarray::linalg::general_mat_mul(1.0, &shares, &values.t(), 0.0, &mut head);
            }
        });
        self.output.apply(&gathered, unchanged)
    }

    /// Returns what rows answer when they are asked.
    pub(crate) fn memory_of(&self, rows: &Array2<f32>) -> AttentionMemory {
        let values = self.value.apply(rows, unchanged);
        AttentionMemory {
            keys: self.key.apply(rows, unchanged),
            values: values.t().as_standard_layout().into_owned(),
            length: rows.nrows(),
        }
    }

    /// Adds a row to a memory, if it has a place left.
    pub(crate) fn remember(&self, row: &Array1<f32>, memory: &mut AttentionMemory) {
        if memory.length < memory.keys.nrows() {
            memory.keys.row_mut(memory.length).assign(&self.key.apply_to_row(row, unchanged));
            memory.values.column_mut(memory.length).assign(&self.value.apply_to_row(row, unchanged));
            memory.length += 1;
        }
    }

    /// Returns what one row gathers from a memory.
    pub(crate) fn gather(&self, row: &Array1<f32>, memory: &AttentionMemory) -> Array1<f32> {
        let query = self.query.apply_to_row(row, unchanged);
        let width = query.len() / self.heads;
        let mut gathered = Array1::zeros(query.len());
        for (number, mut head) in gathered.axis_chunks_iter_mut(Axis(0), width).enumerate() {
            let place = number * width..(number + 1) * width;
            let keys: ArrayView2<'_, f32> = memory.keys.slice(s![..memory.length, place.clone()]);
            let question: ArrayView1<'_, f32> = query.slice(s![place.clone()]);
            let mut shares = keys.dot(&question);
            to_shares(shares.view_mut(), scale_of(width));
            head.assign(&memory.values.slice(s![place, ..memory.length]).dot(&shares));
        }
        self.output.apply_to_row(&gathered, unchanged)
    }
}

fn scale_of(width: usize) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "a head has some dozen values")]
    let width = width as f32;
    1.0 / width.sqrt()
}

/// Turns how well positions fit into shares whose sum is one.
fn to_shares(mut row: ArrayViewMut1<'_, f32>, scale: f32) {
    let best = row.fold(f32::MIN, |best, value| best.max(*value));
    row.mapv_inplace(|value| ((value - best) * scale).exp());
    let sum = row.sum();
    row.mapv_inplace(|value| value / sum);
}

/// Two linear layers with a bend between them.
#[derive(Debug)]
pub(crate) struct FeedForward {
    inner: LinearLayer,
    outer: LinearLayer,
}

impl FeedForward {
    pub(crate) fn read(
        weights: &mut Weights,
        name: &str,
        width: usize,
        inner: usize,
    ) -> Result<Self, WhisperError> {
        Ok(Self {
            inner: LinearLayer::read(weights, &format!("{name}.fc1"), [inner, width])?,
            outer: LinearLayer::read(weights, &format!("{name}.fc2"), [width, inner])?,
        })
    }

    pub(crate) fn apply(&self, rows: &Array2<f32>) -> Array2<f32> {
        self.outer.apply(&self.inner.apply(rows, gelu), unchanged)
    }

    pub(crate) fn apply_to_row(&self, row: &Array1<f32>) -> Array1<f32> {
        self.outer.apply_to_row(&self.inner.apply_to_row(row, gelu), unchanged)
    }
}

/// Returns a value weighted by how likely a normal variable is below it.
pub(crate) fn gelu(value: f32) -> f32 {
    // The error function by formula 7.1.26 of Abramowitz and Stegun, exact to 1.5e-7.
    let place = value.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let step = 1.0 / (1.0 + 0.327_591_1 * place);
    let sum = ((((1.061_405_4 * step - 1.453_152) * step + 1.421_413_7) * step - 0.284_496_74) * step
        + 0.254_829_6)
        * step;
    let error = (1.0 - sum * (-place * place).exp()).copysign(value);
    0.5 * value * (1.0 + error)
}
