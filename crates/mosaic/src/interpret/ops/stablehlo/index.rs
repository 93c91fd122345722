//! Gathers and scatters.

use super::{Definition, pure, reduce::Fold, tensor_of};
use crate::{
    attribute::Attr,
    interpret::{
        array::{Array, Dtype},
        ops::reshape::{all_different, strides},
        program::{Compiler, Made, Refusal},
        value::Value,
    },
    ir::Op,
    types::Type,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    pure("stablehlo.gather", &["dimension_numbers", "slice_sizes", "indices_are_sorted"], gather),
    pure(
        "stablehlo.scatter",
        &["scatter_dimension_numbers", "indices_are_sorted", "unique_indices"],
        scatter,
    )
    .any_results()
    .regions(1),
];

/// The lists and numbers of `#stablehlo.gather<offset_dims = [1], index_vector_dim = 1>`.
pub(super) struct Numbers<'a>(Vec<(&'a str, Field)>);

enum Field {
    List(Vec<usize>),
    Number(usize),
}

impl<'a> Numbers<'a> {
    /// Reads the fields of `#stablehlo.KIND<...>`; `None` if it holds anything but lists and numbers.
    pub(super) fn read(text: &'a str, kind: &str) -> Option<Self> {
        let inside = text.strip_prefix("#stablehlo.")?.strip_prefix(kind)?;
        let mut rest = inside.strip_prefix('<')?.strip_suffix('>')?.trim();
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let (name, tail) = rest.split_once('=')?;
            let (field, tail) = match tail.trim_start().strip_prefix('[') {
                Some(list) => {
                    let (list, tail) = list.split_once(']')?;
                    let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
                    (Field::List(items.map(|item| item.parse().ok()).collect::<Option<_>>()?), tail)
                }
                None => {
                    let (number, tail) = tail.split_at(tail.find(',').unwrap_or(tail.len()));
                    (Field::Number(number.trim().parse().ok()?), tail)
                }
            };
            if fields.iter().any(|(known, _)| *known == name.trim()) {
                return None;
            }
            fields.push((name.trim(), field));
            let tail = tail.trim_start();
            rest = if tail.is_empty() { tail } else { tail.strip_prefix(',')?.trim_start() };
        }
        Some(Self(fields))
    }

    /// Takes a list; empty if it is not given.
    pub(super) fn list(&mut self, name: &str) -> Vec<usize> {
        match self.take(name, |field| matches!(field, Field::List(_))) {
            Some(Field::List(items)) => items,
            _ => Vec::new(),
        }
    }

    /// Takes a number; 0 if it is not given.
    fn number(&mut self, name: &str) -> usize {
        match self.take(name, |field| matches!(field, Field::Number(_))) {
            Some(Field::Number(number)) => number,
            _ => 0,
        }
    }

    fn take(&mut self, name: &str, is_wanted: fn(&Field) -> bool) -> Option<Field> {
        let place = self.0.iter().position(|(known, field)| *known == name && is_wanted(field))?;
        Some(self.0.swap_remove(place).1)
    }

    /// Returns whether every field was taken.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How index vectors select slices of an operand, for gathers and scatters alike.
struct Slicing {
    /// Dimensions of the sliced result that hold the slice.
    window: Vec<usize>,
    /// Dimensions of the operand that the slice drops.
    dropped: Vec<usize>,
    operand_batch: Vec<usize>,
    index_batch: Vec<usize>,
    /// Dimension of the operand that each part of an index vector selects.
    map: Vec<usize>,
    vector: usize,
}

impl Slicing {
    fn read(c: &Compiler<'_>, op: &Op, attribute: &str, kind: &str, names: [&str; 5]) -> Made<Self> {
        let attr = c.attribute(op, attribute)?;
        let bad = || Refusal::from(format!("'{attribute}' cannot be read: {attr:.120}"));
        let Attr::Other(text) = attr else { return Err(bad()) };
        let mut numbers = Numbers::read(text, kind).ok_or_else(bad)?;
        let [window, dropped, operand_batch, index_batch, map] = names.map(|name| numbers.list(name));
        let vector = numbers.number("index_vector_dim");
        match numbers.is_empty() {
            true => Ok(Self { window, dropped, operand_batch, index_batch, map, vector }),
            false => Err(bad()),
        }
    }

