//! A program as the machine runs it: registers are indices, labels are places.

/// A module with one entry point.
#[derive(Debug, Clone)]
pub struct Program {
    /// Name of the entry point.
    pub entry: String,
    /// Names of the parameters, in order.
    pub parameters: Vec<String>,
    /// Threads of a block at most.
    pub most_threads: usize,
    pub(crate) code: Vec<Instruction>,
    /// Registers of the machine that a thread has at first, in a kernel that changes that; 0 in others.
    pub(crate) allotted_registers: usize,
    /// Registers of up to 32 bits.
    pub(crate) words: usize,
    /// Registers of 64 bits.
    pub(crate) wides: usize,
    pub(crate) predicates: usize,
}

/// One instruction.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    /// The predicate that lets it happen, and the value that it must have.
    pub(crate) guard: Option<(Predicate, bool)>,
    pub(crate) op: Op,
    /// Line of the text, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A register of up to 32 bits.
pub(crate) type Word = usize;
/// A register of 64 bits.
pub(crate) type Wide = usize;
/// A predicate register.
pub(crate) type Predicate = usize;

/// What an instruction reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Register(Word),
    Number(u32),
}

/// An address in shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedAt {
    pub(crate) base: Word,
    pub(crate) offset: u32,
}

/// An address in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalAt {
    pub(crate) base: Wide,
    pub(crate) offset: u64,
}

/// An address in either.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    Shared(SharedAt),
    Global(GlobalAt),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum IntegerOp {
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
pub(crate) enum Relation {
    Eq,
    Ne,
    Lt,
    Ge,
    EqFloat,
    LtFloat,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FloatOp {
    Add,
    Mul,
    Div,
    Max,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum UnaryOp {
    Abs,
    Negate,
    Reciprocal,
    WidenF16,
}

/// What two values become when they are packed into one register, or compared in pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pair {
    Bf16,
    F16,
    E4m3,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Special {
    Thread,
    Block,
    BlockY,
    Blocks,
    Cluster,
    Clusters,
    ClusterRank,
    SharedMemory,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum WideSource {
    Register(Wide),
    Halves(Value, Value),
    /// A tensor map among the parameters.
    Map(usize),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum OtherLane {
    Xor(u32),
    Index(u32),
}

/// How many registers of the machine a thread has from now on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Registers {
    Down(usize),
    Up(usize),
}

impl Registers {
    /// How many there are at least (PTX ISA, "setmaxnreg").
    pub(crate) const LEAST: usize = 24;
    /// And at most.
    pub(crate) const MOST: usize = 256;
}

/// Threads of a warpgroup.
pub(crate) const WARPGROUP_THREADS: usize = 128;

/// What an instruction does. Results come first.
#[derive(Debug, Clone)]
pub(crate) enum Op {
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
    /// Registers of so many bytes each.
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
    /// What has no effect on results.
    Nothing,
    /// Waits until the kernel before this one is over.
    WaitForPrevious,

    BlockBarrier {
        id: Value,
        threads: Option<u32>,
    },
    WarpBarrier,
    /// Holds in the first lane alone.
    Elect(Predicate),
    ClusterArrive,
    ClusterWait,
    MapToBlock(Word, Value, Value),
    BarrierInit(SharedAt, u32),
    Arrive {
        at: SharedAt,
        expecting: Option<Value>,
    },
    /// `waits` where the machine may hold the thread until the phase is over.
    Test {
        done: Predicate,
        at: SharedAt,
        parity: Value,
        waits: bool,
    },

    TensorLoad(TensorLoad),
    TensorStore {
        map: Wide,
        column: Value,
        row: Value,
        from: SharedAt,
    },
    CommitStores,
    WaitStores,
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
    FenceProducts,
    Product(Product),
    CommitProducts,
    WaitProducts(usize),
    StoreMatrices(SharedAt, [Value; 4]),
    TransposeMatrix(Word, Value),
}

/// A tile from device memory into the blocks of `mask`, or into this one.
#[derive(Debug, Clone)]
pub(crate) struct TensorLoad {
    pub(crate) to: SharedAt,
    pub(crate) map: Wide,
    pub(crate) column: Value,
    pub(crate) row: Value,
    pub(crate) barrier: SharedAt,
    pub(crate) mask: Option<Value>,
}

/// `sums (+)= a * b`, with descriptors of a and b.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    pub(crate) sums: Vec<Word>,
    pub(crate) a: Wide,
    pub(crate) b: Wide,
    pub(crate) adds: Predicate,
}
