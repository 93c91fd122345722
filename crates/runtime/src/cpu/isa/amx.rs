//! AMX with bf16: tiles of 16 x 32 by 32 x 16 values per instruction. Weights and activations are decoded by
//! AVX-512 between the tile instructions, weights one panel ahead for few rows, two steps ahead for many.

mod pending;
mod permission;
mod tiles;

pub(super) use permission::is_usable;

use std::{
    arch::{asm, x86_64::*},
    ops::Range,
};

use octile_core::{FloatKind, plan::cpu::PANEL};

use self::{
    pending::{Block, Destination, Pending, RowScales},
    tiles::{STEP_PAIRS, Stored, TILE_ROWS, W_PAIR, X_STEP, add_step, restart_step, store_accumulators},
};
use super::avx512bf16::{self, Tables};
use crate::cpu::kernel::{Kernels, MoreSlabs, Target, TileArgs, TileFn, TileState};

/// Bytes from one code of a packed panel to the one that is prefetched meanwhile.
const PREFETCH: usize = 2048;

/// Weights, of this call or the next, that are decoded between the steps, `AT_ONCE` pairs of k at a time.
struct DecodeAhead<const AT_ONCE: usize> {
    tables: Tables,
    codes: *const u8,
    out: *mut u8,
    left: usize,
}

impl<const AT_ONCE: usize> DecodeAhead<AT_ONCE> {
    #[inline(always)]
    unsafe fn new(args: &TileArgs) -> Self {
        // SAFETY: the caller guarantees the ISA.
        let tables = unsafe {
            let Tables { low, high } = Tables::load();
            Tables {
                low: [in_register(low[0]), in_register(low[1])],
                high: [in_register(high[0]), in_register(high[1])],
            }
        };
        Self { tables, codes: args.ahead, out: args.keep, left: pairs_ahead(args) }
    }

    #[inline(always)]
    unsafe fn decode(&mut self) {
        // SAFETY: the caller guarantees the ISA and pointers of `left` pairs.
        unsafe {
            if self.left >= AT_ONCE {
                for pair in 0..AT_ONCE {
                    self.decode_pair(pair);
                }
            } else {
                for pair in 0..self.left {
                    self.decode_pair(pair);
                }
            }
            self.codes = self.codes.wrapping_add(AT_ONCE * 2 * PANEL);
            self.out = self.out.wrapping_add(AT_ONCE * W_PAIR);
            self.left = self.left.saturating_sub(AT_ONCE);
        }
    }

    #[inline(always)]
    unsafe fn decode_pair(&self, pair: usize) {
        // SAFETY: as above.
        unsafe {
            let (codes, out) = (self.codes.add(pair * 2 * PANEL), self.out.add(pair * W_PAIR));
            _mm_prefetch::<_MM_HINT_T0>(codes.wrapping_add(PREFETCH).cast());
            let [low, high] = self.tables.decode(_mm512_loadu_si512(codes.cast()));
            _mm512_store_si512(out.cast(), low);
            _mm512_store_si512(out.add(64).cast(), high);
        }
    }
}

/// Whether the first tile of a call decodes the weights that it multiplies by.
fn decodes_own(args: &TileArgs) -> bool {
    args.keep.cast_const() == args.w
}

/// Pairs of k that a call decodes.
fn pairs_ahead(args: &TileArgs) -> usize {
    if args.keep.is_null() { 0 } else { args.ahead_pairs }
}

/// Hides where a vector comes from, so that it stays in a register: tile loads need the load ports.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_register(mut vector: __m512i) -> __m512i {
    // SAFETY: a comment.
    unsafe { asm!("/* {0} */", inout(zmm_reg) vector, options(pure, nomem, nostack, preserves_flags)) }
    vector
}

/// What calls leave to each other. The accumulators of the last tile stay in tile registers; its rows are
/// scaled while the next tile is multiplied, in the same call or the next one.
#[repr(C, align(64))]
struct Pipeline {
    /// The accumulators of first blocks, for even and odd tiles, and of last blocks.
    stored: [Stored; 3],
    scales: [RowScales; 2],
    pending: Pending,
    is_odd: bool,
    /// Whether results were stored past the caches.
    has_streamed: bool,
}

const _: () = assert!(size_of::<Pipeline>() <= size_of::<TileState>());

unsafe fn enter(state: *mut TileState) {
    let pipeline = state.cast::<Pipeline>();
    // SAFETY: the state is large enough; `stored` is written before it is read. Tiles are usable.
    unsafe {
        (&raw mut (*pipeline).scales).write([const { RowScales([0.0; 2 * TILE_ROWS]) }; 2]);
        (&raw mut (*pipeline).pending).write(Pending::NOTHING);
        (&raw mut (*pipeline).is_odd).write(false);
        (&raw mut (*pipeline).has_streamed).write(false);
        tiles::enter();
    }
}

