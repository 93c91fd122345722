//! A kernel lowered for simulation: registers are indices, labels are instruction indices.

/// A kernel.
#[derive(Debug, Clone)]
pub struct Program {
    /// Name of the entry point.
    pub entry: String,
    /// Names and kinds of the parameters, in order.
    pub parameters: Vec<(String, ParameterKind)>,
    /// Most threads of a CTA.
    pub max_threads: usize,
    pub(super) code: Vec<Instruction>,
    /// Registers per thread at launch, in a kernel with `setmaxnreg`; 0 in others.
    pub(super) allotted_registers: usize,
    /// Registers of up to 32 bits.
    pub(super) words: usize,
    /// Registers of 64 bits.
    pub(super) wides: usize,
    pub(super) predicates: usize,
}

/// What a kernel parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A tensor map, by value.
    TensorMap,
    /// A device pointer.
    Pointer,
    /// A 32-bit number.
    Number,
}

/// One instruction.
#[derive(Debug, Clone)]
pub(super) struct Instruction {
    /// The guard predicate, and the value that it must have.
    pub(super) guard: Option<(Predicate, bool)>,
    pub(super) op: Op,
    /// Line of the text, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// A register of up to 32 bits.
pub(super) type Word = usize;
/// A register of 64 bits.
pub(super) type Wide = usize;
/// A predicate register.
pub(super) type Predicate = usize;

/// A 32-bit input.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Register(Word),
    Number(u32),
}

/// An address in shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedAt {
    pub(super) base: Word,
    pub(super) offset: u32,
}

/// An address in device memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct GlobalAt {
    pub(super) base: Wide,
    pub(super) offset: u64,
}

/// An address in either.
#[derive(Debug, Clone, Copy)]
pub(super) enum At {
    Shared(SharedAt),
    Global(GlobalAt),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum IntegerOp {
    Add,
    Sub,
    Mul,
    MulHigh,
    Div,
    Rem,
    Min,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Relation {
    Eq,
    Ne,
    Lt,
    Ge,
    EqFloat,
    LtFloat,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FloatOp {
    Add,
    Mul,
    Div,
    Max,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum UnaryOp {
    Abs,
    Negate,
    Reciprocal,
    WidenF16,
}

/// Type of a packed pair.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pair {
    Bf16,
    F16,
    E4m3,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Special {
    Thread,
    Cta,
    CtaY,
    Ctas,
    Cluster,
    Clusters,
    ClusterRank,
    SharedMemory,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum WideSource {
    Register(Wide),
    Halves(Value, Value),
    /// Address of a tensor map parameter.
    Map(usize),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum OtherLane {
    Xor(u32),
    Index(u32),
}

/// A new register count per thread (`setmaxnreg`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Registers {
    Down(usize),
    Up(usize),
}

impl Registers {
    /// Fewest registers per thread (PTX ISA, "setmaxnreg").
    pub(super) const MIN: usize = 24;
    /// Most registers per thread.
    pub(super) const MAX: usize = 256;
}

/// Threads of a warpgroup.
pub(super) const WARPGROUP_THREADS: usize = 128;

/// What an instruction does. Destinations come first.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Integer(IntegerOp, Word, Value, Value),
    /// `a * b + c`
    MultiplyAdd(Word, [Value; 3]),
    MultiplyAddWide(Wide, [Value; 2], Wide),
    AddWide(Wide, Wide, u64),
    Compare(Relation, Predicate, Value, Value),
    Both(Predicate, Predicate, Predicate),
    Select(Word, [Value; 2], Predicate),
    Move(Word, Value),
    MoveWide(Wide, WideSource),
    /// Low and high half of a register.
    Split([Word; 2], Value),
    Join(Word, [Value; 2]),
    Special(Word, Special),
    Parameter(Word, usize),
    ParameterWide(Wide, usize),
    Float(FloatOp, Word, Value, Value),
    Fma(Word, [Value; 3]),
    Unary(UnaryOp, Word, Value),
    /// High and low half.
    Pack(Pair, Word, [Value; 2]),
    MaxMagnitudes(Pair, Word, [Value; 2]),
    /// `bytes` bytes into each register.
    Load {
        to: Vec<Word>,
        at: At,
        bytes: usize,
    },
    Store {
        from: Vec<Value>,
        at: At,
        bytes: usize,
    },
    AtomicMax {
        to: Word,
        at: SharedAt,
        value: Value,
    },
    Shuffle(Word, Value, OtherLane),
    Branch(usize),
    Return,
    /// No effect on results.
    Nothing,
    /// `griddepcontrol.wait` (PDL).
    WaitForPreviousKernel,

    CtaBarrier {
        id: Value,
        threads: Option<u32>,
    },
    WarpBarrier,
    /// True in the first lane alone.
    Elect(Predicate),
    ClusterArrive,
    ClusterWait,
    MapToCta(Word, Value, Value),
    BarrierInit(SharedAt, u32),
    /// `times` arrivals, with which the phase expects more bytes.
    Arrive {
        at: SharedAt,
        times: u32,
        expecting: Option<Value>,
    },
    /// Prefetches a tensor map: no effect, but the address must be one.
    PrefetchTensorMap(GlobalAt),
    /// `waits` for `try_wait`, which may block until the phase completes.
    Test {
        done: Predicate,
        at: SharedAt,
        parity: Value,
        waits: bool,
    },

    TensorLoad(TensorLoad),
    /// A bulk copy of adjacent bytes.
    BulkLoad {
        to: SharedAt,
        from: GlobalAt,
        bytes: Value,
        barrier: SharedAt,
    },
    TensorStore {
        map: Wide,
        column: Value,
        row: Value,
        from: SharedAt,
    },
    CommitStores,
    WaitStores,
    /// `cp.async`: `taken` bytes are copied, the rest of `bytes` is zeros.
    Copy {
        to: SharedAt,
        from: GlobalAt,
        bytes: usize,
        taken: Value,
    },
    ArriveAfterCopies(SharedAt),
    FenceStores,
    FenceBarriers,

    SetRegisters(Registers),
    FenceWgmma,
    Wgmma(Wgmma),
    CommitWgmma,
    WaitWgmma(usize),
    StoreMatrices(SharedAt, [Value; 4]),
    TransposeMatrix(Word, Value),
}

/// A TMA load into the CTAs of `mask`, or into this one.
#[derive(Debug, Clone)]
pub(super) struct TensorLoad {
    pub(super) to: SharedAt,
    pub(super) map: Wide,
    pub(super) column: Value,
    pub(super) row: Value,
    pub(super) barrier: SharedAt,
    pub(super) mask: Option<Value>,
}

/// `sums = a * b`, or `sums += a * b` where `adds` holds; `a` and `b` are descriptors.
#[derive(Debug, Clone)]
pub(super) struct Wgmma {
    pub(super) sums: Vec<Word>,
    pub(super) a: Wide,
    pub(super) b: Wide,
    pub(super) adds: Predicate,
}
