//! Tensors of the program around a kernel: any element type that StableHLO has, stored as in memory.

use std::{fmt, sync::Arc};

use super::{
    element::{Element, read_floats, round_to, write_floats},
    tensor::Tensor,
};
use crate::types::{Float, Type};

/// Element type of an [`Array`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    /// `i1`, one byte that is 0 or 1.
    Bool,
    /// An integer; fewer than 8 bits take a whole byte.
    Int { bits: u32, signed: bool },
    /// A float of at most 32 bits.
    Float(Float),
    /// `f64`.
    F64,
}

impl Dtype {
    /// Element type of a tensor; `None` if it is not a number that is modelled.
    pub(crate) fn of(ty: &Type) -> Option<Self> {
        match ty.element() {
            Type::Integer(1) => Some(Self::Bool),
            Type::Integer(bits @ (2 | 4 | 8 | 16 | 32 | 64)) => Some(Self::Int { bits: *bits, signed: true }),
            Type::Float(float) => Some(Self::Float(*float)),
            Type::Other(name) if name == "f64" => Some(Self::F64),
            Type::Other(name) => {
                let bits = name.strip_prefix("ui")?.parse().ok()?;
                matches!(bits, 2 | 4 | 8 | 16 | 32 | 64).then_some(Self::Int { bits, signed: false })
            }
            _ => None,
        }
    }

    /// Bytes per element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Int { bits, .. } => (bits as usize).div_ceil(8),
            Self::Float(float) => float.bits() / 8,
            Self::F64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::Float(_) | Self::F64)
    }

    /// Bits of an integer, and whether it is signed; a boolean is an unsigned bit.
    pub(crate) fn integer(self) -> (u32, bool) {
        match self {
            Self::Int { bits, signed } => (bits, signed),
            Self::Bool => (1, false),
            Self::Float(_) | Self::F64 => (64, true),
        }
    }

    /// Wraps an integer to the type's range: sign- or zero-extended.
    pub(crate) fn wrap(self, value: i64) -> i64 {
        match self.integer() {
            (64, _) => value,
            (bits, true) => value << (64 - bits) >> (64 - bits),
            (bits, false) => value & ((1 << bits) - 1),
        }
    }

    /// Rounds to the type, as one operation of it does.
    pub(crate) fn round(self, value: f64) -> f64 {
        match self {
            Self::Float(float) => f64::from(round_to(float, value as f32)),
            _ => value,
        }
    }

    /// Reads integers.
    fn read_integers(self, bytes: &[u8], out: &mut Vec<i64>) {
        match self.bytes() {
            1 => out.extend(bytes.iter().map(|&b| self.wrap(b.into()))),
            2 => out.extend(bytes.as_chunks().0.iter().map(|&b| self.wrap(u16::from_le_bytes(b).into()))),
            4 => out.extend(bytes.as_chunks().0.iter().map(|&b| self.wrap(u32::from_le_bytes(b).into()))),
            _ => out.extend(bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b))),
        }
    }

    /// Reads floats.
    fn read_floats(self, bytes: &[u8], out: &mut Vec<f64>) {
        match self {
            Self::Float(float) => {
                let mut values = Vec::with_capacity(bytes.len() / self.bytes());
                read_floats(float, bytes, &mut values);
                out.extend(values.into_iter().map(f64::from));
            }
            _ => out.extend(bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b))),
        }
    }

    /// Appends integers, wrapped.
    pub(crate) fn write_integers(self, values: impl Iterator<Item = i64>, out: &mut Vec<u8>) {
        let size = self.bytes();
        for value in values {
            out.extend_from_slice(&self.wrap(value).to_le_bytes()[..size]);
        }
    }

    /// Appends floats, rounded.
    pub(crate) fn write_floats(self, values: impl Iterator<Item = f64>, out: &mut Vec<u8>) {
        match self {
            Self::Float(float) => {
                let values: Vec<f32> = values.map(|value| value as f32).collect();
                let start = out.len();
                out.resize(start + values.len() * self.bytes(), 0);
                write_floats(float, &values, &mut out[start..]);
            }
            _ => values.for_each(|value| out.extend_from_slice(&value.to_le_bytes())),
        }
    }
}

