//! Budgets: how much of this machine a PTX text may take up. Text comes from anywhere, so each limit is
//! checked before the memory or the time is spent.

/// How deeply the brackets of operands may nest; PTX itself nests three deep: `(%r1, {%r2, [%rd1]})`.
pub const MAX_OPERAND_NESTING: usize = 8;

/// Instructions of a simulated kernel: a hundred times what the longest kernel of this project has.
pub const MAX_INSTRUCTIONS: usize = 1 << 18;

/// Bytes of one instruction, which messages repeat.
pub const MAX_INSTRUCTION_BYTES: usize = 1 << 12;

/// Parameters of a simulated kernel: the driver takes 4 KiB of them.
pub const MAX_PARAMETERS: usize = 1 << 10;

/// Registers of one kind: every simulated warp allocates all of them.
pub const MAX_REGISTERS: usize = 1 << 12;

/// Asynchronous operations of a warp in flight, and TMA loads and barriers of a cluster: many times what
/// shared memory has room for.
pub const MAX_PENDING: usize = 1 << 10;

/// Warp instructions that a simulated kernel executes at most, beside [`EXECUTED_PER_STAGE`].
pub const EXECUTED_BASE: u64 = 1 << 20;

/// Warp instructions that a simulated kernel executes at most for every 128^3 of the problem; kernels take up
/// to 2^12.
pub const EXECUTED_PER_STAGE: u64 = 1 << 15;
