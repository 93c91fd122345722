//! Scales inside a kernel: where they are, how they are read, and how they are computed when x is quantized.

use octile_core::plan::tpu::TpuPlan;
use octile_mosaic::{FunctionBuilder, MemorySpace, Type, Value};

/// The largest finite f8e4m3fn.
const CODE_MAX: f32 = 448.0;

/// A matrix of scales with one column per k-block, somewhere inside a memref.
#[derive(Clone)]
pub(crate) struct Scales {
    memref: Value,
    /// Indices of the dimensions before the last two.
    leading: Vec<Value>,
    /// Row and column of the tile's first scale, as i32; `None` for (0, 0).
    origin: Option<(Value, Value)>,
    /// Rows of the operand that share a scale; with 1, the scales of a block form a column.
    rows: usize,
    /// Whether these are largest magnitudes, still to be turned into scales.
    from_abs_max: bool,
    /// Lanes along which each scale is repeated, in one matrix per k-block.
    spread: Option<usize>,
}

impl Scales {
    /// Weight scales.
    pub(crate) fn of_w(plan: &TpuPlan, memref: Value) -> Self {
        let rows = plan.problem.quant_block.size();
        Self { memref, leading: Vec::new(), origin: None, rows, from_abs_max: false, spread: None }
    }

    /// Activation scales, or largest magnitudes.
    pub(crate) fn of_x(plan: &TpuPlan, memref: Value) -> Self {
        let (rows, from_abs_max) = (plan.x_scale_rows(), plan.quantizes_x());
        Self { memref, leading: Vec::new(), origin: None, rows, from_abs_max, spread: None }
    }

    /// Scales of rows of x that [`Self::spread`] has stored, one matrix per k-block.
    pub(crate) fn of_lanes(b: &FunctionBuilder, lanes: Value) -> Self {
        let spread = b.ty(lanes).shape().last().copied();
        Self { memref: lanes, leading: Vec::new(), origin: None, rows: 1, from_abs_max: false, spread }
    }

    /// Stores the scales of all rows, each repeated along the lanes: repeating them is slower than loading.
    pub(crate) fn spread(&self, b: &mut FunctionBuilder, plan: &TpuPlan, lanes: Value) {
        let &[k_blocks, rows, width] = b.ty(lanes).shape() else { panic!("one matrix per k-block") };
        debug_assert_eq!(k_blocks, plan.k_blocks());
        for k_block in 0..k_blocks {
            let scale = self.get(b, 0, rows, k_block);
            let scale = b.broadcast(scale, [rows, width]);
            let indices = [b.index(k_block), b.index(0), b.index(0)];
            b.store(scale, lanes, &indices);
        }
    }

    /// The same scales with these indices before the last two dimensions.
    pub(crate) fn at(self, leading: Vec<Value>) -> Self {
        Self { leading, ..self }
    }

    /// The same scales, beginning at a row and column of the memref.
    pub(crate) fn with_origin(self, row: Value, col: Value) -> Self {
        Self { origin: Some((row, col)), ..self }
    }

    /// The scale of `rows` rows from row `row` of the tile in a k-block: a scalar, or a vector with one
    /// column and one row (or `rows` of them).
    pub(crate) fn get(&self, b: &mut FunctionBuilder, row: usize, rows: usize, k_block: usize) -> Value {
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
        if let Some(width) = self.spread {
            let indices = [k_block, row, b.index(0)];
            return b.load(self.memref, &indices, [rows, width]);
        }
        match b.ty(self.memref) {
            Type::MemRef(memref) if memref.space == Some(MemorySpace::Smem) => {
                b.load_scalar(self.memref, &indices)
            }
            _ => b.load(self.memref, &indices, [rows, 1]),
        }
    }
}

/// The scale of a block with this largest magnitude. Never subnormal, so that its inverse is finite. A block
/// of zeros gets an arbitrary scale; all its values are zero.
fn scale_of(b: &mut FunctionBuilder, abs_max: Value) -> Value {
    let most = constant_like(b, CODE_MAX, abs_max);
    let least = constant_like(b, f32::MIN_POSITIVE, abs_max);
    let scale = b.divf(abs_max, most);
    b.maximumf(scale, least)
}

/// The reciprocal of a scale.
pub(crate) fn inverse(b: &mut FunctionBuilder, scale: Value) -> Value {
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

/// The product of two scales, broadcast to the larger shape.
pub(crate) fn times(b: &mut FunctionBuilder, x: Value, w: Value) -> Value {
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
pub(crate) fn scaled(b: &mut FunctionBuilder, matrix: Value, scale: Value) -> Value {
    let shape = b.ty(matrix).shape().to_vec();
    let scale = if b.ty(scale).shape() == shape { scale } else { b.broadcast(scale, shape) };
    b.mulf(matrix, scale)
}