/// Scales the rows of the last tile.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn finish(state: *mut TileState) {
    let pipeline = state.cast::<Pipeline>();
    // SAFETY: the caller guarantees the ISA, configured tiles, and the operands of the last tile.
    unsafe {
        let pending = (*pipeline).pending;
        if pending.rows > 0 {
            store_accumulators((&raw mut (*pipeline).stored[2]).cast());
            let scales = &mut (*pipeline).scales;
            pending.scales(scales);
            pending.add_rows(scales, 0..pending.rows);
            (*pipeline).pending = Pending::NOTHING;
        }
        if (*pipeline).has_streamed {
            _mm_sfence();
            (*pipeline).has_streamed = false;
        }
    }
}

/// Multiplies tiles of up to `HALVES` times 16 rows, and decodes its weights or those of the next call.
unsafe fn tile<const HALVES: usize>(args: &TileArgs) {
    // SAFETY: the caller's promise.
    unsafe {
        match args.slabs {
            None => slab::<HALVES>(args),
            Some(more) => whole_panel::<HALVES>(args, more),
        }
    }
}

/// Goes through the slabs of a panel, each of which decodes the weights of the next one.
unsafe fn whole_panel<const HALVES: usize>(args: &TileArgs, more: MoreSlabs) {
    let mut at = TileArgs { out: more.sums, out_stride: PANEL, target: Target::Sums, ..*args };
    (at.ahead, at.keep) = (more.codes, more.buffer);
    let mut buffers = [args.w.cast_mut(), more.buffer];
    let blocks = args.pairs.div_ceil(args.block_pairs);
    for left in (0..more.count).rev() {
        at.ahead_pairs = if left == 0 { more.last_pairs } else { args.pairs };
        // SAFETY: the caller's promise; the slab decodes what the next one multiplies by.
        unsafe { slab::<HALVES>(&at) };
        at.x = at.x.wrapping_add(more.x_bytes);
        at.x_scales = at.x_scales.wrapping_add(blocks * args.x_scale_stride);
        at.w_scales = at.w_scales.wrapping_add(blocks);
        at.ahead = at.ahead.wrapping_add(at.ahead_pairs * 2 * PANEL);
        (at.pairs, at.sums) = (at.ahead_pairs, more.sums);
        buffers.reverse();
        (at.w, at.keep) = (buffers[0], buffers[1]);
    }
    let keep = if args.keep.is_null() { args.keep } else { at.keep };
    let TileArgs { out, out_stride, target, ahead, ahead_pairs, .. } = *args;
    // SAFETY: the caller's promise.
    unsafe { slab::<HALVES>(&TileArgs { out, out_stride, target, keep, ahead, ahead_pairs, ..at }) }
}

