//! State of the MXUs of a kernel that controls them itself: weights in staging registers, the weights that an
//! MXU multiplies by, and sums in its accumulators. It lasts until the kernel ends.

use std::sync::Arc;

use octile_core::device::tpu::{MxuControl, TPU_CHIPS};

use super::{
    element::round_to,
    engine::Strided,
    finding::{MxuMisuse, Site, Trouble},
    machine::{Machine, Stop},
    program::Step,
    undefined::Undefined,
    value::{Data, Value, map_floats},
};
use crate::{limits::ELEMENTS_PER_OPERATION, types::Float};

/// Number of MXUs: those of tpu7x, the only chip that lets kernels control them.
pub(super) const MXUS: usize = TPU_CHIPS[0].mxus;

/// Side of an MXU.
pub(super) const SIDE: usize = TPU_CHIPS[0].mxu_side;

pub(super) const CONTROL: MxuControl = MxuControl::TPU7X;

/// Rows of sums of an MXU.
const ROWS: usize = CONTROL.accumulators * CONTROL.accumulator_rows;

/// Bytes that the state of an MXU takes here: sums, whether each is uninitialized, and three sets of weights.
const STATE_BYTES: usize = ROWS * SIDE * (size_of::<f32>() + 1) + 3 * SIDE * SIDE * size_of::<f32>();

/// All MXUs of the core.
pub(super) type Mxus = [Mxu; MXUS];

/// One MXU. A kernel that does not control it takes no memory for it.
#[derive(Default)]
pub(super) struct Mxu {
    staging: [Option<Weights>; CONTROL.staging_registers],
    loaded: Option<Weights>,
    /// Empty until the first use.
    sums: Vec<f32>,
    /// Whether each sum depends on uninitialized memory; empty if none does.
    undefined: Vec<bool>,
    /// What each address holds.
    held: Vec<Option<Held>>,
}

/// Weights of an MXU.
#[derive(Clone)]
struct Weights {
    values: Arc<Vec<f32>>,
    is_transposed: bool,
    bits: usize,
    pushed: Arc<Site>,
    undefined: Option<Arc<UndefinedColumns>>,
}

/// Columns of weights with uninitialized elements, and the load.
struct UndefinedColumns {
    columns: Vec<bool>,
    trouble: Trouble,
}

/// What an address of the accumulators holds.
#[derive(Clone)]
struct Held {
    /// The last addition.
    added: Arc<Site>,
    /// The load of an uninitialized element that was added.
    trouble: Option<Arc<Trouble>>,
}

/// Where an operand goes, as attributes state it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Push {
    pub(super) mxu: usize,
    pub(super) register: usize,
    pub(super) is_transposed: bool,
    /// Bits per weight.
    pub(super) bits: usize,
}

/// Rows of the accumulators of an MXU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) mxu: usize,
    pub(super) address: usize,
    /// Number of rows.
    pub(super) count: usize,
}

impl Rows {
    /// Addresses after the last one.
    pub(super) fn end(self) -> usize {
        self.address.saturating_add(self.count.div_ceil(CONTROL.accumulator_rows))
    }

    fn sums(self) -> std::ops::Range<usize> {
        let first = self.address * CONTROL.accumulator_rows * SIDE;
        first..first + self.count * SIDE
    }
}

fn accumulators(mxu: usize, addresses: std::ops::Range<usize>) -> String {
    let last = addresses.end.saturating_sub(1);
    format!("accumulators {} to {last} of MXU {mxu}", addresses.start)
}

fn staging_register(mxu: usize, register: usize) -> String {
    format!("staging register {register} of MXU {mxu}")
}

/// First elements with the same property as the first one that has it.
fn first_run<T>(
    items: &[T],
    same: impl Fn(&T, &T) -> bool,
    has: impl Fn(&T) -> bool,
) -> Option<(usize, usize)> {
    let first = items.iter().position(has)?;
    let len = items[first..].iter().take_while(|item| same(&items[first], item)).count();
    Some((first, first + len))
}

