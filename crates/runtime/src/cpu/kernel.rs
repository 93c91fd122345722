//! The microkernels, generic over the ISA.

mod args;
mod rows;

pub(super) use args::{MoreSlabs, Target, TileArgs, TileState};
pub(super) use rows::{abs_max_bits, decode_panel, decode_row, narrow_bf16, quantize_row, widen_bf16};

use std::{mem::MaybeUninit, ops::Range};

use half::bf16;
use octile_core::{
    FloatKind,
    device::cpu::SLAB,
    plan::cpu::{PANEL, x_row_bytes},
};

use super::isa::{Vector, prefetch, prefetch_blocks, prefetch_stream, prefetch_stream_into_l1};

/// A microkernel.
pub(super) type TileFn = unsafe fn(&TileArgs);

/// The microkernels of one ISA and operand type. All are unsafe to call: the CPU must support the ISA, and
/// pointers must be valid.
pub(super) struct Kernels {
    /// The type that operands are decoded to.
    pub operand: FloatKind,
    /// Columns of a tile.
    pub tile_cols: usize,
    /// Bytes of a decoded weight.
    pub weight_bytes: usize,
    /// Tiles of 1, 2, ... rows over decoded weights.
    pub tiles: &'static [TileFn],
    /// Tiles of 1, 2, ... rows and a whole panel of columns that decode weights in registers.
    pub decoding_tiles: &'static [TileFn],
    /// The same, storing decoded weights for the following tiles. None if a tile is narrower than a panel.
    pub keeping_tiles: &'static [TileFn],
    /// Decodes pairs of a packed panel, `codes, pairs, out, first..end`, into the order of the microkernel.
    pub decode_panel: unsafe fn(*const u8, usize, *mut u8, Range<usize>),
    /// Decodes contiguous codes; writes a multiple of 64 values, zero-padded.
    pub decode_row: unsafe fn(&[u8], *mut u8),
    /// The largest magnitude as f32 bits; infinities and NaN compare larger.
    pub abs_max_bits: unsafe fn(&[f32]) -> u32,
    /// Quantizes values times a factor to f8e4m3fn.
    pub encode: unsafe fn(&[f32], f32, &mut [u8]),
    /// Quantizes a row: `values, block, codes, scales`, a scale per block of columns. Returns false if a
    /// value is not finite.
    pub quantize_row: unsafe fn(&[bf16], usize, &mut [u8], &mut [f32]) -> bool,
    /// Widens bf16 to f32.
    pub widen_bf16: unsafe fn(&[bf16], &mut [f32]),
    /// Rounds accumulators to bf16, rows of [`PANEL`]: `sums, out, stride, cols`. Writes `cols` of each row.
    pub narrow_bf16: unsafe fn(&[f32], *mut bf16, usize, usize),
    /// Runs rounds of arithmetic in registers and returns the number of operations.
    pub spin: unsafe fn(usize) -> f64,
    /// Whether tiles store results of any type, not just f32.
    pub narrows: bool,
    /// Prepare the calling thread for tiles, complete what the calls so far have left, and clean up.
    pub enter: unsafe fn(*mut TileState),
    pub finish: unsafe fn(*mut TileState),
    pub leave: unsafe fn(),
}

/// For ISAs that need no preparation, and complete each call.
pub(super) unsafe fn nothing() {}
pub(super) unsafe fn nothing_left(_: *mut TileState) {}

/// Weights at [`TileArgs::w`] are decoded.
pub(super) const LOADED: u8 = 0;
/// Weights are codes, decoded in registers.
pub(super) const DECODED: u8 = 1;
/// Weights are codes, decoded in pieces into a buffer in the L1 cache: for ISAs that widen faster from memory
/// than from registers.
pub(super) const STAGED: u8 = 2;
/// Weights are codes, decoded in registers and stored at [`TileArgs::keep`].
pub(super) const KEPT: u8 = 3;

/// The same as [`DECODED`], where codes are prefetched straight into the L1 cache.
const DECODED_FROM_L1: u8 = 4;

/// Pairs of k staged at a time.
const STAGE: usize = 16;

