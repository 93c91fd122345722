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
mod stablehlo;
mod view;

pub(super) use stablehlo::embedded_text;

use super::program::{Compiler, Made};
use crate::ir::Op;

/// Makes an operation ready.
pub(super) type Maker = fn(&mut Compiler<'_>, &Op) -> Made;

/// Whether an operation does more than compute its results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It does not. It is left out if nobody needs its results, as a compiler would leave it out: a load that precedes
    /// every store in lowered kernels is not a read.
    None,
    /// It writes, waits, signals or branches.
    Some,
}

/// All that is known of an operation: there is no other list of names.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    name: &'static str,
    effect: Effect,
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
    Definition { name, effect: Effect::None, results: Some(1), regions: 0, attributes, make }
}

/// An operation that does something whether its results are needed or not.
const fn effect(name: &'static str, attributes: &'static [&'static str], make: Maker) -> Definition {
    Definition { name, effect: Effect::Some, results: Some(0), regions: 0, attributes, make }
}

impl Definition {
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

/// Whether an operation must run although nobody needs its results. One that is not known may do anything.
pub(super) fn has_effect(name: &str) -> bool {
    definition(name).is_none_or(|definition| definition.effect == Effect::Some)
}
