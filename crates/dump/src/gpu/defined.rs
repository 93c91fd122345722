//! Definite initialization: whether every value that a guard depends on is written on every path to its read.
//!
//! A write under a guard counts for reads under the same guard, until that guard is written again.

use std::collections::{HashMap, HashSet};

use octile_ptx::ir::{Guard, Instruction};

/// Why the guards of a function are undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undefined<'a> {
    /// The instruction with this index reads a register that is not written on every path to it.
    Read(usize, &'a str),
    /// The function is too large to analyze.
    TooLarge,
}

/// A register, or its value under a guard.
type Written<'a> = (&'a str, Option<(&'a str, bool)>);

/// Whether the guard of an instruction is known to hold.
pub(super) type Holds<'h> = &'h dyn Fn(usize) -> Option<bool>;

pub(super) struct Definitions<'d, 'a> {
    pub steps: &'a [Instruction<'a>],
    /// Names that need no write: parameters, special registers, symbols.
    pub given: &'d dyn Fn(&str) -> bool,
    pub holds: Holds<'d>,
    pub next: &'d dyn Fn(usize) -> Vec<usize>,
}

impl<'a> Definitions<'_, 'a> {
    /// The first reached instruction that reads a possibly unwritten register on which a guard depends.
    pub(super) fn first_undefined(&self, reached: &[usize]) -> Option<Undefined<'a>> {
        /// Words of 64 registers that are kept, over all instructions.
        const MAX_WORDS: usize = 1 << 23;
        /// Visits of such words.
        const MAX_VISITS: usize = 1 << 24;
        let relevant = self.behind_guards(reached);
        let slots = self.slots(reached, &relevant);
        let mut under: HashMap<&str, Vec<usize>> = HashMap::new();
        for ((_, guard), slot) in &slots {
            guard.iter().for_each(|(guard, _)| under.entry(guard).or_default().push(*slot));
        }
        let words = slots.len().div_ceil(64).max(1);
        if self.steps.len().saturating_mul(words) > MAX_WORDS {
            return Some(Undefined::TooLarge);
        }
        let mut states: Vec<Option<Vec<u64>>> = vec![None; self.steps.len()];
        *states.first_mut()? = Some(vec![0; words]);
        let mut open = vec![0];
        let mut visits = 0;
        while let Some(at) = open.pop() {
            let stale = self.steps.get(at).into_iter().flat_map(Instruction::written);
            let stale: Vec<_> = stale.filter_map(|name| under.get(name)).flatten().copied().collect();
            visits += words + stale.len();
            if visits > MAX_VISITS {
                return Some(Undefined::TooLarge);
            }
            let Some(Some(before)) = states.get(at) else { continue };
            let after = self.after(at, before.clone(), &slots, &stale);
            for next in (self.next)(at) {
                let Some(state) = states.get_mut(next) else { continue };
                let met = match state {
                    Some(known) => known.iter().zip(&after).map(|(known, after)| known & after).collect(),
                    None => after.clone(),
                };
                if state.as_ref() != Some(&met) {
                    *state = Some(met);
                    open.push(next);
                }
            }
        }
        let undefined = |at: usize| {
            let (step, state) = (self.steps.get(at)?, states.get(at)?.as_ref()?);
            let is_written = |name: &'a str| {
                let has = |key: Written<'a>| slots.get(&key).is_some_and(|slot| holds_bit(state, *slot));
                has((name, None)) || guard(step).is_some_and(|guard| has((name, Some(guard))))
            };
            let matters = step.written().into_iter().any(|name| relevant.contains(name));
            let guard = guard(step).map(|(name, _)| name);
            let reads = step.read().into_iter().filter(|name| matters && relevant.contains(name));
            let unwritten = guard.into_iter().chain(reads).find(|name| !is_written(name))?;
            Some(Undefined::Read(at, unwritten))
        };
        reached.iter().filter(|at| (self.holds)(**at) != Some(false)).find_map(|at| undefined(*at))
    }

    /// The guards, and every register that a guard is computed from.
    fn behind_guards(&self, reached: &[usize]) -> HashSet<&'a str> {
        let mut writers: HashMap<&str, Vec<&'a Instruction<'a>>> = HashMap::new();
        let steps = || reached.iter().filter_map(|at| self.steps.get(*at));
        for step in steps() {
            step.written().into_iter().for_each(|name| writers.entry(name).or_default().push(step));
        }
        // A guard is a register even if the text does not declare it.
        let guards: HashSet<_> = steps().filter_map(|step| Some(guard(step)?.0)).collect();
        let mut open: Vec<_> = guards.iter().copied().collect();
        let mut found = HashSet::new();
        while let Some(name) = open.pop() {
            if (guards.contains(name) || !(self.given)(name)) && found.insert(name) {
                let writers = writers.remove(name).into_iter().flatten();
                open.extend(
                    writers
                        .flat_map(|step| step.read().into_iter().chain(guard(step).map(|(guard, _)| guard))),
                );
            }
        }
        found
    }

    fn slots(&self, reached: &[usize], relevant: &HashSet<&'a str>) -> HashMap<Written<'a>, usize> {
        let mut slots = HashMap::new();
        let mut add = |key: Written<'a>| {
            let number = slots.len();
            slots.entry(key).or_insert(number);
        };
        relevant.iter().for_each(|name| add((name, None)));
        for step in reached.iter().filter_map(|at| self.steps.get(*at)) {
            let Some((guard, negated)) = guard(step) else { continue };
            for name in step.written().into_iter().filter(|name| relevant.contains(name)) {
                [negated, !negated].into_iter().for_each(|negated| add((name, Some((guard, negated)))));
            }
        }
        slots
    }

    /// What is written after an instruction. Writes under a guard become stale when the guard changes.
    fn after(
        &self,
        at: usize,
        mut state: Vec<u64>,
        slots: &HashMap<Written<'a>, usize>,
        stale: &[usize],
    ) -> Vec<u64> {
        let Some(step) = self.steps.get(at) else { return state };
        let holds = (self.holds)(at);
        if holds == Some(false) {
            return state;
        }
        stale.iter().for_each(|slot| set_bit(&mut state, *slot, false));
        for name in step.written() {
            let mut set = |guard| {
                let slot = slots.get(&(name, guard));
                slot.into_iter().for_each(|slot| set_bit(&mut state, *slot, true));
            };
            match guard(step).filter(|_| holds.is_none()) {
                None => set(None),
                Some((guard, negated)) => {
                    set(Some((guard, negated)));
                    let other = slots.get(&(name, Some((guard, !negated))));
                    if other.is_some_and(|slot| holds_bit(&state, *slot)) {
                        set_bit(&mut state, slots.get(&(name, None)).copied().unwrap_or(usize::MAX), true);
                    }
                }
            }
        }
        state
    }
}

/// The guard predicate of an instruction, and whether it is negated.
fn guard<'a>(step: &'a Instruction<'a>) -> Option<(&'a str, bool)> {
    step.guard.as_ref().map(Guard::parts)
}

fn holds_bit(state: &[u64], slot: usize) -> bool {
    state.get(slot / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
}

fn set_bit(state: &mut [u64], slot: usize, value: bool) {
    if let Some(word) = state.get_mut(slot / 64) {
        *word = *word & !(1 << (slot % 64)) | u64::from(value) << (slot % 64);
    }
}
