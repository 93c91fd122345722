//! Floats to f8e4m3fn with one scale per block or token group: the same bits as the CPU's quantization.

use octile_core::{FloatKind, ScaleGranularity};

use super::{
    Kernel,
    ptx::{B32, B64, F32, Global, LaunchBounds, Parameter, Ptx, Shared},
};

/// Names of the numbers that a quantizing kernel takes after pointers to x, its codes and its scales.
pub const QUANTIZE_NUMBERS: [&str; 7] =
    ["m", "k", "quant_shift", "x_stride", "codes_stride", "scale_row", "scale_k"];

/// Bytes of shared memory of a block.
pub const QUANTIZE_SHARED_BYTES: u32 = 16;

/// Threads of a block.
pub const QUANTIZE_THREADS: u32 = 256;
const WARPS: u32 = QUANTIZE_THREADS / 32;
/// Columns that a warp takes at once, four to a lane.
const WARP_COLUMNS: u32 = 128;
/// Values that a warp has in flight.
const WARP_VALUES: u32 = 4 * WARP_COLUMNS;

fn groups_per_warp(quant_block: u32) -> u32 {
    (WARP_VALUES / quant_block).max(1)
}

/// Token groups of `quant_block` values that a block of threads quantizes.
pub fn groups_per_block(quant_block: usize) -> u32 {
    WARPS * groups_per_warp(quant_block as u32)
}

/// Whether rows of `k` values can be loaded as vectors: each then starts at a multiple of their size.
pub fn quantizes_vectors(k: usize) -> bool {
    k.is_multiple_of(8)
}

/// The kernel that quantizes floats of one kind. `quant_block` is the number of columns that share a scale; `aligned`
/// says that rows start at multiples of 16 bytes and K is a multiple of 4.
///
/// A launch has one block per [`groups_per_block`] token groups, or one block per quantization block, those along K
/// first.
pub fn quantize(kind: FloatKind, granularity: ScaleGranularity, quant_block: usize, aligned: bool) -> Kernel {
    let mut ptx = Ptx::default();
    let rows = Rows::new(&mut ptx, kind, aligned);
    ptx.wait_for_previous_kernel();
    ptx.let_next_kernel_start();
    match granularity {
        ScaleGranularity::Token => token_groups(&mut ptx, &rows, quant_block as u32),
        ScaleGranularity::Block => blocks(&mut ptx, &rows, quant_block as u32),
    }
    let pointers = ["x", "codes", "scales"].map(Parameter::Pointer);
    let parameters: Vec<Parameter> =
        pointers.into_iter().chain(QUANTIZE_NUMBERS.map(Parameter::Number)).collect();
    let alignment = if aligned { "" } else { "_unaligned" };
    let entry = format!("octile_quantize_{kind}_{granularity}_{quant_block}{alignment}");
    let bounds = LaunchBounds { threads: QUANTIZE_THREADS, blocks_per_sm: 4, cluster: 1 };
    Kernel { ptx: ptx.module(&entry, &parameters, bounds), entry }
}

/// Where values, codes and scales are.
struct Rows {
    kind: FloatKind,
    aligned: bool,
    x: B64,
    codes: B64,
    scales: B64,
    /// Bytes from row to row of x.
    x_stride: B32,
    codes_stride: B32,
    m: B32,
    k: B32,
    warp: B32,
    lane: B32,
}

impl Rows {
    fn new(ptx: &mut Ptx, kind: FloatKind, aligned: bool) -> Self {
        let stride = ptx.number("x_stride");
        let thread = ptx.thread();
        Self {
            kind,
            aligned,
            x: ptx.pointer("x"),
            codes: ptx.pointer("codes"),
            scales: ptx.pointer("scales"),
            x_stride: ptx.mul(stride, kind.bytes() as u32),
            codes_stride: ptx.number("codes_stride"),
            m: ptx.number("m"),
            k: ptx.number("k"),
            warp: ptx.shr(thread, 5),
            lane: ptx.and(thread, 31),
        }
    }

