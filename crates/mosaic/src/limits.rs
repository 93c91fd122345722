//! Resource limits for untrusted input. Each limit is checked before the memory or time is spent, and has its
//! own error message.

/// Maximum nesting depth of types, attributes and regions.
pub const MAX_NESTING: usize = 96;

/// Base budget in bytes for alias expansion; see also [`ALIAS_BYTES_PER_BYTE`].
pub const MAX_ALIAS_BYTES: usize = 1 << 20;

/// Additional alias expansion bytes per byte of text.
pub const ALIAS_BYTES_PER_BYTE: usize = 4;

/// Base budget of attributes and types that bytecode may expand to; see also [`BYTECODE_NODES_PER_BYTE`].
pub const MAX_BYTECODE_NODES: usize = 1 << 20;

/// Additional attributes and types per byte of bytecode.
pub const BYTECODE_NODES_PER_BYTE: usize = 4;

/// Maximum calls that the source location of an operation keeps.
pub const MAX_SOURCE_FRAMES: usize = 64;

/// Maximum elements of one vector: 64 MiB of f32, the VMEM of a tpu7x core.
pub const MAX_VECTOR_ELEMENTS: usize = 1 << 24;

/// Maximum elements of one tensor of the surrounding module.
pub const MAX_TENSOR_ELEMENTS: usize = 1 << 28;

/// Default memory budget in bytes for operands, results, scratch buffers and live values; see also
/// [`BYTES_PER_OPERAND_BYTE`].
pub const DEFAULT_BYTES: usize = 384 << 20;

/// Additional budget per byte of operands and of results with known shape: the surrounding module widens
/// 1-byte operands to 4 bytes, and some are live twice.
pub const BYTES_PER_OPERAND_BYTE: usize = 16;

/// Maximum on-chip memory of one kernel in bytes; no chip has more than 128 MiB.
pub const MAX_ON_CHIP_BYTES: usize = 1 << 30;

/// Maximum nesting depth of regions and calls at run time.
pub const MAX_RUNNING_DEPTH: usize = 192;

/// Maximum DMAs in flight that no wait has completed.
pub const MAX_COPIES: usize = 1 << 12;

/// Maximum signals of one semaphore that no wait has consumed.
pub const MAX_SIGNALS: usize = 1 << 12;

/// Maximum devices of a run.
pub const MAX_DEVICES: usize = 1 << 10;

/// Maximum separate regions that a device accesses between two synchronizations with other devices.
pub const MAX_RECORDS: usize = 1 << 12;

/// Maximum events that a timeline keeps.
pub const MAX_EVENTS: usize = 1 << 21;

/// Default operation budget of a run: about three times what attention over 8 heads of 2048 x 128 takes. A
/// scalar operation or loop iteration counts 1, a vector operation 1 per [`ELEMENTS_PER_OPERATION`] elements,
/// a matmul 1 per [`PRODUCTS_PER_OPERATION`] multiply-adds.
pub const DEFAULT_OPERATIONS: u64 = 1 << 27;

/// Vector elements, or DMA bytes, that count as one operation.
pub const ELEMENTS_PER_OPERATION: usize = 32;

/// What an operation of the program around a kernel counts beside its elements: it allocates a tensor, so an
/// endless `stablehlo.while` would take minutes to spend the budget at 1 each.
pub const OPERATIONS_AROUND: u64 = 32;

/// Multiply-adds that count as one operation.
pub const PRODUCTS_PER_OPERATION: u64 = 1 << 10;

/// Maximum texts that a kernel prints.
pub const MAX_PRINTS: usize = 1 << 12;
