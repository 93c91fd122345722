//! The tile instructions. The compiler does not know tiles as values, so tile registers live only inside this
//! file:
//!
//! | register | holds |
//! |---|---|
//! | tmm0, tmm1 | accumulators of rows 0-15, columns 0-15 and 16-31 |
//! | tmm2, tmm3 | the same of rows 16-31 |
//! | tmm4, tmm5 | activations of rows 0-15 and 16-31, 32 of K |
//! | tmm6, tmm7 | weights of columns 0-15 and 16-31, 32 of K |

use std::arch::asm;

use octile_core::plan::cpu::PANEL;

/// Rows of a tile register.
pub(super) const TILE_ROWS: usize = 16;
/// Pairs of k that one tile instruction multiplies.
pub(super) const STEP_PAIRS: usize = 16;
/// Bytes of decoded activations of one row in a step.
pub(super) const X_STEP: usize = 2 * STEP_PAIRS * 2;
/// Bytes of decoded weights of one pair of k.
pub(super) const W_PAIR: usize = 2 * PANEL * 2;

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
pub(super) unsafe fn enter() {
    // SAFETY: tiles are usable; the configuration is valid.
    unsafe { tiles!("ldtilecfg [{0}]", in(reg) &raw const CONFIG) }
}

/// Frees the tile registers, so that the operating system need not save them.
pub(super) unsafe fn leave() {
    // SAFETY: tiles are usable.
    unsafe { tiles!("tilerelease") }
}

/// Adds the products of one step: `HALVES` times 16 rows.
#[inline(always)]
pub(super) unsafe fn add_step<const HALVES: usize>(x: *const u8, x_stride: usize, w: *const u8) {
    // SAFETY: the caller guarantees a step of decoded rows and pairs, and configured tiles.
    unsafe {
        if HALVES == 1 {
            tiles!(
                "tileloadd tmm4, [{x} + {xs}*1]",
                "tileloadd tmm6, [{w} + {ws}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {ws}*1 + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                x = in(reg) x, xs = in(reg) x_stride, w = in(reg) w, ws = in(reg) W_PAIR
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
                x = in(reg) x, x2 = in(reg) x.add(TILE_ROWS * x_stride), xs = in(reg) x_stride,
                w = in(reg) w, ws = in(reg) W_PAIR
            );
        }
    }
}

/// The first step of a quantization block: stores each accumulator of the block before, then restarts it.
/// Storing costs nothing here, because the other accumulators keep the multiplier busy.
#[inline(always)]
pub(super) unsafe fn restart_step<const HALVES: usize>(
    x: *const u8,
    x_stride: usize,
    w: *const u8,
    stored: *mut f32,
) {
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
                x = in(reg) x, xs = in(reg) x_stride, w = in(reg) w, s = in(reg) stored, ws = in(reg) W_PAIR
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
                x = in(reg) x, x2 = in(reg) x.add(TILE_ROWS * x_stride), xs = in(reg) x_stride,
                w = in(reg) w, s = in(reg) stored, ws = in(reg) W_PAIR
            );
        }
    }
}

/// Stores the accumulators.
pub(super) unsafe fn store_accumulators(stored: *mut f32) {
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
pub(super) struct Stored(pub [f32; 2 * TILE_ROWS * PANEL]);

/// Multiplies numbers that are not zero, which are faster.
pub(super) unsafe fn spin(rounds: usize) -> f64 {
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