/// Goes through one slab.
unsafe fn slab<const HALVES: usize>(args: &TileArgs) {
    let steps = args.tiles * args.pairs.div_ceil(STEP_PAIRS);
    // SAFETY: the caller's promise. A loop whose length is not constant ends in a mispredicted branch, which
    // the tiles would wait for.
    unsafe {
        if decodes_own(args) {
            return decoding_tile::<HALVES, STEP_PAIRS>(args);
        }
        match pairs_ahead(args).div_ceil(steps) {
            0 => decoding_tile::<HALVES, 0>(args),
            1 => decoding_tile::<HALVES, 1>(args),
            2 => decoding_tile::<HALVES, 2>(args),
            3 | 4 => decoding_tile::<HALVES, 4>(args),
            5..=8 => decoding_tile::<HALVES, 8>(args),
            _ => decoding_tile::<HALVES, 16>(args),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn decoding_tile<const HALVES: usize, const AT_ONCE: usize>(args: &TileArgs) {
    let pipeline = args.state.cast::<Pipeline>();
    // A slab has one quantization block or two.
    let first_pairs = args.pairs.min(args.block_pairs);
    let block_pairs = [first_pairs, args.pairs - first_pairs];
    debug_assert!(block_pairs[1] <= args.block_pairs);
    let block_steps = block_pairs.map(|pairs| pairs.div_ceil(STEP_PAIRS));
    let steps = block_steps[0] + block_steps[1];
    // The rows of the tile before, spread over the steps after the first, which stores them.
    let rows_at_once = (HALVES * TILE_ROWS).div_ceil((steps - 1).max(1));
    // SAFETY: the caller guarantees `args` and the ISA, and that tiles are configured and entered.
    unsafe {
        // A tile of one half stores only that half of the accumulators before it.
        if (*pipeline).pending.rows > HALVES * TILE_ROWS {
            finish(args.state);
        }
        let stored: [*mut f32; 3] = [0, 1, 2].map(|at| (&raw mut (*pipeline).stored[at]).cast());
        let last_stored = stored[2];
        let scales = &mut (*pipeline).scales;
        let mut pending = (*pipeline).pending;
        let mut is_odd = (*pipeline).is_odd;
        let mut ahead = DecodeAhead::<AT_ONCE>::new(args);
        if decodes_own(args) {
            pad(args.keep, args.ahead_pairs);
            // Tile loads wait until weights are in the L1 cache, so these are decoded two steps ahead.
            ahead.decode();
            ahead.decode();
        }
        let mut out = destination(args);
        let requests = args.target != Target::Sums && !out.streams;
        for tile in 0..args.tiles {
            let first_row = tile * args.rows;
            let x = args.x.add(first_row * args.x_stride);
            let first_stored = stored[usize::from(is_odd)];
            is_odd = !is_odd;
            let mut row = 0;
            let mut this = Pending {
                rows: args.rows,
                old: if args.sums.is_null() { args.sums } else { args.sums.add(first_row * PANEL) },
                out,
                ..Pending::NOTHING
            };
            out.first = out.first.wrapping_add(args.rows * out.stride);
            for (block, steps) in block_steps.into_iter().enumerate() {
                if steps == 0 {
                    break;
                }
                let start = block * first_pairs;
                let (x, w) = (x.add(start * 4), args.w.add(start * W_PAIR));
                if block == 0 {
                    restart_step::<HALVES>(x, args.x_stride, w, last_stored);
                    pending.scales(scales);
                } else {
                    this.first = Some(Block { stored: first_stored, ..this.last });
                    restart_step::<HALVES>(x, args.x_stride, w, first_stored);
                    pending.add_rows(scales, row..row + rows_at_once);
                    row += rows_at_once;
                }
                ahead.decode();
                for step in 1..steps {
                    let w = w.add(step * STEP_PAIRS * W_PAIR);
                    add_step::<HALVES>(x.add(step * X_STEP), args.x_stride, w);
                    ahead.decode();
                    pending.add_rows(scales, row..row + rows_at_once);
                    if requests {
                        this.out.prefetch(row..args.rows.min(row + rows_at_once));
                    }
                    row += rows_at_once;
                }
                this.last = Block {
                    stored: last_stored,
                    x_scales: args.x_scales.add(first_row + block * args.x_scale_stride),
                    w_scale: *args.w_scales.add(block),
                };
            }
            pending.add_rows(scales, row..pending.rows);
            pending = this;
        }
        while ahead.left > 0 {
            ahead.decode();
        }
        if !args.keep.is_null() && !decodes_own(args) {
            pad(args.keep, args.ahead_pairs);
        }
        (*pipeline).pending = pending;
        (*pipeline).is_odd = is_odd;
        (*pipeline).has_streamed |= out.streams;
    }
}

/// Where the rows of the first tile go.
fn destination(args: &TileArgs) -> Destination {
    let (kind, exceeds_caches) = match args.target {
        Target::Sums => (FloatKind::F32, false),
        Target::Result { kind, exceeds_caches } => (kind, exceeds_caches),
    };
    let (first, stride) = (args.out.cast::<u8>(), args.out_stride * kind.bytes());
    let has_whole_lines = first.addr().is_multiple_of(64) && stride.is_multiple_of(64);
    Destination { first, stride, kind, streams: exceeds_caches && has_whole_lines }
}

/// Zeros decoded weights past `pairs` up to a whole step.
unsafe fn pad(out: *mut u8, pairs: usize) {
    let padded = pairs.next_multiple_of(STEP_PAIRS);
    // SAFETY: buffers hold whole steps.
    unsafe { out.add(pairs * W_PAIR).write_bytes(0, (padded - pairs) * W_PAIR) }
}

unsafe fn decode_panel(codes: *const u8, pairs: usize, out: *mut u8, range: Range<usize>) {
    // SAFETY: the caller upholds the contract of the microkernel; `pad` that of buffers.
    unsafe {
        if range.end == pairs {
            pad(out, pairs);
        }
        (avx512bf16::KERNELS.decode_panel)(codes, pairs, out, range);
    }
}

pub(super) const KERNELS: Kernels = Kernels {
    tiles: &{
        let mut by_rows = [tile::<2> as TileFn; 2 * TILE_ROWS];
        let mut rows = 0;
        while rows < TILE_ROWS {
            by_rows[rows] = tile::<1>;
            rows += 1;
        }
        by_rows
    },
    decoding_tiles: &[],
    keeping_tiles: &[],
    decode_panel,
    spin: tiles::spin,
    narrows: true,
    enter,
    finish,
    leave: tiles::leave,
    ..avx512bf16::KERNELS
};
