//! What a microkernel is told.

use std::mem::MaybeUninit;

use octile_core::FloatKind;
#[cfg(doc)]
use octile_core::plan::cpu::{PANEL, x_row_bytes};

#[cfg(doc)]
use super::Kernels;

/// Arguments of a microkernel: rows of activations times columns of weights, over one slab of K.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "some fields are for AMX alone"))]
#[derive(Clone, Copy)]
pub(in crate::cpu) struct TileArgs {
    /// Number of tiles along the rows, and rows of each.
    pub tiles: usize,
    pub rows: usize,
    /// Decoded activations: the first row, at the first k of the slab, and the bytes from row to row, which
    /// are [`x_row_bytes`].
    pub x: *const u8,
    pub x_stride: usize,
    /// Decoded weights of the tile's columns, or the codes of a packed panel for a tile that decodes.
    pub w: *const u8,
    /// Where a tile stores the weights that it decodes: its own, at `w`, or those of the next step. Null for
    /// none.
    pub keep: *mut u8,
    /// Codes to prefetch for the next step, or to decode: a cache line per pair of k.
    pub ahead: *const u8,
    pub ahead_pairs: usize,
    /// Whether codes that are decoded once are prefetched straight into the L1 cache.
    pub into_l1: bool,
    /// Pairs of k in the slab, and in one quantization block.
    pub pairs: usize,
    pub block_pairs: usize,
    /// Scales of the rows in each quantization block, and from one block to the next.
    pub x_scales: *const f32,
    pub x_scale_stride: usize,
    /// The scale of the weights in each quantization block.
    pub w_scales: *const f32,
    /// Accumulators of earlier slabs, or null if there are none. The row stride is [`PANEL`] floats.
    pub sums: *const f32,
    /// Where the accumulators are stored, and the row stride in elements.
    pub out: *mut f32,
    pub out_stride: usize,
    /// What is at `out`.
    pub target: Target,
    /// The other slabs of the panel, if the call goes through all of them.
    pub slabs: Option<MoreSlabs>,
    /// What calls leave to each other.
    pub state: *mut TileState,
}

/// The slabs of a panel after the first. What [`TileArgs`] says of the next step and the result is for the
/// last one.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for AMX alone"))]
pub(in crate::cpu) struct MoreSlabs {
    /// Their number, and the pairs of k in the last one.
    pub count: usize,
    pub last_pairs: usize,
    /// Bytes of activations from slab to slab.
    pub x_bytes: usize,
    /// Codes of the second slab; those of the others follow.
    pub codes: *const u8,
    /// Where weights of every other slab are decoded, beside [`TileArgs::w`].
    pub buffer: *mut u8,
    /// Accumulators between slabs. The row stride is [`PANEL`] floats.
    pub sums: *mut f32,
}

/// Where a tile stores.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Target {
    /// To scratch memory.
    Sums,
    /// To the result, which has this type. Types other than f32 only if [`Kernels::narrows`].
    Result {
        kind: FloatKind,
        /// Whether the result is too large for the caches, so that storing it past them is faster.
        exceeds_caches: bool,
    },
}

/// What the calls of one thread leave to each other: scaling that waits for the next tile. Its content is up
/// to the ISA.
#[repr(C, align(64))]
pub(in crate::cpu) struct TileState([MaybeUninit<u8>; 13 << 10]);

impl TileState {
    pub(in crate::cpu) const fn new() -> Self {
        Self([MaybeUninit::uninit(); _])
    }
}
