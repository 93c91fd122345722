//! Products that a kernel makes without tensor cores: sums of values from memory times values from memory.
//!
//! Scaling what the tensor cores give is no such product, nor is multiplying two scales.

use std::collections::HashSet;

use super::{
    Code, Function,
    reach::{Reach, Step},
};

/// Where values come from, for every register and the whole function.
#[derive(Default)]
struct Origins<'a> {
    tensor_cores: HashSet<&'a str>,
    memory: HashSet<&'a str>,
    /// Products of two values from memory.
    products: HashSet<&'a str>,
}

/// The number of the first instruction that adds a product of two values from memory, neither from the tensor cores.
pub fn first_product(code: &Code<'_>, function: &Function, reach: &Reach<'_>) -> Option<usize> {
    let steps = function.instructions.iter().enumerate().filter(|(at, _)| reach.dead(*at).is_none());
    let steps: Vec<_> = steps.map(|(at, instruction)| (at, Step::of(code, instruction))).collect();
    let mut origins = Origins::default();
    // Values go round loops a few times; each pass adds registers or is the last.
    const MOST_PASSES: usize = 64;
    for _ in 0..MOST_PASSES {
        let before = origins.len();
        steps.iter().for_each(|(_, step)| origins.follow(step));
        if origins.len() == before {
            break;
        }
    }
    steps.iter().find(|(_, step)| origins.adds_product(step)).map(|(at, _)| *at)
}

impl<'a> Origins<'a> {
    fn len(&self) -> usize {
        self.tensor_cores.len() + self.memory.len() + self.products.len()
    }

    fn is_from_memory(&self, operand: Option<&&str>) -> bool {
        operand.is_some_and(|name| self.memory.contains(name) && !self.tensor_cores.contains(name))
    }

    fn follow(&mut self, step: &Step<'a>) {
        match step.head() {
            "wgmma" | "mma" => self.tensor_cores.extend(step.written()),
            "ld" if step.op().starts_with("ld.param") => {}
            "ld" | "ldu" | "ldmatrix" | "tex" => self.memory.extend(step.written()),
            head => {
                if step.read().any(|name| self.tensor_cores.contains(name)) {
                    self.tensor_cores.extend(step.written());
                }
                if step.read().any(|name| self.memory.contains(name)) {
                    self.memory.extend(step.written());
                }
                let multiplies = head == "mul" && is_float(step.op());
                let factors = [step.operands.get(1), step.operands.get(2)];
                let is_product = multiplies && factors.into_iter().all(|factor| self.is_from_memory(factor));
                let moves = matches!(head, "mov" | "neg" | "cvt" | "selp");
                if is_product || moves && step.read().any(|name| self.products.contains(name)) {
                    self.products.extend(step.written());
                }
            }
        }
    }

    fn adds_product(&self, step: &Step<'a>) -> bool {
        let factors = [step.operands.get(1), step.operands.get(2)];
        match step.head() {
            "fma" | "mad" if is_float(step.op()) => {
                factors.into_iter().all(|factor| self.is_from_memory(factor))
            }
            "dp4a" | "dp2a" => factors.into_iter().all(|factor| self.is_from_memory(factor)),
            "add" | "sub" if is_float(step.op()) => {
                let is_product =
                    |name: &&str| self.products.contains(*name) && self.is_from_memory(Some(name));
                factors.iter().flatten().any(|name| is_product(name))
            }
            _ => false,
        }
    }
}

fn is_float(op: &str) -> bool {
    let kind = op.rsplit('.').next().unwrap_or_default();
    kind.starts_with('f') || kind.starts_with("bf")
}
