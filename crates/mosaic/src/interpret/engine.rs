//! The heavy part: products of matrices of binary32.

use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder, linalg::general_mat_mul};
use rayon::prelude::*;

/// A matrix that is read with any steps between its elements.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// From the first element on.
    pub data: &'a [f32],
    /// Elements from one row to the next.
    pub row: usize,
    /// Elements from one column to the next.
    pub column: usize,
}

/// Multiplies matrices.
pub trait Engine: Sync {
    /// Adds the product of `a` (`m` x `k`) and `b` (`k` x `n`) to `out` (`m` x `n`, row-major), in binary32.
    fn add_product(&self, m: usize, n: usize, k: usize, a: Strided<'_>, b: Strided<'_>, out: &mut [f32]);
}

/// Products by the `ndarray` crate, on every core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portable;

/// Below this many products one core is faster than several.
const WORTH_SPLITTING: usize = 1 << 22;

impl Engine for Portable {
    fn add_product(&self, m: usize, n: usize, k: usize, a: Strided<'_>, b: Strided<'_>, out: &mut [f32]) {
        if m * n * k == 0 {
            return;
        }
        let b = view(b, k, n);
        let add = |first_row: usize, out: &mut [f32]| {
            let rows = out.len() / n;
            let a = view(Strided { data: &a.data[first_row * a.row..], ..a }, rows, k);
            let mut out = ArrayViewMut2::from_shape((rows, n), out).expect("the output has m x n elements");
            general_mat_mul(1.0, &a, &b, 1.0, &mut out);
        };
        let out = &mut out[..m * n];
        if m * n * k < WORTH_SPLITTING {
            return add(0, out);
        }
        let rows_each = m.div_ceil(rayon::current_num_threads()).next_multiple_of(8);
        out.par_chunks_mut(rows_each * n).enumerate().for_each(|(part, out)| add(part * rows_each, out));
    }
}

fn view(matrix: Strided<'_>, rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    let shape = (rows, columns).strides((matrix.row, matrix.column));
    ArrayView2::from_shape(shape, matrix.data).expect("a matrix lies inside its operand")
}
