//! The modelled clock: when each agent does what, in core cycles.
//!
//! Modelled: the MXU rate, the VPU width, one cycle per scalar operation, and one DMA engine that moves
//! transfers in order at HBM bandwidth, each with an overlapping latency. Not modelled: instruction
//! scheduling, memory banks, refresh, other cores, and kernel launch. It shows whether DMAs hide behind
//! compute; it does not predict a measured time.

use octile_core::device::tpu::TpuRates;
use serde::Serialize;

use crate::limits::{ELEMENTS_PER_OPERATION, MAX_EVENTS, PRODUCTS_PER_OPERATION};

/// Resource that an event occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// MXU.
    Matmul,
    /// VPU.
    Vector,
    /// Scalar unit.
    Scalar,
    /// Core stalled on a DMA.
    Wait,
    /// DMA transfer.
    Copy,
}

/// One timeline event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// Resource.
    pub work: Work,
    /// First cycle.
    pub start: f64,
    /// End cycle (exclusive).
    pub end: f64,
    /// Line of the kernel, if known.
    pub line: Option<u32>,
    /// Buffer copied, or operation.
    pub label: String,
    /// Bytes moved.
    pub bytes: u64,
}

/// Totals of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Cycles from the first operation to the last.
    pub cycles: f64,
    /// MXU busy cycles.
    pub matmul_cycles: f64,
    /// VPU busy cycles.
    pub vector_cycles: f64,
    /// Scalar unit busy cycles.
    pub scalar_cycles: f64,
    /// Cycles stalled on DMAs.
    pub wait_cycles: f64,
    /// Cycles with at least one DMA in flight.
    pub copy_cycles: f64,
    /// Bytes moved by DMAs between HBM and the core.
    pub bytes_moved: u64,
    /// Bytes of operands and results, each counted once.
    pub bytes_minimum: u64,
    /// Multiply-adds.
    pub products: u64,
    /// DMAs.
    pub copies: u64,
}

impl Figures {
    /// MXU utilization.
    pub fn matmul_share(&self) -> f64 {
        share(self.matmul_cycles, self.cycles)
    }

    /// Overlap: fraction of DMA time in which the core is not stalled.
    pub fn overlap(&self) -> f64 {
        share(self.copy_cycles - self.wait_cycles.min(self.copy_cycles), self.copy_cycles)
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Timeline of a finished run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// Rates of the chip.
    pub rates: TpuRates,
    /// Totals.
    pub figures: Figures,
    /// Events in start order, if requested.
    pub events: Vec<Event>,
}

impl Timeline {
    /// Appends a timeline that starts where this one ends.
    pub(crate) fn append(&mut self, other: Self) {
        let start = self.figures.cycles;
        let (own, more) = (&mut self.figures, &other.figures);
        own.cycles += more.cycles;
        own.matmul_cycles += more.matmul_cycles;
        own.vector_cycles += more.vector_cycles;
        own.scalar_cycles += more.scalar_cycles;
        own.wait_cycles += more.wait_cycles;
        own.copy_cycles += more.copy_cycles;
        own.bytes_moved += more.bytes_moved;
        own.bytes_minimum += more.bytes_minimum;
        own.products += more.products;
        own.copies += more.copies;
        // Together the kernels may not keep more events than one.
        let room = MAX_EVENTS.saturating_sub(self.events.len());
        let shifted = other.events.into_iter().take(room);
        self.events.extend(shifted.map(|event| Event {
            start: event.start + start,
            end: event.end + start,
            ..event
        }));
    }
}

/// The clock of a run.
#[derive(Debug)]
pub(crate) struct Clock {
    rates: TpuRates,
    now: f64,
    /// When the DMA engine is free again.
    engine_free: f64,
    /// When the last DMA completes.
    copies_end: f64,
    figures: Figures,
    events: Option<Vec<Event>>,
    /// Operations charged for work beside the program's steps.
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

    /// Current cycle.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Operations charged for vector work, matmuls and DMAs.
    #[inline]
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns whether more events happened than are kept.
    pub(crate) fn is_full(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.len() >= MAX_EVENTS)
    }

    fn event(&mut self, work: Work, start: f64, end: f64, line: Option<u32>, label: &str, bytes: u64) {
        if let Some(events) = &mut self.events {
            // Merge adjacent scalar or vector events.
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

    /// Charges a vector operation over `elements` of `bytes` each.
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
            // An f32 matmul takes three bf16 passes.
            _ => self.rates.bf16_products / 3.0,
        };
        self.operations += products / PRODUCTS_PER_OPERATION;
        let cycles = (products as f64 / rate).max(1.0);
        self.figures.matmul_cycles += cycles;
        self.figures.products += products;
        self.spend(Work::Matmul, cycles, line, "tpu.matmul");
    }

    /// Starts a DMA and returns its completion cycle.
    pub(crate) fn copy(&mut self, bytes: u64, line: Option<u32>, label: &str) -> f64 {
        self.operations += bytes / ELEMENTS_PER_OPERATION as u64;
        let start = self.now.max(self.engine_free);
        let cycles = bytes as f64 / self.rates.hbm_bytes_per_cycle();
        self.engine_free = start + cycles;
        let end = self.engine_free + self.rates.copy_latency;
        // DMAs start and complete in order, so only the part after the previous one's end is new.
        self.figures.copy_cycles += end - start.max(self.copies_end);
        self.copies_end = end;
        self.figures.bytes_moved += bytes;
        self.figures.copies += 1;
        self.event(Work::Copy, start, end, line, label, bytes);
        end
    }

    /// Stalls until `cycle`.
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
