//! What the kernels share.

pub(super) mod double_buffer;
pub(super) mod frame;
pub(super) mod module;
pub(super) mod scales;
pub(super) mod tile;
