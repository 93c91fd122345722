//! Loads, stores, and the making of views.

use super::{Maker, integer::is_scalar};
use crate::{
    attribute::Attr,
    interpret::{
        element::Element,
        machine::Machine,
        memory::Buffer,
        program::{Compiler, Made, Step},
        value::{Data, Value},
        view::{Dim, View, row_major},
    },
    ir::Op,
    types::{DYNAMIC, MemRef, MemorySpace, Type},
};

pub(super) const OPS: &[(&str, Maker)] = &[
    ("vector.load", load),
    ("tpu.vector_load", load),
    ("tpu.load", load),
    ("tpu.strided_load", strided_load),
    ("memref.load", load_scalar),
    ("vector.store", store),
    ("tpu.vector_store", store),
    ("tpu.strided_store", strided_store),
    ("memref.store", store_scalar),
    ("tpu.memref_slice", slice),
    ("tpu.memref_squeeze", squeeze),
    ("tpu.memref_reshape", reshape),
    ("memref.cast", same_view),
    ("tpu.reinterpret_cast", same_view),
    ("tpu.erase_memref_layout", same_view),
    ("tpu.assume_layout", same_view),
    ("memref.alloca", alloca),
    ("memref.alloc", alloca),
    ("memref.dim", dim),
];

/// The memref of an operand.
pub(super) fn memref<'a>(c: &Compiler<'a>, op: &Op, number: usize) -> Made<&'a MemRef> {
    match op.operands.get(number).map(|&value| c.ty(value)) {
        Some(Type::MemRef(memref)) => Ok(memref),
        Some(other) => Err(format!("operand {number} is {other} and no memref").into()),
        None => Err(format!("operand {number} is missing").into()),
    }
}

/// One integer per dimension of `memref`, from operand `first` on, and `after` operands behind them.
fn indices(c: &Compiler<'_>, op: &Op, first: usize, memref: &MemRef, after: usize) -> Made<usize> {
    let rank = memref.shape.len();
    if op.operands.len() != first + rank + after {
        return Err(format!("a memref of {rank} dimensions takes {rank} indices").into());
    }
    (first..first + rank).try_for_each(|i| c.scalar_integer(c.operand(op, i)?))?;
    Ok(rank)
}

/// A part of memref number `base`, whose indices are the operands from `first` on.
fn part(m: &Machine<'_>, step: &Step, base: usize, first: usize, sizes: &[usize]) -> View {
    let view = m.view(step, base);
    view.slice((first..first + sizes.len()).map(|i| m.integer(step, i)), sizes)
}

/// The extents of an access: those of the vector, with ones in front where it has fewer dimensions.
fn access_shape(c: &Compiler<'_>, memref: &MemRef, vector: &Type) -> Made<Vec<usize>> {
    let shape = c.shape(vector)?;
    if *memref.element != *vector.element() || Element::of(vector).is_none() || is_scalar(vector) {
        return Err(format!("a memref of {} and a {vector} do not hold the same", memref.element).into());
    }
    match memref.shape.len().checked_sub(shape.len()) {
        Some(missing) => Ok(std::iter::repeat_n(1, missing).chain(shape).collect()),
        None => Err(format!("{vector} has more dimensions than the memref").into()),
    }
}