/// Multiplies tiles of `ROWS` rows with `VECTORS` vectors of weights: a whole panel unless weights are
/// decoded.
#[inline(always)]
pub(super) unsafe fn tile<V, const GROUP: usize, const ROWS: usize, const VECTORS: usize, const SOURCE: u8>(
    args: &TileArgs,
) where
    V: Vector<GROUP>,
{
    let TileArgs { mut x, mut x_scales, mut sums, mut out, .. } = *args;
    for _ in 0..args.tiles {
        // SAFETY: the caller guarantees `args` and the ISA.
        unsafe {
            let totals = multiply::<V, GROUP, ROWS, VECTORS, SOURCE>(args, x, x_scales);
            for (row, totals) in totals.iter().enumerate() {
                for (at, totals) in totals.chunks_exact(2).enumerate() {
                    let col = at * 2 * V::COLS;
                    let sums = if sums.is_null() { sums } else { sums.add(row * PANEL + col) };
                    V::put_columns(totals[0], totals[1], sums, out.add(row * args.out_stride + col));
                }
            }
        }
        x = x.wrapping_add(ROWS * x_row_bytes(SLAB, V::OPERAND));
        x_scales = x_scales.wrapping_add(ROWS);
        out = out.wrapping_add(ROWS * args.out_stride);
        if !sums.is_null() {
            sums = sums.wrapping_add(ROWS * PANEL);
        }
    }
}

/// The scaled accumulators of one tile.
#[inline(always)]
unsafe fn multiply<V, const GROUP: usize, const ROWS: usize, const VECTORS: usize, const SOURCE: u8>(
    args: &TileArgs,
    x: *const u8,
    mut x_scales: *const f32,
) -> [[V::Sums; VECTORS]; ROWS]
where
    V: Vector<GROUP>,
{
    let TileArgs { w, keep, ahead, mut w_scales, pairs: mut left, .. } = *args;
    let mut at = Cursor { x, w, keep, ahead };
    // Chains of dependent additions; a block has as many as a row has vectors, times the rows.
    let is_short_of_chains = SOURCE == DECODED && VECTORS == 2 && ROWS * VECTORS <= 8;
    // SAFETY: the caller guarantees `args` and the ISA.
    unsafe {
        let mut totals = [[V::zero(); VECTORS]; ROWS];
        while left > 0 {
            let pairs = left.min(args.block_pairs);
            left -= pairs;
            let mut sums = [[V::zero(); VECTORS]; ROWS];
            // Few rows would wait for each addition: two blocks are independent, and are added in order.
            let two = is_short_of_chains && left >= pairs;
            if two {
                left -= pairs;
                let mut next_sums = [[V::zero(); VECTORS]; ROWS];
                let both = [&mut sums, &mut next_sums];
                if args.into_l1 {
                    add_two_blocks::<V, GROUP, ROWS, VECTORS, true>(both, &mut at, pairs);
                } else {
                    add_two_blocks::<V, GROUP, ROWS, VECTORS, false>(both, &mut at, pairs);
                }
                add_scaled::<V, GROUP, ROWS, VECTORS>(&mut totals, x_scales, *w_scales, &sums);
                x_scales = x_scales.wrapping_add(args.x_scale_stride);
                w_scales = w_scales.add(1);
                sums = next_sums;
            } else if SOURCE == STAGED {
                add_staged::<V, GROUP, ROWS, VECTORS>(&mut sums, &mut at, pairs);
            } else if SOURCE == DECODED && args.into_l1 {
                add_products::<V, GROUP, ROWS, VECTORS, DECODED_FROM_L1>(&mut sums, &mut at, pairs);
            } else {
                add_products::<V, GROUP, ROWS, VECTORS, SOURCE>(&mut sums, &mut at, pairs);
            }
            add_scaled::<V, GROUP, ROWS, VECTORS>(&mut totals, x_scales, *w_scales, &sums);
            x_scales = x_scales.wrapping_add(args.x_scale_stride);
            w_scales = w_scales.add(1);
        }
        totals
    }
}

/// Adds the sums of a quantization block, scaled.
#[inline(always)]
unsafe fn add_scaled<V, const GROUP: usize, const ROWS: usize, const VECTORS: usize>(
    totals: &mut [[V::Sums; VECTORS]; ROWS],
    x_scales: *const f32,
    w_scale: f32,
    sums: &[[V::Sums; VECTORS]; ROWS],
) where
    V: Vector<GROUP>,
{
    for (row, (totals, sums)) in totals.iter_mut().zip(sums).enumerate() {
        // SAFETY: the caller guarantees a scale per row and the ISA.
        unsafe {
            let scale = *x_scales.add(row) * w_scale;
            for (total, sums) in totals.iter_mut().zip(sums) {
                *total = V::add_scaled(*total, scale, *sums);
            }
        }
    }
}

