//! Reductions over dimensions and over windows.

use super::{
    Definition,
    elementwise::{FloatRule, IntegerRule, binary_rule},
    pure, tensor_of,
};
use crate::{
    interpret::{
        admit::is_terminator,
        array::{Array, Dtype},
        machine::{Machine, Stop},
        ops::reshape::strides,
        places::Places,
        program::{Block, Compiler, Made},
        value::Value,
    },
    ir::{Op, Region},
    types::Type,
};

pub(in crate::interpret) const OPS: &[Definition] = &[
    pure("stablehlo.reduce", &["dimensions"], reduce).any_results().regions(1),
    pure(
        "stablehlo.reduce_window",
        &["window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"],
        reduce_window,
    )
    .any_results()
    .regions(1),
];

/// A region that computes scalars from scalars.
pub(super) struct Body(Block);

impl Body {
    /// Compiles a region that must take and yield scalars of these types.
    pub(super) fn new(c: &mut Compiler<'_>, region: &Region, takes: &[Type], yields: &[Type]) -> Made<Self> {
        let last = region.ops.last().filter(|op| is_terminator(op));
        let returned = last.map(|op| op.operands.iter().map(|&value| c.ty(value)).collect::<Vec<_>>());
        let arguments = region.arguments.iter().map(|&value| c.ty(value));
        if !arguments.eq(takes) || !returned.is_some_and(|returned| returned.into_iter().eq(yields)) {
            return Err("the region takes or returns unexpected types".into());
        }
        Ok(Self(c.block(region)?))
    }

    pub(super) fn run(
        &self,
        m: &mut Machine<'_>,
        arguments: impl IntoIterator<Item = Array>,
    ) -> Result<Vec<Array>, Stop> {
        for (&slot, value) in self.0.arguments.iter().zip(arguments) {
            m.frame[slot as usize] = Value::Array(value);
        }
        m.run(&self.0)?;
        let array = |value| match value {
            Value::Array(array) => Ok(array),
            Value::Missing(why) => Err(Stop::Missing(why)),
            other => unreachable!("a tensor, not {other:?}"),
        };
        std::mem::take(&mut m.yielded).into_iter().map(array).collect()
    }
}

/// How a reduction combines values.
pub(super) enum Fold {
    /// Floats by one operation.
    Floats(FloatRule, Dtype),
    /// Integers by one operation.
    Integers(IntegerRule, Dtype),
    /// Any region.
    Body(Body),
}

impl Fold {
    /// Compiles the region of a reduction with these initial values.
    pub(super) fn new(c: &mut Compiler<'_>, region: &Region, initial: &[Type]) -> Made<Self> {
        if let ([ty], Some(rule)) = (initial, folding(region).and_then(binary_rule)) {
            let (dtype, _) = tensor_of(c, ty)?;
            let types = region.arguments.iter().map(|&value| c.ty(value));
            let alike = types.chain(region.ops[0].results.iter().map(|&value| c.ty(value))).all(|t| t == ty);
            match (dtype.is_float(), rule.float, rule.integer) {
                (true, Some(rule), _) if alike => return Ok(Self::Floats(rule, dtype)),
                (false, _, Some(rule)) if alike => return Ok(Self::Integers(rule, dtype)),
                _ => {}
            }
        }
        Ok(Self::Body(Body::new(c, region, &[initial, initial].concat(), initial)?))
    }

    /// Combines one value of each input with another.
    pub(super) fn pair(&self, m: &mut Machine<'_>, a: Vec<Array>, b: Vec<Array>) -> Result<Vec<Array>, Stop> {
        Ok(match self {
            Self::Floats(rule, dtype) => {
                let sum = rule(a[0].all_floats()[0], b[0].all_floats()[0]);
                vec![Array::floats(*dtype, &[], [sum].into_iter())]
            }
            Self::Integers(rule, dtype) => {
                let sum = rule(*dtype, a[0].integer(0), b[0].integer(0));
                vec![Array::integers(*dtype, &[], [sum].into_iter())]
            }
            Self::Body(body) => body.run(m, a.into_iter().chain(b))?,
        })
    }

