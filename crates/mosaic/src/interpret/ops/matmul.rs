//! Matmuls, accumulated in f32 (or i32).

use super::{Definition, OpKind, pure, reshape::strides};
use crate::{
    attribute::{Attr, DotDimensions},
    interpret::{
        element::round_to,
        engine::Strided,
        places::Places,
        program::{Compiler, Made},
        value::{Data, Value, map_floats, zip_floats},
    },
    ir::Op,
    types::{Float, Type},
};

pub(super) const OPS: &[Definition] = &[pure(
    "tpu.matmul",
    // The hint only affects instruction selection.
    &["dimension_numbers", "precision", "transpose_lhs", "transpose_rhs", "transpose_lhs_hint"],
    matmul,
)
.kind(OpKind::Matmul)];

/// Treatment of f32 operands by the MXU, which multiplies bf16 and accumulates in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// Rounded to bf16, one pass: the default.
    Bf16,
    /// Split into two bf16 parts, three passes: all products but that of the two low parts.
    Bf16x3,
    /// Full precision, as many passes as needed.
    F32,
}

impl Precision {
    /// Accumulates a float matmul into `out`.
    pub(super) fn add_product(
        self,
        product: &Product,
        engine: &dyn crate::interpret::Engine,
        [lhs, rhs]: [Data; 2],
        out: &mut [f32],
    ) {
        let high = |data: &Data| map_floats(data.clone(), |value| round_to(Float::Bf16, value));
        let mut add = |lhs: &Data, rhs: &Data| product.add_floats(engine, lhs, rhs, out);
        match self {
            Self::F32 => add(&lhs, &rhs),
            Self::Bf16 => add(&high(&lhs), &high(&rhs)),
            Self::Bf16x3 => {
                let low =
                    |data: Data, high: &Data| zip_floats(data, high.clone(), |value, high| value - high);
                let (lhs_high, rhs_high) = (high(&lhs), high(&rhs));
                let (lhs_low, rhs_low) = (high(&low(lhs, &lhs_high)), high(&low(rhs, &rhs_high)));
                add(&lhs_low, &rhs_high);
                add(&lhs_high, &rhs_low);
                add(&lhs_high, &rhs_high);
            }
        }
    }

    /// Precision for operands of these types: narrow ones are multiplied exactly.
    pub(super) fn of_operands(self, operands: [&Type; 2]) -> Self {
        match operands.iter().any(|ty| ty.element() == &Type::F32) {
            true => self,
            false => Self::F32,
        }
    }

    /// Note for the reader of the result.
    pub(super) fn note(self) -> Option<&'static str> {
        match self {
            Self::Bf16 => Some(
                "f32 operands are rounded to bf16, as the matrix units do at this precision; \
                 `precision = #tpu.contract_precision<fp32>` (jax.lax.Precision.HIGHEST) keeps them",
            ),
            Self::Bf16x3 | Self::F32 => None,
        }
    }
}

/// Sizes and operand strides of a matmul.
pub(super) struct Product {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Output extents: batch, then the non-contracting dimensions of both operands.
    pub(super) shape: Vec<usize>,
    lhs: Side,
    rhs: Side,
}

/// One operand: start of each batch matrix, and the strides of the non-contracting and contracting index.
struct Side {
    starts: Vec<usize>,
    kept: usize,
    summed: usize,
    /// Set if the operand must first be gathered into (batch, non-contracting, contracting) order.
    gather: Option<Places>,
    elements: usize,
}

impl Side {
    fn new(shape: &[usize], batch: &[usize], kept: &[usize], summed: &[usize]) -> Self {
        let full = strides(shape);
        let pick = |dims: &[usize]| -> (Vec<usize>, Vec<usize>) {
            dims.iter().map(|&d| (shape[d], full[d])).unzip()
        };
        let elements = shape.iter().product();
        let (batch_shape, batch_strides) = pick(batch);
        let starts = Places::new(&batch_shape, &batch_strides, 0).list();
        if let ([kept], [summed]) = (kept, summed) {
            return Self { starts, kept: full[*kept], summed: full[*summed], gather: None, elements };
        }
        let ((kept_shape, kept_strides), (summed_shape, summed_strides)) = (pick(kept), pick(summed));
        let all_shape = [batch_shape, kept_shape.clone(), summed_shape.clone()].concat();
        let all_strides = [batch_strides, kept_strides, summed_strides].concat();
        let k: usize = summed_shape.iter().product();
        let matrix = k * kept_shape.iter().product::<usize>();
        let starts = (0..starts.len()).map(|i| i * matrix).collect();
        Self { starts, kept: k, summed: 1, gather: Some(Places::new(&all_shape, &all_strides, 0)), elements }
    }

