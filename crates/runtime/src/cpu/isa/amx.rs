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
    mem::MaybeUninit,
    ops::Range,
    ptr,
    sync::OnceLock,
};

use octile_core::{
    FloatKind, QuantBlock,
    device::cpu::Isa,
    plan::cpu::{PANEL, x_row_bytes},
};

use super::avx512bf16::{self, Tables};
use crate::cpu::kernel::{Kernels, TileArgs, TileFn};

/// Rows of a tile register.
const TILE_ROWS: usize = 16;
/// Pairs of k that one tile instruction multiplies.
const STEP_PAIRS: usize = 16;
/// Bytes of decoded activations of one row in a step, and from one row to the next.
const X_STEP: usize = 2 * STEP_PAIRS * 2;
const X_STRIDE: usize = x_row_bytes(Isa::Amx.tile(FloatKind::Bf16).slab, FloatKind::Bf16);
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

/// The accumulators of a quantization block, and the scales of its rows and its columns.
#[derive(Clone, Copy)]
struct Block {
    stored: *const f32,
    x_scales: *const f32,
    w_scale: f32,
}

/// What is left to do with a tile: `out = old + scale * accumulators`, for one quantization block or two.
#[derive(Clone, Copy)]
struct Pending {
    rows: usize,
    first: Option<Block>,
    last: Block,
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
        first: None,
        last: Block { stored: ptr::null(), x_scales: ptr::null(), w_scale: 0.0 },
        old: ptr::null(),
        out: ptr::null_mut(),
        out_stride: 0,
        streams: false,
    };

    /// The products of scales of both blocks.
    #[inline(always)]
    unsafe fn scales(&self, scales: &mut [RowScales; 2]) {
        let mask = (1u64 << self.rows) - 1;
        for (scales, block) in scales.iter_mut().zip([self.first.unwrap_or(self.last), self.last]) {
            for half in 0..2 {
                let mask = (mask >> (TILE_ROWS * half)) as u16;
                let x_scales = block.x_scales.wrapping_add(TILE_ROWS * half);
                // SAFETY: masked loads read the scales of existing rows only; the caller guarantees the ISA.
                unsafe {
                    let x_scales = _mm512_maskz_loadu_ps(mask, x_scales);
                    let products = _mm512_mul_ps(x_scales, _mm512_set1_ps(block.w_scale));
                    _mm512_store_ps(scales.0.as_mut_ptr().add(TILE_ROWS * half), products);
                }
            }
        }
    }

    /// Scales some of the rows.
    #[inline(always)]
    unsafe fn add_rows(&self, scales: &[RowScales; 2], rows: Range<usize>) {
        // SAFETY: the caller guarantees the ISA and the pointers.
        unsafe {
            match (self.first.is_some(), self.old.is_null(), self.streams) {
                (false, false, false) => self.add::<false, false, false>(scales, rows),
                (false, false, true) => self.add::<false, false, true>(scales, rows),
                (false, true, false) => self.add::<false, true, false>(scales, rows),
                (false, true, true) => self.add::<false, true, true>(scales, rows),
                (true, false, false) => self.add::<true, false, false>(scales, rows),
                (true, false, true) => self.add::<true, false, true>(scales, rows),
                (true, true, false) => self.add::<true, true, false>(scales, rows),
                (true, true, true) => self.add::<true, true, true>(scales, rows),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const TWO: bool, const FIRST: bool, const STREAMS: bool>(
        &self,
        scales: &[RowScales; 2],
        rows: Range<usize>,
    ) {
        let first = self.first.unwrap_or(self.last).stored;
        for row in rows.start..rows.end.min(self.rows) {
            // SAFETY: as above.
            unsafe {
                let [first_scale, last_scale] = [0, 1].map(|block| _mm512_set1_ps(scales[block].0[row]));
                for half in 0..2 {
                    let at = row * PANEL + TILE_ROWS * half;
                    let mut total =
                        if FIRST { _mm512_setzero_ps() } else { _mm512_loadu_ps(self.old.add(at)) };
                    if TWO {
                        total = _mm512_fmadd_ps(first_scale, _mm512_load_ps(first.add(at)), total);
                    }
                    total = _mm512_fmadd_ps(last_scale, _mm512_load_ps(self.last.stored.add(at)), total);
                    let out = self.out.add(row * self.out_stride + TILE_ROWS * half);
                    if STREAMS { _mm512_stream_ps(out, total) } else { _mm512_storeu_ps(out, total) }
                }
            }
        }
    }
}

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
            let rows_at_once = pending.rows.div_ceil((steps - 1).max(1));
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