    /// Checks the numbers against the shapes of the operand, the indices, the slice and the sliced result.
    fn check(&self, operand: &[usize], indices: &[usize], slice: &[usize], result: &[usize]) -> Made<()> {
        let rank = operand.len();
        let parts = indices.get(self.vector).copied().unwrap_or(1);
        let gone = [&self.dropped[..], &self.operand_batch].concat();
        let kept: Vec<usize> = (0..rank).filter(|d| !gone.contains(d)).collect();
        let fits = self.vector <= indices.len()
            && self.map.len() == parts
            && self.map.iter().chain(&gone).all(|&d| d < rank)
            && all_different(&self.map)
            && all_different(&gone)
            && all_different(&self.window)
            && self.window.iter().all(|&d| d < result.len())
            && self.window.len() == kept.len()
            && slice.len() == rank
            && slice.iter().zip(operand).all(|(size, extent)| size <= extent)
            && gone.iter().all(|&d| slice[d] == 1)
            && self.operand_batch.len() == self.index_batch.len()
            && self.index_batch.iter().all(|&d| d < indices.len() && d != self.vector)
            && all_different(&self.index_batch)
            && self.operand_batch.iter().zip(&self.index_batch).all(|(&o, &i)| operand[o] >= indices[i]);
        let mut batch = indices.to_vec();
        if fits && self.vector < batch.len() {
            batch.remove(self.vector);
        }
        let outer: Vec<usize> =
            (0..result.len()).filter(|d| !self.window.contains(d)).map(|d| result[d]).collect();
        let inner = self.window.iter().zip(&kept).all(|(&w, &d)| result.get(w) == slice.get(d));
        match fits && outer == batch && inner {
            true => Ok(()),
            false => Err("the dimension numbers do not fit the shapes".into()),
        }
    }
}

/// Where each element of a sliced result lies in its operand.
struct Walk {
    slicing: Slicing,
    operand: Vec<usize>,
    indices: Vec<usize>,
    slice: Vec<usize>,
    result: Vec<usize>,
}

impl Walk {
    /// Visits every element of the sliced result with its place in the operand.
    ///
    /// A slice that leaves the operand is moved inside if `clamped`, and else has no place.
    fn visit(&self, indices: &Array, clamped: bool, mut visit: impl FnMut(usize, Option<usize>)) {
        let Self { slicing, operand, slice, result, .. } = self;
        let (full, result_strides) = (strides(operand), strides(result));
        let index_strides = strides(&self.indices);
        let batch: Vec<usize> = (0..result.len()).filter(|d| !slicing.window.contains(d)).collect();
        let index_dims: Vec<usize> = (0..self.indices.len()).filter(|&d| d != slicing.vector).collect();
        let gone = |d: &usize| slicing.dropped.contains(d) || slicing.operand_batch.contains(d);
        let kept: Vec<usize> = (0..operand.len()).filter(|d| !gone(d)).collect();
        let values = indices.all_integers();
        let part = index_strides.get(slicing.vector).copied().unwrap_or(1);
        for element in 0..result.iter().product() {
            let at = |d: usize| element / result_strides[d] % result[d];
            let first: usize = batch.iter().zip(&index_dims).map(|(&r, &i)| at(r) * index_strides[i]).sum();
            let (mut start, mut fits) = (vec![0i64; operand.len()], true);
            for (number, &d) in slicing.map.iter().enumerate() {
                let (index, last) = (values[first + number * part], (operand[d] - slice[d]) as i64);
                start[d] = index.clamp(0, last);
                fits &= clamped || start[d] == index;
            }
            for (&d, &i) in slicing.operand_batch.iter().zip(&slicing.index_batch) {
                let dimension = index_dims.iter().position(|&dim| dim == i).map(|place| batch[place]);
                start[d] = dimension.map_or(0, |dimension| at(dimension) as i64);
            }
            for (&w, &d) in slicing.window.iter().zip(&kept) {
                start[d] += at(w) as i64;
            }
            let place = start.iter().zip(&full).map(|(&i, stride)| i as usize * stride).sum();
            visit(element, fits.then_some(place));
        }
    }
}

fn integer_indices(c: &Compiler<'_>, ty: &Type) -> Made<Vec<usize>> {
    match tensor_of(c, ty)? {
        (Dtype::Int { .. }, shape) => Ok(shape),
        _ => Err("indices are integers".into()),
    }
}

