//! Matrix products, summed in binary32 (or in 32-bit integers).

use super::{
    Maker,
    reshape::{strided, strides},
};
use crate::{
    attribute::{Attr, DotDimensions},
    interpret::{
        engine::Strided,
        program::{Compiler, Made},
        value::{Data, Value},
    },
    ir::Op,
};

pub(super) const OPS: &[(&str, Maker)] = &[("tpu.matmul", matmul)];

/// Sizes of a product, and where its operands' elements are.
pub(super) struct Product {
    pub(super) batch: usize,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    lhs: Side,
    rhs: Side,
}

/// One operand: the start of each matrix of the batch, and the steps to the next kept and summed index.
struct Side {
    starts: Vec<usize>,
    kept: usize,
    summed: usize,
    /// Set where the operand must be gathered into (batch, kept, summed) order first.
    gather: Option<Vec<usize>>,
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
        let starts = strided(&batch_shape, &batch_strides, 0);
        if let ([kept], [summed]) = (kept, summed) {
            return Self { starts, kept: full[*kept], summed: full[*summed], gather: None, elements };
        }
        let ((kept_shape, kept_strides), (summed_shape, summed_strides)) = (pick(kept), pick(summed));
        let all_shape = [batch_shape, kept_shape.clone(), summed_shape.clone()].concat();
        let all_strides = [batch_strides, kept_strides, summed_strides].concat();
        let k: usize = summed_shape.iter().product();
        let matrix = k * kept_shape.iter().product::<usize>();
        let starts = (0..starts.len()).map(|i| i * matrix).collect();
        Self { starts, kept: k, summed: 1, gather: Some(strided(&all_shape, &all_strides, 0)), elements }
    }

    fn arranged(&self, data: &Data) -> Data {
        match &self.gather {
            Some(places) => data.gather(places.iter().copied()),
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
            return Err("the dimension numbers do not name every dimension once".into());
        }
        let (summed, batch) = (extents(&dot.lhs_contracting, lhs), extents(&dot.lhs_batch, lhs));
        if summed != extents(&dot.rhs_contracting, rhs) || batch != extents(&dot.rhs_batch, rhs) {
            return Err(format!("the operands' shapes {lhs:?} and {rhs:?} do not match").into());
        }
        let size = |extents: Vec<usize>| extents.iter().product::<usize>();
        Ok(Self {
            batch: size(batch),
            m: size(extents(&dot.lhs_kept, lhs)),
            n: size(extents(&dot.rhs_kept, rhs)),
            k: size(summed),
            lhs: Side::new(lhs, &dot.lhs_batch, &dot.lhs_kept, &dot.lhs_contracting),
            rhs: Side::new(rhs, &dot.rhs_batch, &dot.rhs_kept, &dot.rhs_contracting),
        })
    }

    pub(super) fn products(&self) -> u64 {
        (self.batch * self.m * self.n * self.k) as u64
    }

    /// Adds the product of floats to `out`.
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

    /// Adds the product of integers to `out`.
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
        Some(Attr::Dot(dot)) => Ok(dot.clone()),
        Some(other) => Err(format!("a product with {other} is not supported").into()),
        None => {
            let flag = |name: &str| op.attributes.get(name) == Some(&Attr::Bool(true));
            let (lhs, rhs) = (usize::from(flag("transpose_lhs")), usize::from(flag("transpose_rhs")));
            c.arity(op, 3, 1)?;
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

fn matmul(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 3, 1)?;
    let [lhs, rhs, acc] = [0, 1, 2].map(|i| c.ty(op.operands[i]));
    let result = c.result(op, 0)?;
    let product = Product::new(&c.vector_shape(lhs)?, &c.vector_shape(rhs)?, &dimensions(c, op)?)?;
    let results = product.batch * product.m * product.n;
    if acc != result || c.vector_shape(result)?.iter().product::<usize>() != results {
        return Err(format!("the product of {lhs} and {rhs} does not add to {acc}").into());
    }
    let bits = c.element(lhs)?.bytes().max(c.element(rhs)?.bytes()) * 8;
    if let (Ok(_), Ok(_), Ok(_)) = (c.float(lhs), c.float(rhs), c.float(acc)) {
        return Ok(Box::new(move |m, step| {
            m.clock.matmul(product.products(), bits, step.line());
            let (lhs, rhs) = (m.vector(step, 0), m.vector(step, 1));
            let mut out = match m.vector(step, 2) {
                Data::Float(value) => vec![value; results],
                acc => acc.to_floats(results).to_vec(),
            };
            product.add_floats(m.options.engine, &lhs, &rhs, &mut out);
            m.set(step, Value::Vector(Data::floats(out)));
            Ok(())
        }));
    }
    [lhs, rhs, acc].into_iter().try_for_each(|ty| c.integer(ty))?;
    Ok(Box::new(move |m, step| {
        m.clock.matmul(product.products(), bits, step.line());
        let (lhs, rhs) = (m.vector(step, 0), m.vector(step, 1));
        let mut out = m.vector(step, 2).to_integers(results).to_vec();
        product.add_integers(&lhs, &rhs, &mut out);
        m.set(step, Value::Vector(Data::integers(out)));
        Ok(())
    }))
}
