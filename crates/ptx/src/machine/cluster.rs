//! A cluster of blocks, and how it goes on.

use super::{
    Launch, World,
    step::Step,
    tiles::TensorCopy,
    warp::{BEGUN, LANES, Warp},
    warpgroups::{self, Warpgroup},
};
use crate::{
    Fault, FaultKind, Program,
    memory::{Agent, Clock, Shared},
    program::Op,
};

/// A block.
#[derive(Debug)]
pub(super) struct Block {
    /// Index in the grid.
    pub(super) index: (usize, usize),
    pub(super) shared: Shared,
    pub(super) warps: Vec<Warp>,
    /// By fours of its warps; the last may be incomplete.
    pub(super) warpgroups: Vec<Warpgroup>,
    /// Registers that warps gave back and none has taken.
    pub(super) free_registers: usize,
    pub(super) barriers: Vec<BlockBarrier>,
    pub(super) has_left: bool,
}

/// One of a block's barriers that are not in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockBarrier {
    pub(super) arrived: usize,
    /// What those who arrived say how many they are.
    pub(super) threads: Option<usize>,
    pub(super) opened: u64,
    pub(super) gathering: Clock,
    pub(super) known: Clock,
}

/// The barrier of a cluster.
#[derive(Debug)]
pub(super) struct ClusterBarrier {
    /// Lanes of every warp that have arrived.
    pub(super) arrived: Vec<u32>,
    pub(super) opened: u64,
    pub(super) gathering: Clock,
    pub(super) known: Clock,
}

/// Blocks that run together.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Index among all.
    pub(super) index: usize,
    pub(super) blocks: Vec<Block>,
    pub(super) barrier: ClusterBarrier,
    /// Barriers in shared memory that were made so far.
    pub(super) made_barriers: usize,
    /// Tiles that are on their way into shared memory.
    pub(super) in_flight: Vec<TensorCopy>,
    /// A warp that is held back, and for how many rounds: so that the others get far ahead of it.
    held_back: (usize, usize),
}

/// Barriers of a block.
const BLOCK_BARRIERS: usize = 16;
/// Instructions that a warp executes at most before another one does.
const TURN: usize = 200;
/// Copies, products and stores of a warp, tiles and barriers of a cluster, that the machine keeps account of at most: many times
/// what shared memory has room for.
const MOST_PENDING: usize = 1 << 10;
/// Rounds for which a warp is held back at most.
const HELD_BACK: usize = 64;

