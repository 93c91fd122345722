//! Explicit control of the MXUs: weights go to a staging register, are loaded and multiplied by, and the sums
//! are popped from accumulators.

use super::{Definition, OpKind, effect, matmul::Precision};
use crate::{
    interpret::{
        mxu::{CONTROL, MXUS, Push, Rows, SIDE},
        program::{Compiler, Made, Refusal},
    },
    ir::Op,
    types::{Float, Type},
};

/// Rows of a memory tile of f32.
const TILE_ROWS: usize = octile_core::device::tpu::SUBLANES;

pub(super) const OPS: &[Definition] = &[
    effect("tpu.matmul_push_rhs", &["mxu_index", "staging_register", "transpose"], push)
        .kind(OpKind::PushWeights),
    effect("tpu.matmul_acc_lhs", &["acc", "mxu_index", "load_staged_rhs"], accumulate)
        .kind(OpKind::Accumulate),
    effect("tpu.matmul_pop", &["acc", "mxu_index"], pop).results(1).kind(OpKind::PopSums),
];

/// Why a kernel that controls MXUs does not run on most chips.
pub(crate) const NO_MXU_CONTROL: &str = "the chip does not let kernels control its MXUs; tpu7x does";

/// Whether an operation controls an MXU.
pub(crate) fn controls_mxu(name: &str) -> bool {
    OPS.iter().any(|definition| definition.name == name)
}

/// An integer attribute below `count`.
fn below(c: &Compiler<'_>, op: &Op, name: &str, count: usize, what: &str) -> Made<usize> {
    let value = c.integer_attribute(op, name)?;
    usize::try_from(value)
        .ok()
        .filter(|&number| number < count)
        .ok_or_else(|| Refusal::from(format!("{name} = {value} is out of range: {what} 0 to {}", count - 1)))
}

fn mxu(c: &Compiler<'_>, op: &Op) -> Made<usize> {
    below(c, op, "mxu_index", MXUS, "a core has MXUs")
}

fn staging_register(c: &Compiler<'_>, op: &Op, name: &str) -> Made<usize> {
    below(c, op, name, CONTROL.staging_registers, "an MXU has staging registers")
}

/// Rows of a matrix as wide as the MXU.
fn row_count(c: &Compiler<'_>, ty: &Type, tile_rows: usize) -> Made<usize> {
    match c.vector_shape(ty)?[..] {
        [rows, SIDE] if rows > 0 && rows % tile_rows == 0 => Ok(rows),
        _ => Err(format!("expected a multiple of {tile_rows} rows of {SIDE} columns, found {ty}").into()),
    }
}

/// Bits per element of an operand.
fn operand_bits(c: &mut Compiler<'_>, op: &Op, ty: &Type) -> Made<usize> {
    let float = match ty.element() {
        Type::Float(float @ (Float::F32 | Float::Bf16 | Float::F8E4M3FN | Float::F8E5M2)) => *float,
        _ => {
            return Err(Refusal::NotModelled(format!(
                "operands of type {ty} are not supported: only f32, bf16, f8E4M3FN and f8E5M2"
            )));
        }
    };
    if let (Float::F32, Some(note)) = (float, Precision::Bf16.note()) {
        c.note(op, note.split_once(';').map_or(note, |(fact, _)| fact));
    }
    Ok(float.bits())
}

fn rows(c: &Compiler<'_>, op: &Op, count: usize) -> Made<Rows> {
    let address = below(c, op, "acc", CONTROL.accumulators, "an MXU has accumulators")?;
    let tile = TILE_ROWS / CONTROL.accumulator_rows;
    if address % tile != 0 {
        return Err(
            format!("acc = {address} must be a multiple of {tile}: {TILE_ROWS} rows take {tile}").into()
        );
    }
    let rows = Rows { mxu: mxu(c, op)?, address, count };
    match rows.end() <= CONTROL.accumulators {
        true => Ok(rows),
        false => Err(format!(
            "{count} rows from accumulator {address} on take addresses up to {}, but an MXU has {}",
            rows.end() - 1,
            CONTROL.accumulators
        )
        .into()),
    }
}

fn push(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 0)?;
    let ty = c.ty(op.operands[0]);
    if c.vector_shape(ty)? != [SIDE, SIDE] {
        return Err(format!("expected weights of {SIDE} x {SIDE}, as large as the MXU, found {ty}").into());
    }
    let push = Push {
        mxu: mxu(c, op)?,
        // Text in the dialect's own form leaves the default out.
        register: match op.attributes.get("staging_register") {
            Some(_) => staging_register(c, op, "staging_register")?,
            None => 0,
        },
        is_transposed: c.flag(op, "transpose")?,
        bits: operand_bits(c, op, ty)?,
    };
    Ok(Box::new(move |m, step| m.push_weights(step, push)))
}

fn accumulate(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 0)?;
    let ty = c.ty(op.operands[0]);
    c.vector_shape(ty)?;
    let bits = operand_bits(c, op, ty)?;
    let count = row_count(c, ty, TILE_ROWS * (32 / bits))?;
    let rows = rows(c, op, count)?;
    let register = match op.attributes.get("load_staged_rhs") {
        Some(_) => Some(staging_register(c, op, "load_staged_rhs")?),
        None => None,
    };
    Ok(Box::new(move |m, step| m.accumulate(step, rows, register, bits)))
}

fn pop(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let ty = c.result(op, 0)?;
    let count = row_count(c, ty, TILE_ROWS)?;
    if *ty.element() != Type::Float(Float::F32) {
        return Err(Refusal::NotModelled(format!("sums of type {ty} are not supported: only f32")));
    }
    let rows = rows(c, op, count)?;
    Ok(Box::new(move |m, step| m.pop_sums(step, rows)))
}
