//! Gathers and scatters: elements chosen by indices.

use super::{
    Definition, OpKind, effect,
    integer::is_scalar,
    pure,
    reshape::{all_different, axis, strides},
    view::memref,
};
use crate::{
    interpret::{
        machine::{Machine, Stop},
        places::Places,
        program::{Compiler, Made, Step},
        value::{Data, Value},
        view::View,
    },
    ir::Op,
    types::Type,
};

pub(super) const OPS: &[Definition] = &[
    pure("tpu.dynamic_gather", &["dimensions"], dynamic_gather),
    pure("tpu.gather", &["indices", "dimension"], gather),
    pure("tpu.sublane_shuffle", &["pattern"], sublane_shuffle),
    pure("tpu.vector_load_idx", &[], load_indexed).kind(OpKind::Load),
    effect("tpu.vector_store_idx", &["add"], store_indexed).kind(OpKind::Store),
];

/// Collapses some dimensions of the source and picks from them by index, wrapping around.
fn dynamic_gather(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let (from, indices, to) = (c.operand(op, 0)?, c.operand(op, 1)?, c.result(op, 0)?);
    c.integer(indices)?;
    let (source, shape) = (c.vector_shape(from)?, c.vector_shape(to)?);
    let dimensions = c.dimensions_attribute(op, "dimensions", source.len())?;
    let kept = |i: usize| dimensions.contains(&i) || source[i] == shape[i];
    let fits = shape.len() == source.len() && (0..shape.len()).all(kept) && all_different(&dimensions);
    let picked: usize = dimensions.iter().map(|&dimension| source[dimension]).product();
    if !fits || indices.shape() != shape || from.element() != to.element() || picked == 0 {
        return Err(format!("gathering {from} by {indices} does not give {to}").into());
    }
    let full = strides(&source);
    let step = |i: usize| if dimensions.contains(&i) { 0 } else { full[i] };
    // For each result, the element with index 0 along the gathered dimensions; then where the indices lead.
    let starts = Places::new(&shape, &(0..shape.len()).map(step).collect::<Vec<_>>(), 0);
    let (extents, steps): (Vec<usize>, Vec<usize>) = dimensions.iter().map(|&i| (source[i], full[i])).unzip();
    let offsets = Places::new(&extents, &steps, 0).list();
    let elements: usize = shape.iter().product();
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let (data, indices) = (m.vector(step, 0), m.vector(step, 1).to_integers(elements));
        let mut places = starts.list();
        for (place, &index) in places.iter_mut().zip(indices.iter()) {
            *place += offsets[i64::from(index).rem_euclid(offsets.len() as i64) as usize];
        }
        m.set(step, Value::Vector(data.gather(places.into_iter())));
        Ok(())
    }))
}

