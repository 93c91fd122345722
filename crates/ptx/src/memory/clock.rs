//! What happened before what.

/// Who accesses shared memory. The engines that work for a warp are not ordered with it until it waits for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agent(u32);

impl Agent {
    const PER_WARP: u32 = 4;
    /// Marks those that stand for a barrier.
    const BARRIER: u32 = 1 << 31;

    /// The threads of a warp of the cluster.
    pub(crate) fn threads(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP)
    }

    /// The tensor cores, working for a warp.
    pub(crate) fn products(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP + 1)
    }

    /// The copies into shared memory that single threads of a warp started.
    pub(crate) fn copies(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP + 2)
    }

    /// The copies out of shared memory that a warp started.
    pub(crate) fn stores(warp: usize) -> Self {
        Self(warp as u32 * Self::PER_WARP + 3)
    }

    /// The tiles that this barrier of the cluster counts. They land in any order: that one has landed says nothing of others, but that a
    /// phase of the barrier is over says that all of the phase have.
    pub(crate) fn tiles(barrier: usize) -> Self {
        Self(Self::BARRIER | barrier as u32)
    }

    /// Its index among those that stand for a barrier, or among those that do not.
    pub(crate) fn index(self) -> usize {
        (self.0 & !Self::BARRIER) as usize
    }

    /// The one with this index, which stands for no barrier.
    pub(crate) fn of_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// How a message names it.
    pub(crate) fn name(self) -> String {
        if self.0 & Self::BARRIER != 0 {
            return "a tile of the copy engine".to_owned();
        }
        let warp = self.0 / Self::PER_WARP;
        match self.0 % Self::PER_WARP {
            0 => format!("warp {warp}"),
            1 => format!("a product of warp {warp}"),
            2 => format!("a copy of warp {warp}"),
            _ => format!("a copy to device memory of warp {warp}"),
        }
    }
}

/// For every agent of a cluster, the time up to which all that it did is known to have happened.
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

    /// Learns what `other` knows.
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
