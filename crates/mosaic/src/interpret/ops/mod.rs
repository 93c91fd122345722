//! The operation tables, one per kind. An entry states whether the operation has effects and which attributes
//! it honours; its compile function checks types and attributes once and returns the closure to run.

mod control;
mod convert;
mod copy;
mod float;
mod gather;
mod integer;
mod matmul;
mod memory;
mod mxu;
mod pack;
mod print;
mod random;
mod reduce;
mod reshape;
mod scalar;
mod stablehlo;
mod view;

pub(super) use copy::communicates;
pub(crate) use mxu::{NO_MXU_CONTROL, controls_mxu};
pub(super) use random::{RANDOM_BITS, RandomBits};
pub use scalar::ScalarOp;
pub(super) use stablehlo::{missing, tolerant};

use self::scalar::Rule;
use super::program::{Compiler, Made};
use crate::ir::Op;

/// Compiles an operation.
pub(super) type Maker = fn(&mut Compiler<'_>, &Op) -> Made;

/// What an operation does to memory, DMAs and control flow: all that can be said of it without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpKind {
    /// Computes values from values.
    Compute,
    /// Multiplies matrices.
    Matmul,
    /// Puts weights into a staging register of an MXU.
    PushWeights,
    /// Multiplies by the weights of an MXU into its accumulators.
    Accumulate,
    /// Takes sums out of the accumulators of an MXU.
    PopSums,
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
    /// `scf.index_switch`.
    Switch,
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
    /// Returns whether the operation has side effects. One without is removed if its results are unused, as a
    /// compiler would: the load that precedes every store in lowered kernels is not a read.
    const fn has_effect(self) -> bool {
        match self {
            Self::Compute | Self::Matmul | Self::Load | Self::Allocate => false,
            Self::Slice | Self::Alias | Self::Reinterpret => false,
            Self::PushWeights | Self::Accumulate | Self::PopSums => true,
            Self::Store | Self::Copy | Self::StartDma | Self::WaitDma | Self::Effect => true,
            Self::If | Self::For | Self::While | Self::Switch => true,
            Self::Scope | Self::Call | Self::Yield => true,
        }
    }
}

/// Definition of an operation; the only list of names.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    name: &'static str,
    kind: OpKind,
    /// How it computes a scalar integer, where it does.
    rule: Option<Rule>,
    /// Result count; `None` if it depends on the types.
    results: Option<usize>,
    /// Region count; `None` if it depends on the attributes.
    regions: Option<usize>,
    /// Attributes that it honours; others are rejected.
    pub(super) attributes: &'static [&'static str],
    pub(super) make: Maker,
}

/// Defines a pure operation.
const fn pure(name: &'static str, attributes: &'static [&'static str], make: Maker) -> Definition {
    Definition {
        name,
        kind: OpKind::Compute,
        rule: None,
        results: Some(1),
        regions: Some(0),
        attributes,
        make,
    }
}

/// Defines an operation with side effects.
const fn effect(name: &'static str, attributes: &'static [&'static str], make: Maker) -> Definition {
    Definition {
        name,
        kind: OpKind::Effect,
        rule: None,
        results: Some(0),
        regions: Some(0),
        attributes,
        make,
    }
}

impl Definition {
    /// Sets the kind.
    const fn kind(self, kind: OpKind) -> Self {
        Self { kind, ..self }
    }

    /// Sets how scalar integers are computed.
    const fn rule(self, rule: Rule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// Sets the result count.
    const fn results(self, results: usize) -> Self {
        Self { results: Some(results), ..self }
    }

    /// Leaves the result count to the compile function.
    const fn any_results(self) -> Self {
        Self { results: None, ..self }
    }

    /// Sets the region count.
    const fn regions(self, regions: usize) -> Self {
        Self { regions: Some(regions), ..self }
    }

    /// Leaves the region count to the compile function.
    const fn any_regions(self) -> Self {
        Self { regions: None, ..self }
    }

    /// Rejects an operation with unexpected results or regions, which would be dropped silently.
    pub(super) fn check_counts(&self, op: &Op) -> Made<()> {
        if let Some(regions) = self.regions.filter(|&regions| regions != op.regions.len()) {
            return Err(format!("expected {regions} regions, found {}", op.regions.len()).into());
        }
        match self.results {
            Some(results) if results != op.results.len() => {
                Err(format!("expected {results} results, found {}", op.results.len()).into())
            }
            _ => Ok(()),
        }
    }
}

const TABLES: [&[Definition]; 25] = [
    integer::OPS,
    float::OPS,
    convert::OPS,
    reshape::OPS,
    gather::OPS,
    pack::OPS,
    reduce::OPS,
    matmul::OPS,
    mxu::OPS,
    memory::OPS,
    view::OPS,
    copy::OPS,
    control::OPS,
    print::OPS,
    random::OPS,
    stablehlo::elementwise::OPS,
    stablehlo::convert::OPS,
    stablehlo::shape::OPS,
    stablehlo::reduce::OPS,
    stablehlo::sort::OPS,
    stablehlo::index::OPS,
    stablehlo::control::OPS,
    stablehlo::dot::OPS,
    stablehlo::call::OPS,
    stablehlo::collective::OPS,
];

pub(super) fn definition(name: &str) -> Option<&'static Definition> {
    TABLES.into_iter().flatten().find(|definition| definition.name == name)
}

/// All implemented operations, in alphabetical order.
pub fn supported() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLES.into_iter().flatten().map(|definition| definition.name).collect();
    names.sort_unstable();
    names
}

/// Kind of an operation; `None` if it is unknown, so that it may do anything.
pub fn op_kind(name: &str) -> Option<OpKind> {
    definition(name).map(|definition| definition.kind)
}

/// Returns whether an operation has side effects; unknown ones are assumed to.
pub(super) fn has_effect(name: &str) -> bool {
    op_kind(name).is_none_or(OpKind::has_effect)
}