/// Prints the MLIR spelling.
impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("i1"),
            Self::Int { bits, signed } => write!(f, "{}i{bits}", if *signed { "" } else { "u" }),
            Self::Float(float) => float.fmt(f),
            Self::F64 => f.write_str("f64"),
        }
    }
}

/// Elements that are decoded at a time, so that temporary memory stays small.
const CHUNK: usize = 1 << 12;

/// A row-major tensor. One element may stand for all of them.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Arc<[usize]>,
    bytes: Arc<Vec<u8>>,
}

impl Array {
    /// An array of these bytes: all elements, or one for all.
    pub(crate) fn new(dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Self {
        Self::shared(dtype, shape, Arc::new(bytes))
    }

    fn shared(dtype: Dtype, shape: &[usize], bytes: Arc<Vec<u8>>) -> Self {
        let array = Self { dtype, shape: shape.into(), bytes };
        let len = array.bytes.len();
        assert!(len == array.elements() * dtype.bytes() || len == dtype.bytes(), "the bytes fit the shape");
        array
    }

    /// An array of integers.
    pub(crate) fn integers(dtype: Dtype, shape: &[usize], values: impl Iterator<Item = i64>) -> Self {
        let mut bytes = Vec::new();
        dtype.write_integers(values, &mut bytes);
        Self::new(dtype, shape, bytes)
    }

    /// An array of floats.
    pub(crate) fn floats(dtype: Dtype, shape: &[usize], values: impl Iterator<Item = f64>) -> Self {
        let mut bytes = Vec::new();
        dtype.write_floats(values, &mut bytes);
        Self::new(dtype, shape, bytes)
    }

    pub(crate) fn of_tensor(tensor: &Tensor, ty: &Type) -> Option<Self> {
        let dtype = Dtype::of(ty).filter(|dtype| dtype.bytes() == tensor.element.bytes())?;
        tensor.is_sound().then(|| Self::shared(dtype, &tensor.shape, tensor.bytes.clone()))
    }

    pub(crate) fn into_tensor(self, element: Element) -> Tensor {
        Tensor { element, shape: self.shape.to_vec(), bytes: self.all_bytes() }
    }

    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether one element stands for all.
    pub(crate) fn is_splat(&self) -> bool {
        self.elements() != 1 && self.bytes.len() == self.dtype.bytes()
    }

    /// The same elements in another shape.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Self {
        Self { dtype: self.dtype, shape: shape.into(), bytes: self.bytes.clone() }
    }

    /// The same bytes as another element type of the same size.
    pub(crate) fn cast(&self, dtype: Dtype, shape: &[usize]) -> Self {
        Self { dtype, shape: shape.into(), bytes: self.all_bytes() }
    }

    /// The bytes of all elements.
    pub(crate) fn all_bytes(&self) -> Arc<Vec<u8>> {
        match self.is_splat() {
            true => Arc::new(self.bytes.repeat(self.elements())),
            false => self.bytes.clone(),
        }
    }

    /// The bytes of one element.
    pub(crate) fn element_bytes(&self, index: usize) -> &[u8] {
        let (size, index) = (self.dtype.bytes(), if self.is_splat() { 0 } else { index });
        &self.bytes[index * size..][..size]
    }

    /// One element, as a scalar.
    pub(crate) fn element(&self, index: usize) -> Self {
        Self::new(self.dtype, &[], self.element_bytes(index).to_vec())
    }

    /// One integer.
    pub(crate) fn integer(&self, index: usize) -> i64 {
        let mut value = Vec::with_capacity(1);
        self.dtype.read_integers(self.element_bytes(index), &mut value);
        value.first().copied().unwrap_or_default()
    }

    /// All integers.
    pub(crate) fn all_integers(&self) -> Vec<i64> {
        let mut values = Vec::with_capacity(self.elements());
        self.dtype.read_integers(&self.all_bytes(), &mut values);
        values
    }

