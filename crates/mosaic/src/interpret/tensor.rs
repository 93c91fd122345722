//! Operands and results.

use super::{
    element::{Element, read_floats, read_integers},
    value::Data,
};

/// A row-major tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub element: Element,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Little-endian bytes.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Elements as f32; integers are converted.
    pub fn to_f32(&self) -> Vec<f32> {
        match self.to_data() {
            Data::Floats(floats) => floats.to_vec(),
            data => data.to_integers(0).iter().map(|&value| value as f32).collect(),
        }
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

    /// Returns whether the byte count matches the shape.
    pub(crate) fn is_sound(&self) -> bool {
        let elements = self.shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
        elements.and_then(|elements| elements.checked_mul(self.element.bytes())) == Some(self.bytes.len())
    }
}
