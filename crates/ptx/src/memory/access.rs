//! An access to shared memory, and what remains of it to judge later ones by.

use super::{Agent, Clock};

/// Who accesses shared memory, and what happened before as far as they know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) agent: Agent,
    /// The agent's own time.
    pub(crate) time: u32,
    pub(crate) lane: Lane,
    pub(crate) clock: &'a Clock,
}

impl<'a> Access<'a> {
    /// By an engine, started by someone who knew this much.
    pub(crate) fn of_engine(agent: Agent, time: u32, clock: &'a Clock) -> Self {
        Self { agent, time, lane: Lane::SEVERAL, clock }
    }
}

/// The lane of the agent's warp that accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane(u8);

impl Lane {
    /// Not one lane: several together, or an engine.
    pub(crate) const SEVERAL: Self = Self(32);

    pub(crate) fn new(lane: usize) -> Self {
        Self(lane as u8)
    }
}

/// Time and lane of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u32);

impl Stamp {
    pub(super) const NEVER: Self = Self(0);
    const LANE_BITS: u32 = 6;

    pub(super) fn new(time: u32, lane: Lane) -> Self {
        assert!(
            time < 1 << (u32::BITS - Self::LANE_BITS),
            "a simulated warp synchronizes that often in days"
        );
        Self(time << Self::LANE_BITS | u32::from(lane.0))
    }

    pub(super) fn of(access: Access<'_>) -> Self {
        Self::new(access.time, access.lane)
    }

    fn time(self) -> u32 {
        self.0 >> Self::LANE_BITS
    }

    fn lane(self) -> Lane {
        Lane(self.0 as u8 & ((1 << Self::LANE_BITS) - 1))
    }

    /// Whether there is an order between this access of `agent` and a later one.
    pub(super) fn is_before(self, agent: Agent, access: Access<'_>) -> bool {
        // Every lane has an order with itself.
        let is_same = agent == access.agent && self.lane() == access.lane && access.lane != Lane::SEVERAL;
        is_same || self.time() <= access.clock.of(agent)
    }

    /// What stands for this access and a later one of the same agent.
    pub(super) fn and(self, access: Access<'_>) -> Self {
        let lane = if self.is_before(access.agent, access) { access.lane } else { Lane::SEVERAL };
        Self::new(access.time, lane)
    }
}
