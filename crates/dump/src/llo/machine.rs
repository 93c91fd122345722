//! Executes the scalar program of a listing, one bundle per cycle.

use std::collections::HashMap;

use super::{
    cycles::{SimError, SimOptions},
    dma::{self, Ledger, Start},
    extent::{DmaEnd, Extent, Memory, ROW, Strides},
    instruction::{
        self, Action, Arithmetic, Comparison, Compute, Condition, DmaStart, Expr, Footprint, Instruction,
        LoadStore, Logic, Register, Truth,
    },
    program::{Program, buffer_of},
};
use crate::flight::Touch;

/// Words of SMEM, 1 MiB; stores beyond are dropped.
const SMEM_WORDS: usize = 1 << 18;

/// The state of the scalar core.
pub(super) struct LloMachine<'p> {
    program: &'p Program,
    core: i64,
    registers: Vec<Option<i64>>,
    memory: HashMap<i64, Option<i64>>,
    /// Whether words that were stored may be missing in `memory`.
    forgot_stores: bool,
    time: f64,
    pub stalled: f64,
    /// Whether branches that depend on data fall through.
    falls_through: bool,
    /// Branches that did.
    pub assumed: u64,
    /// Stall cycles by bundle.
    pub stalls: HashMap<usize, f64>,
    pub issued: u64,
    pub executions: Vec<u64>,
    pub dma: Ledger,
    pending: Vec<(Register, Register, Option<i64>)>,
}

impl<'p> LloMachine<'p> {
    pub(super) fn new(program: &'p Program, options: &SimOptions) -> Self {
        Self {
            program,
            core: i64::from(options.core),
            registers: vec![None; program.registers],
            memory: HashMap::new(),
            forgot_stores: false,
            time: 0.0,
            stalled: 0.0,
            falls_through: options.unknown_branches_fall_through,
            assumed: 0,
            stalls: HashMap::new(),
            issued: 0,
            executions: vec![0; program.bundles.len()],
            dma: Ledger::new(options.dma, options.granule_bytes),
            pending: Vec::new(),
        }
    }

    /// Runs from the first bundle until control falls off the last one.
    pub(super) fn run(&mut self, branch_delay: u32, max_cycles: u64) -> Result<(), SimError> {
        let program = self.program;
        let mut at = 0;
        let mut jump: Option<(usize, u32)> = None;
        while let Some(instructions) = program.bundles.get(at) {
            if self.issued >= max_cycles {
                return Err(SimError::TooLong { cycles: self.issued, bundle: at });
            }
            let accesses = program.accesses.get(at).map(Vec::as_slice).unwrap_or_default();
            let idle = instructions.is_empty() && (accesses.is_empty() || self.dma.is_idle());
            let taken = if idle { None } else { self.bundle(at, instructions, accesses)? };
            if program.multiplies.get(at) == Some(&true) {
                self.dma.multiply();
            }
            if let Some(count) = self.executions.get_mut(at) {
                *count += 1;
            }
            self.issued += 1;
            self.time += 1.0;
            at += 1;
            jump = match (jump, taken) {
                (Some(_), Some(_)) => return Err(SimError::BranchInDelaySlot { bundle: at - 1 }),
                (Some((target, slots)), None) => Some((target, slots - 1)),
                (None, taken) => taken.map(|target| (target, branch_delay)),
            };
            if let Some((target, 0)) = jump {
                at = target;
                jump = None;
            }
        }
        Ok(())
    }

    /// Executes one bundle: reads before writes, waits before accesses, DMA starts last. Returns the target
    /// of a taken branch.
    fn bundle(
        &mut self,
        at: usize,
        instructions: &[Instruction],
        accesses: &[LoadStore],
    ) -> Result<Option<usize>, SimError> {
        let mut taken = None;
        for instruction in instructions {
            if let (Action::Phi { physical }, Some((result, _))) = (&instruction.action, instruction.result) {
                let value = self.register(*physical);
                self.set(result, value);
            }
        }
        let waits = |instruction: &&Instruction| matches!(instruction.action, Action::DmaWait { .. });
        for instruction in instructions.iter().filter(waits) {
            self.instruction(at, instruction)?;
        }
        for access in accesses.iter().filter(|_| !self.dma.is_idle()).collect::<Vec<_>>() {
            self.access(at, access);
        }
        for instruction in instructions.iter().filter(|instruction| !waits(instruction)) {
            if let Some(target) = self.instruction(at, instruction)? {
                taken = Some(target);
            }
        }
        let mut pending = std::mem::take(&mut self.pending);
        for (result, physical, value) in pending.drain(..) {
            self.set(result, value);
            self.set(physical, value);
        }
        self.pending = pending;
        for instruction in instructions {
            if let (Action::Late(expr), Some((result, physical))) = (&instruction.action, instruction.result)
            {
                let value = self.eval(expr);
                self.set(result, value);
                self.set(physical, value);
            }
        }
        Ok(taken)
    }