    /// All floats.
    pub(crate) fn all_floats(&self) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.elements());
        self.dtype.read_floats(&self.all_bytes(), &mut values);
        values
    }

    /// Integers from `start`, at most [`CHUNK`] of them.
    fn integer_chunk(&self, start: usize, out: &mut Vec<i64>) {
        out.clear();
        let bytes = self.chunk(start);
        self.dtype.read_integers(bytes, out);
    }

    fn float_chunk(&self, start: usize, out: &mut Vec<f64>) {
        out.clear();
        let bytes = self.chunk(start);
        self.dtype.read_floats(bytes, out);
    }

    fn chunk(&self, start: usize) -> &[u8] {
        if self.bytes.len() == self.dtype.bytes() {
            return &self.bytes;
        }
        let size = self.dtype.bytes();
        let end = (start + CHUNK).min(self.elements());
        &self.bytes[start * size..end * size]
    }
}

/// Numbers of a chunk: those of a splat are repeated.
fn at<T: Copy>(values: &[T], splat: bool, index: usize) -> T {
    values[if splat { 0 } else { index }]
}

/// Applies `f` to the integers of some arrays, elementwise; `write` stores the results.
pub(crate) fn map_integers<const N: usize, T>(
    arrays: [&Array; N],
    shape: &[usize],
    dtype: Dtype,
    f: impl Fn([i64; N]) -> T,
    write: impl Fn(Dtype, Vec<T>, &mut Vec<u8>),
) -> Array {
    let mut chunks: [Vec<i64>; N] = std::array::from_fn(|_| Vec::new());
    map_chunks(arrays, shape, dtype, |start, len, splats, out| {
        for (chunk, array) in chunks.iter_mut().zip(arrays) {
            array.integer_chunk(start, chunk);
        }
        let values = (0..len).map(|i| f(std::array::from_fn(|n| at(&chunks[n], splats[n], i)))).collect();
        write(dtype, values, out);
    })
}

/// Applies `f` to the floats of some arrays, elementwise; `write` stores the results.
pub(crate) fn map_floats<const N: usize, T>(
    arrays: [&Array; N],
    shape: &[usize],
    dtype: Dtype,
    f: impl Fn([f64; N]) -> T,
    write: impl Fn(Dtype, Vec<T>, &mut Vec<u8>),
) -> Array {
    let mut chunks: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    map_chunks(arrays, shape, dtype, |start, len, splats, out| {
        for (chunk, array) in chunks.iter_mut().zip(arrays) {
            array.float_chunk(start, chunk);
        }
        let values = (0..len).map(|i| f(std::array::from_fn(|n| at(&chunks[n], splats[n], i)))).collect();
        write(dtype, values, out);
    })
}

/// Computes an array of `shape` chunk by chunk; one element if all operands are splats.
///
/// A scalar beside larger operands counts as a splat.
fn map_chunks<const N: usize>(
    arrays: [&Array; N],
    shape: &[usize],
    dtype: Dtype,
    mut compute: impl FnMut(usize, usize, [bool; N], &mut Vec<u8>),
) -> Array {
    let elements: usize = shape.iter().product();
    let splats = arrays.map(|array| array.is_splat() || array.elements() == 1);
    let needed = if N > 0 && splats.iter().all(|&splat| splat) { elements.min(1) } else { elements };
    let mut out = Vec::with_capacity(needed * dtype.bytes());
    for start in (0..needed).step_by(CHUNK) {
        compute(start, CHUNK.min(needed - start), splats, &mut out);
    }
    Array::new(dtype, shape, out)
}

/// Stores integers.
pub(crate) fn write_integers(dtype: Dtype, values: Vec<i64>, out: &mut Vec<u8>) {
    dtype.write_integers(values.into_iter(), out);
}

/// Stores floats.
pub(crate) fn write_floats_of(dtype: Dtype, values: Vec<f64>, out: &mut Vec<u8>) {
    dtype.write_floats(values.into_iter(), out);
}

/// Stores booleans.
pub(crate) fn write_booleans(_: Dtype, values: Vec<bool>, out: &mut Vec<u8>) {
    out.extend(values.into_iter().map(u8::from));
}