/// The position of a tile: [`TileArgs`]' `x`, `w`, `keep` and `ahead`, advanced.
struct Cursor {
    x: *const u8,
    w: *const u8,
    keep: *mut u8,
    ahead: *const u8,
}

/// Accumulates some pairs of k and advances.
#[inline(always)]
unsafe fn add_products<V, const GROUP: usize, const ROWS: usize, const VECTORS: usize, const SOURCE: u8>(
    sums: &mut [[V::Sums; VECTORS]; ROWS],
    at: &mut Cursor,
    pairs: usize,
) where
    V: Vector<GROUP>,
{
    for _ in 0..pairs {
        // SAFETY: the caller guarantees the pairs at the cursor and the ISA.
        unsafe {
            let is_decoded = SOURCE == LOADED || SOURCE == STAGED;
            let weights = if is_decoded {
                load_all::<V, GROUP, VECTORS>(at.w)
            } else {
                match SOURCE {
                    DECODED_FROM_L1 => prefetch_stream_into_l1(at.w),
                    _ => prefetch_stream(at.w),
                }
                decode_all::<V, GROUP, VECTORS>(at.w)
            };
            at.w = at.w.add(if is_decoded { size_of_val(&weights) } else { 2 * PANEL });
            if SOURCE == KEPT {
                for weights in weights {
                    at.keep.cast::<V::Stored>().write_unaligned(weights);
                    at.keep = at.keep.add(size_of::<V::Stored>());
                }
            }
            let wide = widen_all::<V, GROUP, VECTORS>(weights);
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = at.x.add(row * x_row_bytes(SLAB, V::OPERAND));
                for (sums, weights) in sums.iter_mut().zip(wide) {
                    *sums = V::dot(*sums, x, weights);
                }
            }
            at.x = at.x.add(V::PAIR);
            // The tile that decodes the weights prefetches the next ones; without such a tile, all do.
            if SOURCE == KEPT || SOURCE == LOADED && VECTORS < GROUP {
                prefetch(at.ahead);
                at.ahead = at.ahead.wrapping_add(2 * PANEL);
            }
        }
    }
}

/// The same for two quantization blocks of `pairs` pairs of k, from codes, in turns.
#[inline(always)]
unsafe fn add_two_blocks<
    V,
    const GROUP: usize,
    const ROWS: usize,
    const VECTORS: usize,
    const INTO_L1: bool,
>(
    [first, second]: [&mut [[V::Sums; VECTORS]; ROWS]; 2],
    at: &mut Cursor,
    pairs: usize,
) where
    V: Vector<GROUP>,
{
    let (x_bytes, w_bytes) = (pairs * V::PAIR, pairs * 2 * PANEL);
    let mut ahead = at.w.wrapping_add(2 * w_bytes);
    for _ in 0..pairs {
        // SAFETY: the caller guarantees the blocks at the cursor and the ISA.
        unsafe {
            for (block, sums) in [&mut *first, &mut *second].into_iter().enumerate() {
                let (x, w) = (at.x.add(block * x_bytes), at.w.add(block * w_bytes));
                if INTO_L1 {
                    // The next two blocks in the order of their addresses, as one stream.
                    prefetch(ahead);
                    ahead = ahead.wrapping_add(2 * PANEL);
                } else {
                    // Each block prefetches that of the next two in its place.
                    prefetch_blocks(w, 2 * w_bytes);
                }
                let wide = widen_all::<V, GROUP, VECTORS>(decode_all::<V, GROUP, VECTORS>(w));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = x.add(row * x_row_bytes(SLAB, V::OPERAND));
                    for (sums, weights) in sums.iter_mut().zip(wide) {
                        *sums = V::dot(*sums, x, weights);
                    }
                }
            }
            at.x = at.x.add(V::PAIR);
            at.w = at.w.add(2 * PANEL);
        }
    }
    at.x = at.x.wrapping_add(x_bytes);
    at.w = at.w.wrapping_add(w_bytes);
}