    fn instruction(&mut self, at: usize, instruction: &Instruction) -> Result<Option<usize>, SimError> {
        let holds = match instruction.condition {
            Some(condition) => self.condition(condition),
            None => Some(true),
        };
        if holds == Some(false) {
            if let (Some(otherwise), Some((result, physical))) = (&instruction.otherwise, instruction.result)
            {
                let value = self.eval(otherwise);
                self.pending.push((result, physical, value));
            }
            return Ok(None);
        }
        match &instruction.action {
            Action::Phi { .. } | Action::Late(_) => {}
            Action::Compute(compute) => {
                let value = holds.and_then(|_| self.compute(compute));
                if let Some((result, physical)) = instruction.result {
                    self.pending.push((result, physical, value));
                }
            }
            Action::Store { address, value } => match self.eval(address) {
                Some(address) => {
                    let value = holds.and_then(|_| self.eval(value));
                    if self.memory.len() < SMEM_WORDS || self.memory.contains_key(&address) {
                        self.memory.insert(address, value);
                    } else {
                        self.forgot_stores = true;
                    }
                }
                // The address is unknown, so any word may have changed.
                None => {
                    self.memory.clear();
                    self.forgot_stores = true;
                }
            },
            Action::Branch { target } => {
                if holds.is_none() {
                    self.assumed += 1;
                    return if self.falls_through {
                        Ok(None)
                    } else {
                        Err(SimError::UnknownBranch { bundle: at })
                    };
                }
                return target.map(Some).ok_or(SimError::NoTarget { bundle: at });
            }
            // The predicate is unknown, so semaphore values prove nothing from here on.
            Action::DmaWait { .. } if holds.is_none() => self.dma.lose_track(),
            Action::Signal { .. } if holds.is_none() => self.dma.lose_signal(),
            Action::DmaStart(_) if holds.is_none() => self.dma.unresolved += 1,
            Action::DmaStart(start) => {
                let start = self.dma_start(at, start);
                // The compiler copies whole tiles before the rows left over, even if there are none.
                if start.granules != Some(0) {
                    self.dma.start(self.time, &start);
                }
            }
            Action::DmaWait { semaphore, granules } => {
                let (semaphore, granules) = (self.eval(semaphore), self.eval(granules));
                let ready = self.dma.wait(self.time, at, semaphore, granules);
                self.stalled += ready - self.time;
                *self.stalls.entry(at).or_default() += ready - self.time;
                self.time = ready;
            }
            Action::Signal { semaphore, granules } => {
                let amount = self.eval(granules).map(wrap);
                match self.eval(semaphore).zip(amount) {
                    Some((semaphore, amount)) => self.dma.signal(self.time, at, semaphore, amount),
                    None => self.dma.lose_signal(),
                }
            }
        }
        Ok(None)
    }

    fn dma_start(&self, at: usize, start: &DmaStart) -> Start {
        let name = self.program.dma_kinds.get(start.kind as usize).map_or("", String::as_str);
        let granules = self.eval(&start.granules);
        let extent = |end: &instruction::DmaOperand, column: i64| {
            let strides = match (&start.descriptor, &start.rows) {
                (Some(descriptor), _) => self.described(descriptor, column).unwrap_or(Strides::Unknown),
                (None, None) => Strides::Contiguous,
                (None, Some(rows)) => match self.eval(&end.stride).zip(self.eval(rows)) {
                    Some((stride, rows)) => Strides::Every(stride, rows),
                    None => Strides::Unknown,
                },
            };
            Extent::of_dma(&DmaEnd {
                memory: end.memory,
                address: self.eval(&end.address).filter(|_| granules.is_some()),
                granules: granules.unwrap_or_default(),
                granule_bytes: self.program.granule_bytes,
                strides,
            })
        };
        Start {
            at,
            kind: start.kind,
            uses_channel: name.contains("hbm") || name.contains("general"),
            granules,
            semaphore: self.eval(&start.semaphore),
            source: self.eval(&start.source.address),
            destination: self.eval(&start.destination.address),
            extents: [extent(&start.source, 0), extent(&start.destination, 1)],
        }
    }

