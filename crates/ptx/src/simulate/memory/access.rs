//! Accesses to shared memory, and the stamps that race detection keeps of them.

use super::{Agent, Clock};

/// An access to shared memory, with everything that happens before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedAccess<'a> {
    pub(crate) agent: Agent,
    /// Time on the agent's own clock.
    pub(crate) time: u32,
    pub(crate) lane: Lane,
    pub(crate) clock: &'a Clock,
}

impl<'a> SharedAccess<'a> {
    /// An access by the async proxy, issued after everything in `clock`.
    pub(crate) fn of_async(agent: Agent, time: u32, clock: &'a Clock) -> Self {
        Self { agent, time, lane: Lane::SEVERAL, clock }
    }
}

/// The lane that accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane(u8);

impl Lane {
    /// Several lanes together, or the async proxy.
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
            "a simulated warp takes days to synchronize this often"
        );
        Self(time << Self::LANE_BITS | u32::from(lane.0))
    }

    pub(super) fn of(access: SharedAccess<'_>) -> Self {
        Self::new(access.time, access.lane)
    }

    fn time(self) -> u32 {
        self.0 >> Self::LANE_BITS
    }

    fn lane(self) -> Lane {
        Lane(self.0 as u8 & ((1 << Self::LANE_BITS) - 1))
    }

    /// Whether this access of `agent` happens before a later one.
    pub(super) fn is_before(self, agent: Agent, access: SharedAccess<'_>) -> bool {
        // Program order within a lane.
        let is_same = agent == access.agent && self.lane() == access.lane && access.lane != Lane::SEVERAL;
        is_same || self.time() <= access.clock.of(agent)
    }

    /// A stamp for this access and a later one of the same agent.
    pub(super) fn and(self, access: SharedAccess<'_>) -> Self {
        let lane = if self.is_before(access.agent, access) { access.lane } else { Lane::SEVERAL };
        Self::new(access.time, lane)
    }
}