    fn arranged(&self, data: &Data) -> Data {
        match &self.gather {
            Some(places) => places.gather(data),
            None => data.clone(),
        }
    }
}

impl Product {
    pub(super) fn new(lhs: &[usize], rhs: &[usize], dot: &DotDimensions) -> Made<Self> {
        let inside = |dims: &[usize], shape: &[usize]| dims.iter().all(|&d| d < shape.len());
        let extents = |dims: &[usize], shape: &[usize]| dims.iter().map(|&d| shape[d]).collect::<Vec<_>>();
        let lhs_dims = [&dot.lhs_batch[..], &dot.lhs_kept, &dot.lhs_contracting].concat();
        let rhs_dims = [&dot.rhs_batch[..], &dot.rhs_kept, &dot.rhs_contracting].concat();
        let whole = |dims: &[usize], shape: &[usize]| {
            let mut sorted = dims.to_vec();
            sorted.sort_unstable();
            inside(dims, shape) && sorted.iter().copied().eq(0..shape.len())
        };
        if !whole(&lhs_dims, lhs) || !whole(&rhs_dims, rhs) {
            return Err("dimension_numbers must name every dimension once".into());
        }
        let (summed, batch) = (extents(&dot.lhs_contracting, lhs), extents(&dot.lhs_batch, lhs));
        if summed != extents(&dot.rhs_contracting, rhs) || batch != extents(&dot.rhs_batch, rhs) {
            return Err(format!("the operands' shapes {lhs:?} and {rhs:?} do not match").into());
        }
        let kept = [extents(&dot.lhs_kept, lhs), extents(&dot.rhs_kept, rhs)];
        let shape = [&batch[..], &kept[0], &kept[1]].concat();
        let size = |extents: Vec<usize>| extents.iter().product::<usize>();
        Ok(Self {
            batch: size(batch),
            m: size(extents(&dot.lhs_kept, lhs)),
            n: size(extents(&dot.rhs_kept, rhs)),
            k: size(summed),
            shape,
            lhs: Side::new(lhs, &dot.lhs_batch, &dot.lhs_kept, &dot.lhs_contracting),
            rhs: Side::new(rhs, &dot.rhs_batch, &dot.rhs_kept, &dot.rhs_contracting),
        })
    }

    pub(super) fn products(&self) -> u64 {
        [self.batch, self.m, self.n, self.k].iter().fold(1u64, |all, &size| all.saturating_mul(size as u64))
    }

    /// Accumulates a float matmul into `out`.
    pub(super) fn add_floats(
        &self,
        engine: &dyn crate::interpret::Engine,
        lhs: &Data,
        rhs: &Data,
        out: &mut [f32],
    ) {
        let (lhs, rhs) = (self.lhs.arranged(lhs), self.rhs.arranged(rhs));
        let (lhs, rhs) = (lhs.to_floats(self.lhs.elements), rhs.to_floats(self.rhs.elements));
        if self.m * self.n * self.k == 0 {
            return;
        }
        for (matrix, out) in out.chunks_mut(self.m * self.n).enumerate() {
            let a = Strided {
                data: &lhs[self.lhs.starts[matrix]..],
                row: self.lhs.kept,
                column: self.lhs.summed,
            };
            let b = Strided {
                data: &rhs[self.rhs.starts[matrix]..],
                row: self.rhs.summed,
                column: self.rhs.kept,
            };
            engine.add_product(self.m, self.n, self.k, a, b, out);
        }
    }

    /// Accumulates an integer matmul into `out`.
    pub(super) fn add_integers(&self, lhs: &Data, rhs: &Data, out: &mut [i32]) {
        let (lhs, rhs) = (self.lhs.arranged(lhs), self.rhs.arranged(rhs));
        let (lhs, rhs) = (lhs.to_integers(self.lhs.elements), rhs.to_integers(self.rhs.elements));
        if self.m * self.n == 0 {
            return;
        }
        for (matrix, out) in out.chunks_mut(self.m * self.n).enumerate() {
            let (a, b) = (self.lhs.starts[matrix], self.rhs.starts[matrix]);
            for (i, row) in out.chunks_mut(self.n).enumerate() {
                for k in 0..self.k {
                    let x = lhs[a + i * self.lhs.kept + k * self.lhs.summed];
                    let weights = b + k * self.rhs.summed;
                    for (j, out) in row.iter_mut().enumerate() {
                        *out = out.wrapping_add(x.wrapping_mul(rhs[weights + j * self.rhs.kept]));
                    }
                }
            }
        }
    }
}

