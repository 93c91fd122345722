//! A barrier in shared memory.

use super::Clock;

/// Opens phase by phase: when all arrivals are in and all announced bytes have landed.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    arrivals: u32,
    pending: u32,
    bytes: i64,
    phase: u32,
    /// What those know who arrived so far, and what they knew when the last phase was over.
    gathering: Clock,
    known: Clock,
}

impl Barrier {
    pub(crate) fn new(arrivals: u32, clock: &Clock) -> Self {
        let (gathering, known) = (clock.clone(), clock.clone());
        Self { arrivals, pending: arrivals, bytes: 0, phase: 0, gathering, known }
    }

    /// Whether the phase of this parity is over, and what is known then.
    pub(crate) fn completed(&self, parity: u32) -> Option<&Clock> {
        (self.phase & 1 != parity & 1).then_some(&self.known)
    }

    /// Announces bytes.
    pub(crate) fn expect(&mut self, bytes: u32) {
        self.bytes += i64::from(bytes);
    }

    /// Takes an arrival; `false` when the phase has none left.
    #[must_use]
    pub(crate) fn arrive(&mut self, clock: &Clock) -> bool {
        if self.pending == 0 {
            return false;
        }
        self.pending -= 1;
        self.learn(clock);
        true
    }

    /// Bytes have landed.
    pub(crate) fn land(&mut self, bytes: usize, clock: &Clock) {
        self.bytes -= bytes as i64;
        self.learn(clock);
    }

    fn learn(&mut self, clock: &Clock) {
        self.gathering.join(clock);
        if self.pending == 0 && self.bytes == 0 {
            self.phase = self.phase.wrapping_add(1);
            self.pending = self.arrivals;
            self.known = self.gathering.clone();
        }
    }
}