    /// Folds the elements at the places of each result, from the initial values on. `None` is padding, which
    /// holds the initial value.
    fn apply(
        &self,
        m: &mut Machine<'_>,
        [inputs, initial]: [&[Array]; 2],
        shape: &[usize],
        places: &PlacesOf<'_>,
    ) -> Result<Vec<Array>, Stop> {
        let elements: usize = shape.iter().product();
        match self {
            Self::Floats(rule, dtype) => {
                let (values, first) = (inputs[0].all_floats(), initial[0].all_floats()[0]);
                let fold = |element| {
                    let mut sum = first;
                    places(element, &mut |place| {
                        let value = place.map_or(first, |place| values[place]);
                        sum = dtype.round(rule(sum, value));
                        Ok(())
                    })?;
                    Ok(sum)
                };
                let sums = (0..elements).map(fold).collect::<Result<Vec<f64>, Stop>>()?;
                Ok(vec![Array::floats(*dtype, shape, sums.into_iter())])
            }
            Self::Integers(rule, dtype) => {
                let (values, first) = (inputs[0].all_integers(), initial[0].integer(0));
                let fold = |element| {
                    let mut sum = first;
                    places(element, &mut |place| {
                        let value = place.map_or(first, |place| values[place]);
                        sum = dtype.wrap(rule(*dtype, sum, value));
                        Ok(())
                    })?;
                    Ok(sum)
                };
                let sums = (0..elements).map(fold).collect::<Result<Vec<i64>, Stop>>()?;
                Ok(vec![Array::integers(*dtype, shape, sums.into_iter())])
            }
            Self::Body(body) => {
                let mut bytes = vec![Vec::new(); inputs.len()];
                for element in 0..elements {
                    let mut sums = initial.to_vec();
                    places(element, &mut |place| {
                        let value = |(input, initial): (&Array, &Array)| match place {
                            Some(place) => input.element(place),
                            None => initial.clone(),
                        };
                        let values: Vec<Array> = inputs.iter().zip(initial).map(value).collect();
                        sums = body.run(m, std::mem::take(&mut sums).into_iter().chain(values))?;
                        Ok(())
                    })?;
                    for (bytes, sum) in bytes.iter_mut().zip(&sums) {
                        bytes.extend_from_slice(sum.element_bytes(0));
                    }
                }
                let array = |(bytes, input): (Vec<u8>, &Array)| Array::new(input.dtype, shape, bytes);
                Ok(bytes.into_iter().zip(inputs).map(array).collect())
            }
        }
    }
}

/// Visits the places in the inputs that one element of the result is folded from.
type PlacesOf<'a> = dyn Fn(usize, &mut dyn FnMut(Option<usize>) -> Result<(), Stop>) -> Result<(), Stop> + 'a;

/// The binary operation that a region applies to its two arguments, in order or swapped, and returns, if it
/// does nothing else.
pub(super) fn folding(region: &Region) -> Option<&str> {
    let [fold, last] = &region.ops[..] else { return None };
    let bare = |op: &Op| op.attributes.is_empty() && op.regions.is_empty();
    let (arguments, operands) = (&region.arguments[..], &fold.operands[..]);
    // Swapping the operands changes the result of some operations.
    let commutes = !matches!(
        fold.name.as_ref(),
        "stablehlo.subtract" | "stablehlo.divide" | "stablehlo.remainder" | "stablehlo.power"
    );
    let of_arguments =
        arguments.len() == 2 && (operands == arguments || commutes && operands.iter().rev().eq(arguments));
    let returned = is_terminator(last)
        && fold.results.len() == 1
        && last.operands == fold.results
        && last.results.is_empty();
    (of_arguments && returned && bare(fold) && bare(last)).then_some(fold.name.as_ref())
}

/// Types of a reduction: inputs of one shape, and a scalar initial value for each.
pub(super) struct Inputs {
    count: usize,
    shape: Vec<usize>,
    initial: Vec<Type>,
}

impl Inputs {
    fn new(c: &Compiler<'_>, op: &Op) -> Made<Self> {
        let count = op.results.len();
        c.arity(op, 2 * count, count)?;
        if count == 0 {
            return Err("it reduces nothing".into());
        }
        let (_, shape) = tensor_of(c, c.operand(op, 0)?)?;
        let (_, result) = tensor_of(c, c.result(op, 0)?)?;
        for i in 0..count {
            let (dtype, extents) = tensor_of(c, c.operand(op, i)?)?;
            let initial = tensor_of(c, c.operand(op, count + i)?)?;
            if extents != shape || initial != (dtype, Vec::new()) {
                return Err("inputs have one shape, and initial values are scalars of their types".into());
            }
            if tensor_of(c, c.result(op, i)?)? != (dtype, result.clone()) {
                return Err("results have one shape, and the element types of the inputs".into());
            }
        }
        let initial = op.operands[count..].iter().map(|&value| c.ty(value).clone()).collect();
        Ok(Self { count, shape, initial })
    }

