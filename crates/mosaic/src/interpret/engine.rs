//! f32 matrix multiplication, the hot loop of the interpreter.

use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder, linalg::general_mat_mul};
use rayon::prelude::*;

/// A strided matrix view.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// Data, starting at the first element.
    pub data: &'a [f32],
    /// Row stride in elements.
    pub row: usize,
    /// Column stride in elements.
    pub column: usize,
}

/// A matmul backend.
pub trait Engine: Sync {
    /// Accumulates `a` (`m` x `k`) times `b` (`k` x `n`) into `out` (`m` x `n`, row-major), in f32.
    fn add_product(&self, m: usize, n: usize, k: usize, a: Strided<'_>, b: Strided<'_>, out: &mut [f32]);
}

/// The `ndarray` crate's matmul, on all cores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portable;

/// Below this many multiply-adds, one core is faster than several.
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
