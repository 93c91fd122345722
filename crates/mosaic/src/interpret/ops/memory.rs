//! Loads and stores.

use super::{
    Definition, OpKind, effect,
    integer::is_scalar,
    pure,
    view::{indices, memref},
};
use crate::{
    interpret::{
        element::Element,
        machine::{Machine, Stop},
        program::{Compiler, Made, Step},
        value::{Data, Value, zip_floats, zip_integers},
        view::{Dim, View},
    },
    ir::Op,
    types::{MemRef, Type},
};

/// Cache hints do not affect values.
const HINTS: &[&str] = &["nontemporal"];

pub(super) const OPS: &[Definition] = &[
    pure("vector.load", HINTS, load).kind(OpKind::Load),
    pure("tpu.vector_load", &["strides"], load).kind(OpKind::Load),
    pure("tpu.strided_load", &["strides"], load).kind(OpKind::Load),
    pure("vector.maskedload", HINTS, masked_load).kind(OpKind::Load),
    pure("tpu.load", &["sublane_mask", "sublane_stride"], load_sublanes).kind(OpKind::Load),
    pure("memref.load", HINTS, load_scalar).kind(OpKind::Load),
    effect("vector.store", HINTS, store).kind(OpKind::Store),
    effect("tpu.vector_store", &["strides", "add"], store).kind(OpKind::Store),
    effect("tpu.strided_store", &["strides"], store).kind(OpKind::Store),
    effect("vector.maskedstore", HINTS, masked_store).kind(OpKind::Store),
    effect("tpu.store", &["sublane_mask", "sublane_stride", "add"], store_sublanes).kind(OpKind::Store),
    effect("memref.store", HINTS, store_scalar).kind(OpKind::Store),
    effect("memref.copy", &[], copy).kind(OpKind::Copy),
];

/// The part of a memref that an operation accesses.
struct Access {
    /// Operand number of the memref; its indices follow.
    base: usize,
    /// Extents: those of the vector, with leading ones where it has lower rank.
    sizes: Vec<usize>,
    /// Strides in indices.
    steps: Vec<usize>,
    /// Extents spanned.
    spans: Vec<usize>,
}

impl Access {
    /// `after` operands follow the indices.
    fn new(c: &Compiler<'_>, op: &Op, base: usize, vector: &Type, after: usize) -> Made<Self> {
        let memref = memref(c, op, base)?;
        let rank = indices(c, op, base + 1, memref, after)?;
        let sizes = access_shape(c, memref, vector)?;
        let steps = steps(c, op, rank)?;
        let span = |(&size, &step): (&usize, &usize)| {
            size.saturating_sub(1).checked_mul(step).and_then(|last| last.checked_add(1))
        };
        let spans: Option<Vec<usize>> = sizes.iter().zip(&steps).map(span).collect();
        let spans = spans.ok_or_else(|| format!("strides {steps:?} are too large"))?;
        Ok(Self { base, sizes, steps, spans })
    }

    fn elements(&self) -> usize {
        self.sizes.iter().product()
    }

    fn view(&self, m: &Machine<'_>, step: &Step) -> View {
        let first = self.base + 1;
        let indices = (first..first + self.sizes.len()).map(|i| m.integer(step, i));
        let mut view = m.view(step, self.base).slice(indices, &self.spans);
        for (dim, (&extent, &by)) in view.dims.iter_mut().zip(self.sizes.iter().zip(&self.steps)) {
            *dim = Dim { extent, stride: dim.stride.saturating_mul(by) };
        }
        view
    }
}

/// Extents of an access.
fn access_shape(c: &Compiler<'_>, memref: &MemRef, vector: &Type) -> Made<Vec<usize>> {
    let shape = c.shape(vector)?;
    if *memref.element != *vector.element() || Element::of(vector).is_none() || is_scalar(vector) {
        return Err(format!("element types differ: memref of {} and {vector}", memref.element).into());
    }
    match memref.shape.len().checked_sub(shape.len()) {
        Some(missing) => Ok(std::iter::repeat_n(1, missing).chain(shape).collect()),
        None => Err(format!("{vector} has a higher rank than the memref").into()),
    }
}

/// Strides per dimension, usually 1.
fn steps(c: &Compiler<'_>, op: &Op, rank: usize) -> Made<Vec<usize>> {
    let strides = match op.attributes.get("strides") {
        Some(_) => c.integers_attribute(op, "strides")?,
        None => Vec::new(),
    };
    if strides.is_empty() && !op.name.starts_with("tpu.strided") {
        return Ok(vec![1; rank]);
    }
    let steps: Option<Vec<usize>> =
        strides.iter().map(|&stride| usize::try_from(stride).ok().filter(|&stride| stride > 0)).collect();
    match steps {
        Some(steps) if steps.len() == rank => Ok(steps),
        _ => Err(format!("strides {strides:?} must be one positive number per dimension").into()),
    }
}