fn gather(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 1)?;
    let ((dtype, operand), (element, result)) =
        (tensor_of(c, c.operand(op, 0)?)?, tensor_of(c, c.result(op, 0)?)?);
    let indices = integer_indices(c, c.operand(op, 1)?)?;
    let names = [
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
    ];
    let slicing = Slicing::read(c, op, "dimension_numbers", "gather", names)?;
    let sizes = c.integers_attribute(op, "slice_sizes")?;
    let slice: Vec<usize> = sizes.iter().map(|&size| usize::try_from(size).unwrap_or(usize::MAX)).collect();
    slicing.check(&operand, &indices, &slice, &result)?;
    if dtype != element {
        return Err("the result has the element type of the operand".into());
    }
    let walk = Walk { slicing, operand, indices, slice, result };
    Ok(Box::new(move |m, step| {
        let (array, indices) = (m.array(step, 0)?, m.array(step, 1)?);
        m.charge(walk.result.iter().product::<usize>().saturating_mul(8));
        let mut bytes = Vec::with_capacity(walk.result.iter().product::<usize>() * dtype.bytes());
        walk.visit(&indices, true, |_, place| {
            // Slices are moved inside, so every element has a place.
            bytes.extend_from_slice(array.element_bytes(place.unwrap_or(0)));
        });
        m.set(step, Value::Array(Array::new(dtype, &walk.result, bytes)));
        Ok(())
    }))
}

/// Combines updates with the elements that the indices select; updates outside are dropped.
fn scatter(c: &mut Compiler<'_>, op: &Op) -> Made {
    let count = op.results.len();
    c.arity(op, 2 * count + 1, count)?;
    if count == 0 {
        return Err("it updates nothing".into());
    }
    let (_, operand) = tensor_of(c, c.operand(op, 0)?)?;
    let indices = integer_indices(c, c.operand(op, count)?)?;
    let (_, updates) = tensor_of(c, c.operand(op, count + 1)?)?;
    let mut scalars = Vec::new();
    for i in 0..count {
        let (ty, update) = (c.operand(op, i)?, tensor_of(c, c.operand(op, count + 1 + i)?)?);
        if tensor_of(c, ty)? != (update.0, operand.clone()) || update.1 != updates || ty != c.result(op, i)? {
            return Err("operands, updates and results do not have matching types".into());
        }
        scalars.push(Type::tensor([], ty.element().clone()));
    }
    let names = [
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
    ];
    let slicing = Slicing::read(c, op, "scatter_dimension_numbers", "scatter", names)?;
    let mut slice = vec![1; operand.len()];
    let gone = |d: &usize| slicing.dropped.contains(d) || slicing.operand_batch.contains(d);
    for (d, &w) in (0..operand.len()).filter(|d| !gone(d)).zip(&slicing.window) {
        slice[d] = updates.get(w).copied().unwrap_or(usize::MAX);
    }
    slicing.check(&operand, &indices, &slice, &updates)?;
    let fold = Fold::new(c, &op.regions[0], &scalars)?;
    let replaces = replaces(&op.regions[0]);
    let walk = Walk { slicing, operand, indices, slice, result: updates };
    Ok(Box::new(move |m, step| {
        let arrays = (0..2 * count + 1).map(|i| m.array(step, i)).collect::<Result<Vec<_>, _>>()?;
        let (inputs, rest) = arrays.split_at(count);
        let (indices, updates) = (&rest[0], &rest[1..]);
        m.charge(walk.result.iter().product::<usize>().saturating_mul(8));
        let mut places = Vec::new();
        walk.visit(indices, false, |element, place| places.extend(place.map(|place| (element, place))));
        let mut bytes: Vec<Vec<u8>> = inputs.iter().map(|input| input.all_bytes().to_vec()).collect();
        for (element, place) in places {
            let new: Vec<Array> = match replaces {
                true => updates.iter().map(|update| update.element(element)).collect(),
                false => {
                    let old = |(input, bytes): (&Array, &Vec<u8>)| {
                        let size = input.dtype.bytes();
                        Array::new(input.dtype, &[], bytes[place * size..][..size].to_vec())
                    };
                    let old: Vec<Array> = inputs.iter().zip(&bytes).map(old).collect();
                    fold.pair(m, old, updates.iter().map(|update| update.element(element)).collect())?
                }
            };
            for (bytes, new) in bytes.iter_mut().zip(new) {
                let size = new.dtype.bytes();
                bytes[place * size..][..size].copy_from_slice(new.element_bytes(0));
            }
        }
        for ((bytes, input), &slot) in bytes.into_iter().zip(inputs).zip(&step.results) {
            m.frame[slot as usize] = Value::Array(Array::new(input.dtype, &input.shape, bytes));
        }
        Ok(())
    }))
}

/// Returns whether a region returns its second half of arguments: the update replaces the element.
fn replaces(region: &crate::ir::Region) -> bool {
    let half = region.arguments.len() / 2;
    matches!(&region.ops[..], [last] if last.operands == region.arguments[half..])
}
