//! The operation tables, one per kind. An entry states whether the operation has effects and which attributes
//! it honours; its compile function checks types and attributes once and returns the closure to run.

mod control;
mod convert;
mod copy;
mod float;
mod integer;
mod matmul;
mod memory;
mod reduce;
mod reshape;
mod stablehlo;
mod view;

pub(super) use stablehlo::embedded_text;

use super::program::{Compiler, Made};
use crate::ir::Op;

/// Compiles an operation.
pub(super) type Maker = fn(&mut Compiler<'_>, &Op) -> Made;

/// Whether an operation has side effects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Pure. Removed if its results are unused, as a compiler would: the load that precedes every store in
    /// lowered kernels is not a read.
    None,
    /// Writes, waits, signals or branches.
    Some,
}

/// Definition of an operation; the only list of names.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    name: &'static str,
    effect: Effect,
    /// Result count; `None` if it depends on the types.
    results: Option<usize>,
    /// Region count.
    regions: usize,
    /// Attributes that it honours; others are rejected.
    pub(super) attributes: &'static [&'static str],
    pub(super) make: Maker,
}

/// Defines a pure operation.
const fn pure(name: &'static str, attributes: &'static [&'static str], make: Maker) -> Definition {
    Definition { name, effect: Effect::None, results: Some(1), regions: 0, attributes, make }
}

/// Defines an operation with side effects.
const fn effect(name: &'static str, attributes: &'static [&'static str], make: Maker) -> Definition {
    Definition { name, effect: Effect::Some, results: Some(0), regions: 0, attributes, make }
}

impl Definition {
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
        Self { regions, ..self }
    }

    /// Rejects an operation with unexpected results or regions, which would be dropped silently.
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

/// All implemented operations, in alphabetical order.
pub fn supported() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLES.into_iter().flatten().map(|definition| definition.name).collect();
    names.sort_unstable();
    names
}

/// Returns whether an operation has side effects; unknown ones are assumed to.
pub(super) fn has_effect(name: &str) -> bool {
    definition(name).is_none_or(|definition| definition.effect == Effect::Some)
}
