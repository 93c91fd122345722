//! The scalar instructions that steer control flow and DMA, as values.

use super::extent::Memory;

/// A scalar register, a predicate register, or a physical register behind one.
pub type Register = u32;

/// A sum of a constant and registers; nothing where the text was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    pub constant: Option<i64>,
    pub registers: Vec<Register>,
}

impl Expr {
    pub const UNKNOWN: Self = Self { constant: None, registers: Vec::new() };
}

/// A predicate register and whether it is read negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    pub register: Register,
    pub negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Sub,
    Mul,
    ShiftLeft,
    ShiftRightUnsigned,
    ShiftRightSigned,
    And,
    Or,
    Xor,
    Divide { signed: bool },
    Remainder { signed: bool },
    Min { signed: bool },
    Max { signed: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Ge,
    Gt,
    Lt,
    Le,
    Eq,
    Ne,
}

/// What combines predicates; the flag says whether the result is inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    And(bool),
    Or(bool),
    Xor,
}

/// An operand of [`Logic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    Register(Condition),
    Constant(bool),
}

/// What a compiled instruction computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compute {
    Value(Expr),
    Arithmetic(Arithmetic, Expr, Expr),
    Compare {
        comparison: Comparison,
        signed: bool,
        left: Expr,
        right: Expr,
    },
    Select {
        condition: Condition,
        then: Expr,
        otherwise: Expr,
    },
    Logic(Logic, Vec<Truth>),
    Load(Expr),
    /// The number of the core that executes this, of those that share a kernel.
    CoreId,
    /// Not understood: the result is unknown.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads the physical register at the head of a loop.
    Phi {
        physical: Register,
    },
    Compute(Compute),
    /// A pseudo operation that reads results of its own bundle.
    Late(Expr),
    Store {
        address: Expr,
        value: Expr,
    },
    Branch {
        target: Option<usize>,
    },
    DmaStart(Box<DmaStart>),
    DmaWait {
        semaphore: Expr,
        granules: Expr,
    },
    /// Adds to a semaphore at once.
    Signal {
        semaphore: Expr,
        granules: Expr,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub result: Option<(Register, Register)>,
    pub condition: Option<Condition>,
    /// What the result is where the condition does not hold.
    pub otherwise: Option<Expr>,
    pub action: Action,
}

/// A DMA that is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaStart {
    pub kind: u32,
    pub granules: Expr,
    pub semaphore: Expr,
    pub source: DmaOperand,
    pub destination: DmaOperand,
    /// Where a descriptor of its strides is in scalar memory.
    pub descriptor: Option<Expr>,
    /// Rows per chunk, at both ends; `None` where both are contiguous.
    pub rows: Option<Expr>,
}

/// One end of a DMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaOperand {
    pub address: Expr,
    pub memory: Memory,
    /// Granules from one chunk to the next.
    pub stride: Expr,
}

/// A load or store of on-chip memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadStore {
    /// Where the instruction is in the text.
    pub offset: u32,
    pub condition: Option<Condition>,
    pub writes: bool,
    pub address: Expr,
    pub footprint: Footprint,
}

/// How far an access reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footprint {
    /// A row for each sublane of the mask.
    Rows {
        mask: u32,
        sublane_stride: i64,
    },
    Word,
}
