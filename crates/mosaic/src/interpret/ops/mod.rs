//! The operations, one table per kind. A table's entry says whether the operation has effects and which attributes it
//! honours, and makes it ready: it checks types and attributes once, and gives the closure that runs.

mod control;
mod convert;
mod copy;
mod float;
mod integer;
mod matmul;
mod memory;
mod reduce;
mod reshape;
mod scalar;
mod stablehlo;
mod view;

pub use scalar::ScalarOp;
pub(super) use stablehlo::embedded_text;

use self::scalar::Rule;
use super::program::{Compiler, Made};
use crate::ir::Op;

/// Makes an operation ready.
pub(super) type Maker = fn(&mut Compiler<'_>, &Op) -> Made;

/// What an operation does to memory, DMAs and control flow: all that can be said of it without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpKind {
    /// Computes values from values.
    Compute,
    /// Multiplies matrices.
    Matmul,
    /// Takes a box out of a memref.
    Slice,
    /// Gives the same elements of a memref, with or without dimensions of extent 1.
    Alias,
    /// Gives the memory of a memref in another shape or type.
    Reinterpret,
    /// Allocates a memref.
    Allocate,
    /// Reads a memref.
    Load,
    /// Writes a memref.
    Store,
    /// Copies one memref to another and returns when that is done.
    Copy,
    /// Starts a DMA.
    StartDma,
    /// Waits for a DMA.
    WaitDma,
    /// `scf.if`.
    If,
    /// `scf.for`.
    For,
    /// `scf.while`.
    While,
    /// Runs its region once.
    Scope,
    /// Calls another function of the module.
    Call,
    /// Ends a block.
    Yield,
    /// Has an effect of another kind: signals or reads a semaphore, asserts, traces.
    Effect,
}

impl OpKind {
    /// Whether the operation must run although nobody needs its results. The others are left out then, as a compiler
    /// leaves them out: in lowered kernels, a dead load precedes every store.
    const fn has_effect(self) -> bool {
        match self {
            Self::Compute | Self::Matmul | Self::Load | Self::Allocate => false,
            Self::Slice | Self::Alias | Self::Reinterpret => false,
            Self::Store | Self::Copy | Self::StartDma | Self::WaitDma | Self::Effect => true,
            Self::If | Self::For | Self::While | Self::Scope | Self::Call | Self::Yield => true,
        }
    }
}

/// All that is known of an operation: there is no other list of names.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    name: &'static str,
    kind: OpKind,
    /// How it computes a scalar integer, where it does.
    rule: Option<Rule>,
    /// How many results it has; none where that depends on its types.
    results: Option<usize>,
    /// How many regions it has.
    regions: usize,
    /// The attributes that its maker looks at; others are refused.
    pub(super) attributes: &'static [&'static str],
    pub(super) make: Maker,
}

/// An operation that only computes its results.
const fn pure(name: &'static str, attributes: &'static [&'static str], make: Maker) -> Definition {
    Definition { name, kind: OpKind::Compute, rule: None, results: Some(1), regions: 0, attributes, make }
}

/// An operation that does something whether its results are needed or not.
const fn effect(name: &'static str, attributes: &'static [&'static str], make: Maker) -> Definition {
    Definition { name, kind: OpKind::Effect, rule: None, results: Some(0), regions: 0, attributes, make }
}

impl Definition {
    /// The same operation, of another kind.
    const fn kind(self, kind: OpKind) -> Self {
        Self { kind, ..self }
    }

    /// The same operation, which computes scalar integers by `rule`.
    const fn rule(self, rule: Rule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// The same operation with so many results.
    const fn results(self, results: usize) -> Self {
        Self { results: Some(results), ..self }
    }

    /// The same operation with results that its maker checks.
    const fn any_results(self) -> Self {
        Self { results: None, ..self }
    }

    /// The same operation with so many regions.
    const fn regions(self, regions: usize) -> Self {
        Self { regions, ..self }
    }

    /// Refuses an operation with more or fewer results and regions than it is defined to have: what they hold would be
    /// dropped without a word.
    pub(super) fn check_counts(&self, op: &Op) -> Made<()> {
        if op.regions.len() != self.regions {
            return Err(format!("expected {} regions, found {}", self.regions, op.regions.len()).into());
        }
        match self.results {
            Some(results) if results != op.results.len() => {
                Err(format!("expected {results} results, found {}", op.results.len()).into())
            }
            _ => Ok(()),
        }
    }
}

const TABLES: [&[Definition]; 11] = [
    integer::OPS,
    float::OPS,
    convert::OPS,
    reshape::OPS,
    reduce::OPS,
    matmul::OPS,
    memory::OPS,
    view::OPS,
    copy::OPS,
    control::OPS,
    stablehlo::OPS,
];

pub(super) fn definition(name: &str) -> Option<&'static Definition> {
    TABLES.into_iter().flatten().find(|definition| definition.name == name)
}

/// Every operation that can be run, in alphabetical order.
pub fn supported() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLES.into_iter().flatten().map(|definition| definition.name).collect();
    names.sort_unstable();
    names
}

/// The kind of an operation; `None` where the table does not have it, so that it may do anything.
pub fn op_kind(name: &str) -> Option<OpKind> {
    definition(name).map(|definition| definition.kind)
}

/// Whether an operation must run although nobody needs its results. An unknown one may do anything.
pub(super) fn has_effect(name: &str) -> bool {
    op_kind(name).is_none_or(OpKind::has_effect)
}
