//! The tensors of a safetensors file: a JSON header with names, types, shapes and places, then the numbers.

use std::collections::BTreeMap;
use std::io::{self, Read};

use ndarray::{Array1, Array2, Array3, ArrayD, IxDyn};
use serde::Deserialize;
use serde_json::Value;

use crate::WhisperError;

/// Headers of real models have some hundred kilobytes.
const LONGEST_HEADER: u64 = 16 * 1024 * 1024;
/// The numbers that are converted at a time.
const PIECE: usize = 64 * 1024;

/// The tensors of a file, as numbers of 32 bits.
#[derive(Debug)]
pub(crate) struct Weights {
    tensors: BTreeMap<String, ArrayD<f32>>,
}

/// A tensor as the header describes it.
#[derive(Debug, Deserialize)]
struct TensorPlace {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Weights {
    /// Reads all tensors in the order in which they are stored, so that the file is never in memory as a whole.
    pub(crate) fn read(mut file: impl Read) -> Result<Self, WhisperError> {
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(broken)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER {
            return Err(refuse(format!("its header would have {length} bytes")));
        }
        let mut header = Vec::new();
        (&mut file).take(length).read_to_end(&mut header).map_err(broken)?;
        let header: BTreeMap<String, Value> =
            serde_json::from_slice(&header).map_err(|error| refuse(format!("its header: {error}")))?;
        let mut places = Vec::with_capacity(header.len());
        for (name, place) in header {
            if name != "__metadata__" {
                let place: TensorPlace =
                    serde_json::from_value(place).map_err(|error| refuse(format!("{name}: {error}")))?;
                places.push((name, place));
            }
        }
        places.sort_by_key(|(_, place)| place.data_offsets);
        let mut tensors = BTreeMap::new();
        let mut at = 0;
        for (name, place) in places {
            if place.data_offsets.0 != at {
                return Err(refuse(format!("{name} does not begin where the tensor before it ends")));
            }
            at = place.data_offsets.1;
            let tensor = place.read(&mut file).map_err(|reason| refuse(format!("{name}: {reason}")))?;
            tensors.insert(name, tensor);
        }
        Ok(Self { tensors })
    }

    pub(crate) fn vector(&mut self, name: &str, length: usize) -> Result<Array1<f32>, WhisperError> {
        self.take(name, &[length])?.into_dimensionality().map_err(|error| refuse(format!("{name}: {error}")))
    }

    pub(crate) fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Array2<f32>, WhisperError> {
        self.take(name, &shape)?.into_dimensionality().map_err(|error| refuse(format!("{name}: {error}")))
    }

    pub(crate) fn cube(&mut self, name: &str, shape: [usize; 3]) -> Result<Array3<f32>, WhisperError> {
        self.take(name, &shape)?.into_dimensionality().map_err(|error| refuse(format!("{name}: {error}")))
    }

    fn take(&mut self, name: &str, shape: &[usize]) -> Result<ArrayD<f32>, WhisperError> {
        let tensor = self.tensors.remove(name).ok_or_else(|| refuse(format!("it has no tensor {name}")))?;
        if tensor.shape() != shape {
            let found = tensor.shape();
            return Err(refuse(format!("{name} has the shape {found:?}, config.json says {shape:?}")));
        }
        Ok(tensor)
    }
}

impl TensorPlace {
    fn read(&self, file: &mut impl Read) -> Result<ArrayD<f32>, String> {
        let convert: fn(&[u8]) -> f32 = match self.dtype.as_str() {
            "F32" => |bytes| bytes.try_into().map_or(0.0, f32::from_le_bytes),
            "F16" => |bytes| bytes.try_into().map_or(0.0, |bytes| from_half(u16::from_le_bytes(bytes))),
            "BF16" => |bytes| {
                bytes.try_into().map_or(0.0, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
            },
            other => return Err(format!("its numbers are {other}; F32, F16 and BF16 are read")),
        };
        let size = if self.dtype == "F32" { 4 } else { 2 };
        let count = self.shape.iter().try_fold(1_usize, |count, length| count.checked_mul(*length));
        let count = count.ok_or("its shape is too large")?;
        let bytes = self.data_offsets.1.saturating_sub(self.data_offsets.0);
        if count.checked_mul(size).and_then(|length| u64::try_from(length).ok()) != Some(bytes) {
            return Err(format!("its shape {:?} does not fit its {bytes} bytes", self.shape));
        }
        // What the header promises may not be there: only what was read takes memory.
        let mut numbers = Vec::new();
        let mut piece = vec![0; PIECE.min(count) * size];
        while numbers.len() < count {
            let wanted = (count - numbers.len()).min(PIECE) * size;
            let piece = piece.get_mut(..wanted).unwrap_or_default();
            file.read_exact(piece).map_err(|error| reason(&error))?;
            numbers.extend(piece.chunks_exact(size).map(convert));
        }
        ArrayD::from_shape_vec(IxDyn(&self.shape), numbers).map_err(|error| error.to_string())
    }
}

/// Returns the value of a number of 16 bits.
fn from_half(half: u16) -> f32 {
    let sign = if half & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f32::from(half & 0x3ff));
    sign * match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2.0_f32.powi(exponent - 15),
    }
}

fn refuse(reason: String) -> WhisperError {
    WhisperError::Weights(reason)
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn broken(error: io::Error) -> WhisperError {
    refuse(reason(&error))
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends too early".to_owned(),
        _ => error.to_string(),
    }
}
