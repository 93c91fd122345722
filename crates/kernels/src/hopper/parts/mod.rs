//! What the strategies share: the CTA and its roles, the pipeline, TMA loads, the consumers' main loop,
//! scales, the epilogue.

pub(super) mod accumulators;
pub(super) mod boundary;
pub(super) mod bulk_scales;
pub(super) mod consumer;
pub(super) mod cta;
pub(super) mod epilogue;
pub(super) mod pipeline;
pub(super) mod producer;
pub(super) mod scale_copies;
pub(super) mod scale_warp;
pub(super) mod scales;
pub(super) mod schedule;
pub(super) mod tma;