impl Machine<'_> {
    /// Prepares an MXU for its first use.
    fn enter_mxu(&mut self, step: &Step, mxu: usize) -> Result<(), Stop> {
        self.changes += 1;
        if !self.mxus[mxu].sums.is_empty() {
            return Ok(());
        }
        let taken = self.budget.take(STATE_BYTES);
        taken.map_err(|message| Stop::Fault(step.place, format!("cannot allocate MXU {mxu}: {message}")))?;
        self.mxus[mxu].sums = vec![0.0; ROWS * SIDE];
        self.mxus[mxu].held = vec![None; CONTROL.accumulators];
        Ok(())
    }

    fn misuse(&mut self, misuse: MxuMisuse, part: String, access: Site, earlier: Option<Site>) {
        self.findings.add(Trouble::MxuMisuse { misuse, part, access, earlier });
    }

    /// Puts operand 0 into a staging register.
    pub(super) fn push_weights(&mut self, step: &Step, push: Push) -> Result<(), Stop> {
        self.enter_mxu(step, push.mxu)?;
        self.count_operations((SIDE * SIDE / ELEMENTS_PER_OPERATION) as u64);
        let site = self.core_site(step);
        if let Some(before) = &self.mxus[push.mxu].staging[push.register] {
            let earlier = Some(Site::clone(&before.pushed));
            let part = staging_register(push.mxu, push.register);
            self.misuse(MxuMisuse::StagingFull, part, site.clone(), earlier);
        }
        let undefined = self.operand_undefined(step, 0).map(|undefined| {
            let mut columns = vec![false; SIDE];
            for (place, &lost) in undefined.elements().iter().enumerate() {
                let (row, column) = (place / SIDE, place % SIDE);
                columns[if push.is_transposed { row } else { column }] |= lost;
            }
            Arc::new(UndefinedColumns { columns, trouble: undefined.trouble().clone() })
        });
        let values = self.mxu_operand(step, push.bits, SIDE);
        let weights = Weights {
            values,
            is_transposed: push.is_transposed,
            bits: push.bits,
            pushed: Arc::new(site),
            undefined,
        };
        self.mxus[push.mxu].staging[push.register] = Some(weights);
        Ok(())
    }

    /// Operand 0 as the MXU multiplies it: f32 is rounded to bf16.
    fn mxu_operand(&mut self, step: &Step, bits: usize, rows: usize) -> Arc<Vec<f32>> {
        let data = self.vector(step, 0);
        let data = match bits {
            32.. => map_floats(data, |value| round_to(Float::Bf16, value)),
            _ => data,
        };
        data.to_floats(rows * SIDE)
    }

    /// Adds operand 0 times the weights, loaded from a staging register if one is given, to accumulators.
    pub(super) fn accumulate(
        &mut self,
        step: &Step,
        rows: Rows,
        register: Option<usize>,
        bits: usize,
    ) -> Result<(), Stop> {
        self.enter_mxu(step, rows.mxu)?;
        let mxu = &mut self.mxus[rows.mxu];
        if let Some(register) = register {
            let Some(weights) = mxu.staging[register].take() else {
                let site = self.core_site(step);
                self.misuse(MxuMisuse::StagingEmpty, staging_register(rows.mxu, register), site, None);
                return Err(Stop::Halted);
            };
            mxu.loaded = Some(weights);
        }
        let Some(weights) = mxu.loaded.clone() else {
            let site = self.core_site(step);
            self.misuse(MxuMisuse::NoWeights, format!("MXU {}", rows.mxu), site, None);
            return Err(Stop::Halted);
        };
        let products = (rows.count * SIDE * SIDE) as u64;
        self.clock.matmul(products, bits.max(weights.bits).min(16), step.line());
        let trouble = self.add_undefined(step, rows, &weights);
        let lhs = self.mxu_operand(step, bits, rows.count);
        let (row, column) = if weights.is_transposed { (1, SIDE) } else { (SIDE, 1) };
        let lhs = Strided { data: &lhs, row: SIDE, column: 1 };
        let rhs = Strided { data: &weights.values, row, column };
        let added = Arc::new(self.core_site(step));
        let mxu = &mut self.mxus[rows.mxu];
        if rows.count > 0 {
            self.options.engine.add_product(rows.count, SIDE, SIDE, lhs, rhs, &mut mxu.sums[rows.sums()]);
        }
        for held in &mut mxu.held[rows.address..rows.end()] {
            let before = held.take().and_then(|held| held.trouble);
            *held = Some(Held { added: added.clone(), trouble: before.or_else(|| trouble.clone()) });
        }
        Ok(())
    }

    /// Marks the sums that uninitialized elements of operand 0 or of the weights are added to; returns their
    /// load.
    fn add_undefined(&mut self, step: &Step, rows: Rows, weights: &Weights) -> Option<Arc<Trouble>> {
        let lhs = self.operand_undefined(step, 0);
        let columns = weights.undefined.as_ref();
        let trouble = lhs.map(Undefined::trouble).or(columns.map(|columns| &columns.trouble))?.clone();
        let lost_rows: Option<Vec<bool>> =
            lhs.map(|lhs| lhs.elements().chunks(SIDE).map(|row| row.contains(&true)).collect());
        let marks = &mut self.mxus[rows.mxu].undefined;
        marks.resize(ROWS * SIDE, false);
        for (row, marks) in marks[rows.sums()].chunks_mut(SIDE).enumerate() {
            match (lost_rows.as_ref().is_some_and(|lost| lost[row]), columns) {
                (true, _) => marks.fill(true),
                (false, Some(lost)) => {
                    marks.iter_mut().zip(&lost.columns).for_each(|(mark, lost)| *mark |= lost);
                }
                (false, None) => {}
            }
        }
        Some(Arc::new(trouble))
    }

    /// Takes sums out of the accumulators, which are zero afterwards.
    pub(super) fn pop_sums(&mut self, step: &Step, rows: Rows) -> Result<(), Stop> {
        self.enter_mxu(step, rows.mxu)?;
        self.count_operations((rows.count * SIDE / ELEMENTS_PER_OPERATION) as u64);
        let mxu = &mut self.mxus[rows.mxu];
        let held = &mut mxu.held[rows.address..rows.end()];
        let empty = first_run(held, |_, other| other.is_none(), Option::is_none);
        let trouble = held.iter_mut().fold(None, |first, held| {
            let trouble = held.take().and_then(|held| held.trouble);
            first.or(trouble)
        });
        let sums = &mut mxu.sums[rows.sums()];
        let values = sums.to_vec();
        sums.fill(0.0);
        if let (Some(trouble), Some(&slot)) = (trouble, step.results.first()) {
            let marks = &mut mxu.undefined[rows.sums()];
            // Rows may have none although others of the same matmul have.
            if marks.contains(&true) {
                let undefined = Undefined::new(marks.to_vec(), Trouble::clone(&trouble));
                marks.fill(false);
                self.undefined.insert(slot, undefined);
            }
        }
        if let Some((start, end)) = empty {
            let part = accumulators(rows.mxu, rows.address + start..rows.address + end);
            let site = self.core_site(step);
            self.misuse(MxuMisuse::NothingAdded, part, site, None);
        }
        self.set(step, Value::Vector(Data::floats(values)));
        Ok(())
    }

    /// When the kernel ends: reports what is left in the MXUs.
    pub(super) fn leave_mxus(&mut self) {
        for (number, mxu) in std::mem::take(&mut self.mxus).into_iter().enumerate() {
            for (register, weights) in mxu.staging.into_iter().enumerate() {
                if let Some(weights) = weights {
                    let part = staging_register(number, register);
                    self.misuse(MxuMisuse::WeightsLeft, part, Site::clone(&weights.pushed), None);
                }
            }
            let line = |held: &Option<Held>| held.as_ref().map(|held| held.added.line);
            let mut first = 0;
            while let Some((start, end)) =
                first_run(&mxu.held[first..], |a, b| line(a) == line(b), Option::is_some)
            {
                let part = accumulators(number, first + start..first + end);
                if let Some(held) = &mxu.held[first + start] {
                    self.misuse(MxuMisuse::SumsLeft, part, Site::clone(&held.added), None);
                }
                first += end;
            }
        }
    }
}