    /// Layout that a descriptor gives one end of a DMA. It has up to three levels, each with a source stride,
    /// a destination stride and the step count of the level below; the last count is rows. `None` if it is
    /// not known, or has gaps of several sizes.
    fn described(&self, descriptor: &Expr, column: i64) -> Option<Strides> {
        let address = self.eval(descriptor)?;
        let word = |at: i64| self.memory.get(&address.checked_add(at)?).copied().flatten();
        let row = ROW / self.program.granule_bytes;
        let (mut below, mut strides) = (row, Strides::Contiguous);
        // Nothing is stored for a level that the compiler leaves out.
        let absent = |level: &i64| {
            let stored = |at| address.checked_add(at).is_none_or(|at| self.memory.contains_key(&at));
            !(self.forgot_stores || *level == 0 || (*level..*level + 3).any(stored))
        };
        for level in [6, 3, 0].into_iter().skip_while(absent) {
            let (stride, steps) = (word(level + column)?, word(level + 2)?);
            let dense = steps.checked_mul(below)?;
            if stride != dense {
                if strides != Strides::Contiguous || stride < dense {
                    return None;
                }
                strides = Strides::Every(stride, dense / row);
            }
            below = stride;
        }
        Some(strides)
    }

    /// A load or store while DMAs are in flight.
    fn access(&mut self, at: usize, access: &LoadStore) {
        let holds = access.condition.map_or(Some(true), |condition| self.condition(condition));
        if holds == Some(false) {
            return;
        }
        let whole = !matches!(access.footprint, Footprint::SomeRows(_));
        let touch = Touch { writes: access.writes, certain: whole && holds.is_some() };
        let by = dma::BundleAccess { at, offset: Some(access.offset), touch };
        match (access.footprint, self.eval(&access.address)) {
            (Footprint::Word, Some(address)) => self.dma.access(by, &Extent::word(address)),
            (Footprint::Rows(sublanes) | Footprint::SomeRows(sublanes), Some(address)) => {
                Extent::rows(address, sublanes).for_each(|row| self.dma.access(by, &row));
            }
            (Footprint::Word, None) => self.dma.access(by, &Extent::Somewhere(Memory::Smem)),
            (Footprint::Rows(_) | Footprint::SomeRows(_), None) => {
                self.dma.access(by, &Extent::Somewhere(Memory::Vmem))
            }
        }
    }

    fn register(&self, register: Register) -> Option<i64> {
        self.registers.get(register as usize).copied().flatten()
    }

    fn set(&mut self, register: Register, value: Option<i64>) {
        if let Some(slot) = self.registers.get_mut(register as usize) {
            *slot = value;
        }
    }

    fn condition(&self, condition: Condition) -> Option<bool> {
        self.register(condition.register).map(|value| (value != 0) != condition.negated)
    }

    fn eval(&self, expr: &Expr) -> Option<i64> {
        let registers = expr.registers.iter();
        registers.fold(expr.constant, |sum, &register| Some(sum?.wrapping_add(self.register(register)?)))
    }

    fn compute(&self, compute: &Compute) -> Option<i64> {
        match compute {
            Compute::Value(expr) => self.eval(expr),
            Compute::Arithmetic(op, left, right) => {
                Some(arithmetic(*op, self.eval(left)?, self.eval(right)?))
            }
            Compute::Compare { comparison, signed, left, right } => {
                let view = if *signed { wrap_integer } else { unsigned };
                let (left, right) = (view(self.eval(left)?), view(self.eval(right)?));
                Some(i64::from(compare(*comparison, left, right)))
            }
            Compute::Select { condition, then, otherwise } => match self.condition(*condition)? {
                true => self.eval(then),
                false => self.eval(otherwise),
            },
            Compute::Logic(logic, inputs) => self.logic(*logic, inputs).map(i64::from),
            Compute::Load(address) => self.memory.get(&self.eval(address)?).copied().flatten(),
            Compute::CoreId => Some(self.core),
            Compute::Unknown => None,
        }
    }

