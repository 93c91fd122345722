//! mbarriers.

use super::{Agent, Clock};

/// An mbarrier: a phase completes when all arrivals are in and all expected bytes have landed.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    arrivals: u32,
    pending: u32,
    bytes: i64,
    phase: u32,
    /// The agent of the TMA loads that it tracks; their time is the phase.
    tiles: Agent,
    /// Whether it is visible to TMA.
    pub(crate) is_fenced: bool,
    /// Clocks released by the arrivals of this phase, and of the last completed one.
    gathering: Clock,
    known: Clock,
}

impl Barrier {
    pub(crate) fn new(arrivals: u32, tiles: Agent, clock: &Clock) -> Self {
        let (gathering, known) = (clock.clone(), clock.clone());
        Self { arrivals, pending: arrivals, bytes: 0, phase: 0, tiles, is_fenced: false, gathering, known }
    }

    /// The clock to acquire if the phase of this parity has completed.
    pub(crate) fn completed(&self, parity: u32) -> Option<&Clock> {
        (self.phase & 1 != parity & 1).then_some(&self.known)
    }

    /// Agent and time of a TMA load that this phase tracks.
    pub(crate) fn tile(&self) -> (Agent, u32) {
        (self.tiles, self.phase + 1)
    }

    /// Expects more bytes in this phase.
    pub(crate) fn expect(&mut self, bytes: u32) {
        self.bytes += i64::from(bytes);
    }

    /// Takes an arrival; `false` when the phase expects no more.
    #[must_use]
    pub(crate) fn arrive(&mut self, clock: &Clock) -> bool {
        if self.pending == 0 {
            return false;
        }
        self.pending -= 1;
        self.learn(clock);
        true
    }

    /// Counts bytes that have landed.
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
