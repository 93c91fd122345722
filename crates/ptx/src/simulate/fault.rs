//! Why a simulation stops.

use thiserror::Error;

/// An error of the simulated kernel, with the instruction and thread that ran into it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: `{text}` in thread {thread} of CTA {cta}: {kind}")]
pub struct Fault {
    /// Line of the PTX, from 1.
    pub line: usize,
    /// The instruction.
    pub text: String,
    /// Index of the CTA in the grid.
    pub cta: usize,
    /// Index in its CTA of the first thread that executed the instruction.
    pub thread: usize,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside every allocation.
    #[error("{bytes} bytes at {address:#x} are outside every device allocation")]
    OutsideDevice {
        /// Device address.
        address: u64,
        /// Size of the access.
        bytes: usize,
    },
    /// An access outside the CTA's shared memory.
    #[error("{bytes} bytes at offset {offset} are outside the CTA's {size} bytes of shared memory")]
    OutsideShared {
        /// Offset from the start of the CTA's shared memory.
        offset: i64,
        /// Size of the access.
        bytes: usize,
        /// Size of the shared memory.
        size: usize,
    },
    /// A misaligned address.
    #[error("address {address:#x} is not a multiple of {alignment}")]
    Misaligned {
        /// The address.
        address: u64,
        /// Required alignment.
        alignment: usize,
    },
    /// A data race in shared memory.
    #[error(
        "data race: it {does} shared memory offset {offset}, which {other} {did}, and neither happens before \
         the other"
    )]
    Race {
        /// Offset in shared memory.
        offset: usize,
        /// What this access does: `reads` or `writes`.
        does: &'static str,
        /// Who made the other access.
        other: String,
        /// What the other access does.
        did: &'static str,
    },
    /// A data race in device memory between clusters.
    #[error(
        "data race: it {does} {address:#x}, which another cluster wrote, and clusters do not synchronize"
    )]
    DeviceRace {
        /// Device address.
        address: u64,
        /// What this access does: `reads` or `writes`.
        does: &'static str,
    },
    /// Generic-proxy stores that the async proxy reads without a proxy fence between.
    #[error(
        "it makes TMA or wgmma read shared memory offset {offset}, which warp {warp} stored to without a \
         `fence.proxy.async` that happens before this"
    )]
    NotFenced {
        /// Offset in shared memory.
        offset: usize,
        /// Who stored.
        warp: usize,
    },
    /// An accumulator register of a wgmma in flight.
    #[error(
        "it uses an accumulator of the wgmma of line {line}, which is in flight: use `wgmma.wait_group` first"
    )]
    AccumulatorInFlight {
        /// Line of the wgmma.
        line: usize,
    },
    /// A register without a value.
    #[error("it reads a register that this thread has not written")]
    UninitializedRegister,
    /// A thread exits while a wgmma is in flight.
    #[error(
        "it exits while the wgmma of line {line} is in flight: use `wgmma.commit_group` and \
         `wgmma.wait_group`"
    )]
    ExitsWithWgmmaInFlight {
        /// Line of the wgmma.
        line: usize,
    },
    /// No thread can continue.
    #[error("deadlock: every thread waits: {waiting}")]
    Deadlock {
        /// What the warps wait at.
        waiting: String,
    },
    /// The run exceeds the instruction limit.
    #[error("stopped after {max} instructions: an endless loop, unless the limit is too low")]
    InstructionLimit {
        /// The limit.
        max: u64,
    },
    /// More asynchronous operations in flight than the simulator tracks.
    #[error("more than {max} {what}: wait for some before issuing more")]
    TooMuchPending {
        /// The limit.
        max: usize,
        /// Of what.
        what: &'static str,
    },
    /// Distributed shared memory of a CTA that has exited.
    #[error("it accesses shared memory of CTA {rank} of the cluster, which has exited")]
    CtaExited {
        /// Rank in the cluster.
        rank: usize,
    },
    /// A CTA rank outside the cluster.
    #[error("it names CTA {rank} of a cluster of {ctas}")]
    NoSuchCta {
        /// Rank in the cluster.
        rank: usize,
        /// Size of the cluster.
        ctas: usize,
    },
    /// An mbarrier that was not initialized.
    #[error("there is no mbarrier at shared memory offset {offset}")]
    NoBarrier {
        /// Offset in shared memory.
        offset: usize,
    },
    /// An mbarrier that TMA may not see yet.
    #[error(
        "the mbarrier at shared memory offset {offset} is not visible to TMA: fence after `mbarrier.init`"
    )]
    BarrierNotFenced {
        /// Offset in shared memory.
        offset: usize,
    },
    /// A write over an mbarrier.
    #[error("it overwrites the mbarrier at shared memory offset {offset}")]
    OverwritesBarrier {
        /// Offset in shared memory.
        offset: usize,
    },
    /// A wgmma after other uses of its registers.
    #[error("registers were used since the last wgmma: `wgmma.fence` is missing")]
    WgmmaNotFenced,
    /// Operands that differ between the lanes of a warp.
    #[error("its operands differ between the lanes of the warp")]
    LaneOperandsDiffer,
    /// A warpgroup with fewer than four warps.
    #[error("it needs a whole warpgroup, and the last one of this CTA has {warps} of 4 warps")]
    IncompleteWarpgroup {
        /// Warps of the warpgroup.
        warps: usize,
    },
    /// Warps of a warpgroup that execute different collective instructions.
    #[error(
        "warpgroup diverged: another warp executes line {line} here, `{text}`, which all four warps must \
         execute"
    )]
    WarpgroupDiverged {
        /// Line of the PTX, from 1.
        line: usize,
        /// The instruction there.
        text: String,
    },
    /// A warpgroup some of whose threads have exited.
    #[error("all four warps of the warpgroup must execute it, and some of their threads have exited")]
    WarpgroupExited,
    /// Operands that differ between the warps of a warpgroup.
    #[error("its operands differ between the warps of the warpgroup")]
    WarpOperandsDiffer,
    /// `setmaxnreg.dec` that raises the register count, or `.inc` that lowers it.
    #[error("threads have {has} registers: `setmaxnreg.dec` must lower that, `.inc` must raise it")]
    WrongDirection {
        /// Registers per thread.
        has: usize,
    },
    /// More arrivals than the phase expects.
    #[error("the mbarrier at shared memory offset {offset} gets more arrivals than its phase expects")]
    TooManyArrivals {
        /// Offset in shared memory.
        offset: usize,
    },
    /// A named barrier that does not exist.
    #[error("barrier {id} does not exist: a CTA has barriers 0 to 15")]
    NoNamedBarrier {
        /// Number of the barrier.
        id: usize,
    },
    /// Thread counts at a named barrier that differ.
    #[error("barrier {id}: thread count differs from earlier arrivals")]
    BarrierCountMismatch {
        /// Number of the barrier.
        id: usize,
    },
    /// A wait at the cluster barrier without an arrival.
    #[error("it waits at the cluster barrier without having arrived")]
    WaitsWithoutArrival,
    /// A second arrival at the cluster barrier without a wait between.
    #[error("it arrives at the cluster barrier again without having waited")]
    ArrivesTwice,
    /// Memory that the preceding kernel may still use.
    #[error(
        "it accesses {address:#x}, which the preceding kernel may still use: `griddepcontrol.wait` is \
         missing (PDL)"
    )]
    BeforePreviousKernel {
        /// Device address.
        address: u64,
    },
    /// A thread or CTA exits with asynchronous copies in flight.
    #[error("the thread or its CTA exits while copies from or to shared memory are in flight")]
    ExitsWithCopiesInFlight,
    /// A parameter of another kind than the instruction takes.
    #[error("parameter {index} has another type than the instruction needs")]
    ParameterKindMismatch {
        /// Index of the parameter, from 0.
        index: usize,
    },
    /// A matrix descriptor that the simulator does not support.
    #[error("matrix descriptor {descriptor:#018x} is not that of an operand in the 128-byte swizzle")]
    UnsupportedDescriptor {
        /// Its bits.
        descriptor: u64,
    },
}
