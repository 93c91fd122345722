//! What happened before what.

/// Who accesses shared memory. The engines that work for a warp are not ordered with it until it waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agent(pub(crate) usize);

impl Agent {
    const PER_WARP: usize = 3;

    /// The threads of a warp of the cluster.
    pub(crate) fn threads(warp: usize) -> Self {
        Self(warp * Self::PER_WARP)
    }

    /// The tensor cores, working for a warp.
    pub(crate) fn products(warp: usize) -> Self {
        Self(warp * Self::PER_WARP + 1)
    }

    /// The copy engine, working for a warp.
    pub(crate) fn copies(warp: usize) -> Self {
        Self(warp * Self::PER_WARP + 2)
    }

    /// How a message names it.
    pub(crate) fn name(self) -> String {
        let warp = self.0 / Self::PER_WARP;
        match self.0 % Self::PER_WARP {
            0 => format!("warp {warp}"),
            1 => format!("a product of warp {warp}"),
            _ => format!("a copy of warp {warp}"),
        }
    }
}

/// For every agent of a cluster, the time up to which all that it did is known to have happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// A clock that knows nothing yet.
    pub(crate) fn new(warps: usize) -> Self {
        Self(vec![0; warps * Agent::PER_WARP])
    }

    pub(crate) fn of(&self, agent: Agent) -> u32 {
        self.0[agent.0]
    }

    pub(crate) fn set(&mut self, agent: Agent, time: u32) {
        self.0[agent.0] = time;
    }

    /// Starts the agent's next piece of work.
    pub(crate) fn advance(&mut self, agent: Agent) -> u32 {
        self.0[agent.0] += 1;
        self.0[agent.0]
    }

    /// Learns what `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        for (own, &other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(other);
        }
    }
}