/// The same from codes, staged in a small buffer.
#[inline(always)]
unsafe fn add_staged<V, const GROUP: usize, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[V::Sums; VECTORS]; ROWS],
    at: &mut Cursor,
    pairs: usize,
) where
    V: Vector<GROUP>,
{
    let mut stage = MaybeUninit::<[[V::Stored; VECTORS]; STAGE]>::uninit();
    let stage = stage.as_mut_ptr().cast::<[V::Stored; VECTORS]>();
    let mut left = pairs;
    while left > 0 {
        let pairs = left.min(STAGE);
        left -= pairs;
        // SAFETY: as the caller guarantees; the stage has room for the pairs, which are written before they
        // are read.
        unsafe {
            for pair in 0..pairs {
                prefetch_stream(at.w);
                stage.add(pair).write(decode_all::<V, GROUP, VECTORS>(at.w));
                at.w = at.w.add(2 * PANEL);
            }
            let mut staged = Cursor { w: stage.cast(), ..*at };
            add_products::<V, GROUP, ROWS, VECTORS, STAGED>(sums, &mut staged, pairs);
            at.x = staged.x;
        }
    }
}

// Arrays are filled in place below: iterators over arrays by value would make the compiler spill them.

/// One pair of k of decoded weights.
#[inline(always)]
unsafe fn load_all<V, const GROUP: usize, const VECTORS: usize>(w: *const u8) -> [V::Stored; VECTORS]
where
    V: Vector<GROUP>,
{
    // SAFETY: the caller guarantees `VECTORS` vectors and the ISA.
    unsafe {
        let w = w.cast::<V::Stored>();
        let mut weights = [w.read_unaligned(); VECTORS];
        for (at, weights) in weights.iter_mut().enumerate().skip(1) {
            *weights = w.add(at).read_unaligned();
        }
        weights
    }
}

/// One pair of k and all columns of a packed panel. `VECTORS` equals `GROUP`, which the type system cannot
/// express.
#[inline(always)]
unsafe fn decode_all<V, const GROUP: usize, const VECTORS: usize>(codes: *const u8) -> [V::Stored; VECTORS]
where
    V: Vector<GROUP>,
{
    // SAFETY: the caller guarantees a group of codes and the ISA.
    let group = unsafe { V::decode(codes) };
    let mut weights = [group[0]; VECTORS];
    weights.copy_from_slice(&group);
    weights
}

#[inline(always)]
unsafe fn widen_all<V, const GROUP: usize, const VECTORS: usize>(
    stored: [V::Stored; VECTORS],
) -> [V::Weights; VECTORS]
where
    V: Vector<GROUP>,
{
    // SAFETY: the caller guarantees the ISA.
    unsafe {
        let mut weights = [V::widen(stored[0]); VECTORS];
        for (at, weights) in weights.iter_mut().enumerate().skip(1) {
            *weights = V::widen(stored[at]);
        }
        weights
    }
}

/// Runs `rounds` of multiply-adds in `CHAINS` independent accumulators; returns the number of operations.
#[inline(always)]
pub(super) unsafe fn spin<V, const GROUP: usize, const CHAINS: usize>(rounds: usize) -> f64
where
    V: Vector<GROUP>,
{
    let zeros = std::hint::black_box([0u8; 64]);
    // SAFETY: the arrays hold at least a pair and a vector; the caller guarantees the ISA.
    unsafe {
        let mut sums = [V::zero(); CHAINS];
        let weights = V::widen(zeros.as_ptr().cast::<V::Stored>().read_unaligned());
        for _ in 0..rounds {
            for sums in &mut sums {
                *sums = V::dot(*sums, zeros.as_ptr(), weights);
            }
        }
        let mut out = [0.0; PANEL];
        for sums in sums {
            V::put_columns(sums, sums, out.as_ptr(), out.as_mut_ptr());
        }
        std::hint::black_box(out);
    }
    // A pair per column, and two operations per multiply-add.
    (rounds * CHAINS * V::COLS * 2 * 2) as f64
}

