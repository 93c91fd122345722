//! Element types of host arrays and buffers.

use std::ffi::c_int;
use std::fmt;

/// The type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ElementType {
    Pred,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    Bf16,
    F8E5M2,
    F8E4M3Fn,
}

/// Each type with its PJRT number, its size in bytes, and its name in HLO text.
const TYPES: [(ElementType, c_int, usize, &str); 15] = [
    (ElementType::Pred, 1, 1, "pred"),
    (ElementType::S8, 2, 1, "s8"),
    (ElementType::S16, 3, 2, "s16"),
    (ElementType::S32, 4, 4, "s32"),
    (ElementType::S64, 5, 8, "s64"),
    (ElementType::U8, 6, 1, "u8"),
    (ElementType::U16, 7, 2, "u16"),
    (ElementType::U32, 8, 4, "u32"),
    (ElementType::U64, 9, 8, "u64"),
    (ElementType::F16, 10, 2, "f16"),
    (ElementType::F32, 11, 4, "f32"),
    (ElementType::F64, 12, 8, "f64"),
    (ElementType::Bf16, 13, 2, "bf16"),
    (ElementType::F8E5M2, 16, 1, "f8e5m2"),
    (ElementType::F8E4M3Fn, 17, 1, "f8e4m3fn"),
];

impl ElementType {
    /// Size of one element in bytes.
    pub fn bytes(self) -> usize {
        self.row().2
    }

    /// Its PJRT number.
    pub(super) fn raw(self) -> c_int {
        self.row().1
    }

    /// The type with this PJRT number, if it is supported.
    pub(super) fn from_raw(raw: c_int) -> Option<Self> {
        TYPES.iter().find(|row| row.1 == raw).map(|row| row.0)
    }

    fn row(self) -> &'static (Self, c_int, usize, &'static str) {
        let row = TYPES.iter().find(|row| row.0 == self);
        row.expect("the table lists every element type")
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_types() {
        for (element, raw, ..) in TYPES {
            assert_eq!(ElementType::from_raw(raw), Some(element));
            assert_eq!(element.raw(), raw);
        }
        assert_eq!(ElementType::from_raw(0), None);
        assert_eq!(ElementType::F8E4M3Fn.raw(), 17);
    }
}
