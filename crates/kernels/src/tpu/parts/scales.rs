//! Scales inside a kernel: where they are, how they are read, and what they become when x is quantized on the way.

use octile_core::{ScaleGranularity, plan::tpu::TpuPlan};
use octile_mosaic::{FunctionBuilder, MemorySpace, Type, Value};

use super::tile::quantizes;

/// The largest finite f8e4m3fn.
const CODE_MAX: f32 = 448.0;

/// A matrix of scales with one column per k-block, somewhere inside a memref.
#[derive(Clone)]
pub(super) struct Scales {
    /// What holds them.
    pub(super) memref: Value,
    /// Indices of the dimensions before the last two.
    pub(super) leading: Vec<Value>,
    /// Row and column of the memref where the tile's scales begin, as 32-bit integers; none for the first.
    pub(super) origin: Option<(Value, Value)>,
    /// Rows of the operand that share one; 1 makes every scale a column of them.
    pub(super) rows: usize,
    /// Whether these are largest magnitudes, still to be turned into scales.
    pub(super) from_abs_max: bool,
}

impl Scales {
    /// The scale of `rows` rows of the operand from row `row` of its tile, in a k-block: a scalar, or a vector of
    /// one column and one row (or `rows` of them).
    pub(super) fn get(&self, b: &mut FunctionBuilder, row: usize, rows: usize, k_block: usize) -> Value {
        let raw = self.load(b, row / self.rows, if self.rows == 1 { rows } else { 1 }, k_block);
        if self.from_abs_max { scale_of(b, raw) } else { raw }
    }

    fn load(&self, b: &mut FunctionBuilder, row: usize, rows: usize, k_block: usize) -> Value {
        let [row, k_block] = match self.origin {
            None => [b.index(row), b.index(k_block)],
            Some((first_row, first_k)) => [(first_row, row), (first_k, k_block)].map(|(first, offset)| {
                let offset = b.i32(offset);
                let sum = b.addi(first, offset);
                b.to_index(sum)
            }),
        };
        let indices: Vec<Value> = self.leading.iter().copied().chain([row, k_block]).collect();
        match memory_of(b, self.memref) {
            MemorySpace::Smem => b.load_scalar(self.memref, &indices),
            _ => b.load(self.memref, &indices, [rows, 1]),
        }
    }
}

fn memory_of(b: &FunctionBuilder, memref: Value) -> MemorySpace {
    match b.ty(memref) {
        Type::MemRef(memref) => memref.space.expect("every buffer of a kernel has its memory"),
        other => panic!("{other} is no memref"),
    }
}

/// The scale of a block with this largest magnitude. Never subnormal, so that its inverse is finite; a block of
/// zeros gets a scale that its codes, all zero, do not mind.
fn scale_of(b: &mut FunctionBuilder, abs_max: Value) -> Value {
    let most = constant_like(b, CODE_MAX, abs_max);
    let least = constant_like(b, f32::MIN_POSITIVE, abs_max);
    let scale = b.divf(abs_max, most);
    b.maximumf(scale, least)
}

/// What to multiply by to divide by `scale`.
pub(super) fn inverse(b: &mut FunctionBuilder, scale: Value) -> Value {
    let one = constant_like(b, 1.0, scale);
    b.divf(one, scale)
}

fn constant_like(b: &mut FunctionBuilder, value: f32, like: Value) -> Value {
    match b.ty(like) {
        Type::Vector(shape, _) => {
            let shape = shape.clone();
            b.splat(value, shape)
        }
        _ => b.f32(value),
    }
}

/// The product of two scales, whatever shape each has.
pub(super) fn times(b: &mut FunctionBuilder, x: Value, w: Value) -> Value {
    let (x_shape, w_shape) = (b.ty(x).shape().to_vec(), b.ty(w).shape().to_vec());
    if x_shape == w_shape {
        return b.mulf(x, w);
    }
    let larger = std::cmp::max_by_key(x_shape.clone(), w_shape.clone(), |s| s.iter().product::<usize>());
    let mut spread = |value, shape: &[usize]| {
        if shape == larger { value } else { b.broadcast(value, larger.clone()) }
    };
    let (x, w) = (spread(x, &x_shape), spread(w, &w_shape));
    b.mulf(x, w)
}

/// A matrix times a scale.
pub(super) fn scaled(b: &mut FunctionBuilder, matrix: Value, scale: Value) -> Value {
    let shape = b.ty(matrix).shape().to_vec();
    let scale = b.broadcast(scale, shape);
    b.mulf(matrix, scale)
}

/// The memory for scales of x: scalar memory gives one at a time, so a scale per row needs vectors.
pub(super) fn x_scale_memory(plan: &TpuPlan, wanted: MemorySpace) -> MemorySpace {
    match plan.problem.x.granularity() {
        Some(ScaleGranularity::Token) => MemorySpace::Vmem,
        _ => wanted,
    }
}

/// What the kernel calls them: quantization on the way begins with the largest magnitudes.
pub(super) fn x_scale_name(plan: &TpuPlan) -> &'static str {
    if quantizes(plan) { "x_abs_max" } else { "x_scale" }
}
