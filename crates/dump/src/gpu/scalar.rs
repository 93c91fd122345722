//! Products that a kernel makes without tensor cores: sums of values from memory times values from memory.
//!
//! Scaling what the tensor cores give is no such product, nor is multiplying two scales.

use std::collections::{HashMap, HashSet};

use super::{Code, Function, reach::Reach, step::Step};

/// What the writes to a register may bring into it. A register that two writes share has what either brings: one move
/// of a result of the tensor cores does not hide what comes from memory.
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

    /// What the tensor cores gave is scaled by whatever it is multiplied with; all else may be a product of its own.
    fn times(self, other: Self) -> Self {
        let joined = self.join(other);
        if self == Self::TENSOR_CORES || other == Self::TENSOR_CORES {
            return Self::TENSOR_CORES;
        }
        Self { product: joined.product || self.memory && other.memory, ..joined }
    }
}

/// The number of the first instruction that adds a product of two values from memory, neither from the tensor cores.
pub fn first_product(code: &Code<'_>, function: &Function, reach: &Reach<'_>) -> Option<usize> {
    let steps = function.instructions.iter().enumerate().filter(|(at, _)| reach.dead(*at).is_none());
    let steps: Vec<_> = steps.map(|(at, instruction)| (at, Step::of(code, instruction))).collect();
    // What a function is given may come from memory.
    let is_called = !function.is_entry;
    let given = code.str(function.header).split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')'));
    let given = given.filter(|name| is_called && !name.is_empty()).map(|name| (name, Origin::MEMORY));
    let pending = steps.iter().flat_map(|(_, step)| step.written()).collect();
    let mut origins = Origins { of: given.collect(), pending, is_called };
    origins.settle(&steps);
    // What only depends on itself comes from nowhere.
    origins.pending.clear();
    origins.settle(&steps);
    steps.iter().find(|(_, step)| origins.adds_product(step)).map(|(at, _)| *at)
}

struct Origins<'a> {
    of: HashMap<&'a str, Origin>,
    /// Registers that are written somewhere: while nothing is known of them, neither is of their products.
    pending: HashSet<&'a str>,
    is_called: bool,
}

impl<'a> Origins<'a> {
    fn operand(&self, operand: Option<&&str>) -> Origin {
        operand.and_then(|name| self.of.get(name)).copied().unwrap_or_default()
    }

    fn is_known(&self, name: &str) -> bool {
        self.of.contains_key(name) || !self.pending.contains(name)
    }

    fn settle(&mut self, steps: &[(usize, Step<'a>)]) {
        // Values go round loops a few times; each pass adds to a register or is the last.
        const MOST_PASSES: usize = 64;
        for _ in 0..MOST_PASSES {
            if !steps.iter().fold(false, |changed, (_, step)| self.follow(step) || changed) {
                break;
            }
        }
    }

    /// What the multiplication in an instruction gives, where there is one.
    fn product(&self, step: &Step<'a>) -> Option<Origin> {
        let multiplies =
            matches!(step.head(), "mul" | "mul24" | "fma" | "mad" | "mad24" | "madc" | "dp4a" | "dp2a");
        let factors = [step.operands.get(1), step.operands.get(2)];
        let known = factors.into_iter().flatten().all(|name| self.is_known(name));
        let [a, b] = factors.map(|factor| self.operand(factor));
        multiplies.then(|| if known { a.times(b) } else { Origin::default() })
    }

    /// What an instruction writes.
    fn result(&self, step: &Step<'a>) -> Origin {
        match step.head() {
            "wmma" if step.op().starts_with("wmma.load") => Origin::MEMORY,
            "wgmma" | "mma" | "wmma" | "tcgen05" => Origin::TENSOR_CORES,
            "ld" if step.op().starts_with("ld.param") && !self.is_called => Origin::default(),
            "ld" | "ldu" | "ldmatrix" | "tex" | "tld4" | "suld" | "atom" => Origin::MEMORY,
            _ => match self.product(step) {
                Some(product) => product.join(self.operand(step.operands.get(3))),
                None => step.read().fold(Origin::default(), |all, name| all.join(self.operand(Some(&name)))),
            },
        }
    }

    /// Whether it learned something.
    fn follow(&mut self, step: &Step<'a>) -> bool {
        let result = self.result(step);
        let ready = result != Origin::default() || step.read().all(|name| self.is_known(name));
        step.written().filter(|_| ready).fold(false, |changed, name| {
            let known = self.of.entry(name).or_default();
            let joined = known.join(result);
            let news = joined != *known;
            *known = joined;
            changed || news
        })
    }

    fn adds_product(&self, step: &Step<'a>) -> bool {
        let operand = |at: usize| self.operand(step.operands.get(at)).product;
        match step.head() {
            "add" | "addc" | "sub" | "subc" => operand(1) || operand(2),
            // In memory.
            "red" | "atom" if step.op().split('.').any(|part| part == "add") => {
                step.read().any(|name| self.operand(Some(&name)).product)
            }
            "fma" | "mad" | "mad24" | "madc" | "dp4a" | "dp2a" => {
                self.product(step).is_some_and(|product| product.product) || operand(3)
            }
            _ => false,
        }
    }
}
