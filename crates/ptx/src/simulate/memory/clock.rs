//! Vector clocks.

/// Who accesses shared memory. Asynchronous operations of a warp are agents of their own until it waits for
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agent(u32);

impl Agent {
    const PER_WARP: u32 = 4;
    /// Marks agents of an mbarrier.
    const BARRIER: u32 = 1 << 31;

    /// The threads of a warp of the cluster.
    pub(crate) fn threads(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP)
    }

    /// The wgmmas of a warp.
    pub(crate) fn wgmmas(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP + 1)
    }

    /// The `cp.async` of a warp.
    pub(crate) fn copies(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP + 2)
    }

    /// The TMA stores of a warp.
    pub(crate) fn stores(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP + 3)
    }

    /// The TMA loads that an mbarrier of the cluster tracks. They land in any order, but a completed phase
    /// orders all loads of that phase.
    pub(crate) fn tiles(barrier: usize) -> Self {
        Self(Self::BARRIER | barrier as u32)
    }

    /// Index among agents of its kind: of an mbarrier, or of a warp.
    pub(crate) fn index(self) -> usize {
        (self.0 & !Self::BARRIER) as usize
    }

    /// The agent of a warp with this index.
    pub(crate) fn of_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// Name for messages.
    pub(crate) fn name(self) -> String {
        if self.0 & Self::BARRIER != 0 {
            return "a TMA load".to_owned();
        }
        let warp = self.0 / Self::PER_WARP;
        match self.0 % Self::PER_WARP {
            0 => format!("warp {warp}"),
            1 => format!("a wgmma of warp {warp}"),
            2 => format!("a cp.async of warp {warp}"),
            _ => format!("a TMA store of warp {warp}"),
        }
    }
}

/// A vector clock: for every agent of a cluster, the time up to which its accesses happen before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    of_warps: Vec<u32>,
    of_barriers: Vec<u32>,
}

impl Clock {
    fn times(&self, agent: Agent) -> &[u32] {
        if agent.0 & Agent::BARRIER == 0 { &self.of_warps } else { &self.of_barriers }
    }

    pub(crate) fn of(&self, agent: Agent) -> u32 {
        self.times(agent).get(agent.index()).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, agent: Agent, time: u32) {
        let times = if agent.0 & Agent::BARRIER == 0 { &mut self.of_warps } else { &mut self.of_barriers };
        if times.len() <= agent.index() {
            times.resize(agent.index() + 1, 0);
        }
        times[agent.index()] = time;
    }

    /// Takes the later time of every agent.
    pub(crate) fn join(&mut self, other: &Self) {
        join(&mut self.of_warps, &other.of_warps);
        join(&mut self.of_barriers, &other.of_barriers);
    }
}

fn join(own: &mut Vec<u32>, other: &[u32]) {
    if own.len() < other.len() {
        own.resize(other.len(), 0);
    }
    for (own, &other) in own.iter_mut().zip(other) {
        *own = (*own).max(other);
    }
}
