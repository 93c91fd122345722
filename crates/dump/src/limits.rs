//! Limits on time and memory: dumps come from anywhere, and none may exhaust this machine.

/// Mosaic text beyond this is not parsed: its tree takes several times the size of the text.
pub const MAX_MOSAIC_BYTES: usize = 16 << 20;

/// Steps of a Mosaic kernel before its execution is abandoned: a few seconds.
pub const MAX_KERNEL_STEPS: u64 = 50_000_000;

/// Grid steps over which the windows of an operand are evaluated.
pub const MAX_WINDOW_STEPS: u64 = 1 << 16;

/// DMAs in flight, semaphores, buffer slots and races that are tracked; a real kernel has far fewer.
pub const MAX_TRACKED: usize = 4096;

/// Comparisons of accesses with DMAs in flight: a few seconds, several times what the largest kernels need.
pub const MAX_COMPARISONS: u64 = 1 << 31;

/// Chunks of a strided DMA that are compared one by one with an access.
pub const MAX_CHUNKS: i64 = 1 << 10;

/// Cycles of an LLO listing before its simulation is abandoned, unless the caller asks for more.
pub const MAX_LLO_CYCLES: u64 = 200_000_000;

/// Cycles of an execution that assumes how branches on data go.
pub const MAX_ASSUMED_CYCLES: u64 = 20_000_000;
