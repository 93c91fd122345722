//! AMX with bf16: tiles of 16 x 32 by 32 x 16 values per instruction. Weights and activations are decoded by
//! AVX-512, weights one panel ahead, between the tile instructions.
//!
//! The compiler does not know tiles as values, so tile registers live only inside this file:
//!
//! | register | holds |
//! |---|---|
//! | tmm0, tmm1 | accumulators of rows 0-15, columns 0-15 and 16-31 |
//! | tmm2, tmm3 | the same of rows 16-31 |
//! | tmm4, tmm5 | activations of rows 0-15 and 16-31, 32 of K |
//! | tmm6, tmm7 | weights of columns 0-15 and 16-31, 32 of K |

use std::{
    arch::{asm, x86_64::*},
    ops::Range,
    ptr,
    sync::OnceLock,
};

use octile_core::{
    FloatKind,
    plan::cpu::{PANEL, x_row_bytes},
};

use super::avx512bf16;
use crate::cpu::kernel::{Kernels, TileArgs, TileFn};

/// Rows of a tile register.
const TILE_ROWS: usize = 16;
/// Pairs of k that one tile instruction multiplies.
const STEP_PAIRS: usize = 16;
/// Bytes of decoded activations of one row in a step, and from one row to the next.
const X_STEP: usize = 2 * STEP_PAIRS * 2;
const X_STRIDE: usize = x_row_bytes(FloatKind::Bf16);
/// Bytes of decoded weights of one pair of k.
const W_PAIR: usize = 2 * PANEL * 2;
/// Bytes from one code of a packed panel to the one that is prefetched meanwhile.
const PREFETCH: usize = 2048;

/// Whether tiles can be used: the CPU has them, the operating system saves them, and it permits this process
/// to use them. Permission is asked for once; threads inherit it.
pub(super) fn is_usable() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| has_tiles() && ask_permission())
}

fn has_tiles() -> bool {
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    const OSXSAVE: u32 = 1 << 27;
    // Tile configuration and tile data.
    const TILE_STATE: u64 = 0b11 << 17;
    if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    if features & AMX_BF16 == 0 || features & AMX_TILE == 0 {
        return false;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE says that the operating system has enabled the instruction.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    (u64::from(high) << 32 | u64::from(low)) & TILE_STATE == TILE_STATE
}

#[cfg(target_os = "linux")]
fn ask_permission() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes two numbers, and changes only what this process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn ask_permission() -> bool {
    false
}

/// The configuration of tile registers, in the format of `ldtilecfg`.
#[repr(C, align(64))]
struct TileConfig([u8; 64]);

/// All registers have 16 rows of 64 bytes.
static CONFIG: TileConfig = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = TILE_ROWS as u8;
        tile += 1;
    }
    TileConfig(bytes)
};

/// Statements that use the tile registers.
macro_rules! tiles {
    ($($part:tt)*) => {
        asm!(
            $($part)*, options(nostack, preserves_flags),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
        )
    };
}

/// Configures the tile registers of this thread.
unsafe fn enter() {
    // SAFETY: tiles are usable; the configuration is valid.
    unsafe { tiles!("ldtilecfg [{0}]", in(reg) &raw const CONFIG) }
}

/// Frees the tile registers, so that the operating system need not save them.
unsafe fn leave() {
    // SAFETY: tiles are usable.
    unsafe { tiles!("tilerelease") }
}

/// Adds the products of one step: `HALVES` times 16 rows.
#[inline(always)]
unsafe fn add_step<const HALVES: usize>(x: *const u8, w: *const u8) {
    // SAFETY: the caller guarantees a step of decoded rows and pairs, and configured tiles.
    unsafe {
        if HALVES == 1 {
            tiles!(
                "tileloadd tmm4, [{x} + {xs}*1]",
                "tileloadd tmm6, [{w} + {ws}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {ws}*1 + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                x = in(reg) x, xs = in(reg) X_STRIDE, w = in(reg) w, ws = in(reg) W_PAIR
            );
        } else {
            // Activations come from the L2 cache and pass; weights stay in the L1 cache.
            tiles!(
                "tileloaddt1 tmm4, [{x} + {xs}*1]",
                "tileloadd tmm6, [{w} + {ws}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {ws}*1 + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm5, [{x2} + {xs}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                x = in(reg) x, x2 = in(reg) x.add(TILE_ROWS * X_STRIDE), xs = in(reg) X_STRIDE,
                w = in(reg) w, ws = in(reg) W_PAIR
            );
        }
    }
}

