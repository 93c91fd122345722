//! Finds matmuls without tensor cores: sums of products of two values loaded from memory.
//!
//! Scaling an accumulator is not such a product, nor is multiplying two scales.

use std::collections::{HashMap, HashSet};

use octile_ptx::ir::{Function, Instruction};

use super::reach::Reach;

/// Where the value of a register may come from, joined over all its writes: one move of an accumulator does
/// not hide a value from memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Origin {
    tensor_cores: bool,
    memory: bool,
    /// Products of two values from memory.
    product: bool,
}

impl Origin {
    const MEMORY: Self = Self { tensor_cores: false, memory: true, product: false };
    const TENSOR_CORES: Self = Self { tensor_cores: true, memory: false, product: false };

    fn join(self, other: Self) -> Self {
        Self {
            tensor_cores: self.tensor_cores || other.tensor_cores,
            memory: self.memory || other.memory,
            product: self.product || other.product,
        }
    }

    /// An accumulator stays one whatever it is multiplied with; anything else may become a product.
    fn times(self, other: Self) -> Self {
        let joined = self.join(other);
        if self == Self::TENSOR_CORES || other == Self::TENSOR_CORES {
            return Self::TENSOR_CORES;
        }
        Self { product: joined.product || self.memory && other.memory, ..joined }
    }
}

/// Index of the first instruction that sums up products of two values from memory, neither from the tensor
/// cores.
pub fn first_product(function: &Function<'_>, reach: &Reach<'_>) -> Option<usize> {
    let steps = function.instructions.iter().enumerate().filter(|(at, _)| reach.dead(*at).is_none());
    let steps: Vec<_> = steps.collect();
    // Arguments of a device function may come from memory.
    let is_called = !function.is_entry;
    let given = function.parameters.iter().filter(|_| is_called);
    let given = given.map(|parameter| (&*parameter.name, Origin::MEMORY));
    let pending = steps.iter().flat_map(|(_, step)| step.written()).collect();
    let mut origins = Origins { of: given.collect(), pending, is_called };
    origins.settle(&steps);
    // A register that depends only on itself has no origin.
    origins.pending.clear();
    origins.settle(&steps);
    steps.iter().find(|(_, step)| origins.adds_product(step)).map(|(at, _)| *at)
}

struct Origins<'a> {
    of: HashMap<&'a str, Origin>,
    /// Registers that are written somewhere; until their origin is known, neither is that of their products.
    pending: HashSet<&'a str>,
    is_called: bool,
}

impl<'a> Origins<'a> {
    fn operand(&self, name: &str) -> Origin {
        self.of.get(name).copied().unwrap_or_default()
    }

    fn is_known(&self, name: &str) -> bool {
        self.of.contains_key(name) || !self.pending.contains(name)
    }

    fn settle(&mut self, steps: &[(usize, &'a Instruction<'a>)]) {
        // Loops converge in a few passes; each pass adds to a register or is the last.
        const MAX_PASSES: usize = 64;
        for _ in 0..MAX_PASSES {
            if !steps.iter().fold(false, |changed, (_, step)| self.follow(step) || changed) {
                break;
            }
        }
    }

    /// Origin of the product in an instruction, if it multiplies.
    fn product(&self, step: &'a Instruction<'a>) -> Option<Origin> {
        let multiplies =
            matches!(step.mnemonic(), "mul" | "mul24" | "fma" | "mad" | "mad24" | "madc" | "dp4a" | "dp2a");
        let factors = [step.word(1), step.word(2)];
        let known = factors.into_iter().all(|name| self.is_known(name));
        let [a, b] = factors.map(|factor| self.operand(factor));
        multiplies.then(|| if known { a.times(b) } else { Origin::default() })
    }

    /// Origin of the result of an instruction.
    fn result(&self, step: &'a Instruction<'a>) -> Origin {
        match step.mnemonic() {
            "wmma" if step.opcode.starts_with("wmma.load") => Origin::MEMORY,
            "wgmma" | "mma" | "wmma" | "tcgen05" => Origin::TENSOR_CORES,
            "ld" if step.opcode.starts_with("ld.param") && !self.is_called => Origin::default(),
            "ld" | "ldu" | "ldmatrix" | "tex" | "tld4" | "suld" | "atom" => Origin::MEMORY,
            _ => match self.product(step) {
                Some(product) => product.join(self.operand(step.word(3))),
                None => {
                    step.read().into_iter().fold(Origin::default(), |all, name| all.join(self.operand(name)))
                }
            },
        }
    }

    /// Joins the result into the written registers; returns whether that changed anything.
    fn follow(&mut self, step: &'a Instruction<'a>) -> bool {
        let result = self.result(step);
        let ready = result != Origin::default() || step.read().into_iter().all(|name| self.is_known(name));
        step.written().into_iter().filter(|_| ready).fold(false, |changed, name| {
            let known = self.of.entry(name).or_default();
            let joined = known.join(result);
            let news = joined != *known;
            *known = joined;
            changed || news
        })
    }

    fn adds_product(&self, step: &'a Instruction<'a>) -> bool {
        let operand = |at: usize| self.operand(step.word(at)).product;
        match step.mnemonic() {
            "add" | "addc" | "sub" | "subc" => operand(1) || operand(2),
            // Atomics sum up in memory.
            "red" | "atom" if step.has_modifier("add") => {
                step.read().into_iter().any(|name| self.operand(name).product)
            }
            "fma" | "mad" | "mad24" | "madc" | "dp4a" | "dp2a" => {
                self.product(step).is_some_and(|product| product.product) || operand(3)
            }
            _ => false,
        }
    }
}
