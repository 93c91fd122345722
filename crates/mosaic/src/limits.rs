//! Budgets: how much of this machine a text may take up. Text comes from anywhere, so each of these is checked before
//! the memory or the time is spent, and each has a sentence of its own.

/// How deeply types, attributes and regions may nest in a text.
pub const MAX_NESTING: usize = 96;

/// Bytes that the aliases of a text may expand to, beside [`ALIAS_BYTES_PER_BYTE`].
pub const MAX_ALIAS_BYTES: usize = 1 << 20;

/// Bytes that aliases may expand to for each byte of the text.
pub const ALIAS_BYTES_PER_BYTE: usize = 4;

/// Elements of one vector in registers: 64 MiB of f32, as much as a tpu7x core has vector memory.
pub const MAX_VECTOR_ELEMENTS: usize = 1 << 24;

/// Elements of one tensor of the module around a kernel.
pub const MAX_TENSOR_ELEMENTS: usize = 1 << 28;

/// Bytes of all operands, results, scratch memory and values that are alive at one time, beside
/// [`BYTES_PER_OPERAND_BYTE`], where nothing else is asked for: a short text does not take a machine's memory.
pub const DEFAULT_BYTES: usize = 384 << 20;

/// Bytes that a run may take for each byte of its operands, and of results whose shape is told: operands of one byte
/// are values of four in the module around a kernel, and some of them are alive twice.
pub const BYTES_PER_OPERAND_BYTE: usize = 16;

/// Bytes of the on-chip memory of one kernel; no chip has more than 128 MiB.
pub const MAX_ON_CHIP_BYTES: usize = 1 << 30;

/// How deeply regions and calls may nest while a kernel runs.
pub const MAX_RUNNING_DEPTH: usize = 192;

/// Copies in flight whose end the core does not know.
pub const MAX_COPIES: usize = 1 << 12;

/// Events that a timeline keeps.
pub const MAX_EVENTS: usize = 1 << 21;

/// Operations that a kernel executes before it is stopped, where nothing else is asked for: about three times what
/// attention over 8 heads of 2048 x 128 takes, scaled up from a smaller one. A scalar operation counts one, as does a
/// turn of a loop, a vector operation one for every [`ELEMENTS_PER_OPERATION`] elements, a product one for every
/// [`PRODUCTS_PER_OPERATION`] multiply-add pairs.
pub const DEFAULT_OPERATIONS: u64 = 1 << 27;

/// Elements of a vector, or bytes of a copy, that count as one operation.
pub const ELEMENTS_PER_OPERATION: usize = 32;

/// Multiply-add pairs that count as one operation.
pub const PRODUCTS_PER_OPERATION: u64 = 1 << 10;