/// Picks slices along one dimension at constant indices.
fn gather(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    let (from, to) = (c.operand(op, 0)?, c.result(op, 0)?);
    let (source, shape) = (c.vector_shape(from)?, c.vector_shape(to)?);
    let dimension = axis(c, op, "dimension", source.len())?;
    let indices = c.dimensions_attribute(op, "indices", source[dimension])?;
    let mut wanted = source.clone();
    wanted[dimension] = indices.len();
    if wanted != shape || from.element() != to.element() {
        return Err(format!(
            "{} indices along dimension {dimension} of {from} do not give {to}",
            indices.len()
        )
        .into());
    }
    let (stride, mut steps) = (strides(&source)[dimension], strides(&source));
    steps[dimension] = 0;
    let starts = Places::new(&shape, &steps, 0);
    let (elements, inner) = (shape.iter().product(), shape[dimension + 1..].iter().product::<usize>());
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let mut places = starts.list();
        for (number, place) in places.iter_mut().enumerate() {
            *place += stride * indices[number / inner % indices.len()];
        }
        let data = m.vector(step, 0).gather(places.into_iter());
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

/// Picks sublanes from two registers, numbered through both.
fn sublane_shuffle(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let ty = c.result(op, 0)?;
    let shape = c.vector_shape(ty)?;
    let Some((&sublanes, rest)) = shape.split_first() else { return Err("expected registers".into()) };
    let pattern = c.dimensions_attribute(op, "pattern", sublanes.saturating_mul(2))?;
    if pattern.len() != sublanes || (0..2).any(|i| c.ty(op.operands[i]) != ty) {
        return Err(format!("a pattern of {} does not shuffle {ty}", pattern.len()).into());
    }
    let (width, is_float) = (rest.iter().product::<usize>(), c.float(ty).is_ok());
    let elements = sublanes * width;
    Ok(Box::new(move |m, step| {
        m.clock.vector(elements, step.line(), &step.name);
        let (a, b) = (m.vector(step, 0), m.vector(step, 1));
        let both = match is_float {
            true => {
                Data::floats([a.to_floats(elements).as_slice(), b.to_floats(elements).as_slice()].concat())
            }
            false => Data::integers(
                [a.to_integers(elements).as_slice(), b.to_integers(elements).as_slice()].concat(),
            ),
        };
        let place = |i: usize| pattern[i / width] * width + i % width;
        m.set(step, Value::Vector(both.gather((0..elements).map(place))));
        Ok(())
    }))
}

/// An access at one index per element of a vector.
struct Indexed {
    /// Operand number of the memref; its index vectors follow.
    base: usize,
    rank: usize,
    mask: Option<usize>,
    elements: usize,
}

impl Indexed {
    fn new(c: &Compiler<'_>, op: &Op, base: usize, vector: &Type) -> Made<Self> {
        let memref = memref(c, op, base)?;
        let rank = memref.shape.len();
        let masked = match op.operands.len().checked_sub(base + 1 + rank) {
            Some(masks @ (0 | 1)) => masks == 1,
            _ => return Err(format!("a memref of rank {rank} needs {rank} index vectors").into()),
        };
        let segments: Vec<i64> =
            std::iter::repeat_n(1, base).chain([1, rank as i64, masked.into()]).collect();
        c.segments(op, &[&segments])?;
        let shape = c.vector_shape(vector)?;
        let indices = vector.with_element(Type::I32);
        if *memref.element != *vector.element() || is_scalar(vector) {
            return Err(format!("element types differ: memref of {} and {vector}", memref.element).into());
        }
        for number in base + 1..base + 1 + rank {
            if *c.operand(op, number)? != indices {
                return Err(format!("operand {number} is not {indices}").into());
            }
        }
        let mask = masked.then_some(base + 1 + rank);
        if let Some(mask) = mask.filter(|&mask| c.ty(op.operands[mask]) != &vector.with_element(Type::I1)) {
            return Err(format!("operand {mask} is not a mask of {vector}").into());
        }
        Ok(Self { base, rank, mask, elements: shape.iter().product() })
    }

    /// The elements that are not masked out: position in the vector, and view of one element.
    fn views(&self, m: &mut Machine<'_>, step: &Step) -> Vec<(usize, View)> {
        let mask = self.mask.map(|mask| m.vector(step, mask).to_integers(self.elements));
        let first = self.base + 1;
        let indices: Vec<_> =
            (first..first + self.rank).map(|i| m.vector(step, i).to_integers(self.elements)).collect();
        let (whole, sizes) = (m.view(step, self.base).clone(), vec![1; self.rank]);
        let holds = |element: &usize| mask.as_ref().is_none_or(|mask| mask[*element] != 0);
        (0..self.elements)
            .filter(holds)
            .map(|element| {
                let start = indices.iter().map(|indices| indices[element].into());
                (element, whole.slice(start, &sizes))
            })
            .collect()
    }
}

/// Masked-out elements are NaN or -1: the chip leaves them undefined.
fn load_indexed(c: &mut Compiler<'_>, op: &Op) -> Made {
    let vector = c.result(op, 0)?;
    let access = Indexed::new(c, op, 0, vector)?;
    let is_float = c.float(vector).is_ok();
    Ok(Box::new(move |m, step| {
        m.clock.vector(access.elements, step.line(), &step.name);
        let (mut floats, mut integers) = (Vec::new(), Vec::new());
        match is_float {
            true => floats.resize(access.elements, f32::NAN),
            false => integers.resize(access.elements, -1),
        }
        for (element, view) in access.views(m, step) {
            m.count_operations(1);
            match m.load(step, &view)? {
                Data::Floats(values) => floats[element] = values[0],
                Data::Integers(values) => integers[element] = values[0],
                other => unreachable!("a loaded element, not {other:?}"),
            }
        }
        m.set(step, Value::Vector(if is_float { Data::floats(floats) } else { Data::integers(integers) }));
        Ok(())
    }))
}

/// Of elements with one index the last one is stored, or all are added.
fn store_indexed(c: &mut Compiler<'_>, op: &Op) -> Made {
    let access = Indexed::new(c, op, 1, c.operand(op, 0)?)?;
    let adds = c.flag(op, "add")?;
    Ok(Box::new(move |m, step| {
        m.clock.vector(access.elements, step.line(), &step.name);
        let data = m.vector(step, 0);
        for (element, view) in access.views(m, step) {
            m.count_operations(1);
            let value = data.gather(std::iter::once(element));
            super::memory::put(m, step, &view, value, adds)?;
        }
        Ok::<(), Stop>(())
    }))
}