fn load(c: &mut Compiler<'_>, op: &Op) -> Made {
    let memref = memref(c, op, 0)?;
    if op.operands.len() > 1 + memref.shape.len() {
        return Err("a load with a mask is not supported".into());
    }
    indices(c, op, 1, memref, 0)?;
    let sizes = access_shape(c, memref, c.result(op, 0)?)?;
    plain_strides(op)?;
    let elements = sizes.iter().product();
    Ok(Box::new(move |m, step| {
        let view = part(m, step, 0, 1, &sizes);
        m.clock.vector(elements, step.line(), &step.name);
        let data = m.load(step, &view)?;
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

/// An access with steps other than 1 has an operation of its own here.
fn plain_strides(op: &Op) -> Made<()> {
    let plain = match op.attributes.get("strides") {
        Some(Attr::I32s(strides)) => strides.iter().all(|&stride| stride == 1),
        Some(_) | None => true,
    };
    if plain { Ok(()) } else { Err("a stride other than 1 is not supported".into()) }
}

/// A view that takes only every so many-th index of each dimension.
fn every(c: &Compiler<'_>, op: &Op, memref: &MemRef, shape: &[usize]) -> Made<Vec<usize>> {
    let strides = c.integers_attribute(op, "strides")?;
    let strides: Option<Vec<usize>> =
        strides.iter().map(|&stride| usize::try_from(stride).ok().filter(|&stride| stride > 0)).collect();
    match strides {
        Some(strides) if strides.len() == memref.shape.len() && shape.len() == strides.len() => Ok(strides),
        _ => Err("the strides are one positive number per dimension".into()),
    }
}

fn stepped(
    m: &Machine<'_>,
    step: &Step,
    base: usize,
    first: usize,
    sizes: &[usize],
    strides: &[usize],
) -> View {
    let spans: Vec<usize> =
        sizes.iter().zip(strides).map(|(size, stride)| size.saturating_sub(1) * stride + 1).collect();
    let mut view = part(m, step, base, first, &spans);
    for (dim, (&size, stride)) in view.dims.iter_mut().zip(sizes.iter().zip(strides)) {
        *dim = Dim { extent: size, stride: dim.stride * stride };
    }
    view
}

fn strided_load(c: &mut Compiler<'_>, op: &Op) -> Made {
    let memref = memref(c, op, 0)?;
    indices(c, op, 1, memref, 0)?;
    let sizes = access_shape(c, memref, c.result(op, 0)?)?;
    let strides = every(c, op, memref, &sizes)?;
    let elements = sizes.iter().product();
    Ok(Box::new(move |m, step| {
        let view = stepped(m, step, 0, 1, &sizes, &strides);
        m.clock.vector(elements, step.line(), &step.name);
        let data = m.load(step, &view)?;
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn strided_store(c: &mut Compiler<'_>, op: &Op) -> Made {
    let memref = memref(c, op, 1)?;
    indices(c, op, 2, memref, 0)?;
    let sizes = access_shape(c, memref, c.operand(op, 0)?)?;
    let strides = every(c, op, memref, &sizes)?;
    let elements = sizes.iter().product();
    Ok(Box::new(move |m, step| {
        let view = stepped(m, step, 1, 2, &sizes, &strides);
        m.clock.vector(elements, step.line(), &step.name);
        let data = m.vector(step, 0);
        m.store(step, &view, &data)
    }))
}

fn load_scalar(c: &mut Compiler<'_>, op: &Op) -> Made {
    let memref = memref(c, op, 0)?;
    let rank = indices(c, op, 1, memref, 0)?;
    let ty = c.result(op, 0)?;
    c.element(ty)?;
    if *memref.element != *ty || !is_scalar(ty) {
        return Err(format!("a memref of {} does not hold {ty}", memref.element).into());
    }
    let sizes = vec![1; rank];
    Ok(Box::new(move |m, step| {
        let view = part(m, step, 0, 1, &sizes);
        m.clock.scalar();
        let value = match m.load(step, &view)? {
            Data::Floats(values) => Value::Float(values[0]),
            Data::Integers(values) => Value::Integer(values[0].into()),
            other => unreachable!("a loaded element, not {other:?}"),
        };
        m.set(step, value);
        Ok(())
    }))
}

/// Stores a vector; with a mask, only where it holds.
fn store(c: &mut Compiler<'_>, op: &Op) -> Made {
    let memref = memref(c, op, 1)?;
    let masked = op.operands.len() > 2 + memref.shape.len();
    let rank = indices(c, op, 2, memref, usize::from(masked))?;
    let vector = c.operand(op, 0)?;
    let sizes = access_shape(c, memref, vector)?;
    let is_float = c.float(vector).is_ok();
    plain_strides(op)?;
    let adds = op.attributes.get("add") == Some(&Attr::Bool(true));
    if adds {
        return Err("a store that adds is not supported".into());
    }
    let mask = masked.then_some(2 + rank);
    if let Some(mask) = mask
        && *c.operand(op, mask)? != vector.with_element(Type::I1)
    {
        return Err("the mask holds a truth value for every element of the vector".into());
    }
    let elements = sizes.iter().product();
    Ok(Box::new(move |m, step| {
        let view = part(m, step, 1, 2, &sizes);
        m.clock.vector(elements, step.line(), &step.name);
        let mut data = m.vector(step, 0);
        if let Some(mask) = mask {
            m.inside(&view, |m| m.core_site(step))?;
            let mask = m.vector(step, mask).to_integers(elements);
            let kept = m.peek(&view);
            data = merge(&data, &kept, &mask, is_float);
        }
        m.store(step, &view, &data)
    }))
}

/// The new elements where the mask holds, the old ones elsewhere.
fn merge(new: &Data, old: &Data, mask: &[i32], is_float: bool) -> Data {
    let len = mask.len();
    if is_float {
        let (new, old) = (new.to_floats(len), old.to_floats(len));
        return Data::floats((0..len).map(|i| if mask[i] != 0 { new[i] } else { old[i] }).collect());
    }
    let (new, old) = (new.to_integers(len), old.to_integers(len));
    Data::integers((0..len).map(|i| if mask[i] != 0 { new[i] } else { old[i] }).collect())
}

fn store_scalar(c: &mut Compiler<'_>, op: &Op) -> Made {
    let memref = memref(c, op, 1)?;
    let rank = indices(c, op, 2, memref, 0)?;
    let ty = c.operand(op, 0)?;
    c.element(ty)?;
    if *memref.element != *ty || !is_scalar(ty) {
        return Err(format!("a memref of {} does not hold {ty}", memref.element).into());
    }
    let sizes = vec![1; rank];
    Ok(Box::new(move |m, step| {
        let view = part(m, step, 1, 2, &sizes);
        m.clock.scalar();
        let data = m.vector(step, 0);
        m.store(step, &view, &data)
    }))
}

/// The memref of the result.
fn result_memref<'a>(c: &Compiler<'a>, op: &Op) -> Made<&'a MemRef> {
    match op.results.first().map(|&value| c.ty(value)) {
        Some(Type::MemRef(memref)) => Ok(memref),
        _ => Err("the result is no memref".into()),
    }
}

fn slice(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    let dynamic = op.operands.len().saturating_sub(1 + from.shape.len());
    let rank = indices(c, op, 1, from, dynamic)?;
    (1 + rank..op.operands.len()).try_for_each(|i| c.scalar_integer(c.operand(op, i)?))?;
    let unknown = to.shape.iter().filter(|&&extent| extent == DYNAMIC).count();
    if to.shape.len() != rank || unknown != dynamic || from.element != to.element {
        return Err("the slice and its memref have the same dimensions and elements".into());
    }
    let shape = to.shape.clone();
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let mut known = (1 + rank..).map(|i| m.integer(step, i).max(0) as usize);
        let sizes: Vec<usize> =
            shape.iter().map(|&e| if e == DYNAMIC { known.next().unwrap_or(0) } else { e }).collect();
        let view = part(m, step, 0, 1, &sizes);
        m.set(step, Value::View(view));
        Ok(())
    }))
}

fn squeeze(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    let ones = |shape: &[usize]| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
    if ones(&from.shape) != ones(&to.shape) || from.element != to.element || to.shape.len() > from.shape.len()
    {
        return Err("only dimensions of extent 1 can be left out".into());
    }
    let keep_ones = to.shape.clone();
    Ok(Box::new(move |m, step| {
        let view = m.view(step, 0);
        let real: Vec<usize> = {
            // An extent that is known only now takes the place of the unknown one.
            let mut unknown = view.dims.iter().map(|dim| dim.extent).filter(|&extent| extent != 1);
            keep_ones.iter().map(|&e| if e == DYNAMIC { unknown.next().unwrap_or(1) } else { e }).collect()
        };
        let view = view.squeeze(&real);
        m.set(step, Value::View(view));
        Ok(())
    }))
}

fn reshape(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    let count = |shape: &[usize]| shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
    if from.element != to.element || count(&from.shape).is_none() || count(&from.shape) != count(&to.shape) {
        return Err("the two memrefs do not hold the same elements".into());
    }
    let shape = to.shape.clone();
    Ok(Box::new(move |m, step| {
        let view = m.view(step, 0);
        if !view.is_contiguous() {
            let message = "this reshapes a memref that is not contiguous".to_owned();
            return Err(crate::interpret::machine::Stop::Fault(step.place, message));
        }
        let view = View { dims: row_major(&shape, view.unit()), ..view.clone() };
        m.set(step, Value::View(view));
        Ok(())
    }))
}

/// The result is the same memory with the same shape, only typed otherwise.
fn same_view(c: &mut Compiler<'_>, op: &Op) -> Made {
    let (from, to) = (memref(c, op, 0)?, result_memref(c, op)?);
    if from.shape != to.shape || from.element != to.element {
        return Err("only a cast that keeps shape and elements is supported".into());
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
    let name = op.place.map_or_else(|| "alloca".to_owned(), |place| format!("alloca at line {}", place.line));
    Ok(Box::new(move |m, step| {
        let view = m.allocate(Buffer::poisoned(name.clone(), space, &shape, Some(element)));
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
            return Err(crate::interpret::machine::Stop::Fault(step.place, message));
        };
        let extent = dim.extent as i64;
        m.set(step, Value::Integer(extent));
        Ok(())
    }))
}