/// The first step of a quantization block: stores each accumulator of the block before, then restarts it.
/// Storing costs nothing here, because the other accumulators keep the multiplier busy.
#[inline(always)]
unsafe fn restart_step<const HALVES: usize>(x: *const u8, w: *const u8, stored: *mut f32) {
    // SAFETY: as for `add_step`; `stored` has room for a tile.
    unsafe {
        if HALVES == 1 {
            tiles!(
                "tileloadd tmm4, [{x} + {xs}*1]",
                "tileloadd tmm6, [{w} + {ws}*1]",
                "tilestored [{s} + {ws}*1], tmm0",
                "tilezero tmm0",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {ws}*1 + 64]",
                "tilestored [{s} + {ws}*1 + 64], tmm1",
                "tilezero tmm1",
                "tdpbf16ps tmm1, tmm4, tmm7",
                x = in(reg) x, xs = in(reg) X_STRIDE, w = in(reg) w, s = in(reg) stored, ws = in(reg) W_PAIR
            );
        } else {
            tiles!(
                "tileloaddt1 tmm4, [{x} + {xs}*1]",
                "tileloadd tmm6, [{w} + {ws}*1]",
                "tilestored [{s} + {ws}*1], tmm0",
                "tilezero tmm0",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {ws}*1 + 64]",
                "tilestored [{s} + {ws}*1 + 64], tmm1",
                "tilezero tmm1",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm5, [{x2} + {xs}*1]",
                "tilestored [{s} + {ws}*1 + 2048], tmm2",
                "tilezero tmm2",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tilestored [{s} + {ws}*1 + 2112], tmm3",
                "tilezero tmm3",
                "tdpbf16ps tmm3, tmm5, tmm7",
                x = in(reg) x, x2 = in(reg) x.add(TILE_ROWS * X_STRIDE), xs = in(reg) X_STRIDE,
                w = in(reg) w, s = in(reg) stored, ws = in(reg) W_PAIR
            );
        }
    }
}

/// Stores the accumulators.
unsafe fn store_accumulators(stored: *mut f32) {
    // SAFETY: `stored` has room for a tile; tiles are configured.
    unsafe {
        tiles!(
            "tilestored [{s} + {ws}*1], tmm0",
            "tilestored [{s} + {ws}*1 + 64], tmm1",
            "tilestored [{s} + {ws}*1 + 2048], tmm2",
            "tilestored [{s} + {ws}*1 + 2112], tmm3",
            s = in(reg) stored, ws = in(reg) W_PAIR
        );
    }
}

// A row of stored accumulators has as many bytes as a pair of decoded weights.
const _: () = assert!(PANEL * size_of::<f32>() == W_PAIR);

/// The accumulators of a tile, as stored.
#[repr(C, align(64))]
struct Stored([f32; 2 * TILE_ROWS * PANEL]);

/// The scales of a tile's rows.
#[repr(C, align(64))]
struct RowScales([f32; 2 * TILE_ROWS]);

/// What is left to do with the accumulators of a quantization block: `out = old + scale * accumulators`.
#[derive(Clone, Copy)]
struct Pending {
    rows: usize,
    x_scales: *const f32,
    w_scale: f32,
    /// Null if there are no earlier sums.
    old: *const f32,
    out: *mut f32,
    out_stride: usize,
    /// Whether the result passes the caches by.
    streams: bool,
}

impl Pending {
    const NOTHING: Self = Self {
        rows: 0,
        x_scales: ptr::null(),
        w_scale: 0.0,
        old: ptr::null(),
        out: ptr::null_mut(),
        out_stride: 0,
        streams: false,
    };