    /// Three-valued logic: an unknown input matters only if the others do not decide.
    fn logic(&self, logic: Logic, inputs: &[Truth]) -> Option<bool> {
        let mut values = inputs.iter().map(|input| match input {
            Truth::Register(condition) => self.condition(*condition),
            Truth::Constant(value) => Some(*value),
        });
        let decides = |deciding: bool, mut values: &mut dyn Iterator<Item = Option<bool>>| {
            let mut unknown = false;
            for value in &mut values {
                match value {
                    Some(value) if value == deciding => return Some(deciding),
                    Some(_) => {}
                    None => unknown = true,
                }
            }
            (!unknown).then_some(!deciding)
        };
        match logic {
            Logic::And(inverted) => decides(false, &mut values).map(|v| v != inverted),
            Logic::Or(inverted) => decides(true, &mut values).map(|v| v != inverted),
            Logic::Xor => values.try_fold(false, |sum, value| Some(sum != value?)),
        }
    }
}

/// Values this large are pointers and keep their bits.
fn is_pointer(value: i64) -> bool {
    value.unsigned_abs() >= 1 << 33
}

fn wrap(value: i64) -> i64 {
    i64::from(value as i32)
}

fn wrap_integer(value: i64) -> i64 {
    if is_pointer(value) { value } else { wrap(value) }
}

fn unsigned(value: i64) -> i64 {
    if is_pointer(value) { value } else { value & 0xffff_ffff }
}

fn arithmetic(op: Arithmetic, left: i64, right: i64) -> i64 {
    let shift = (right & 63) as u32;
    if is_pointer(left)
        && matches!(op, Arithmetic::ShiftLeft | Arithmetic::ShiftRightUnsigned | Arithmetic::ShiftRightSigned)
    {
        // A unit conversion scales the offset within the buffer.
        let (buffer, offset) = buffer_of(left);
        let left = matches!(op, Arithmetic::ShiftLeft);
        return buffer.wrapping_add(if left { offset.wrapping_shl(shift) } else { offset >> shift });
    }
    match op {
        Arithmetic::Add => wrap_integer(left.wrapping_add(wrap_integer(right))),
        Arithmetic::Sub => wrap_integer(left.wrapping_sub(right)),
        Arithmetic::Mul => wrap_integer(left.wrapping_mul(right)),
        Arithmetic::ShiftLeft => left.wrapping_shl(shift),
        Arithmetic::ShiftRightUnsigned => unsigned(left) >> shift,
        Arithmetic::ShiftRightSigned => wrap_integer(left) >> shift,
        Arithmetic::And => left & right,
        Arithmetic::Or => left | right,
        Arithmetic::Xor => left ^ right,
        // Division by zero is undefined; any value will do.
        Arithmetic::Divide { signed: true } => wrap(left).checked_div(wrap(right)).unwrap_or(-1),
        Arithmetic::Divide { signed: false } => unsigned(left).checked_div(unsigned(right)).unwrap_or(-1),
        Arithmetic::Remainder { signed: true } => wrap(left).checked_rem(wrap(right)).unwrap_or(left),
        Arithmetic::Remainder { signed: false } => {
            unsigned(left).checked_rem(unsigned(right)).unwrap_or(left)
        }
        Arithmetic::Min { signed: true } => wrap_integer(left).min(wrap_integer(right)),
        Arithmetic::Min { signed: false } => unsigned(left).min(unsigned(right)),
        Arithmetic::Max { signed: true } => wrap_integer(left).max(wrap_integer(right)),
        Arithmetic::Max { signed: false } => unsigned(left).max(unsigned(right)),
    }
}

fn compare(comparison: Comparison, left: i64, right: i64) -> bool {
    match comparison {
        Comparison::Ge => left >= right,
        Comparison::Gt => left > right,
        Comparison::Lt => left < right,
        Comparison::Le => left <= right,
        Comparison::Eq => left == right,
        Comparison::Ne => left != right,
    }
}
