//! A cluster of CTAs, and how its warps are scheduled.

use super::{
    Fault, FaultKind, Launch, Program, World,
    memory::{Agent, Clock, Shared},
    program::Op,
    step::Step,
    tma::Load,
    warp::{BEGUN, LANES, Warp},
    warpgroups::{self, Warpgroup},
};
use crate::limits::MAX_PENDING;

/// A CTA.
#[derive(Debug)]
pub(super) struct Cta {
    /// Index in the grid.
    pub(super) index: (usize, usize),
    pub(super) shared: Shared,
    pub(super) warps: Vec<Warp>,
    /// Four warps each; the last may be incomplete.
    pub(super) warpgroups: Vec<Warpgroup>,
    /// Registers that warps have released and none has claimed.
    pub(super) free_registers: usize,
    pub(super) barriers: Vec<NamedBarrier>,
    pub(super) has_exited: bool,
}

/// A named barrier of a CTA.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedBarrier {
    pub(super) arrived: usize,
    /// Thread count that the arrivals named.
    pub(super) threads: Option<usize>,
    pub(super) opened: u64,
    pub(super) gathering: Clock,
    pub(super) known: Clock,
}

/// The cluster barrier.
#[derive(Debug)]
pub(super) struct ClusterBarrier {
    /// Arrived lanes of every warp.
    pub(super) arrived: Vec<u32>,
    pub(super) opened: u64,
    pub(super) gathering: Clock,
    pub(super) known: Clock,
}

/// CTAs that run together.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Index in the grid of clusters.
    pub(super) index: usize,
    pub(super) ctas: Vec<Cta>,
    pub(super) barrier: ClusterBarrier,
    /// mbarriers initialized so far.
    pub(super) made_barriers: usize,
    /// TMA loads in flight.
    pub(super) in_flight: Vec<Load>,
    /// A warp that is delayed, and for how many rounds, so that the others get far ahead of it.
    delayed: (usize, usize),
}

/// Named barriers of a CTA.
const NAMED_BARRIERS: usize = 16;
/// Most instructions that a warp executes before another one does.
const TURN: usize = 200;
/// Most rounds that a warp is delayed.
const MAX_DELAY: usize = 64;

impl Cluster {
    pub(super) fn new(launch: &Launch<'_>, index: usize) -> Self {
        let warps = launch.warps();
        let clusters_in_row = launch.grid().0 / launch.cluster();
        let cta = |rank| Cta {
            index: (index % clusters_in_row * launch.cluster() + rank, index / clusters_in_row),
            shared: Shared::new(launch.config.shared_bytes as usize, Agent::threads(rank * warps), BEGUN),
            warps: (0..warps).map(|warp| Warp::new(launch, rank, warp)).collect(),
            warpgroups: (0..warps.div_ceil(warpgroups::WARPS)).map(|_| Warpgroup::default()).collect(),
            free_registers: 0,
            barriers: vec![NamedBarrier::default(); NAMED_BARRIERS],
            has_exited: false,
        };
        Self {
            index,
            ctas: (0..launch.cluster()).map(cta).collect(),
            barrier: ClusterBarrier {
                arrived: vec![0; launch.cluster() * warps],
                opened: 0,
                gathering: Clock::default(),
                known: Clock::default(),
            },
            made_barriers: 0,
            in_flight: Vec::new(),
            delayed: (0, 0),
        }
    }

    pub(super) fn has_exited(&self) -> bool {
        self.ctas.iter().all(|cta| cta.has_exited)
    }

    /// Whether copies into shared memory are in flight.
    pub(super) fn is_copying(&self) -> bool {
        let mut warps = self.ctas.iter().flat_map(|cta| &cta.warps);
        !self.in_flight.is_empty() || warps.any(|warp| !warp.copies.is_empty())
    }

