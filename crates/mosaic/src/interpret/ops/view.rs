//! View operations: slices, casts, allocations.

use super::{Definition, OpKind, pure};
use crate::{
    interpret::{
        machine::Stop,
        program::{Compiler, Made, Refusal},
        track::{element_bits, padded},
        value::Value,
        view::View,
    },
    ir::Op,
    types::{DYNAMIC, Layout, MemRef, MemorySpace, Type},
};

pub(super) const OPS: &[Definition] = &[
    pure("tpu.memref_slice", &[], slice).kind(OpKind::Slice),
    pure("tpu.memref_squeeze", &[], squeeze).kind(OpKind::Alias),
    pure("tpu.memref_reshape", &[], reshape).kind(OpKind::Reinterpret),
    pure("tpu.memref_bitcast", &[], bitcast).kind(OpKind::Reinterpret),
    pure("memref.cast", &[], same_view).kind(OpKind::Alias),
    pure("tpu.reinterpret_cast", &[], same_view).kind(OpKind::Reinterpret),
    pure("tpu.erase_memref_layout", &[], same_view).kind(OpKind::Alias),
    pure("tpu.assume_layout", &[], same_view).kind(OpKind::Alias),
    // The address of a buffer in its memory is not modelled.
    pure("memref.alloca", &["alignment"], alloca).kind(OpKind::Allocate),
    pure("memref.alloc", &["alignment"], alloca).kind(OpKind::Allocate),
    pure("memref.dim", &[], dim),
];

/// Memref type of an operand.
pub(super) fn memref<'a>(c: &Compiler<'a>, op: &Op, number: usize) -> Made<&'a MemRef> {
    match op.operands.get(number).map(|&value| c.ty(value)) {
        Some(Type::MemRef(memref)) => Ok(memref),
        Some(other) => Err(format!("operand {number} is {other}, not a memref").into()),
        None => Err(format!("operand {number} is missing").into()),
    }
}

/// One index per dimension of `memref`, from operand `first` on, with `after` operands behind them.
pub(super) fn indices(c: &Compiler<'_>, op: &Op, first: usize, memref: &MemRef, after: usize) -> Made<usize> {
    let rank = memref.shape.len();
    if op.operands.len() != first + rank + after {
        return Err(format!("a memref of rank {rank} needs {rank} indices").into());
    }
    (first..first + rank).try_for_each(|i| c.scalar_integer(c.operand(op, i)?))?;
    Ok(rank)
}

/// Memref type of the result.
fn result_memref<'a>(c: &Compiler<'a>, op: &Op) -> Made<&'a MemRef> {
    match op.results.first().map(|&value| c.ty(value)) {
        Some(Type::MemRef(memref)) => Ok(memref),
        _ => Err("the result is not a memref".into()),
    }
}

fn slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    let dynamic = op.operands.len().saturating_sub(1 + from.shape.len());
    let rank = indices(c, op, 1, from, dynamic)?;
    c.segments(op, &[&[1, rank as i64, dynamic as i64]])?;
    (1 + rank..op.operands.len()).try_for_each(|i| c.scalar_integer(c.operand(op, i)?))?;
    let unknown = to.shape.iter().filter(|&&extent| extent == DYNAMIC).count();
    if to.shape.len() != rank || unknown != dynamic || from.element != to.element {
        return Err("a slice must keep the rank and element type of its memref".into());
    }
    let shape = to.shape.clone();
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let mut known = (1 + rank..).map(|i| m.integer(step, i).max(0) as usize);
        let sizes: Vec<usize> =
            shape.iter().map(|&e| if e == DYNAMIC { known.next().unwrap_or(0) } else { e }).collect();
        let view = m.view(step, 0).slice((1..=rank).map(|i| m.integer(step, i)), &sizes);
        m.set(step, Value::View(view));
        Ok(())
    }))
}

/// Drops unit dimensions.
fn squeeze(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    let mut wanted = to.shape.iter().rev().peekable();
    let mut kept: Vec<usize> = Vec::new();
    for (dimension, extent) in from.shape.iter().enumerate().rev() {
        if wanted.next_if_eq(&extent).is_some() {
            kept.push(dimension);
        } else if *extent != 1 {
            return Err("only unit dimensions can be dropped".into());
        }
    }
    if wanted.next().is_some() || from.element != to.element {
        return Err(format!("cannot squeeze {} to {}", c.operand(op, 0)?, c.result(op, 0)?).into());
    }
    kept.reverse();
    Ok(Box::new(move |m, step| {
        let view = m.view(step, 0);
        let dims = kept.iter().map(|&dimension| view.dims[dimension]).collect();
        let view = View { dims, ..view.clone() };
        m.set(step, Value::View(view));
        Ok(())
    }))
}

