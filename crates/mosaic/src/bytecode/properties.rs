//! Properties of operations, which versions 5 and 6 keep apart from the attributes.
//!
//! An operation that the writer knew has its properties in the order of their names, without the names: only
//! the definition of the operation tells them. JAX serializes kernels as unknown operations, so that this
//! matters for modules that were written otherwise.

use super::{
    PROPERTIES, Result,
    attributes::Pool,
    bytes::Bytes,
    tables::{OpName, get},
};
use crate::attribute::{Attr, Attributes};

const OVERFLOW: &str = "overflowFlags?";
const FASTMATH: &str = "fastmath? | fastmath? roundingmode?";
const EXACT: &str = "isExact?";
const NON_NEGATIVE: &str = "nonNeg?";
const ACCESS: &str = "alignment? nontemporal?";
const STRIDES: &str = "strides";
const ROUNDING: &str = "rounding_mode";

/// Names of properties in the order of their encoding. `name?` may be absent; `name#3` counts the operands of
/// three kinds; `|` separates the definitions of several releases.
const DEFINITIONS: &[(&str, &str)] = &[
    ("arith.addi", OVERFLOW),
    ("arith.cmpf", "fastmath? predicate"),
    ("arith.cmpi", "predicate"),
    ("arith.constant", "value"),
    ("arith.divsi", EXACT),
    ("arith.divui", EXACT),
    ("arith.extui", NON_NEGATIVE),
    ("arith.index_castui", NON_NEGATIVE),
    ("arith.muli", OVERFLOW),
    ("arith.shli", OVERFLOW),
    ("arith.shrsi", EXACT),
    ("arith.shrui", EXACT),
    ("arith.subi", OVERFLOW),
    ("arith.truncf", "fastmath? roundingmode?"),
    ("arith.trunci", OVERFLOW),
    ("arith.uitofp", NON_NEGATIVE),
    ("builtin.module", "sym_name? sym_visibility?"),
    ("cf.assert", "msg"),
    ("func.call", "arg_attrs? callee no_inline? res_attrs?"),
    ("func.func", "arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?"),
    ("memref.alloc", "alignment? operandSegmentSizes#2"),
    ("memref.alloca", "alignment? operandSegmentSizes#2"),
    ("memref.load", ACCESS),
    ("memref.store", ACCESS),
    ("scf.for", "unsignedCmp?"),
    ("tpu.all_reduce", "dim kind"),
    ("tpu.assume_multiple", "multiple"),
    ("tpu.concatenate", "dimension"),
    ("tpu.dynamic_gather", "dimensions"),
    ("tpu.dynamic_rotate", "dimension stride? stride_dimension?"),
    (
        "tpu.enqueue_dma",
        "operandSegmentSizes#6 priority? strict_ordering? | operandSegmentSizes#7 priority? strict_ordering?",
    ),
    ("tpu.fptosi", ROUNDING),
    ("tpu.fptoui", ROUNDING),
    ("tpu.iota", "dimensions"),
    ("tpu.log", "formatted? tag"),
    (
        "tpu.matmul",
        "dimension_numbers? precision? transpose_lhs? transpose_lhs_hint transpose_rhs? \
        | dimension_numbers? precision? transpose_lhs? transpose_rhs?",
    ),
    ("tpu.memref_slice", "operandSegmentSizes#3"),
    ("tpu.reciprocal", "approx? full_range?"),
    ("tpu.reduce_index", "axis kind"),
    ("tpu.repeat", "dimension times"),
    ("tpu.sem_signal", "operandSegmentSizes#4 | operandSegmentSizes#5"),
    ("tpu.sitofp", ROUNDING),
    ("tpu.strided_load", STRIDES),
    ("tpu.strided_store", STRIDES),
    ("tpu.trace_start", "level message"),
    ("tpu.transpose", "permutation"),
    ("tpu.truncf", ROUNDING),
    ("tpu.uitofp", ROUNDING),
    ("tpu.vector_load", "operandSegmentSizes#3 strides"),
    ("tpu.vector_store", "add? operandSegmentSizes#4 strides"),
    ("tpu.wait_dma2", "operandSegmentSizes#5 strict_ordering?"),
    ("vector.extract", "static_position"),
    ("vector.extract_strided_slice", "offsets sizes strides"),
    ("vector.load", ACCESS),
    ("vector.multi_reduction", "kind reduction_dims"),
    ("vector.reduction", "fastmath? kind"),
    ("vector.store", ACCESS),
    ("vector.transpose", "permutation"),
];

