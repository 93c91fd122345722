//! A barrier in shared memory.

use super::{Agent, Clock};

/// Opens phase by phase: when all arrivals are in and all announced bytes have landed.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    arrivals: u32,
    pending: u32,
    bytes: i64,
    phase: u32,
    /// Stands for the tiles that it counts: its time is the phase that they land in.
    tiles: Agent,
    /// Whether a fence lets the copy engine see it.
    pub(crate) is_fenced: bool,
    /// What those know who arrived so far, and what they knew when the last phase was over.
    gathering: Clock,
    known: Clock,
}

impl Barrier {
    pub(crate) fn new(arrivals: u32, tiles: Agent, clock: &Clock) -> Self {
        let (gathering, known) = (clock.clone(), clock.clone());
        Self { arrivals, pending: arrivals, bytes: 0, phase: 0, tiles, is_fenced: false, gathering, known }
    }

    /// Whether the phase of this parity is over, and what is known then.
    pub(crate) fn completed(&self, parity: u32) -> Option<&Clock> {
        (self.phase & 1 != parity & 1).then_some(&self.known)
    }

    /// Who writes a tile that it counts now, and when.
    pub(crate) fn tile(&self) -> (Agent, u32) {
        (self.tiles, self.phase + 1)
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
            self.phase += 1;
            self.pending = self.arrivals;
            self.gathering.set(self.tiles, self.phase);
            self.known = self.gathering.clone();
        }
    }
}