    /// Four neighbouring values; 0 beyond the matrix.
    fn load(&self, ptx: &mut Ptx, row: B32, column: B32) -> [F32; 4] {
        let of_row = ptx.mad_wide(row, self.x_stride, self.x);
        let at = ptx.mad_wide(column, self.kind.bytes() as u32, of_row);
        let in_rows = ptx.lt(row, self.m);
        if self.aligned {
            let in_columns = ptx.lt(column, self.k);
            let exists = ptx.both(in_rows, in_columns);
            return match self.kind {
                FloatKind::F32 => ptx.load_global_f32x4_if(Global(at, 0), exists),
                kind => {
                    let packed = ptx.load_global_8_if(Global(at, 0), exists);
                    let halves = packed.map(|packed| ptx.halves(packed));
                    [halves[0][0], halves[0][1], halves[1][0], halves[1][1]].map(|half| ptx.widen(kind, half))
                }
            };
        }
        [0, 1, 2, 3].map(|offset| {
            let column = ptx.add(column, offset);
            let in_columns = ptx.lt(column, self.k);
            let exists = ptx.both(in_rows, in_columns);
            let at = Global(at, offset * self.kind.bytes() as u32);
            match self.kind {
                FloatKind::F32 => ptx.load_global_f32_if(at, exists),
                kind => {
                    let half = ptx.load_global_b16_if(at, exists);
                    ptx.widen(kind, half)
                }
            }
        })
    }

    /// Stores four codes. Rows of codes have room up to a multiple of 16.
    fn store(&self, ptx: &mut Ptx, row: B32, column: B32, values: [F32; 4], inverse: F32) {
        let scaled = values.map(|value| ptx.mul_f32(value, inverse));
        let low = ptx.pack_e4m3(scaled[0], scaled[1]);
        let high = ptx.pack_e4m3(scaled[2], scaled[3]);
        let codes = ptx.join_halves(low, high);
        let of_row = ptx.mad_wide(row, self.codes_stride, self.codes);
        let at = ptx.mad_wide(column, 1, of_row);
        let (in_rows, in_columns) = (ptx.lt(row, self.m), ptx.lt(column, self.k));
        let exists = ptx.both(in_rows, in_columns);
        ptx.store_global_b32_if(Global(at, 0), codes, exists);
    }

    /// Stores the scale of a block or group from the first lane, where `row` is its index along M.
    fn store_scale(&self, ptx: &mut Ptx, row: B32, quant_k: B32, scale: F32, exists: super::ptx::Pred) {
        let (row_stride, k_stride) = (ptx.number("scale_row"), ptx.number("scale_k"));
        let (row_bytes, k_bytes) = (ptx.shl(row_stride, 2), ptx.shl(k_stride, 2));
        let of_row = ptx.mad_wide(row, row_bytes, self.scales);
        let at = ptx.mad_wide(quant_k, k_bytes, of_row);
        ptx.store_global_f32_if(Global(at, 0), scale, exists);
    }
}

fn largest(ptx: &mut Ptx, values: &[F32], start: F32) -> F32 {
    values.iter().fold(start, |max, &value| {
        let magnitude = ptx.abs_f32(value);
        ptx.max_f32(max, magnitude)
    })
}

/// The scale of a block and what to multiply its values by: zero for a block of zeros, never subnormal otherwise.
fn scale_of(ptx: &mut Ptx, abs_max: F32) -> (F32, F32) {
    let (zero, one) = (ptx.float(0.0), ptx.float(1.0));
    let (max_code, smallest) = (ptx.float(octile_core::E4m3::MAX), ptx.float(f32::MIN_POSITIVE));
    let scale = ptx.div_f32(abs_max, max_code);
    let scale = ptx.max_f32(scale, smallest);
    let inverse = ptx.div_f32(one, scale);
    let is_zero = ptx.eq_f32(abs_max, zero);
    (ptx.select_f32(zero, scale, is_zero), ptx.select_f32(zero, inverse, is_zero))
}