impl<'a> Pool<'a> {
    /// Reads the properties of an operation as attributes.
    pub(super) fn properties(&mut self, bytes: &mut Bytes<'a>, op: &OpName) -> Result<Attributes> {
        let start = *bytes;
        if !op.is_registered {
            return match self.attribute(bytes)? {
                Attr::Dict(attributes) => Ok(attributes),
                _ => Err(start.error("the properties of an operation are not a dictionary")),
            };
        }
        let number = bytes.varint()?;
        let Some(&data) = get(&self.tables.properties, number) else {
            return Err(start.error(format!("no properties {number}")));
        };
        let refused = || {
            start.unsupported(format!(
                "the properties of {} are not supported: write the file with desired_version=4",
                op.name
            ))
        };
        // Releases define an operation with other properties: those that take up all bytes are meant.
        for release in definition(&op.name).ok_or_else(refused)?.split(" | ") {
            match self.defined(release, data) {
                Ok((attributes, rest)) if rest.is_empty() => return Ok(attributes),
                _ => {}
            }
        }
        Err(refused())
    }

    fn defined(&mut self, definition: &str, mut bytes: Bytes<'a>) -> Result<(Attributes, Bytes<'a>)> {
        let mut attributes = Attributes::new();
        let mut counted = None;
        for property in definition.split_ascii_whitespace() {
            if let Some((name, kinds)) = property.split_once('#') {
                // Version 6 has the counts after everything else.
                match self.tables.version > PROPERTIES {
                    true => counted = Some((name, kinds.parse().unwrap_or(0))),
                    false => attributes = attributes.with(name, self.attribute(&mut bytes)?),
                }
            } else if let Some(name) = property.strip_suffix('?') {
                if let Some(value) = self.optional_attribute(&mut bytes)? {
                    attributes = attributes.with(name, value);
                }
            } else {
                attributes = attributes.with(property, self.attribute(&mut bytes)?);
            }
        }
        if let Some((name, kinds)) = counted {
            attributes = attributes.with(name, Attr::I32s(sparse(&mut bytes, kinds)?));
        }
        Ok((attributes, bytes))
    }

    /// Reads an attribute that may be absent.
    fn optional_attribute(&mut self, bytes: &mut Bytes<'a>) -> Result<Option<Attr>> {
        let start = *bytes;
        let (number, is_present) = bytes.varint_with_flag()?;
        is_present.then(|| self.attribute_at(start, number)).transpose()
    }
}

fn definition(op: &str) -> Option<&'static str> {
    let listed = DEFINITIONS.iter().find(|(name, _)| *name == op).map(|(_, definition)| *definition);
    let is_float = op.starts_with("math.") || op.starts_with("arith.") && op.ends_with('f');
    listed.or(is_float.then_some(FASTMATH))
}

/// Reads an array of small integers of which most are zero.
fn sparse(bytes: &mut Bytes<'_>, len: usize) -> Result<Vec<i32>> {
    let start = *bytes;
    let mut array = vec![0; len];
    let mut set = |index: u64, value: u64| {
        let place = usize::try_from(index).ok().and_then(|index| array.get_mut(index));
        match (place, i32::try_from(value)) {
            (Some(place), Ok(value)) => {
                *place = value;
                Ok(())
            }
            _ => Err(start.error("an array holds an element that does not fit")),
        }
    };
    let (count, is_sparse) = bytes.varint_with_flag()?;
    let count = start.checked_count(count, bytes.remaining(), "elements")? as u64;
    let bits = if is_sparse && count > 0 { bytes.varint()?.min(8) } else { 0 };
    for at in 0..count {
        let value = bytes.varint()?;
        match is_sparse {
            true => set(value & ((1 << bits) - 1), value >> bits)?,
            false => set(at, value)?,
        }
    }
    Ok(array)
}
