//! AMX with bf16: tiles of 16 x 32 by 32 x 16 values per instruction. Weights and activations are decoded by
//! AVX-512, weights one panel ahead, between the tile instructions.

mod pending;
mod permission;
mod tiles;

pub(super) use permission::is_usable;

use std::{
    arch::{asm, x86_64::*},
    mem::MaybeUninit,
    ops::Range,
};

use octile_core::{FloatKind, QuantBlock, device::cpu::Isa, plan::cpu::PANEL};

use self::{
    pending::{Block, Pending, RowScales},
    tiles::{
        STEP_PAIRS, Stored, TILE_ROWS, W_PAIR, X_STEP, X_STRIDE, add_step, restart_step, store_accumulators,
    },
};
use super::avx512bf16::{self, Tables};
use crate::cpu::kernel::{Kernels, TileArgs, TileFn};

/// Bytes from one code of a packed panel to the one that is prefetched meanwhile.
const PREFETCH: usize = 2048;

/// Weights that are decoded between the steps, and how many pairs of k at a time.
struct DecodeAhead {
    tables: Tables,
    codes: *const u8,
    out: *mut u8,
    left: usize,
    at_once: usize,
}

impl DecodeAhead {
    #[inline(always)]
    unsafe fn new(args: &TileArgs, steps: usize) -> Self {
        let left = if args.keep.is_null() { 0 } else { args.ahead_pairs };
        // SAFETY: the caller guarantees the ISA.
        let tables = unsafe { in_registers(Tables::load()) };
        Self { tables, codes: args.ahead, out: args.keep, left, at_once: left.div_ceil(steps) }
    }

    #[inline(always)]
    unsafe fn decode(&mut self) {
        // SAFETY: the caller guarantees the ISA and pointers of `left` pairs.
        unsafe {
            for _ in 0..self.at_once.min(self.left) {
                _mm_prefetch::<_MM_HINT_T0>(self.codes.wrapping_add(PREFETCH).cast());
                let [low, high] = self.tables.decode(_mm512_loadu_si512(self.codes.cast()));
                _mm512_store_si512(self.out.cast(), low);
                _mm512_store_si512(self.out.add(64).cast(), high);
                self.codes = self.codes.add(2 * PANEL);
                self.out = self.out.add(W_PAIR);
            }
            self.left = self.left.saturating_sub(self.at_once);
        }
    }
}

/// Hides where the tables come from, so that they stay in registers: tile loads need the load ports.
#[inline]
#[target_feature(enable = "avx512f")]
fn in_registers(mut tables: Tables) -> Tables {
    for table in tables.low.iter_mut().chain(&mut tables.high) {
        // SAFETY: a comment.
        unsafe { asm!("/* {0} */", inout(zmm_reg) * table, options(pure, nomem, nostack, preserves_flags)) }
    }
    tables
}

// `Pending` has two blocks.
const _: () = assert!(Isa::Amx.tile(FloatKind::Bf16).slab <= 2 * QuantBlock::B128.size());

/// Multiplies tiles of up to `HALVES` times 16 rows, and decodes weights for the next call.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn tile<const HALVES: usize>(args: &TileArgs) {
    // The accumulators of first blocks, for even and odd tiles, and of last blocks.
    let mut stored = [const { MaybeUninit::<Stored>::uninit() }; 3];
    let stored: [*mut f32; 3] = stored.each_mut().map(|stored| stored.as_mut_ptr().cast());
    let last_stored = stored[2];
    let mut scales = [const { RowScales([0.0; 2 * TILE_ROWS]) }; 2];
    let steps: usize = blocks(args).map(|(_, pairs)| pairs.div_ceil(STEP_PAIRS)).sum();
    // SAFETY: the caller guarantees the ISA.
    let mut ahead = unsafe { DecodeAhead::new(args, args.tiles * steps) };
    let mut pending = Pending::NOTHING;
    // SAFETY: the caller guarantees `args` and the ISA, and that tiles are configured.
    unsafe {
        let streams = args.streams && is_line_aligned(args);
        for tile in 0..args.tiles {
            let first_row = tile * args.rows;
            let x = args.x.add(first_row * X_STRIDE);
            let first_stored = stored[tile % 2];
            // The rows of the tile before, spread over the steps after the first, which stores them.
            let rows_at_once = args.rows.div_ceil((steps - 1).max(1));
            let mut row = 0;
            let mut this = Pending {
                rows: args.rows,
                old: if args.sums.is_null() { args.sums } else { args.sums.add(first_row * PANEL) },
                out: args.out.add(first_row * args.out_stride),
                out_stride: args.out_stride,
                streams,
                ..Pending::NOTHING
            };
            for (block, (start, pairs)) in blocks(args).enumerate() {
                let (x, w) = (x.add(start * 4), args.w.add(start * W_PAIR));
                if block == 0 {
                    restart_step::<HALVES>(x, w, last_stored);
                    pending.scales(&mut scales);
                } else {
                    this.first = Some(Block { stored: first_stored, ..this.last });
                    restart_step::<HALVES>(x, w, first_stored);
                    pending.add_rows(&scales, row..row + rows_at_once);
                    row += rows_at_once;
                }
                ahead.decode();
                for step in 1..pairs.div_ceil(STEP_PAIRS) {
                    add_step::<HALVES>(x.add(step * X_STEP), w.add(step * STEP_PAIRS * W_PAIR));
                    ahead.decode();
                    pending.add_rows(&scales, row..row + rows_at_once);
                    row += rows_at_once;
                }
                this.last = Block {
                    stored: last_stored,
                    x_scales: args.x_scales.add(first_row + block * args.x_scale_stride),
                    w_scale: *args.w_scales.add(block),
                };
            }
            pending.add_rows(&scales, row..pending.rows);
            pending = this;
        }
        store_accumulators(last_stored);
        pending.scales(&mut scales);
        pending.add_rows(&scales, 0..pending.rows);
        if streams {
            _mm_sfence();
        }
        while ahead.left > 0 {
            ahead.decode();
        }
        if !args.keep.is_null() {
            pad(args.keep, args.ahead_pairs);
        }
    }
}

/// The quantization blocks of a slab: first pair of k, and number of pairs.
fn blocks(args: &TileArgs) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (pairs, size) = (args.pairs, args.block_pairs);
    (0..pairs).step_by(size).map(move |start| (start, size.min(pairs - start)))
}

fn is_line_aligned(args: &TileArgs) -> bool {
    args.out.addr().is_multiple_of(64) && args.out_stride.is_multiple_of(16)
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
    enter: tiles::enter,
    leave: tiles::leave,
    ..avx512bf16::KERNELS
};
