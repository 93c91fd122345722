//! The modelled clock: when each agent does what, in cycles of the core.
//!
//! Modelled are: the rate of the matrix units, the width of the vector unit, one cycle per scalar operation, and a
//! copy engine that moves one copy after another at the bandwidth of device memory, each with a latency that overlaps.
//! Not modelled are: instruction scheduling, memory banks, refresh, other cores, and the start of the kernel. It shows
//! whether copies hide behind compute; it does not predict a measured time.

use octile_core::device::tpu::TpuRates;
use serde::Serialize;

use crate::limits::{ELEMENTS_PER_OPERATION, MAX_EVENTS, PRODUCTS_PER_OPERATION};

/// What an agent is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The matrix units multiply.
    Matmul,
    /// The vector unit works.
    Vector,
    /// The scalar unit works.
    Scalar,
    /// The core waits for a copy.
    Wait,
    /// Bytes move.
    Copy,
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// What.
    pub work: Work,
    /// First cycle.
    pub start: f64,
    /// The cycle after the last.
    pub end: f64,
    /// The line of the kernel, where there is one.
    pub line: Option<u32>,
    /// The buffer that is copied, or the operation.
    pub label: String,
    /// Bytes moved.
    pub bytes: u64,
}

/// What the run took, and the sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Cycles from the first operation to the last.
    pub cycles: f64,
    /// Cycles in which the matrix units multiply.
    pub matmul_cycles: f64,
    /// Cycles of the vector unit.
    pub vector_cycles: f64,
    /// Cycles of the scalar unit.
    pub scalar_cycles: f64,
    /// Cycles in which the core waits for copies.
    pub wait_cycles: f64,
    /// Cycles in which at least one copy is under way.
    pub copy_cycles: f64,
    /// Bytes that copies moved between device memory and the core.
    pub bytes_moved: u64,
    /// Bytes of the operands and results, each moved once.
    pub bytes_minimum: u64,
    /// Multiply-add pairs.
    pub products: u64,
    /// Copies.
    pub copies: u64,
}

impl Figures {
    /// The share of the time in which the matrix units multiply.
    pub fn matmul_share(&self) -> f64 {
        share(self.matmul_cycles, self.cycles)
    }

    /// The share of the time with copies under way in which the core does something else than wait for one.
    pub fn overlap(&self) -> f64 {
        share(self.copy_cycles - self.wait_cycles.min(self.copy_cycles), self.copy_cycles)
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A finished run on the modelled clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// The chip's rates.
    pub rates: TpuRates,
    /// The sums.
    pub figures: Figures,
    /// Every piece of work in order of its start, if that was asked for.
    pub events: Vec<Event>,
}

/// The clock of a run.
#[derive(Debug)]
pub(crate) struct Clock {
    rates: TpuRates,
    now: f64,
    /// When the copy engine is free again.
    engine_free: f64,
    /// When the last copy ends.
    copies_end: f64,
    figures: Figures,
    events: Option<Vec<Event>>,
    /// Work that counts as operations beside the steps of the program.
    operations: u64,
}

impl Clock {
    pub(crate) fn new(rates: TpuRates, keep_events: bool) -> Self {
        Self {
            rates,
            now: 0.0,
            engine_free: 0.0,
            copies_end: 0.0,
            figures: Figures::default(),
            events: keep_events.then(Vec::new),
            operations: 0,
        }
    }

    /// How many operations the work of vectors, products and copies counts for.
    #[inline]
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// Whether more events happened than are kept.
    pub(crate) fn is_full(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.len() >= MAX_EVENTS)
    }

    fn event(&mut self, work: Work, start: f64, end: f64, line: Option<u32>, label: &str, bytes: u64) {
        if let Some(events) = &mut self.events {
            // Neighbouring scalar or vector work is one piece.
            if let Some(last) = events.iter_mut().rev().take(4).find(|last| last.work == work) {
                let joins = last.end == start && matches!(work, Work::Scalar | Work::Vector);
                if joins {
                    last.end = end;
                    return;
                }
            }
            events.push(Event { work, start, end, line, label: label.to_owned(), bytes });
        }
    }

    fn spend(&mut self, work: Work, cycles: f64, line: Option<u32>, label: &str) {
        let start = self.now;
        self.now += cycles;
        self.event(work, start, self.now, line, label, 0);
    }

    pub(crate) fn scalar(&mut self) {
        self.figures.scalar_cycles += 1.0;
        self.now += 1.0;
    }

    /// One vector operation over `elements` of `bytes` each.
    pub(crate) fn vector(&mut self, elements: usize, line: Option<u32>, label: &str) {
        self.operations += (elements / ELEMENTS_PER_OPERATION) as u64;
        let cycles = (elements as f64 / self.rates.vector_elements).max(1.0);
        self.figures.vector_cycles += cycles;
        self.spend(Work::Vector, cycles, line, label);
    }

    pub(crate) fn matmul(&mut self, products: u64, bits: usize, line: Option<u32>) {
        let rate = match bits {
            0..=8 => self.rates.fp8_products,
            9..=16 => self.rates.bf16_products,
            // A product of binary32 is made of three passes of bfloat16.
            _ => self.rates.bf16_products / 3.0,
        };
        self.operations += products / PRODUCTS_PER_OPERATION;
        let cycles = (products as f64 / rate).max(1.0);
        self.figures.matmul_cycles += cycles;
        self.figures.products += products;
        self.spend(Work::Matmul, cycles, line, "tpu.matmul");
    }

    /// Starts a copy; gives the cycle in which it ends.
    pub(crate) fn copy(&mut self, bytes: u64, line: Option<u32>, label: &str) -> f64 {
        self.operations += bytes / ELEMENTS_PER_OPERATION as u64;
        let start = self.now.max(self.engine_free);
        let cycles = bytes as f64 / self.rates.hbm_bytes_per_cycle();
        self.engine_free = start + cycles;
        let end = self.engine_free + self.rates.copy_latency;
        // Copies start and end in order, so what is new of this one lies behind the end of the one before.
        self.figures.copy_cycles += end - start.max(self.copies_end);
        self.copies_end = end;
        self.figures.bytes_moved += bytes;
        self.figures.copies += 1;
        self.event(Work::Copy, start, end, line, label, bytes);
        end
    }

    /// Waits until `cycle`.
    pub(crate) fn wait_until(&mut self, cycle: f64, line: Option<u32>, label: &str) {
        if cycle > self.now {
            self.figures.wait_cycles += cycle - self.now;
            self.spend(Work::Wait, cycle - self.now, line, label);
        }
    }

    pub(crate) fn finish(mut self, bytes_minimum: u64) -> Timeline {
        self.figures.cycles = self.now;
        self.figures.bytes_minimum = bytes_minimum;
        let mut events = self.events.unwrap_or_default();
        events.sort_by(|a, b| a.start.total_cmp(&b.start));
        Timeline { rates: self.rates, figures: self.figures, events }
    }
}
