//! Whole-module validation before anything runs: every operation is known (in dead code too), every value is
//! representable, blocks have terminators, and callees exist.

use std::collections::HashMap;

use super::{
    element::Element,
    ops,
    program::{Unrunnable, unknown},
};
use crate::{
    attribute::Attr,
    ir::{Function, Module, Op, Region},
    limits::{MAX_TENSOR_ELEMENTS, MAX_VECTOR_ELEMENTS},
    types::{DYNAMIC, Type},
};

/// Block terminators.
const TERMINATORS: [&str; 6] =
    ["func.return", "stablehlo.return", "sdy.return", "scf.yield", "scf.condition", "tpu.yield"];

pub(super) fn is_terminator(op: &Op) -> bool {
    TERMINATORS.contains(&op.name.as_ref())
}

/// Maximum bytes of a memref type: no machine has more, and no offset below it overflows.
const MAX_MEMREF_BYTES: usize = 1 << 48;

/// Validates a module; if `tolerant`, operations may be unknown and values of any type.
pub(super) fn admit(module: &Module, tolerant: bool) -> Result<(), Unrunnable> {
    let mut functions: HashMap<&str, &Function> = HashMap::new();
    for function in &module.functions {
        if functions.insert(&function.name, function).is_some() {
            return Err(Unrunnable::Kernel(format!("function @{} is defined twice", function.name)));
        }
    }
    for function in &module.functions {
        for &argument in &function.body.arguments {
            check_type(function.ty(argument)).map_err(|message| {
                Unrunnable::Kernel(format!("an argument of @{}: {message}", function.name))
            })?;
        }
        Admission { function, functions: &functions, tolerant }.region(&function.body)?;
        check_return(function)?;
    }
    Ok(())
}

/// Validates one function.
struct Admission<'a> {
    function: &'a Function,
    functions: &'a HashMap<&'a str, &'a Function>,
    tolerant: bool,
}

impl Admission<'_> {
    fn region(&self, region: &Region) -> Result<(), Unrunnable> {
        for (number, op) in region.ops.iter().enumerate() {
            if ops::definition(&op.name).is_none() && !self.tolerant {
                return Err(unknown(op));
            }
            if is_terminator(op) && number + 1 != region.ops.len() {
                return Err(bad(op, "terminator before the end of its block".to_owned()));
            }
            for &value in op.results.iter().chain(op.regions.iter().flat_map(|region| &region.arguments)) {
                if !self.tolerant {
                    check_type(self.function.ty(value)).map_err(|message| bad(op, message))?;
                }
            }
            if op.name == "func.call" {
                self.call(op)?;
            }
            op.regions.iter().try_for_each(|region| self.region(region))?;
        }
        Ok(())
    }

    fn call(&self, op: &Op) -> Result<(), Unrunnable> {
        let Some(Attr::Symbol(callee)) = op.attributes.get("callee") else {
            return Err(bad(op, "attribute 'callee' is not a symbol".to_owned()));
        };
        let fits = self.functions.get(callee.as_str()).is_some_and(|target| {
            let arguments = target.body.arguments.iter().map(|&value| target.ty(value));
            let given = op.operands.iter().map(|&value| self.function.ty(value));
            let results = op.results.iter().map(|&value| self.function.ty(value));
            arguments.eq(given) && target.results.iter().eq(results)
        });
        match fits {
            true => Ok(()),
            false => Err(bad(op, format!("no function @{callee} with these types"))),
        }
    }
}

fn bad(op: &Op, message: String) -> Unrunnable {
    Unrunnable::BadOp { name: op.name.to_string(), place: op.place, message }
}

/// Checks the returned types against the signature.
fn check_return(function: &Function) -> Result<(), Unrunnable> {
    let Some(returned) = function.body.ops.last().filter(|op| is_terminator(op)) else {
        return Err(Unrunnable::Kernel(format!("@{} does not end with a return", function.name)));
    };
    let types = returned.operands.iter().map(|&value| function.ty(value));
    match types.eq(&function.results) {
        true => Ok(()),
        false => Err(Unrunnable::Kernel(format!(
            "@{} returns types that differ from its signature",
            function.name
        ))),
    }
}

/// Checks that a value is representable and that counting its elements cannot overflow.
pub(super) fn check_type(ty: &Type) -> Result<(), String> {
    let count =
        |shape: &[usize]| shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent.max(1)));
    let too_large = |limit: usize| Err(format!("{ty} exceeds the limit of {limit} elements"));
    match ty {
        Type::Vector(shape, _) | Type::Tensor(shape, _) if shape.contains(&DYNAMIC) => {
            Err(format!("{ty} has a dynamic extent"))
        }
        Type::Vector(shape, _) => match count(shape) {
            Some(elements) if elements <= MAX_VECTOR_ELEMENTS => Ok(()),
            _ => too_large(MAX_VECTOR_ELEMENTS),
        },
        Type::Tensor(shape, _) => match count(shape) {
            Some(elements) if elements <= MAX_TENSOR_ELEMENTS => Ok(()),
            _ => too_large(MAX_TENSOR_ELEMENTS),
        },
        Type::MemRef(memref) => {
            let known: Vec<usize> =
                memref.shape.iter().copied().filter(|&extent| extent != DYNAMIC).collect();
            let unit = Element::of(ty).map_or(1, Element::bytes);
            match count(&known).and_then(|elements| elements.checked_mul(unit)) {
                Some(bytes) if bytes <= MAX_MEMREF_BYTES => Ok(()),
                _ => Err(format!("{ty} exceeds the limit of {MAX_MEMREF_BYTES} bytes")),
            }
        }
        _ => Ok(()),
    }
}