fn dimensions(c: &Compiler<'_>, op: &Op) -> Made<DotDimensions> {
    match op.attributes.get("dimension_numbers") {
        Some(Attr::Dot(dot)) => {
            for name in ["transpose_lhs", "transpose_rhs"] {
                if c.flag(op, name)? {
                    return Err(
                        format!("{name} = true contradicts the dimension_numbers: give one of them").into()
                    );
                }
            }
            Ok(dot.clone())
        }
        Some(other) => Err(format!("matmul with {other} is not supported").into()),
        None => {
            let lhs = usize::from(c.flag(op, "transpose_lhs")?);
            let rhs = usize::from(c.flag(op, "transpose_rhs")?);
            Ok(DotDimensions {
                lhs_contracting: vec![1 - lhs],
                rhs_contracting: vec![rhs],
                lhs_kept: vec![lhs],
                rhs_kept: vec![1 - rhs],
                lhs_batch: Vec::new(),
                rhs_batch: Vec::new(),
            })
        }
    }
}

/// Converts integers; floats stay.
fn as_floats(data: Data) -> Data {
    match data {
        Data::Integers(values) => Data::floats(values.iter().map(|&value| value as f32).collect()),
        Data::Integer(value) => Data::Float(value as f32),
        floats => floats,
    }
}

fn matmul(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 3, 1)?;
    let precision = match c.word(op, "precision", &["bf16", "fp32", "bf16x3"])? {
        None | Some(0) => Precision::Bf16,
        Some(1) => Precision::F32,
        Some(_) => Precision::Bf16x3,
    };
    let [lhs, rhs, acc] = [0, 1, 2].map(|i| c.ty(op.operands[i]));
    let result = c.ty(op.results[0]);
    let product = Product::new(&c.vector_shape(lhs)?, &c.vector_shape(rhs)?, &dimensions(c, op)?)?;
    let results = product.batch * product.m * product.n;
    if acc != result || c.vector_shape(result)? != product.shape {
        return Err(format!("the matmul of {lhs} and {rhs} does not match the accumulator {acc}").into());
    }
    // The modelled clock counts passes: f32 rounded to bf16 takes one.
    let widest = c.element(lhs)?.bytes().max(c.element(rhs)?.bytes()) * 8;
    let bits = if precision == Precision::Bf16 { widest.min(16) } else { widest };
    // An integer operand beside floats is converted: its few bits are exact in f32.
    let is_float = |ty: &Type| c.float(ty).is_ok();
    let is_exact = |ty: &Type| is_float(ty) || c.element(ty).is_ok_and(|element| element.bytes() <= 2);
    let mixed = (is_float(lhs) || is_float(rhs)) && is_exact(lhs) && is_exact(rhs);
    if let (true, Ok(float)) = (mixed, c.float(acc)) {
        let precision = precision.of_operands([lhs, rhs]);
        if let Some(note) = precision.note() {
            c.note(op, note);
        }
        return Ok(Box::new(move |m, step| {
            m.clock.matmul(product.products(), bits, step.line());
            let (lhs, rhs) = (as_floats(m.vector(step, 0)), as_floats(m.vector(step, 1)));
            let mut out = match m.vector(step, 2) {
                Data::Float(value) => vec![value; results],
                acc => acc.to_floats(results).to_vec(),
            };
            precision.add_product(&product, m.options.engine, [lhs, rhs], &mut out);
            m.set(step, Value::Vector(map_floats(Data::floats(out), |value| round_to(float, value))));
            Ok(())
        }));
    }
    [lhs, rhs].into_iter().try_for_each(|ty| c.integer(ty))?;
    let width = super::integer::bits(c, acc)?;
    Ok(Box::new(move |m, step| {
        m.clock.matmul(product.products(), bits, step.line());
        let (lhs, rhs) = (m.vector(step, 0), m.vector(step, 1));
        let mut out = m.vector(step, 2).to_integers(results).to_vec();
        product.add_integers(&lhs, &rhs, &mut out);
        out.iter_mut().for_each(|sum| *sum = super::scalar::wrap(width, (*sum).into()) as i32);
        m.set(step, Value::Vector(Data::integers(out)));
        Ok(())
    }))
}
