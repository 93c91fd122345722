//! What the TPU compiler would refuse about a kernel, all of it at once, each with its place. Operations that nobody
//! here has heard of are passed over: the compiler may know them.

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

/// Which kind of rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Operands, results and attributes fit the operation; semaphores are of the kind that it takes.
    Types,
    /// Each memory is accessed in the way that it can be.
    Space,
    /// Slices that are copied begin and end at tiles.
    Tiles,
    /// The kernel's memories fit the chip.
    Budget,
    /// The chip has the operation.
    Chip,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// Where; a rule about a kernel as a whole has no place.
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

/// Everything that is wrong with a module, in the order of its text.
pub fn verify(module: &Module, chip: &TpuChip) -> Vec<Violation> {
    let mut violations: Vec<Violation> = check_ops(module).into_iter().filter_map(of_types).collect();
    for function in &module.functions {
        let kernel = Kernel { function, chip };
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

/// A function and the chip that it is for.
struct Kernel<'a> {
    function: &'a Function,
    chip: &'a TpuChip,
}

fn of_types(error: Unrunnable) -> Option<Violation> {
    match error {
        Unrunnable::BadOp { name, place, message } => {
            Some(Violation { rule: Rule::Types, place, message: format!("{name}: {message}") })
        }
        // What the interpreter does not do, the compiler may.
        Unrunnable::UnknownOp { .. } | Unrunnable::NotModelled { .. } | Unrunnable::Kernel(_) => None,
    }
}

#[cfg(test)]
mod tests;