/// A warp quantizes some groups, all loads before the first use.
fn token_groups(ptx: &mut Ptx, rows: &Rows, quant_block: u32) {
    let shift = quant_block.ilog2();
    let block = ptx.block();
    let warp = ptx.mad(block, WARPS, rows.warp);
    let before = ptx.add(rows.k, quant_block - 1);
    let k_groups = ptx.shr(before, shift);
    let groups_per_warp = groups_per_warp(quant_block);
    let loaded: Vec<_> = (0..groups_per_warp)
        .map(|index| {
            let group = ptx.mad(warp, groups_per_warp, index);
            let (row, quant_k) = (ptx.div(group, k_groups), ptx.rem(group, k_groups));
            let first = ptx.shl(quant_k, shift);
            let columns: Vec<(B32, [F32; 4])> = (0..quant_block / WARP_COLUMNS)
                .map(|part| {
                    let column = ptx.mad(rows.lane, 4, first);
                    let column = ptx.add(column, part * WARP_COLUMNS);
                    (column, rows.load(ptx, row, column))
                })
                .collect();
            (row, quant_k, columns)
        })
        .collect();
    for (row, quant_k, columns) in loaded {
        let zero = ptx.float(0.0);
        let values: Vec<F32> = columns.iter().flat_map(|(_, values)| *values).collect();
        let max = largest(ptx, &values, zero);
        let max = ptx.warp_max(max);
        let (scale, inverse) = scale_of(ptx, max);
        for (column, values) in columns {
            rows.store(ptx, row, column, values, inverse);
        }
        let (is_first, in_rows) = (ptx.eq(rows.lane, 0), ptx.lt(row, rows.m));
        let stores = ptx.both(is_first, in_rows);
        rows.store_scale(ptx, row, quant_k, scale, stores);
    }
}

/// What is done with four values, given their row and first column.
type Visit<'a> = &'a dyn Fn(&mut Ptx, B32, B32, [F32; 4]);

/// A thread block quantizes one quantization block: once through it for the largest, once more for the codes.
fn blocks(ptx: &mut Ptx, rows: &Rows, quant_block: u32) {
    let shift = quant_block.ilog2();
    let (quant_k, quant_m) = (ptx.block(), ptx.block_y());
    let (first_row, first_column) = (ptx.shl(quant_m, shift), ptx.shl(quant_k, shift));
    let shared = ptx.shared_memory();
    let thread_in_warp = ptx.mad(rows.warp, 32, rows.lane);
    let is_first = ptx.eq(thread_in_warp, 0);
    let max = ptx.float(0.0);
    ptx.when(is_first, |ptx| ptx.store_shared_f32(Shared(shared, 0), max));
    ptx.block_barrier();

    let each = |ptx: &mut Ptx, body: Visit<'_>| {
        let offset = ptx.variable(rows.warp);
        ptx.while_(
            |ptx| ptx.lt(offset, quant_block),
            |ptx| {
                let row = ptx.add(first_row, offset);
                for part in 0..quant_block / WARP_COLUMNS {
                    let column = ptx.mad(rows.lane, 4, first_column);
                    let column = ptx.add(column, part * WARP_COLUMNS);
                    let values = rows.load(ptx, row, column);
                    body(ptx, row, column, values);
                }
                ptx.increase(offset, WARPS);
            },
        );
    };
    each(ptx, &|ptx, _, _, values| {
        let larger = largest(ptx, &values, max);
        ptx.copy_float(max, larger);
    });
    let warp_max = ptx.warp_max(max);
    let is_lane_zero = ptx.eq(rows.lane, 0);
    ptx.when(is_lane_zero, |ptx| ptx.max_shared(Shared(shared, 0), warp_max));
    ptx.block_barrier();
    let abs_max = ptx.load_shared_f32(Shared(shared, 0));
    let (scale, inverse) = scale_of(ptx, abs_max);
    each(ptx, &|ptx, row, column, values| rows.store(ptx, row, column, values, inverse));
    rows.store_scale(ptx, quant_m, quant_k, scale, is_first);
}
