//! Operands and results.

use std::sync::Arc;

use super::{
    element::{Element, read_floats, read_integers, write_floats, write_integers},
    value::Data,
};

/// A row-major tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub element: Element,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Little-endian bytes; a copy of the tensor shares them.
    pub bytes: Arc<Vec<u8>>,
}

impl Tensor {
    /// Elements as f32; integers are converted.
    pub fn to_f32(&self) -> Vec<f32> {
        match self.to_data() {
            Data::Floats(floats) => floats.to_vec(),
            data => data.to_integers(0).iter().map(|&value| value as f32).collect(),
        }
    }

    /// Elements as f64, which holds every number of every type exactly.
    pub fn to_f64(&self) -> Vec<f64> {
        match self.to_data() {
            Data::Floats(floats) => floats.iter().map(|&value| f64::from(value)).collect(),
            data => data.to_integers(0).iter().map(|&value| f64::from(value)).collect(),
        }
    }

    /// Rounds floats to an element type; integers are truncated.
    pub fn from_f32(element: Element, shape: &[usize], values: Vec<f32>) -> Self {
        let data = match element {
            Element::Float(_) => Data::floats(values),
            Element::Integer(_) => Data::integers(values.into_iter().map(|value| value as i32).collect()),
        };
        Self::from_data(element, shape, &data)
    }

    pub(crate) fn to_data(&self) -> Data {
        match self.element {
            Element::Float(float) => {
                let mut floats = Vec::with_capacity(self.bytes.len() / self.element.bytes());
                read_floats(float, &self.bytes, &mut floats);
                Data::floats(floats)
            }
            Element::Integer(size) => {
                let mut integers = Vec::with_capacity(self.bytes.len() / size);
                read_integers(size, &self.bytes, &mut integers);
                Data::integers(integers)
            }
        }
    }

    pub(crate) fn from_data(element: Element, shape: &[usize], data: &Data) -> Self {
        let elements: usize = shape.iter().product();
        let mut bytes = vec![0; elements * element.bytes()];
        match element {
            Element::Float(float) => write_floats(float, &data.to_floats(elements), &mut bytes),
            Element::Integer(size) => write_integers(size, &data.to_integers(elements), &mut bytes),
        }
        Self { element, shape: shape.to_vec(), bytes: Arc::new(bytes) }
    }

    /// Returns whether the byte count matches the shape.
    pub fn is_sound(&self) -> bool {
        let elements = self.shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
        elements.and_then(|elements| elements.checked_mul(self.element.bytes())) == Some(self.bytes.len())
    }
}