    fn take(
        &self,
        m: &mut Machine<'_>,
        step: &crate::interpret::program::Step,
    ) -> Result<[Vec<Array>; 2], Stop> {
        let mut all = (0..2 * self.count).map(|i| m.array(step, i)).collect::<Result<Vec<_>, _>>()?;
        let initial = all.split_off(self.count);
        Ok([all, initial])
    }
}

fn set_all(m: &mut Machine<'_>, step: &crate::interpret::program::Step, results: Vec<Array>) {
    for (&slot, result) in step.results.iter().zip(results) {
        m.frame[slot as usize] = Value::Array(result);
    }
}

/// Reduces along dimensions.
fn reduce(c: &mut Compiler<'_>, op: &Op) -> Made {
    let inputs = Inputs::new(c, op)?;
    let (from, (_, to)) = (inputs.shape.clone(), tensor_of(c, c.result(op, 0)?)?);
    let dimensions = c.dimensions_attribute(op, "dimensions", from.len())?;
    let full = strides(&from);
    let pick = |gone: bool| -> (Vec<usize>, Vec<usize>) {
        (0..from.len()).filter(|i| dimensions.contains(i) == gone).map(|i| (from[i], full[i])).unzip()
    };
    let ((kept, kept_strides), (gone, gone_strides)) = (pick(false), pick(true));
    if kept != to {
        return Err(format!("reducing {from:?} along {dimensions:?} does not give {to:?}").into());
    }
    let fold = Fold::new(c, &op.regions[0], &inputs.initial)?;
    let (starts, places) = (Places::new(&kept, &kept_strides, 0), Places::new(&gone, &gone_strides, 0));
    Ok(Box::new(move |m, step| {
        let [values, initial] = inputs.take(m, step)?;
        m.charge(values[0].elements());
        let starts = starts.list();
        let visit = |element: usize, fold: &mut dyn FnMut(Option<usize>) -> Result<(), Stop>| {
            let (start, mut folded) = (starts[element], Ok(()));
            places.for_each(|place| {
                if folded.is_ok() {
                    folded = fold(Some(start + place));
                }
            });
            folded
        };
        let results = fold.apply(m, [&values, &initial], &to, &visit)?;
        set_all(m, step, results);
        Ok(())
    }))
}

/// One dimension of a window that moves over an input.
#[derive(Clone, Copy)]
struct WindowDim {
    size: usize,
    stride: usize,
    /// Distance between neighbours of the input after dilation.
    base: usize,
    /// Distance between neighbours of the window.
    dilation: usize,
    low: i64,
    extent: usize,
    outputs: usize,
}

impl WindowDim {
    /// Index in the input of element `at` of window `output`; `None` is padding.
    fn index(&self, output: usize, at: usize) -> Option<usize> {
        let place = (output * self.stride + at * self.dilation) as i64 - self.low;
        let place = usize::try_from(place).ok()?;
        (place.is_multiple_of(self.base) && place / self.base < self.extent).then_some(place / self.base)
    }

    /// Returns whether window i covers all elements up to i: a running sum.
    fn is_running(&self) -> bool {
        let unit = self.stride == 1 && self.base == 1 && self.dilation == 1;
        let all = self.size == self.extent && self.outputs == self.extent;
        unit && all && self.low == self.extent as i64 - 1
    }
}

fn window_dims(c: &Compiler<'_>, op: &Op, from: &[usize], to: &[usize]) -> Made<Vec<WindowDim>> {
    let rank = from.len();
    let list = |name: &str| -> Made<Vec<usize>> {
        if op.attributes.get(name).is_none() {
            return Ok(vec![1; rank]);
        }
        let items = c.integers_attribute(op, name)?;
        let items: Option<Vec<usize>> = items
            .iter()
            .map(|&item| usize::try_from(item).ok().filter(|&i| (1..1 << 31).contains(&i)))
            .collect();
        items.filter(|items| items.len() == rank).ok_or_else(|| format!("'{name}' does not fit").into())
    };
    c.attribute(op, "window_dimensions")?;
    let (sizes, steps) = (list("window_dimensions")?, list("window_strides")?);
    let (bases, dilations) = (list("base_dilations")?, list("window_dilations")?);
    let padding = match op.attributes.get("padding") {
        Some(_) => c.integers_attribute(op, "padding")?,
        None => vec![0; 2 * rank],
    };
    let bounded = padding.iter().all(|pad| pad.unsigned_abs() < 1 << 31);
    if to.len() != rank || padding.len() != 2 * rank || !bounded {
        return Err("the window does not have the rank of the input".into());
    }
    (0..rank)
        .map(|i| {
            let dim = WindowDim {
                size: sizes[i],
                stride: steps[i],
                base: bases[i],
                dilation: dilations[i],
                low: padding[2 * i],
                extent: from[i],
                outputs: to[i],
            };
            let dilated = if from[i] == 0 { 0 } else { (from[i] - 1) as i64 * bases[i] as i64 + 1 };
            let padded = dilated + padding[2 * i] + padding[2 * i + 1];
            let window = (sizes[i] - 1) as i64 * dilations[i] as i64 + 1;
            let fits = if padded < window { 0 } else { (padded - window) / steps[i] as i64 + 1 };
            match fits == to[i] as i64 {
                true => Ok(dim),
                false => Err(format!("windows of {sizes:?} over {from:?} do not give {to:?}").into()),
            }
        })
        .collect()
}

