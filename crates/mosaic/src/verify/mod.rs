//! What the TPU compiler would reject about a kernel: all violations at once, each with its place. Unknown
//! operations are skipped, since the compiler may know them.

mod access;
mod budget;
mod divide;
mod tile;

use octile_core::device::tpu::TpuChip;
use serde::Serialize;

use crate::{
    interpret::{Unrunnable, check_ops},
    ir::{Function, Module, Op, Place},
};

/// A kind of rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Operands, results and attributes match the operation; semaphores are of the right kind.
    Types,
    /// Each memory is accessed in a way that it supports.
    Space,
    /// Slices consist of whole tiles.
    Tiles,
    /// The buffers fit in the chip's memories.
    Budget,
    /// The chip supports the operation.
    Chip,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where; `None` for rules about the whole kernel.
    #[serde(serialize_with = "place_as_text")]
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
}

fn place_as_text<S: serde::Serializer>(place: &Option<Place>, serializer: S) -> Result<S::Ok, S::Error> {
    place.map(|place| place.to_string()).serialize(serializer)
}

impl Violation {
    fn at(rule: Rule, op: &Op, message: impl std::fmt::Display) -> Self {
        Self { rule, place: op.place, message: format!("{}: {message}", op.name) }
    }
}

/// Returns all violations of a module, in text order.
pub fn verify(module: &Module, chip: &TpuChip) -> Vec<Violation> {
    let mut violations: Vec<Violation> = check_ops(module).into_iter().filter_map(of_types).collect();
    for function in &module.functions {
        let kernel = VerifiedKernel { function, chip };
        let divisors = divide::Divisors::new(function);
        function.walk(&mut |op| {
            violations.extend(access::check(&kernel, op));
            violations.extend(tile::check(&kernel, &divisors, op));
        });
        violations.extend(budget::check(&kernel));
    }
    violations.sort_by_key(|violation| violation.place);
    violations
}

/// A function and the chip that it runs on.
struct VerifiedKernel<'a> {
    function: &'a Function,
    chip: &'a TpuChip,
}

fn of_types(error: Unrunnable) -> Option<Violation> {
    match error {
        Unrunnable::BadOp { name, place, message } => {
            Some(Violation { rule: Rule::Types, place, message: format!("{name}: {message}") })
        }
        // The compiler may support what the simulator does not.
        Unrunnable::UnknownOp { .. }
        | Unrunnable::NotModelled { .. }
        | Unrunnable::Kernel(_)
        | Unrunnable::InKernel { .. } => None,
    }
}

#[cfg(test)]
mod tests;
