//! Dead code: which instructions of a GPU kernel can be executed, along its branches and under its
//! predicates.
//!
//! Every register has one range of values for the whole function, joined over all reachable writes. That is
//! coarse, but it never takes live code for dead.

use std::collections::{HashMap, HashSet, VecDeque};

use octile_ptx::ir::{Function, Guard, Instruction, Operand, RegisterSet, is_register};

use super::{
    Language,
    block::{Block, number, width},
    defined::{Definitions, Undefined},
    interval::Interval,
};

/// Why an instruction is never executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// Its predicate is always false.
    Predicate,
    /// No path leads to it.
    Path,
}

/// What can be executed in a function.
#[derive(Clone, Debug, Default)]
pub struct Reach<'a> {
    reached: Vec<bool>,
    under_false: HashSet<usize>,
    conditional: HashSet<usize>,
    /// A register that a guard depends on and that some path does not write.
    pub undefined: Option<Undefined<'a>>,
}

impl<'a> Reach<'a> {
    /// Follows a function from its first instruction.
    pub fn of(language: Language, function: &'a Function<'a>) -> Self {
        Walk::new(language, function).run()
    }

    /// Whether the guard of this instruction is neither always true nor always false.
    pub fn is_conditional(&self, number: usize) -> bool {
        self.conditional.contains(&number)
    }

    /// Why the instruction with this index is dead; `None` where it can be executed.
    pub fn dead(&self, number: usize) -> Option<Dead> {
        match self.reached.get(number) {
            Some(true) if self.under_false.contains(&number) => Some(Dead::Predicate),
            Some(true) => None,
            _ => Some(Dead::Path),
        }
    }
}

/// Joins after which a register may hold anything, so that loops converge.
const MAX_JOINS: u8 = 4;

struct Walk<'a> {
    steps: &'a [Instruction<'a>],
    language: Language,
    registers: RegisterSet<'a>,
    labels: HashMap<&'a str, Vec<usize>>,
    /// Ranges of special registers.
    block: Block,
    values: HashMap<&'a str, (Interval, u8)>,
    written: HashMap<&'a str, Vec<usize>>,
    readers: HashMap<&'a str, Vec<usize>>,
    reached: Vec<bool>,
    queue: VecDeque<usize>,
}

impl<'a> Walk<'a> {
    fn new(language: Language, function: &'a Function<'a>) -> Self {
        let steps = &function.instructions[..];
        let mut labels: HashMap<_, Vec<_>> = HashMap::new();
        for label in &function.labels {
            labels.entry(&*label.name).or_default().push(label.target);
        }
        let (mut written, mut readers): (HashMap<_, Vec<_>>, HashMap<_, Vec<_>>) = Default::default();
        for (at, step) in steps.iter().enumerate() {
            step.written().into_iter().for_each(|name| written.entry(name).or_default().push(at));
            let guard = step.guard.as_ref().map(|guard| &*guard.predicate);
            let read = step.read().into_iter().chain(guard);
            read.for_each(|name| readers.entry(name).or_default().push(at));
        }
        Self {
            steps,
            language,
            registers: RegisterSet::new(function),
            labels,
            block: Block::of(function),
            values: HashMap::new(),
            written,
            readers,
            reached: vec![false; steps.len()],
            queue: VecDeque::new(),
        }
    }

