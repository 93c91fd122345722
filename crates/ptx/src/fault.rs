//! What stops a run.

use thiserror::Error;

/// Why and where a run stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: `{text}` in thread {thread} of block {block}: {kind}")]
pub struct Fault {
    /// Line of the program, from 1.
    pub line: usize,
    /// The instruction.
    pub text: String,
    /// Index of the block in the grid.
    pub block: usize,
    /// Index of the thread in its block: the first of those that executed the instruction together.
    pub thread: usize,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FaultKind {
    /// Device memory that was not allocated.
    #[error("{bytes} bytes at {address:#x} are outside of every allocation")]
    OutsideGlobal {
        /// Where.
        address: u64,
        /// How many.
        bytes: usize,
    },
    /// Shared memory that the block does not have.
    #[error("{bytes} bytes at offset {offset} are outside of the block's {size} bytes of shared memory")]
    OutsideShared {
        /// Where, from the start of the block's shared memory.
        offset: i64,
        /// How many.
        bytes: usize,
        /// What there is.
        size: usize,
    },
    /// An address that is not a multiple of the size.
    #[error("address {address:#x} is not a multiple of {alignment}")]
    Misaligned {
        /// Where.
        address: u64,
        /// What it must be a multiple of.
        alignment: usize,
    },
    /// Two accesses without an order between them.
    #[error("it {does} offset {offset} of shared memory, which {other} {did} with no order between the two")]
    Race {
        /// Where.
        offset: usize,
        /// Reads or writes.
        does: &'static str,
        /// Who else.
        other: String,
        /// Read or wrote.
        did: &'static str,
    },
    /// Device memory that clusters of blocks touch without an order between them.
    #[error("it {does} {address:#x}, which another block wrote with no order between the two")]
    GlobalRace {
        /// Where.
        address: u64,
        /// Reads or writes.
        does: &'static str,
    },
    /// Ordinary stores that an engine reads without the fence between.
    #[error(
        "it starts what reads offset {offset} of shared memory, which warp {warp} stored to without `fence.proxy.async` after it \
         and before this"
    )]
    NotFenced {
        /// Where.
        offset: usize,
        /// Who stored.
        warp: usize,
    },
    /// A register of a product that is still being computed.
    #[error(
        "it uses a register that the product of line {line} may not have written yet: wait for that first (`wgmma.wait_group`)"
    )]
    NotWaitedFor {
        /// Where the product was started.
        line: usize,
    },
    /// A register without a value.
    #[error("it uses a register that this thread has not written: what that holds is not known")]
    Unwritten,
    /// A thread leaves before its products are over.
    #[error(
        "it leaves although no one has waited for the product of line {line} (`wgmma.commit_group`, `wgmma.wait_group`)"
    )]
    LeavesProducts {
        /// Where the product was started.
        line: usize,
    },
    /// No thread can go on.
    #[error("it waits for ever, and so does every other thread: {waiting}")]
    Deadlock {
        /// What the warps wait at.
        waiting: String,
    },
    /// The run is longer than it may be.
    #[error(
        "the run was stopped after {most} instructions, where it is in an endless loop unless the kernel takes more than that"
    )]
    OutOfInstructions {
        /// How many it may execute.
        most: u64,
    },
    /// Work that is started without end.
    #[error("there are more than {most} {what}: wait for some before more are started")]
    TooMuchPending {
        /// How many there may be.
        most: usize,
        /// Of what.
        what: &'static str,
    },
    /// A block that is gone.
    #[error("it reaches into block {rank} of the cluster, which has left")]
    BlockLeft {
        /// Which.
        rank: usize,
    },
    /// A block that is not in the cluster.
    #[error("it names block {rank} of a cluster of {blocks}")]
    NoSuchBlock {
        /// Which.
        rank: usize,
        /// How many there are.
        blocks: usize,
    },
    /// A barrier that was not made.
    #[error("there is no barrier at offset {offset} of shared memory")]
    NoBarrier {
        /// Where.
        offset: usize,
    },
    /// A barrier that the copy engine may not see yet.
    #[error(
        "no fence after `mbarrier.init` lets the copy engine see the barrier at offset {offset} of shared memory"
    )]
    BarrierNotFenced {
        /// Where.
        offset: usize,
    },
    /// A write over a barrier.
    #[error("it writes over the barrier at offset {offset} of shared memory")]
    OverBarrier {
        /// Where.
        offset: usize,
    },
    /// Products that follow other uses of their registers.
    #[error("registers were used since the last products, without `wgmma.fence` before the next")]
    ProductNotFenced,
    /// Operands of one warp that differ between its lanes.
    #[error("its lanes name different operands")]
    OperandsDiffer,
    /// A warpgroup that is none.
    #[error("it is for four warps, and the last warpgroup of this block has {warps}")]
    NoWarpgroup {
        /// How many it has.
        warps: usize,
    },
    /// Warps of a warpgroup that do not execute the same.
    #[error(
        "another warp of its warpgroup has executed line {line} at this point, `{text}`, which all four must execute together"
    )]
    NotTogether {
        /// Line of the program, from 1.
        line: usize,
        /// The instruction there.
        text: String,
    },
    /// A warpgroup without some of its threads.
    #[error("all four warps of its warpgroup must execute it, and threads of them have left")]
    WarpgroupLeft,
    /// Operands of one warpgroup that differ between its warps.
    #[error("the warps of its warpgroup name different operands")]
    WarpsDiffer,
    /// Registers that are given back where they are asked for, or the other way round.
    #[error("its threads have {has} registers: `.dec` leads to fewer, `.inc` to more")]
    OtherWay {
        /// Registers of each thread.
        has: usize,
    },
    /// More arrivals than a phase has.
    #[error("the barrier at offset {offset} of shared memory gets more arrivals than its phase has")]
    TooManyArrivals {
        /// Where.
        offset: usize,
    },
    /// A block barrier that does not exist.
    #[error("a block has barriers 0 to 15, not {id}")]
    NoBlockBarrier {
        /// Which.
        id: usize,
    },
    /// A block barrier that threads do not agree on.
    #[error("it waits for another number of threads at barrier {id} than those who are there")]
    OtherCount {
        /// Which.
        id: usize,
    },
    /// A thread that waits for a barrier of the cluster that it has not arrived at.
    #[error("it waits for the barrier of the cluster without having arrived there")]
    WaitsWithoutArrival,
    /// A thread that does not wait for the barrier of the cluster before it arrives there again.
    #[error("it arrives at the barrier of the cluster again without having waited there")]
    ArrivesTwice,
    /// Memory that another kernel may still use.
    #[error(
        "it touches {address:#x}, which the kernel before this one may still use, without `griddepcontrol.wait` before it"
    )]
    BeforePrevious {
        /// Where.
        address: u64,
    },
    /// A thread or block that leaves too early.
    #[error("copies from or into shared memory are under way when the thread or its block leaves")]
    LeavesCopies,
    /// A parameter of another kind than the instruction takes.
    #[error("parameter {index} is of another kind")]
    OtherParameter {
        /// Which, from 0.
        index: usize,
    },
    /// A descriptor that the machine does not understand.
    #[error("descriptor {descriptor:#018x} is not of an operand in the 128-byte swizzle")]
    Descriptor {
        /// Its bits.
        descriptor: u64,
    },
}