fn reshape(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    // Dynamic extents do not multiply.
    let count = |shape: &[usize]| shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
    let known = !from.shape.contains(&DYNAMIC) && !to.shape.contains(&DYNAMIC);
    if from.element != to.element || !known || count(&from.shape) != count(&to.shape) {
        return Err("the memrefs differ in size or element type".into());
    }
    let shape = to.shape.clone();
    Ok(Box::new(move |m, step| {
        let view = m.view(step, 0);
        let Some(dims) = view.reshaped(&shape) else {
            let message = format!("a memref of shape {:?} with gaps cannot become {shape:?}", view.shape());
            return Err(Stop::Fault(step.place, message));
        };
        let view = View { dims, ..view.clone() };
        m.set(step, Value::View(view));
        Ok(())
    }))
}

/// The same memory as elements of another width: rows of narrow elements share a 32-bit word.
fn bitcast(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    let (from_type, to_type) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (old, new) = (c.element(from_type)?, c.element(to_type)?);
    let narrow = |ty: &Type| matches!(ty, Type::Integer(1 | 2 | 4));
    if narrow(&from.element) || narrow(&to.element) {
        return Err(Refusal::NotModelled(format!(
            "a bitcast of {from_type} to {to_type} is not supported: elements below 8 bits are not packed here"
        )));
    }
    let rank = from.shape.len();
    let fits = |dimension: usize| {
        let (a, b) = (from.shape[dimension], to.shape[dimension]);
        match dimension + 2 == rank {
            true if a != DYNAMIC && b != DYNAMIC => {
                a.checked_mul(old.bytes()).is_some_and(|rows| Some(rows) == b.checked_mul(new.bytes()))
            }
            _ => a == b,
        }
    };
    if to.shape.len() != rank || !(0..rank).all(fits) || rank < 2 && old.bytes() != new.bytes() {
        return Err(format!("{from_type} and {to_type} differ in size").into());
    }
    let shape = to.shape.clone();
    Ok(Box::new(move |m, step| {
        let Some(view) = m.view(step, 0).bitcast(new, &shape) else {
            let message =
                format!("a bitcast of this view to {new} is not supported: its rows do not share words");
            return Err(Stop::Fault(step.place, message));
        };
        m.set(step, Value::View(view));
        Ok(())
    }))
}

/// A cast of the same memory and shape to another type.
fn same_view(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    // Tiling assigned by the compiler moves elements; strides, offsets and maps select different ones.
    let is_plain = |memref: &MemRef| matches!(memref.layout, None | Some(Layout::Tiled { .. }));
    let tiled_alike = from.layout.is_none() || to.layout.is_none() || op.name != "tpu.reinterpret_cast";
    let alike =
        from.layout == to.layout || op.name != "memref.cast" && is_plain(from) && is_plain(to) && tiled_alike;
    if from.shape != to.shape || from.element != to.element || !alike {
        return Err("only casts that keep shape, element type and layout are supported".into());
    }
    Ok(Box::new(|m, step| {
        let view = m.view(step, 0).clone();
        m.set(step, Value::View(view));
        Ok(())
    }))
}

fn alloca(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    let to = result_memref(c, op)?;
    let ty = c.result(op, 0)?;
    let shape = c.extents(ty)?;
    let element = c.element(ty)?;
    let space = to.space.unwrap_or(MemorySpace::Vmem);
    if matches!(space, MemorySpace::Hbm | MemorySpace::Any) {
        return Err("kernels can allocate on-chip memory only".into());
    }
    let name = c.allocated_name(op).unwrap_or_else(|| {
        op.place.map_or_else(|| "alloca".to_owned(), |place| format!("alloca at line {}", place.line))
    });
    let bytes = padded(space, &shape, element_bits(ty));
    Ok(Box::new(move |m, step| {
        m.check_room(&name, space, bytes, step.place)?;
        let view = m.allocate(&name, space, &shape, Some(element), step.place)?;
        m.set(step, Value::View(view));
        Ok(())
    }))
}

fn dim(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    memref(c, op, 0)?;
    c.scalar_integer(c.operand(op, 1)?)?;
    Ok(Box::new(|m, step| {
        let number = m.integer(step, 1);
        let extent = usize::try_from(number).ok().and_then(|number| m.view(step, 0).dims.get(number));
        let Some(dim) = extent else {
            let message = format!("the memref has no dimension {number}");
            return Err(Stop::Fault(step.place, message));
        };
        let extent = dim.extent as i64;
        m.set(step, Value::Integer(extent));
        Ok(())
    }))
}