impl Cluster {
    pub(super) fn new(launch: &Launch<'_>, index: usize) -> Self {
        let warps = launch.threads / LANES;
        let clusters_in_row = launch.grid.0 / launch.cluster;
        let block = |rank| Block {
            index: (index % clusters_in_row * launch.cluster + rank, index / clusters_in_row),
            shared: Shared::new(launch.shared_bytes, Agent::threads(rank * warps), BEGUN),
            warps: (0..warps).map(|warp| Warp::new(launch, rank, warp)).collect(),
            warpgroups: (0..warps.div_ceil(warpgroups::WARPS)).map(|_| Warpgroup::default()).collect(),
            free_registers: 0,
            barriers: vec![BlockBarrier::default(); BLOCK_BARRIERS],
            has_left: false,
        };
        Self {
            index,
            blocks: (0..launch.cluster).map(block).collect(),
            barrier: ClusterBarrier {
                arrived: vec![0; launch.cluster * warps],
                opened: 0,
                gathering: Clock::default(),
                known: Clock::default(),
            },
            made_barriers: 0,
            in_flight: Vec::new(),
            held_back: (0, 0),
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.blocks.iter().all(|block| block.has_left)
    }

    /// Whether something is on its way into shared memory.
    pub(super) fn is_copying(&self) -> bool {
        let mut warps = self.blocks.iter().flat_map(|block| &block.warps);
        !self.in_flight.is_empty() || warps.any(|warp| !warp.copies.is_empty())
    }

    /// Lets every warp execute a few instructions, and some copies land.
    pub(super) fn round(&mut self, world: &mut World<'_>) -> Result<(), Fault> {
        let per_block = world.launch.threads / LANES;
        let all = per_block * self.blocks.len();
        self.held_back = match self.held_back {
            (_, 0) => (world.below(all), world.below(HELD_BACK)),
            (warp, rounds) => (warp, rounds - 1),
        };
        let first = world.below(all);
        for warp in (first..all).chain(0..first) {
            if warp == self.held_back.0 && world.quiet_rounds == 0 {
                continue;
            }
            let (rank, index) = (warp / per_block, warp % per_block);
            let mut warp = std::mem::take(&mut self.blocks[rank].warps[index]);
            let turn = 1 + world.below(TURN);
            let outcome =
                self.turn(&mut warp, turn, world).and_then(|()| self.land_thread_copies(&mut warp, world));
            self.blocks[rank].warps[index] = warp;
            outcome?;
            self.land_some(world)?;
        }
        for rank in 0..self.blocks.len() {
            let block = &mut self.blocks[rank];
            if !block.has_left && block.warps.iter().all(|warp| warp.live() == 0) {
                block.has_left = true;
                world.events += 1;
                self.require_landed(rank, world)?;
            }
        }
        Ok(())
    }

    /// Refuses a warp that starts more than it waits for: all of that is kept until it ends.
    fn require_few_pending(&self, warp: &Warp, world: &World<'_>) -> Result<(), Fault> {
        let tiles = (self.in_flight.len(), "tiles in flight");
        let pending = warp.pending().into_iter().chain([tiles, (self.made_barriers, "barriers made")]);
        match pending.into_iter().find(|(count, _)| *count > MOST_PENDING) {
            Some((_, what)) => {
                let at = warp.splits.first().map_or(0, |split| split.at);
                let kind = FaultKind::TooMuchPending { most: MOST_PENDING, what };
                Err(self.fault(world.launch, at, (warp.block, warp.index * LANES), kind))
            }
            None => Ok(()),
        }
    }

    /// Executes up to `turn` instructions of a warp.
    fn turn(&mut self, warp: &mut Warp, turn: usize, world: &mut World<'_>) -> Result<(), Fault> {
        self.require_few_pending(warp, world)?;
        for _ in 0..turn {
            let mut goes_on = false;
            for index in 0..warp.splits.len() {
                if self.step(warp, index, world)? == Step::Done {
                    goes_on = true;
                    break;
                }
            }
            warp.splits.retain(|split| split.lanes != 0);
            warp.join_splits();
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// The block of this rank, which must still be there.
    pub(super) fn block(&mut self, rank: usize) -> Result<&mut Block, FaultKind> {
        let blocks = self.blocks.len();
        let block = self.blocks.get_mut(rank).ok_or(FaultKind::NoSuchBlock { rank, blocks })?;
        if block.has_left { Err(FaultKind::BlockLeft { rank }) } else { Ok(block) }
    }

    /// A fault at an instruction, in a thread of the block of this rank.
    pub(super) fn fault(
        &self,
        launch: &Launch<'_>,
        instruction: usize,
        (rank, thread): (usize, usize),
        kind: FaultKind,
    ) -> Fault {
        let (x, y) = self.blocks[rank].index;
        let instruction = &launch.program.code[instruction];
        let (line, text) = (instruction.line, instruction.text.clone());
        Fault { line, text, block: y * launch.grid.0 + x, thread, kind }
    }
}

/// Every thread that is left waits.
pub(super) fn deadlock(clusters: &[Cluster], program: &Program) -> Fault {
    const SHOWN: usize = 6;
    let warps = clusters.iter().flat_map(|cluster| &cluster.blocks).flat_map(|block| &block.warps);
    let mut places: Vec<(usize, usize)> = Vec::new();
    for split in warps.flat_map(|warp| &warp.splits) {
        match places.iter_mut().find(|(at, _)| *at == split.at) {
            Some((_, count)) => *count += 1,
            None => places.push((split.at, 1)),
        }
    }
    // Who waits for registers is told first: the others wait for them.
    places.sort_by_key(|&(at, _)| !matches!(program.code[at].op, Op::SetRegisters(_)));
    let shown = places.iter().take(SHOWN).map(|&(at, count)| {
        let instruction = &program.code[at];
        let warps = if count == 1 { "warp" } else { "warps" };
        format!("{count} {warps} at line {} `{}`", instruction.line, instruction.text)
    });
    let mut waiting = shown.collect::<Vec<_>>().join(", ");
    if places.len() > SHOWN {
        waiting += ", and others";
    }
    let first = &program.code[places.first().map_or(0, |place| place.0)];
    let (line, text) = (first.line, first.text.clone());
    Fault { line, text, block: 0, thread: 0, kind: FaultKind::Deadlock { waiting } }
}