    fn run(mut self) -> Reach<'a> {
        self.reach(0);
        while let Some(at) = self.queue.pop_front() {
            self.visit(at);
        }
        let reached = |at: &usize| self.reached.get(*at) == Some(&true);
        let all: Vec<_> = (0..self.steps.len()).filter(reached).collect();
        let guard = |at: usize| self.steps.get(at)?.guard.as_ref().map(Guard::parts);
        let under = |truth: Option<bool>| -> HashSet<usize> {
            let is = |at: &usize| guard(*at).is_some_and(|guard| self.holds(guard) == truth);
            all.iter().copied().filter(is).collect()
        };
        let (under_false, conditional) = (under(Some(false)), under(None));
        Reach { under_false, conditional, undefined: self.undefined(&all), reached: self.reached }
    }

    fn reach(&mut self, at: usize) {
        if let Some(reached @ false) = self.reached.get_mut(at) {
            *reached = true;
            self.queue.push_back(at);
        }
    }

    /// Whether a predicate holds; `None` where that is not known.
    fn holds(&self, (name, negated): (&str, bool)) -> Option<bool> {
        let truth = match (self.language, name) {
            (Language::Sass, "PT" | "UPT") => Some(true),
            (Language::Sass, _) => None,
            (Language::Ptx, name) => self.read(name, 1).truth(),
        };
        truth.map(|truth| truth != negated)
    }

    fn visit(&mut self, at: usize) {
        let Some(step) = self.steps.get(at) else { return };
        if self.executes(at) != Some(false) && self.language == Language::Ptx {
            self.write(step);
        }
        self.next(at).into_iter().for_each(|next| self.reach(next));
    }

    fn write(&mut self, step: &'a Instruction<'a>) {
        let written = step.written();
        let is_single = written.len() == 1;
        for name in written {
            let value = match (step.mnemonic(), step.operands.first()) {
                // The second predicate is the opposite comparison.
                ("setp", Some(Operand::Pair(_, second))) => self.setp(step, second == name),
                ("setp", _) => self.setp(step, false),
                // Parts of one value are not tracked.
                (_, Some(Operand::Pair(..))) => Interval::bits(64),
                _ if !is_single => Interval::bits(64),
                _ => self.compute(step),
            };
            let (known, joins) = self.values.get(name).copied().unwrap_or((value, 0));
            let joined = match joins {
                MAX_JOINS.. => Interval::bits(64),
                _ => known.join(value),
            };
            let is_new = !self.values.contains_key(name);
            if is_new || joined != known {
                self.values.insert(name, (joined, joins + u8::from(!is_new)));
                let readers = self.readers.get(name).into_iter().flatten();
                let reached = |at: &&usize| self.reached.get(**at) == Some(&true);
                self.queue.extend(readers.filter(reached));
            }
        }
    }

    fn compute(&self, step: &'a Instruction<'a>) -> Interval {
        let parts: Vec<_> = step.opcode.split('.').collect();
        let kind = parts.last().copied().unwrap_or_default();
        let bits = width(kind);
        let inputs: Vec<_> =
            (1..step.operands.len()).map(|operand| self.read(step.word(operand), bits)).collect();
        let truth = |at: usize| inputs.get(at).copied().and_then(Interval::truth);
        let head = step.mnemonic();
        let decided = match (head, kind) {
            ("not", "pred") => truth(0).map(|truth| !truth),
            ("mov", "pred") => truth(0),
            ("and", "pred") if self.are_opposite(step) || self.exclude_each_other(step) => Some(false),
            ("and", "pred") if truth(0) == Some(false) || truth(1) == Some(false) => Some(false),
            ("and", "pred") => truth(0).zip(truth(1)).map(|(a, b)| a && b),
            ("or", "pred") if self.are_opposite(step) => Some(true),
            ("or", "pred") if truth(0) == Some(true) || truth(1) == Some(true) => Some(true),
            ("or", "pred") => truth(0).zip(truth(1)).map(|(a, b)| a || b),
            ("xor", "pred") => truth(0).zip(truth(1)).map(|(a, b)| a != b),
            ("selp", _) => {
                let [a, b, ..] = inputs[..] else { return Interval::bits(bits) };
                return match self.read(step.word(3), 1).truth() {
                    Some(first) => {
                        if first {
                            a
                        } else {
                            b
                        }
                    }
                    None => a.join(b),
                };
            }
            ("xor" | "sub", _) if !kind.starts_with(['f', 'b']) && self.are_same(step) => {
                return Interval::constant(0);
            }
            ("xor", _) if self.are_same(step) => return Interval::constant(0),
            ("mov", _) if !parts.contains(&"v2") => return Interval::compute(head, bits, &inputs),
            // Bits of another position, or of memory.
            (_, "pred") => None,
            ("mul" | "mad", _) if parts.contains(&"hi") => return Interval::bits(bits),
            ("add" | "sub" | "mul" | "mad" | "min" | "max" | "div" | "rem" | "shr", _)
                if kind.starts_with('s') && !parts.contains(&"cc") =>
            {
                let wide = if parts.contains(&"wide") { bits * 2 } else { bits };
                let positive = Interval::bits(wide - 1);
                let all_positive = inputs.iter().all(|input| input.high <= Interval::bits(bits - 1).high);
                let result = Interval::compute(head, wide - 1, &inputs);
                // A range that may be negative is not tracked.
                return if all_positive && result != positive { result } else { Interval::bits(wide) };
            }
            _ if kind.starts_with('s') || kind.starts_with('f') || parts.contains(&"cc") => {
                return Interval::bits(64);
            }
            ("shfl", _) => {
                return self.read(step.word(1), bits).join(Interval::bits(0));
            }
            _ => {
                let wide = if parts.contains(&"wide") { bits * 2 } else { bits };
                return Interval::compute(head, wide, &inputs);
            }
        };
        Interval::of_truth(decided)
    }

    /// `setp.lt.and.u32 %p1|%p2, %r1, %r2, %p3`: the first predicate, or the second.
    fn setp(&self, step: &'a Instruction<'a>, second: bool) -> Interval {
        let parts: Vec<_> = step.opcode.split('.').collect();
        let (Some(kind), Some(comparison)) = (parts.last().copied(), parts.get(1).copied()) else {
            return Interval::PREDICATE;
        };
        let bits = width(kind);
        let (a, b) = (self.read(step.word(1), bits), self.read(step.word(2), bits));
        let compared = match kind.as_bytes().first() {
            Some(b'f') if bits >= 32 => Interval::compare_floats(comparison, bits, a, b),
            Some(b'f') => None,
            Some(_) if self.are_same(step) => match comparison {
                "eq" | "le" | "ge" | "ls" | "hs" => Some(true),
                "ne" | "lt" | "gt" | "lo" | "hi" => Some(false),
                _ => None,
            },
            Some(b's') => Interval::compare(comparison, Some(bits), a, b),
            _ => Interval::compare(comparison, None, a, b),
        };
        let compared = compared.map(|truth| truth != second);
        if step.operands.len() < 4 {
            return Interval::of_truth(compared);
        }
        let combined = step.word(3);
        let other = self.read(combined.trim_start_matches('!'), 1).truth();
        let other = other.map(|truth| truth != combined.starts_with('!'));
        Interval::of_truth(match parts.get(2).copied() {
            Some("and") if compared == Some(false) || other == Some(false) => Some(false),
            Some("or") if compared == Some(true) || other == Some(true) => Some(true),
            Some("and") => compared.zip(other).map(|(a, b)| a && b),
            Some("or") => compared.zip(other).map(|(a, b)| a || b),
            Some("xor") => compared.zip(other).map(|(a, b)| a != b),
            _ => None,
        })
    }

    /// Whether both inputs are the same value: one register, or the same computation from values that never
    /// change.
    fn are_same(&self, step: &'a Instruction<'a>) -> bool {
        let (Some(a), Some(b)) = (step.operands.get(1), step.operands.get(2)) else { return false };
        let same = |a: String| self.unchanging(step.word(2), 0) == Some(a);
        a == b || self.unchanging(step.word(1), 0).is_some_and(same)
    }

    /// The expression of a value that never changes within a thread.
    fn unchanging(&self, operand: &'a str, depth: usize) -> Option<String> {
        const MAX_DEPTH: usize = 6;
        let fixed = ["%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%laneid"];
        if number(operand, 64).is_some() || fixed.iter().any(|name| operand.starts_with(name)) {
            return Some(operand.to_owned());
        }
        let &[only] = self.written.get(operand)?.as_slice() else { return None };
        let step = self.steps.get(only).filter(|step| step.guard.is_none() && depth < MAX_DEPTH)?;
        match step.mnemonic() {
            "ld" if step.opcode.starts_with("ld.param") => {
                Some(format!("{} {}", step.opcode, step.operands.get(1)?))
            }
            "mov" if step.operands.len() == 2 => self.unchanging(step.word(1), depth + 1),
            "add" | "sub" | "mul" | "mad" | "and" | "or" | "xor" | "shl" | "shr" | "min" | "max" | "div"
            | "rem" => {
                let inputs = (1..step.operands.len()).map(|at| self.unchanging(step.word(at), depth + 1));
                Some(format!("{}({})", step.opcode, inputs.collect::<Option<Vec<_>>>()?.join(",")))
            }
            _ => None,
        }
    }

    /// Whether one input is always the negation of the other: both are written once, one as `not` of the
    /// other, or by opposite comparisons of the same registers.
    fn are_opposite(&self, step: &'a Instruction<'a>) -> bool {
        let (a, b) = (self.literal(step.word(1), 0), self.literal(step.word(2), 0));
        a.zip(b).is_some_and(|((a, not_a), (b, not_b))| a == b && not_a != not_b)
    }

    /// Whether two predicates compare the same value with constants, and no value satisfies both.
    fn exclude_each_other(&self, step: &'a Instruction<'a>) -> bool {
        let (a, b) = (self.satisfying(step.word(1)), self.satisfying(step.word(2)));
        a.zip(b).is_some_and(|((a, low, high), (b, least, most))| a == b && (high < least || most < low))
    }

    /// The values that satisfy a comparison with a constant: what is compared, the least and the greatest.
    fn satisfying(&self, name: &'a str) -> Option<(String, u64, u64)> {
        let &[only] = self.written.get(name)?.as_slice() else { return None };
        let step = self.steps.get(only).filter(|step| step.guard.is_none())?;
        let (["setp", comparison, kind], [_, _, _]) =
            (&step.opcode.split('.').collect::<Vec<_>>()[..], &step.operands[..])
        else {
            return None;
        };
        let (bits, is_float) = (width(kind), kind.starts_with('f'));
        let bound = self.read(step.word(2), bits).value().filter(|_| !is_float)?;
        let value = self.unchanging(step.word(1), 0)?;
        let (low, high) = match *comparison {
            "eq" => (bound, bound),
            _ if kind.starts_with('s') => return None,
            "lt" | "lo" => (0, bound.checked_sub(1)?),
            "le" | "ls" => (0, bound),
            "gt" | "hi" => (bound.checked_add(1)?, u64::MAX),
            "ge" | "hs" => (bound, u64::MAX),
            _ => return None,
        };
        Some((value, low, high))
    }

    /// The comparison that a predicate stands for, and whether it is negated; for predicates that are written
    /// once.
    fn literal(&self, name: &'a str, depth: usize) -> Option<(String, bool)> {
        const MAX_NEGATIONS: usize = 16;
        let &[only] = self.written.get(name)?.as_slice() else { return None };
        let step = self.steps.get(only).filter(|step| step.guard.is_none() && depth < MAX_NEGATIONS)?;
        if step.opcode == "not.pred" {
            let (key, negated) = self.literal(step.word(1), depth + 1)?;
            return Some((key, !negated));
        }
        let once = |name: &str| !is_register(name) || self.written.get(name).is_some_and(|w| w.len() == 1);
        let (a, b) = (step.word(1), step.word(2));
        let ([_, _, _], ["setp", comparison, kind]) =
            (&step.operands[..], &step.opcode.split('.').collect::<Vec<_>>()[..])
        else {
            return Some((name.to_owned(), false));
        };
        if kind.starts_with('f') || ![a, b].into_iter().all(once) {
            return Some((name.to_owned(), false));
        }
        Some(match *comparison {
            "lt" | "lo" => (format!("{kind} {a} < {b}"), false),
            "ge" | "hs" => (format!("{kind} {a} < {b}"), true),
            "gt" | "hi" => (format!("{kind} {b} < {a}"), false),
            "le" | "ls" => (format!("{kind} {b} < {a}"), true),
            "eq" => (format!("{a} = {b}"), false),
            "ne" => (format!("{a} = {b}"), true),
            _ => (name.to_owned(), false),
        })
    }

    /// Range of an operand of this many bits.
    fn read(&self, operand: &str, bits: u32) -> Interval {
        let any = Interval::bits(if bits == 0 { 64 } else { bits });
        if let Some((value, _)) = self.values.get(operand) {
            return *value;
        }
        let special = self.block.special(operand);
        special.or_else(|| number(operand, bits).map(Interval::constant)).unwrap_or(any)
    }

    /// The first read of a possibly unwritten register that a guard depends on.
    fn undefined(&self, reached: &[usize]) -> Option<Undefined<'a>> {
        if self.language == Language::Sass {
            return None;
        }
        let definitions = Definitions {
            steps: self.steps,
            given: &|name| !self.registers.is_general(name),
            holds: &|at| self.executes(at),
            next: &|at| self.next(at),
        };
        definitions.first_undefined(reached)
    }

    /// Whether the guard of an instruction holds.
    fn executes(&self, at: usize) -> Option<bool> {
        let guard = self.steps.get(at).and_then(|step| step.guard.as_ref());
        guard.map_or(Some(true), |guard| self.holds(guard.parts()))
    }

    /// Successors of an instruction.
    fn next(&self, at: usize) -> Vec<usize> {
        let Some(step) = self.steps.get(at) else { return Vec::new() };
        let executes = self.executes(at);
        let mut next = Vec::new();
        if executes != Some(false) {
            match step.mnemonic() {
                // The target of an indirect branch is in a table.
                "brx" | "BRX" | "JMX" | "BRXU" => next.extend(self.labels.values().flatten()),
                _ => {
                    let words = step.operands.iter().flat_map(|operand| operand.words());
                    next.extend(words.filter_map(|word| self.labels.get(word)).flatten());
                }
            }
        }
        let leaves = matches!(
            step.mnemonic(),
            "bra" | "brx" | "ret" | "exit" | "trap" | "BRA" | "EXIT" | "BRX" | "RET"
        );
        if !(leaves && executes == Some(true)) {
            next.push(at + 1);
        }
        next
    }
}
