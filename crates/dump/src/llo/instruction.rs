//! The scalar instructions that decide control flow and DMAs.

use super::extent::Memory;

/// A scalar register, a predicate register, or a physical register behind one.
pub(super) type Register = u32;

/// A sum of a constant and registers; `None` if the text was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expr {
    pub constant: Option<i64>,
    pub registers: Vec<Register>,
}

impl Expr {
    pub(super) const UNKNOWN: Self = Self { constant: None, registers: Vec::new() };
}

/// A predicate register and whether it is read negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub register: Register,
    pub negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
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
pub(super) enum Comparison {
    Ge,
    Gt,
    Lt,
    Le,
    Eq,
    Ne,
}

/// Predicate logic; the flag inverts the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logic {
    And(bool),
    Or(bool),
    Xor,
}

/// An operand of [`Logic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Register(Condition),
    Constant(bool),
}

/// Computation of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compute {
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
    /// Index of the executing core.
    CoreId,
    /// Not understood: the result is unknown.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
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
    /// Adds to a semaphore immediately.
    Signal {
        semaphore: Expr,
        granules: Expr,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub result: Option<(Register, Register)>,
    pub condition: Option<Condition>,
    /// The result if the predicate is false.
    pub otherwise: Option<Expr>,
    pub action: Action,
}

/// A DMA start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DmaStart {
    pub kind: u32,
    pub granules: Expr,
    pub semaphore: Expr,
    pub source: DmaOperand,
    pub destination: DmaOperand,
    /// SMEM address of its stride descriptor.
    pub descriptor: Option<Expr>,
    /// Rows per chunk at both ends; `None` if both are contiguous.
    pub rows: Option<Expr>,
}

/// One end of a DMA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DmaOperand {
    pub address: Expr,
    pub memory: Memory,
    /// Granules from one chunk to the next.
    pub stride: Expr,
}

/// A load or store of on-chip memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoadStore {
    /// Offset in the text.
    pub offset: u32,
    pub condition: Option<Condition>,
    pub writes: bool,
    pub address: Expr,
    pub footprint: Footprint,
}

/// Size and shape of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Footprint {
    /// One row per sublane of the mask.
    Rows(Sublanes),
    /// Some of these rows: the mask is in a register.
    SomeRows(Sublanes),
    Word,
}

/// Rows of the sublanes of a vector load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sublanes {
    pub mask: u32,
    /// Rows from the start of one group of sublanes to the start of the next (`ss:`).
    pub stride: i64,
    /// Sublanes per group, in contiguous rows (`sps:`); positive.
    pub per_stride: i64,
}

impl Sublanes {
    /// The first row alone.
    pub(super) const FIRST: Self = Self { mask: 1, stride: 1, per_stride: 1 };

    /// Row of each sublane of the mask, counted from the address.
    pub(super) fn rows(self) -> impl Iterator<Item = i64> {
        let sublanes = (0..u32::BITS).filter(move |bit| self.mask >> bit & 1 == 1).map(i64::from);
        sublanes.map(move |sublane| {
            let (group, within) = (sublane / self.per_stride, sublane % self.per_stride);
            group.saturating_mul(self.stride).saturating_add(within)
        })
    }
}