/// Compiles the microkernels for one ISA, as `KERNELS`.
macro_rules! kernels {
    (
        $features:tt $vector:ty, group $group:literal, tile $vectors:literal,
        rows [$($rows:literal)*], $source:ident rows [$($decoding:literal)*],
        keeping_rows [$($keeping:literal)*],
        peak $chains:literal
    ) => {
        pub(super) const KERNELS: $crate::cpu::kernel::Kernels = {
            use $crate::cpu::kernel::{self, Kernels, TileArgs, TileFn, compiled_for};

            compiled_for!($features
            unsafe fn decode_panel(
                codes: *const u8, pairs: usize, out: *mut u8, range: std::ops::Range<usize>,
            ) {
                // SAFETY: the caller upholds the contract of the microkernel.
                unsafe { kernel::decode_panel::<$vector, $group, $vectors>(codes, pairs, out, range) }
            });
            compiled_for!($features
            unsafe fn decode_row(codes: &[u8], out: *mut u8) {
                // SAFETY: the caller upholds the contract of the microkernel.
                unsafe { kernel::decode_row::<$vector, $group>(codes, out) }
            });
            compiled_for!($features
            unsafe fn abs_max_bits(values: &[f32]) -> u32 {
                kernel::abs_max_bits(values)
            });
            compiled_for!($features
            unsafe fn encode(values: &[f32], factor: f32, codes: &mut [u8]) {
                // SAFETY: the caller guarantees the ISA.
                unsafe { <$vector as Vector<$group>>::encode(values, factor, codes) }
            });
            compiled_for!($features
            unsafe fn quantize_row(
                values: &[half::bf16], block: usize, codes: &mut [u8], scales: &mut [f32],
            ) -> bool {
                // SAFETY: the caller guarantees the ISA.
                unsafe { kernel::quantize_row::<$vector, $group>(values, block, codes, scales) }
            });
            compiled_for!($features
            unsafe fn widen_bf16(values: &[half::bf16], out: &mut [f32]) {
                kernel::widen_bf16(values, out)
            });
            compiled_for!($features
            unsafe fn narrow_bf16(sums: &[f32], out: *mut half::bf16, stride: usize, cols: usize) {
                // SAFETY: the caller guarantees the rows.
                unsafe { kernel::narrow_bf16(sums, out, stride, cols) }
            });
            compiled_for!($features
            unsafe fn spin(rounds: usize) -> f64 {
                // SAFETY: the caller guarantees the ISA.
                unsafe { kernel::spin::<$vector, $group, $chains>(rounds) }
            });
            Kernels {
                operand: <$vector as Vector<$group>>::OPERAND,
                tile_cols: $vectors * <$vector as Vector<$group>>::COLS,
                weight_bytes: size_of::<<$vector as Vector<$group>>::Stored>()
                    / (2 * <$vector as Vector<$group>>::COLS),
                tiles: &[$({
                    compiled_for!($features
                    unsafe fn tile(args: &TileArgs) {
                        // SAFETY: the caller upholds the contract of the microkernel.
                        unsafe { kernel::tile::<$vector, $group, $rows, $vectors, {kernel::LOADED}>(args) }
                    });
                    tile as TileFn
                }),*],
                decoding_tiles: &[$({
                    compiled_for!($features
                    unsafe fn decoding_tile(args: &TileArgs) {
                        // SAFETY: the caller upholds the contract of the microkernel.
                        unsafe { kernel::tile::<$vector, $group, $decoding, $group, {kernel::$source}>(args) }
                    });
                    decoding_tile as TileFn
                }),*],
                keeping_tiles: &[$({
                    compiled_for!($features
                    unsafe fn keeping_tile(args: &TileArgs) {
                        // SAFETY: the caller upholds the contract of the microkernel.
                        unsafe { kernel::tile::<$vector, $group, $keeping, $group, {kernel::KEPT}>(args) }
                    });
                    keeping_tile as TileFn
                }),*],
                decode_panel,
                decode_row,
                abs_max_bits,
                encode,
                quantize_row,
                widen_bf16,
                narrow_bf16,
                spin,
                narrows: false,
                enter: kernel::nothing_left,
                finish: kernel::nothing_left,
                leave: kernel::nothing,
            }
        };
    };
}
/// Puts attributes on a function.
macro_rules! compiled_for {
    ([$($features:meta)?] $function:item) => {
        $(#[$features])?
        $function
    };
}
pub(super) use {compiled_for, kernels};