/// Loads a vector. Masked-out elements are NaN or -1: the chip leaves them undefined.
fn load(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rank = memref(c, op, 0)?.shape.len();
    let masked = op.operands.len() > 1 + rank && op.name == "tpu.vector_load";
    c.arity(op, 1 + rank + usize::from(masked), 1)?;
    c.segments(op, &[&[1, rank as i64, masked.into()]])?;
    let vector = c.result(op, 0)?;
    let access = Access::new(c, op, 0, vector, usize::from(masked))?;
    if masked {
        check_mask(c, op, 1 + rank, vector)?;
    }
    let is_float = c.float(vector).is_ok();
    Ok(Box::new(move |m, step| {
        let view = access.view(m, step);
        let elements = access.elements();
        m.clock.vector(elements, step.line(), &step.name);
        let data = match masked {
            false => m.load_vector(step, &view)?,
            true => {
                let mask = m.vector(step, 1 + rank).to_integers(elements);
                let missing = if is_float { Data::Float(f32::NAN) } else { Data::Integer(-1) };
                get_pieces(m, step, &view, missing, &pieces(&access.sizes, |i| mask[i] != 0))?
            }
        };
        m.set(step, Value::Vector(data));
        Ok(())
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
        let view = m.view(step, 0).slice((1..=rank).map(|i| m.integer(step, i)), &sizes);
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

/// A run of consecutive elements of a row that are all accessed.
struct Piece {
    start: Vec<i64>,
    sizes: Vec<usize>,
    /// Start in the vector.
    at: usize,
    len: usize,
}

impl Piece {
    fn view(&self, whole: &View) -> View {
        whole.slice(self.start.iter().copied(), &self.sizes)
    }

    fn of(&self, data: &Data) -> Data {
        match data {
            Data::Floats(values) => Data::floats(values[self.at..][..self.len].to_vec()),
            Data::Integers(values) => Data::integers(values[self.at..][..self.len].to_vec()),
            splat => splat.clone(),
        }
    }
}

/// Unmasked runs of an access; nothing else is touched.
fn pieces(shape: &[usize], holds: impl Fn(usize) -> bool) -> Vec<Piece> {
    let (&row, outer) = shape.split_last().unwrap_or((&1, &[]));
    let mut pieces = Vec::new();
    for number in 0..outer.iter().product() {
        let mut start = vec![0; shape.len()];
        let mut rest: usize = number;
        for dimension in (0..outer.len()).rev() {
            start[dimension] = (rest % outer[dimension]) as i64;
            rest /= outer[dimension];
        }
        let mut column = 0;
        while column < row {
            let first = column;
            while column < row && holds(number * row + column) {
                column += 1;
            }
            if column > first {
                let (mut start, mut sizes) = (start.clone(), vec![1; shape.len()]);
                if let (Some(start), Some(size)) = (start.last_mut(), sizes.last_mut()) {
                    (*start, *size) = (first as i64, column - first);
                }
                pieces.push(Piece { start, sizes, at: number * row + first, len: column - first });
            } else {
                column += 1;
            }
        }
    }
    pieces
}

/// Stores `data` to `view`, or accumulates into it.
pub(super) fn put(m: &mut Machine<'_>, step: &Step, view: &View, data: Data, adds: bool) -> Result<(), Stop> {
    if !adds {
        return m.store(step, view, &data);
    }
    let sum = match m.load(step, view)? {
        old @ (Data::Floats(_) | Data::Float(_)) => zip_floats(old, data, |old, new| old + new),
        old => zip_integers(old, data, i32::wrapping_add),
    };
    m.store(step, view, &sum)
}

/// Stores the unmasked runs of `data` to `view`.
fn put_pieces(
    m: &mut Machine<'_>,
    step: &Step,
    view: &View,
    data: &Data,
    adds: bool,
    pieces: &[Piece],
) -> Result<(), Stop> {
    m.inside(view, |m| m.core_site(step))?;
    pieces.iter().try_for_each(|piece| put(m, step, &piece.view(view), piece.of(data), adds))
}

/// Replaces the unmasked runs of `data` by the contents of `view`.
fn get_pieces(
    m: &mut Machine<'_>,
    step: &Step,
    view: &View,
    data: Data,
    pieces: &[Piece],
) -> Result<Data, Stop> {
    m.inside(view, |m| m.core_site(step))?;
    let is_float = matches!(data, Data::Floats(_) | Data::Float(_));
    let (mut floats, mut integers) = match is_float {
        true => (data.to_floats(view.elements()).to_vec(), Vec::new()),
        false => (Vec::new(), data.to_integers(view.elements()).to_vec()),
    };
    for piece in pieces {
        match m.load(step, &piece.view(view))? {
            Data::Floats(loaded) => floats[piece.at..][..piece.len].copy_from_slice(&loaded),
            Data::Integers(loaded) => integers[piece.at..][..piece.len].copy_from_slice(&loaded),
            other => unreachable!("loaded elements, not {other:?}"),
        }
    }
    Ok(if is_float { Data::floats(floats) } else { Data::integers(integers) })
}

/// Stores a vector, masked if there is a mask.
fn store(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rank = memref(c, op, 1)?.shape.len();
    let masked = op.operands.len() > 2 + rank && op.name == "tpu.vector_store";
    c.arity(op, 2 + rank + usize::from(masked), 0)?;
    c.segments(op, &[&[1, 1, rank as i64, masked.into()]])?;
    let vector = c.operand(op, 0)?;
    let access = Access::new(c, op, 1, vector, usize::from(masked))?;
    let adds = c.flag(op, "add")?;
    let mask = masked.then_some(2 + rank);
    if let Some(mask) = mask {
        check_mask(c, op, mask, vector)?;
    }
    Ok(Box::new(move |m, step| {
        let view = access.view(m, step);
        let elements = access.elements();
        m.clock.vector(elements, step.line(), &step.name);
        let data = m.vector(step, 0);
        let Some(mask) = mask else {
            put(m, step, &view, data, adds)?;
            m.store_undefined(step, &view, None);
            return Ok(());
        };
        let mask = m.vector(step, mask).to_integers(elements);
        put_pieces(m, step, &view, &data, adds, &pieces(&access.sizes, |i| mask[i] != 0))?;
        m.store_undefined(step, &view, Some(&mask));
        Ok(())
    }))
}

fn check_mask(c: &Compiler<'_>, op: &Op, mask: usize, vector: &Type) -> Made<()> {
    match *c.operand(op, mask)? == vector.with_element(Type::I1) {
        true => Ok(()),
        false => Err("the mask must have one i1 per element of the vector".into()),
    }
}

/// Operands: base, indices, mask, value.
fn masked_store(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rank = memref(c, op, 0)?.shape.len();
    c.arity(op, 3 + rank, 0)?;
    let vector = c.operand(op, 2 + rank)?;
    check_mask(c, op, 1 + rank, vector)?;
    c.flag(op, "nontemporal")?;
    let access = Access::new(c, op, 0, vector, 2)?;
    Ok(Box::new(move |m, step| {
        let view = access.view(m, step);
        let elements = access.elements();
        m.clock.vector(elements, step.line(), &step.name);
        let (mask, data) = (m.vector(step, 1 + rank).to_integers(elements), m.vector(step, 2 + rank));
        put_pieces(m, step, &view, &data, false, &pieces(&access.sizes, |i| mask[i] != 0))
    }))
}

/// Operands: base, indices, mask, pass-through value.
fn masked_load(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rank = memref(c, op, 0)?.shape.len();
    c.arity(op, 3 + rank, 1)?;
    let vector = c.result(op, 0)?;
    check_mask(c, op, 1 + rank, vector)?;
    if c.operand(op, 2 + rank)? != vector {
        return Err(format!("the pass-through value is not of type {vector}").into());
    }
    let access = Access::new(c, op, 0, vector, 2)?;
    Ok(Box::new(move |m, step| {
        let view = access.view(m, step);
        let elements = access.elements();
        m.clock.vector(elements, step.line(), &step.name);
        let (mask, other) = (m.vector(step, 1 + rank).to_integers(elements), m.vector(step, 2 + rank));
        let data = get_pieces(m, step, &view, other, &pieces(&access.sizes, |i| mask[i] != 0))?;
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

/// Sublanes and lanes of a 32-bit register.
const REGISTER: [usize; 2] = [8, 128];

/// An access to the sublanes of one register.
struct Sublanes {
    access: Access,
    mask: Vec<bool>,
}

impl Sublanes {
    fn new(c: &Compiler<'_>, op: &Op, base: usize, vector: &Type) -> Made<Self> {
        let mut access = Access::new(c, op, base, vector, 0)?;
        let mask = c.flags_attribute(op, "sublane_mask")?;
        let rank = access.sizes.len();
        if c.element(vector)?.bytes() != 4 || vector.shape() != REGISTER || mask.len() != REGISTER[0] {
            return Err(format!("only 32-bit elements in {REGISTER:?} with a mask of 8 are supported").into());
        }
        let stride = match op.attributes.get("sublane_stride") {
            Some(_) => c.integer_attribute(op, "sublane_stride")?,
            None => 1,
        };
        let width = memref(c, op, base)?.shape[rank - 1];
        // Tiles of wider memrefs lie side by side: the sublane after a tile's last is not the next row.
        let plain = stride == 1 || width == REGISTER[1];
        let Some(stride) =
            usize::try_from(stride).ok().filter(|&stride| (1..1 << 20).contains(&stride) && plain)
        else {
            return Err(format!("a sublane_stride of {stride} is not supported for {width} lanes").into());
        };
        access.steps[rank - 2] = stride;
        // Masked-out sublanes may be out of bounds.
        let touched = mask.iter().rposition(|&holds| holds).map_or(0, |last| last + 1);
        access.sizes[rank - 2] = touched;
        access.spans[rank - 2] = touched.saturating_sub(1) * stride + usize::from(touched > 0);
        Ok(Self { access, mask })
    }

    fn pieces(&self) -> Vec<Piece> {
        pieces(&self.access.sizes, |i| self.mask[i / REGISTER[1]])
    }

    /// The rows, if they lie in one column of tiles.
    fn view(&self, m: &Machine<'_>, step: &Step) -> Result<View, Stop> {
        let rank = self.access.sizes.len();
        let base = m.view(step, self.access.base);
        let row = m.integer(step, self.access.base + rank - 1);
        if base.dims[rank - 1].extent != REGISTER[1] && row % REGISTER[0] as i64 != 0 {
            let message =
                "sublanes that cross the tiles of a memref of more than 128 lanes are not supported";
            return Err(Stop::Fault(step.place, message.to_owned()));
        }
        Ok(self.access.view(m, step))
    }
}

/// Masked-out sublanes are NaN: the chip leaves them undefined.
fn load_sublanes(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rank = memref(c, op, 0)?.shape.len();
    c.arity(op, 1 + rank, 1)?;
    let vector = c.result(op, 0)?;
    let sublanes = Sublanes::new(c, op, 0, vector)?;
    let is_float = c.float(vector).is_ok();
    Ok(Box::new(move |m, step| {
        let view = sublanes.view(m, step)?;
        let elements = REGISTER[0] * REGISTER[1];
        m.clock.vector(elements, step.line(), &step.name);
        let missing = if is_float { Data::Float(f32::NAN) } else { Data::Integer(-1) };
        let whole = match is_float {
            true => Data::Floats(missing.to_floats(elements)),
            false => Data::Integers(missing.to_integers(elements)),
        };
        let data = get_pieces(m, step, &view, whole, &sublanes.pieces())?;
        m.set(step, Value::Vector(data));
        Ok(())
    }))
}

fn store_sublanes(c: &mut Compiler<'_>, op: &Op) -> Made {
    let rank = memref(c, op, 1)?.shape.len();
    c.arity(op, 2 + rank, 0).map_err(|_| "a sublane store with an element mask is not supported")?;
    c.segments(op, &[&[1, 1, rank as i64, 0]])?;
    let sublanes = Sublanes::new(c, op, 1, c.operand(op, 0)?)?;
    let adds = c.flag(op, "add")?;
    Ok(Box::new(move |m, step| {
        let view = sublanes.view(m, step)?;
        m.clock.vector(REGISTER[0] * REGISTER[1], step.line(), &step.name);
        let data = m.vector(step, 0);
        put_pieces(m, step, &view, &data, adds, &sublanes.pieces())
    }))
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
        let view = m.view(step, 1).slice((2..2 + rank).map(|i| m.integer(step, i)), &sizes);
        m.clock.scalar();
        let data = m.vector(step, 0);
        m.store(step, &view, &data)
    }))
}

/// A synchronous elementwise copy by the core.
fn copy(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 0)?;
    let (source, target) = (memref(c, op, 0)?, memref(c, op, 1)?);
    c.element(c.operand(op, 0)?)?;
    if source.element != target.element || source.shape != target.shape {
        let (from, to) = (c.operand(op, 0)?, c.operand(op, 1)?);
        return Err(format!("source {from} and target {to} differ in shape or element type").into());
    }
    Ok(Box::new(|m, step| {
        let (source, target) = (m.view(step, 0).clone(), m.view(step, 1).clone());
        if source.shape() != target.shape() {
            let message = format!("copies shape {:?} to shape {:?}", source.shape(), target.shape());
            return Err(Stop::Fault(step.place, message));
        }
        m.inside(&source, |m| m.core_site(step))?;
        m.inside(&target, |m| m.core_site(step))?;
        m.clock.vector(source.elements(), step.line(), &step.name);
        let data = m.load(step, &source)?;
        m.store(step, &target, &data)
    }))
}