    /// The products of scales.
    #[inline(always)]
    unsafe fn scales(&self, scales: &mut RowScales) {
        let mask = (1u64 << self.rows) - 1;
        // SAFETY: masked loads read the scales of existing rows only; the caller guarantees the ISA.
        unsafe {
            let w_scale = _mm512_set1_ps(self.w_scale);
            for half in 0..2 {
                let mask = (mask >> (TILE_ROWS * half)) as u16;
                let x_scales = self.x_scales.wrapping_add(TILE_ROWS * half);
                let products = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x_scales), w_scale);
                _mm512_store_ps(scales.0.as_mut_ptr().add(TILE_ROWS * half), products);
            }
        }
    }

    /// Scales some of the rows.
    #[inline(always)]
    unsafe fn add_rows(&self, stored: &Stored, scales: &RowScales, rows: Range<usize>) {
        // SAFETY: the caller guarantees the ISA and the pointers.
        unsafe {
            match (self.old.is_null(), self.streams) {
                (false, false) => self.add::<false, false>(stored, scales, rows),
                (false, true) => self.add::<false, true>(stored, scales, rows),
                (true, false) => self.add::<true, false>(stored, scales, rows),
                (true, true) => self.add::<true, true>(stored, scales, rows),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const FIRST: bool, const STREAMS: bool>(
        &self,
        stored: &Stored,
        scales: &RowScales,
        rows: Range<usize>,
    ) {
        for row in rows.start..rows.end.min(self.rows) {
            // SAFETY: as above.
            unsafe {
                let scale = _mm512_set1_ps(scales.0[row]);
                for half in 0..2 {
                    let at = row * PANEL + TILE_ROWS * half;
                    let sums = _mm512_load_ps(stored.0.as_ptr().add(at));
                    let old = if FIRST { _mm512_setzero_ps() } else { _mm512_loadu_ps(self.old.add(at)) };
                    let total = _mm512_fmadd_ps(scale, sums, old);
                    let out = self.out.add(row * self.out_stride + TILE_ROWS * half);
                    if STREAMS { _mm512_stream_ps(out, total) } else { _mm512_storeu_ps(out, total) }
                }
            }
        }
    }
}

/// Weights that are decoded between the steps, and how many pairs of k at a time.
struct DecodeAhead {
    codes: *const u8,
    out: *mut u8,
    left: usize,
    at_once: usize,
}

impl DecodeAhead {
    fn new(args: &TileArgs, steps: usize) -> Self {
        let left = if args.keep.is_null() { 0 } else { args.ahead_pairs };
        Self { codes: args.ahead, out: args.keep, left, at_once: left.div_ceil(steps) }
    }

    #[inline(always)]
    unsafe fn decode(&mut self) {
        // SAFETY: the caller guarantees the ISA and pointers of `left` pairs.
        unsafe {
            for _ in 0..self.at_once.min(self.left) {
                _mm_prefetch::<_MM_HINT_T0>(self.codes.wrapping_add(PREFETCH).cast());
                let [low, high] = avx512bf16::decode_bf16(_mm512_loadu_si512(self.codes.cast()));
                _mm512_store_si512(self.out.cast(), low);
                _mm512_store_si512(self.out.add(64).cast(), high);
                self.codes = self.codes.add(2 * PANEL);
                self.out = self.out.add(W_PAIR);
            }
            self.left = self.left.saturating_sub(self.at_once);
        }
    }
}

/// Multiplies tiles of up to `HALVES` times 16 rows, and decodes weights for the next call.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn tile<const HALVES: usize>(args: &TileArgs) {
    let (mut stored, mut scales) = (Stored([0.0; 1024]), RowScales([0.0; 32]));
    // Sums of a tile between its quantization blocks.
    let mut partial = Stored([0.0; 1024]);
    let steps_per_tile: usize = blocks(args).map(|(_, pairs)| pairs.div_ceil(STEP_PAIRS)).sum();
    let mut ahead = DecodeAhead::new(args, args.tiles * steps_per_tile);
    let mut pending = Pending::NOTHING;
    // SAFETY: the caller guarantees `args` and the ISA, and that tiles are configured.
    unsafe {
        let streams = args.streams && is_line_aligned(args);
        for tile in 0..args.tiles {
            let x = args.x.add(tile * args.rows * X_STRIDE);
            let x_scales = args.x_scales.add(tile * args.rows);
            let mut old =
                if args.sums.is_null() { args.sums } else { args.sums.add(tile * args.rows * PANEL) };
            let out = args.out.add(tile * args.rows * args.out_stride);
            for (block, (start, pairs)) in blocks(args).enumerate() {
                let steps = pairs.div_ceil(STEP_PAIRS);
                let x = x.add(start * 4);
                let w = args.w.add(start * W_PAIR);
                restart_step::<HALVES>(x, w, stored.0.as_mut_ptr());
                pending.scales(&mut scales);
                ahead.decode();
                // The rows of the block before, spread over the other steps.
                let rows_at_once = pending.rows.div_ceil((steps - 1).max(1));
                let mut row = 0;
                for step in 1..steps {
                    add_step::<HALVES>(x.add(step * X_STEP), w.add(step * STEP_PAIRS * W_PAIR));
                    ahead.decode();
                    pending.add_rows(&stored, &scales, row..row + rows_at_once);
                    row += rows_at_once;
                }
                pending.add_rows(&stored, &scales, row..pending.rows);
                let is_last = start + pairs == args.pairs;
                pending = Pending {
                    rows: args.rows,
                    x_scales: x_scales.add(block * args.x_scale_stride),
                    w_scale: *args.w_scales.add(block),
                    old,
                    out: if is_last { out } else { partial.0.as_mut_ptr() },
                    out_stride: if is_last { args.out_stride } else { PANEL },
                    streams: streams && is_last,
                };
                old = partial.0.as_ptr();
            }
        }
        store_accumulators(stored.0.as_mut_ptr());
        pending.scales(&mut scales);
        pending.add_rows(&stored, &scales, 0..pending.rows);
        if args.streams {
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
    args.out.addr() % 64 == 0 && args.out_stride % 16 == 0
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

/// Multiplies numbers that are not zero, which are faster.
unsafe fn spin(rounds: usize) -> f64 {
    // bf16 numbers of both signs in 0.5 to 2.
    let numbers: [u16; 512] = std::array::from_fn(|at| {
        let random = (at as u32).wrapping_mul(2_654_435_761) >> 16;
        0x3f00 | (random as u16 & 0x80ff)
    });
    // SAFETY: tiles are usable, as the caller guarantees; the array holds a tile.
    unsafe {
        enter();
        tiles!(
            "tileloadd tmm4, [{n} + {s}*1]",
            "tileloadd tmm5, [{n} + {s}*1]",
            "tileloadd tmm6, [{n} + {s}*1]",
            "tileloadd tmm7, [{n} + {s}*1]",
            n = in(reg) numbers.as_ptr(), s = in(reg) 64usize
        );
        for _ in 0..rounds {
            tiles!(
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7"
            );
        }
        let mut stored = Stored([0.0; 1024]);
        store_accumulators(stored.0.as_mut_ptr());
        std::hint::black_box(&stored);
        leave();
    }
    (rounds * 4 * TILE_ROWS * TILE_ROWS * 2 * STEP_PAIRS * 2) as f64
}

pub(super) const KERNELS: Kernels = Kernels {
    tiles: &{
        let mut tiles = [tile::<2> as TileFn; 2 * TILE_ROWS];
        let mut rows = 0;
        while rows < TILE_ROWS {
            tiles[rows] = tile::<1>;
            rows += 1;
        }
        tiles
    },
    decoding_tiles: &[],
    keeping_tiles: &[],
    decode_panel,
    spin,
    enter,
    leave,
    ..avx512bf16::KERNELS
};
