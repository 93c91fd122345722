//! Elements of dense constants and arrays, from little-endian bytes.

use super::types::{integer_width, is_unsigned};
use crate::{
    attribute::Attr,
    parse::float_from_bits,
    types::{DYNAMIC, Float, Type},
};

/// Widens an integer of `width` bits to 64.
pub(super) fn extended(bits: u64, width: u32, is_unsigned: bool) -> i64 {
    let Some(unused) = 64u32.checked_sub(width).filter(|&unused| unused < 64) else {
        return 0;
    };
    match is_unsigned || width == 1 {
        true => (bits << unused >> unused) as i64,
        false => (bits << unused) as i64 >> unused,
    }
}

/// Decodes elements that each take whole bytes. `count` is the expected number, if it is known.
pub(super) fn unpacked(data: &[u8], element: &Type, count: Option<usize>) -> Result<Vec<Attr>, String> {
    let bytes = element_bits(element)?.div_ceil(8).max(1);
    let held = data.len() / bytes;
    if !data.len().is_multiple_of(bytes) || count.is_some_and(|count| count != held) {
        return Err(format!("{} bytes do not hold the elements of type {element}", data.len()));
    }
    Ok(data.chunks_exact(bytes).map(|chunk| decoded(chunk, element)).collect())
}

/// Decodes the elements of a constant of a shaped type; a single element is a splat.
pub(super) fn dense(data: &[u8], ty: &Type) -> Result<Vec<Attr>, String> {
    let element = ty.element();
    let shape = ty.shape();
    let len = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
    let Some(len) = len.filter(|_| !shape.contains(&DYNAMIC)) else {
        return Err(format!("a constant cannot have the type {ty}"));
    };
    let is_splat = |bytes: usize| data.len() == bytes && len != 0;
    if *element == Type::I1 {
        return booleans(data, len).ok_or_else(|| format!("{} bytes are not a {ty}", data.len()));
    }
    let bytes = element_bits(element)?.div_ceil(8).max(1);
    unpacked(data, element, (!is_splat(bytes)).then_some(len))
}

/// Booleans are packed into bits, or in some versions one to a byte.
fn booleans(data: &[u8], len: usize) -> Option<Vec<Attr>> {
    let boolean = |value: bool| Attr::Integer(value.into(), Type::I1);
    match data {
        [] if len == 0 => Some(Vec::new()),
        [0xff] if len > 0 => Some(vec![boolean(true)]),
        [0] if len > 0 => Some(vec![boolean(false)]),
        // One byte for more than eight elements is a splat, whatever the bits.
        [byte] if len == 1 || len > 8 => Some(vec![boolean(byte & 1 != 0)]),
        _ if data.len() == len => Some(data.iter().map(|&byte| boolean(byte != 0)).collect()),
        _ if data.len() == len.div_ceil(8) => {
            let bit = |i: usize| data.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 != 0);
            Some((0..len).map(|i| boolean(bit(i))).collect())
        }
        _ => None,
    }
}

fn element_bits(element: &Type) -> Result<usize, String> {
    let bits = match element {
        Type::Float(float) => Some(float.bits()),
        Type::Other(name) if name == "f64" => Some(64),
        element => integer_width(element).filter(|&width| width <= 64).map(|width| width as usize),
    };
    bits.ok_or_else(|| format!("constants with elements of type {element} are not supported"))
}

/// Decodes a float to the short decimal number that text would give, which rounds to the same float.
pub(super) fn float(bits: u64, float: Float) -> f64 {
    let value = float_from_bits(bits, float);
    let decimal = |digits: usize| format!("{value:.digits$e}").parse().unwrap_or(value);
    match decimal(5) {
        // Nine digits tell every f32 apart; six are enough for narrower floats.
        short if float == Float::F32 && short as f32 != value as f32 => decimal(8),
        short => short,
    }
}

/// Decodes one element.
fn decoded(chunk: &[u8], element: &Type) -> Attr {
    let bits = chunk.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    match element {
        Type::Float(format) => Attr::Float(float(bits, *format), element.clone()),
        Type::Other(name) if name == "f64" => Attr::Float(f64::from_bits(bits), element.clone()),
        element => {
            let width = integer_width(element).unwrap_or(64);
            Attr::Integer(extended(bits, width, is_unsigned(element)), element.clone())
        }
    }
}

/// The value of an integer element.
pub(super) fn integer(element: &Attr) -> Option<i64> {
    match element {
        Attr::Integer(value, _) => Some(*value),
        _ => None,
    }
}

/// Spells an element without its type.
pub(super) fn spelled(element: &Attr) -> String {
    let text = element.to_string();
    text.split_once(" : ").map_or(text.clone(), |(value, _)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_read_packed_and_unpacked() {
        let vector = |len: usize| Type::vector([len], Type::I1);
        let values = |data: &[u8], len| {
            let elements = dense(data, &vector(len)).ok()?;
            Some(elements.iter().filter_map(integer).collect::<Vec<_>>())
        };
        assert_eq!(values(&[0xff], 4), Some(vec![1]));
        assert_eq!(values(&[0x01], 128), Some(vec![1]));
        assert_eq!(values(&[0b101], 4), Some(vec![1, 0, 1, 0]));
        assert_eq!(values(&[1, 0, 1], 3), Some(vec![1, 0, 1]));
        assert_eq!(values(&[0b11, 0b1], 9), Some(vec![1, 1, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(values(&[1, 2, 3], 9), None);
    }

    #[test]
    fn integers_are_widened_by_their_type() {
        assert_eq!(extended(0xff, 8, false), -1);
        assert_eq!(extended(0xff, 8, true), 255);
        assert_eq!(extended(0xf8, 4, false), -8);
        assert_eq!(extended(1, 1, false), 1);
        assert_eq!(extended(u64::MAX, 64, false), -1);
        assert_eq!(extended(7, 0, false), 0);
    }

    #[test]
    fn floats_are_the_decimal_numbers_that_text_has() {
        let f32 = |value: f32| float(u64::from(value.to_bits()), Float::F32);
        assert_eq!(f32(0.044_715), 0.044_715);
        assert_eq!(f32(-1e30), -1e30);
        assert_eq!(f32(0.797_884_6), 0.797_884_583);
        assert_eq!(f32(f32::NEG_INFINITY), f64::NEG_INFINITY);
        assert!(f32(f32::NAN).is_nan());
        assert_eq!(float(0x3dcd, Float::Bf16), 0.100_098);
    }

    #[test]
    fn a_constant_has_as_many_bytes_as_elements() {
        let ty = Type::vector([2], Type::I32);
        assert_eq!(dense(&[1, 0, 0, 0, 255, 255, 255, 255], &ty).unwrap().len(), 2);
        assert_eq!(dense(&[1, 0, 0, 0], &ty).unwrap().len(), 1);
        assert!(dense(&[1, 0, 0], &ty).is_err());
        assert!(dense(&[1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], &ty).is_err());
        assert!(dense(&[1], &Type::vector([usize::MAX, 2], Type::Integer(8))).is_err());
    }
}