/// Reduces the windows of the inputs.
fn reduce_window(c: &mut Compiler<'_>, op: &Op) -> Made {
    let inputs = Inputs::new(c, op)?;
    let (from, (_, to)) = (inputs.shape.clone(), tensor_of(c, c.result(op, 0)?)?);
    let dims = window_dims(c, op, &from, &to)?;
    let fold = Fold::new(c, &op.regions[0], &inputs.initial)?;
    let (full, out_strides) = (strides(&from), strides(&to));
    let sizes: Vec<usize> = dims.iter().map(|dim| dim.size).collect();
    let window = sizes.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
    let Some(window) = window else { return Err(format!("a window of {sizes:?} is too large").into()) };
    let size_strides = strides(&sizes);
    let others_are_points = |d: usize| {
        dims.iter().enumerate().all(|(i, dim)| {
            i == d
                || dim.size == 1
                    && dim.stride == 1
                    && dim.low == 0
                    && dim.base == 1
                    && dim.outputs == dim.extent
        })
    };
    let running = (0..dims.len()).find(|&d| dims[d].is_running() && others_are_points(d));
    Ok(Box::new(move |m, step| {
        let [values, initial] = inputs.take(m, step)?;
        let folded = running.and_then(|d| running_fold(m, &fold, [&values, &initial], d));
        if let Some(result) = folded {
            set_all(m, step, vec![result]);
            return Ok(());
        }
        m.count_operations((window as u64).saturating_mul(to.iter().product::<usize>() as u64) / 8);
        m.check_budget(step)?;
        let visit = |element: usize, fold: &mut dyn FnMut(Option<usize>) -> Result<(), Stop>| {
            (0..window).try_for_each(|at| {
                let indices = dims.iter().enumerate().map(|(d, dim)| {
                    let (output, at) = (element / out_strides[d] % to[d], at / size_strides[d] % sizes[d]);
                    Some(dim.index(output, at)? * full[d])
                });
                fold(indices.sum())
            })
        };
        let results = fold.apply(m, [&values, &initial], &to, &visit)?;
        set_all(m, step, results);
        Ok(())
    }))
}

/// A running fold along one dimension, in linear time; `None` if padding would change the result.
fn running_fold(
    m: &mut Machine<'_>,
    fold: &Fold,
    [inputs, initial]: [&[Array]; 2],
    dimension: usize,
) -> Option<Array> {
    let input = &inputs[0];
    let inner: usize = input.shape[dimension + 1..].iter().product();
    let extent = input.shape[dimension];
    m.charge(input.elements());
    match fold {
        Fold::Floats(rule, dtype) => {
            let first = initial[0].all_floats()[0];
            if rule(first, first).to_bits() != first.to_bits() {
                return None;
            }
            let mut values = input.all_floats();
            for i in 0..values.len() {
                let before = if (i / inner).is_multiple_of(extent) { first } else { values[i - inner] };
                values[i] = dtype.round(rule(before, values[i]));
            }
            Some(Array::floats(*dtype, &input.shape, values.into_iter()))
        }
        Fold::Integers(rule, dtype) => {
            let first = initial[0].integer(0);
            if dtype.wrap(rule(*dtype, first, first)) != first {
                return None;
            }
            let mut values = input.all_integers();
            for i in 0..values.len() {
                let before = if (i / inner).is_multiple_of(extent) { first } else { values[i - inner] };
                values[i] = dtype.wrap(rule(*dtype, before, values[i]));
            }
            Some(Array::integers(*dtype, &input.shape, values.into_iter()))
        }
        Fold::Body(_) => None,
    }
}