    /// Lets every warp execute a few instructions, and some copies complete.
    pub(super) fn round(&mut self, world: &mut World<'_>) -> Result<(), Fault> {
        let per_cta = world.launch.warps();
        let all = per_cta * self.ctas.len();
        self.delayed = match self.delayed {
            (_, 0) => (world.below(all), world.below(MAX_DELAY)),
            (warp, rounds) => (warp, rounds - 1),
        };
        let first = world.below(all);
        for warp in (first..all).chain(0..first) {
            if warp == self.delayed.0 && world.quiet_rounds == 0 {
                continue;
            }
            let (rank, index) = (warp / per_cta, warp % per_cta);
            let mut warp = std::mem::take(&mut self.ctas[rank].warps[index]);
            let turn = 1 + world.below(TURN);
            let outcome =
                self.turn(&mut warp, turn, world).and_then(|()| self.land_thread_copies(&mut warp, world));
            self.ctas[rank].warps[index] = warp;
            outcome?;
            self.land_some(world)?;
        }
        for rank in 0..self.ctas.len() {
            let cta = &mut self.ctas[rank];
            if !cta.has_exited && cta.warps.iter().all(|warp| warp.live() == 0) {
                cta.has_exited = true;
                world.events += 1;
                self.require_landed(rank, world)?;
            }
        }
        Ok(())
    }

    /// Refuses more than [`MAX_PENDING`] asynchronous operations that nothing waits for.
    fn require_few_pending(&self, warp: &Warp, world: &World<'_>) -> Result<(), Fault> {
        let tiles = (self.in_flight.len(), "TMA loads in flight");
        let pending =
            warp.pending().into_iter().chain([tiles, (self.made_barriers, "mbarriers initialized")]);
        match pending.into_iter().find(|(count, _)| *count > MAX_PENDING) {
            Some((_, what)) => {
                let at = warp.splits.first().map_or(0, |split| split.at);
                let kind = FaultKind::TooMuchPending { max: MAX_PENDING, what };
                Err(self.fault(world.launch, at, (warp.cta, warp.index * LANES), kind))
            }
            None => Ok(()),
        }
    }

    /// Executes up to `turn` instructions of a warp.
    fn turn(&mut self, warp: &mut Warp, turn: usize, world: &mut World<'_>) -> Result<(), Fault> {
        self.require_few_pending(warp, world)?;
        for _ in 0..turn {
            let mut progressed = false;
            for index in 0..warp.splits.len() {
                if self.step(warp, index, world)? == Step::Done {
                    progressed = true;
                    break;
                }
            }
            warp.splits.retain(|split| split.lanes != 0);
            warp.join_splits();
            if !progressed {
                break;
            }
        }
        Ok(())
    }

    /// The CTA of this rank, which must not have exited.
    pub(super) fn cta(&mut self, rank: usize) -> Result<&mut Cta, FaultKind> {
        let ctas = self.ctas.len();
        let cta = self.ctas.get_mut(rank).ok_or(FaultKind::NoSuchCta { rank, ctas })?;
        if cta.has_exited { Err(FaultKind::CtaExited { rank }) } else { Ok(cta) }
    }

    /// A fault at an instruction, in a thread of the CTA of this rank.
    pub(super) fn fault(
        &self,
        launch: &Launch<'_>,
        instruction: usize,
        (rank, thread): (usize, usize),
        kind: FaultKind,
    ) -> Fault {
        let (x, y) = self.ctas[rank].index;
        let instruction = &launch.program.code[instruction];
        let (line, text) = (instruction.line, instruction.text.clone());
        Fault { line, text, cta: y * launch.grid().0 + x, thread, kind }
    }
}

/// The fault that every remaining thread waits.
pub(super) fn deadlock(clusters: &[Cluster], program: &Program) -> Fault {
    const SHOWN: usize = 6;
    let warps = clusters.iter().flat_map(|cluster| &cluster.ctas).flat_map(|cta| &cta.warps);
    let mut places: Vec<(usize, usize)> = Vec::new();
    for split in warps.flat_map(|warp| &warp.splits) {
        match places.iter_mut().find(|(at, _)| *at == split.at) {
            Some((_, count)) => *count += 1,
            None => places.push((split.at, 1)),
        }
    }
    // Warps that wait for registers come first: the others wait for them.
    places.sort_by_key(|&(at, _)| !matches!(program.code[at].op, Op::SetRegisters(_)));
    let shown = places.iter().take(SHOWN).map(|&(at, count)| {
        let instruction = &program.code[at];
        let warps = if count == 1 { "warp" } else { "warps" };
        format!("{count} {warps} at line {} `{}`", instruction.line, instruction.text)
    });
    let mut waiting = shown.collect::<Vec<_>>().join(", ");
    if places.len() > SHOWN {
        waiting += ", and more";
    }
    let first = &program.code[places.first().map_or(0, |place| place.0)];
    let (line, text) = (first.line, first.text.clone());
    Fault { line, text, cta: 0, thread: 0, kind: FaultKind::Deadlock { waiting } }
}
