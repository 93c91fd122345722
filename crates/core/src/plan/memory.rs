//! The memory map of a kernel: which buffers it has, where they live and how large they are.
//!
//! It is computed once, in the plan. Emitters declare their buffers from it; checks and reports read it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::PlanError;
use crate::{FloatKind, Strategy};

/// A memory that a kernel places buffers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemorySpace {
    /// TPU vector memory.
    Vmem,
    /// TPU scalar memory.
    Smem,
    /// GPU shared memory.
    Shared,
    /// Scratch of one CPU thread, sized to stay in its caches.
    Cache,
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vmem => "VMEM",
            Self::Smem => "SMEM",
            Self::Shared => "shared memory",
            Self::Cache => "cache",
        })
    }
}

/// Element type of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// 8-bit codes, f8e4m3fn.
    F8E4M3,
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// 64 opaque bits, such as an mbarrier.
    B64,
}

impl ElementType {
    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F8E4M3 => 1,
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
            Self::B64 => 8,
        }
    }
}

impl From<FloatKind> for ElementType {
    fn from(float: FloatKind) -> Self {
        match float {
            FloatKind::F32 => Self::F32,
            FloatKind::Bf16 => Self::Bf16,
            FloatKind::F16 => Self::F16,
        }
    }
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferId {
    /// Activations as they arrive.
    X,
    /// Weight codes.
    WQ,
    /// The weight codes that whole steps leave over.
    WShort,
    /// Weight scales.
    WScale,
    /// Activation scales.
    XScale,
    /// Largest magnitudes of activation blocks, from which the kernel computes the scales.
    XAbsMax,
    /// Results.
    Out,
    /// f32 accumulator that lives across grid steps.
    Acc,
    /// Activations quantized by the kernel.
    XQ,
    /// Activation scales, repeated along the lanes.
    XScaleLanes,
    /// Activation codes of two k-blocks, each in a quarter of a matrix.
    XPairs,
    /// The activations that whole blocks of rows leave over.
    XShort,
    /// Their scales.
    XScaleShort,
    /// Their results.
    OutShort,
    /// Activations dequantized to bf16.
    XBf16,
    /// The first of the next block's, which are dequantized beside the matmuls of this one.
    XAhead,
    /// Last products of a block, which the next one moves to the result.
    Late,
    /// Weights dequantized to bf16.
    WBf16,
    /// Decoded weights of a CPU panel.
    W,
    /// Products of activation and weight scales.
    Scales,
    /// Pipeline stages of MMA operand A.
    A,
    /// Pipeline stages of MMA operand B.
    B,
    /// Staged results of the epilogue.
    Result,
    /// Partial accumulators that split-K CTAs exchange.
    Exchange,
    /// Full barriers, one per stage.
    Full,
    /// Empty barriers, one per stage.
    Empty,
    /// Barrier: a staged tile is complete.
    ResultReady,
    /// Barrier: a staged tile has been stored.
    ResultTaken,
    /// Row and column of the staged tile.
    ResultTile,
}

impl BufferId {
    /// The name in manifests and messages, for example `w_q`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X => "x",
            Self::WQ => "w_q",
            Self::WShort => "w_short",
            Self::WScale => "w_scale",
            Self::XScale => "x_scale",
            Self::XAbsMax => "x_abs_max",
            Self::Out => "out",
            Self::Acc => "acc",
            Self::XQ => "x_q",
            Self::XScaleLanes => "x_scale_lanes",
            Self::XPairs => "x_pairs",
            Self::XShort => "x_short",
            Self::XScaleShort => "x_scale_short",
            Self::OutShort => "out_short",
            Self::XBf16 => "x_bf16",
            Self::XAhead => "x_ahead",
            Self::Late => "late",
            Self::WBf16 => "w_bf16",
            Self::W => "w",
            Self::Scales => "scales",
            Self::A => "a",
            Self::B => "b",
            Self::Result => "result",
            Self::Exchange => "exchange",
            Self::Full => "full",
            Self::Empty => "empty",
            Self::ResultReady => "result_ready",
            Self::ResultTaken => "result_taken",
            Self::ResultTile => "result_tile",
        }
    }
}

impl fmt::Display for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One buffer of a memory map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBuffer {
    /// What it holds.
    pub id: BufferId,
    /// Where it lives.
    pub space: MemorySpace,
    /// Number of copies: 2 for double buffering, the number of stages of a pipeline.
    pub copies: usize,
    /// Element type.
    pub element: ElementType,
    /// Shape of one copy.
    pub shape: Vec<usize>,
    /// Bytes of one copy, padding included.
    pub bytes: usize,
}

impl PlannedBuffer {
    /// A buffer without padding.
    pub fn new(
        id: BufferId,
        space: MemorySpace,
        copies: usize,
        element: ElementType,
        shape: &[usize],
    ) -> Self {
        let bytes = shape.iter().fold(element.bytes(), |bytes, &extent| bytes.saturating_mul(extent));
        Self { id, space, copies, element, shape: shape.to_vec(), bytes }
    }

    /// The same buffer with this many bytes per copy.
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// Bytes of all copies.
    pub fn total(&self) -> usize {
        self.copies.saturating_mul(self.bytes)
    }
}

/// All buffers of a kernel, in layout order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemoryMap {
    buffers: Vec<PlannedBuffer>,
}

impl MemoryMap {
    /// Appends a buffer.
    pub fn push(&mut self, buffer: PlannedBuffer) {
        self.buffers.push(buffer);
    }

    /// The buffers, in layout order.
    pub fn buffers(&self) -> &[PlannedBuffer] {
        &self.buffers
    }

    /// The buffer with this id, if the kernel has one.
    pub fn get(&self, id: BufferId) -> Option<&PlannedBuffer> {
        self.buffers.iter().find(|buffer| buffer.id == id)
    }

    /// Bytes used in one memory.
    pub fn total(&self, space: MemorySpace) -> usize {
        self.within(space).map(PlannedBuffer::total).fold(0, usize::saturating_add)
    }

    /// Rejects a map that takes more than `available` bytes of `space`.
    pub fn require(
        &self,
        space: MemorySpace,
        available: usize,
        strategy: Strategy,
        device: &str,
    ) -> Result<(), PlanError> {
        self.require_budget(space, self.total(space), available, strategy, device)
    }

    /// Rejects a budget of `needed` bytes for the buffers in `space`.
    pub(super) fn require_budget(
        &self,
        space: MemorySpace,
        needed: usize,
        available: usize,
        strategy: Strategy,
        device: &str,
    ) -> Result<(), PlanError> {
        if needed <= available {
            return Ok(());
        }
        let largest = self.within(space).max_by_key(|buffer| buffer.total());
        let largest = largest.map_or_else(String::new, |b| format!("{} ({} bytes)", b.id, b.total()));
        Err(PlanError::DoesNotFit { strategy, device: device.to_owned(), space, needed, available, largest })
    }

    fn within(&self, space: MemorySpace) -> impl Iterator<Item = &PlannedBuffer> {
        self.buffers.iter().filter(move |buffer| buffer.space == space)
    }
}
