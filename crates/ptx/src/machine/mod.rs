//! The machine: blocks that take turns, in an order that a seed decides.

mod accesses;
mod barriers;
mod cluster;
mod lanes;
mod products;
mod step;
mod thread_copies;
mod tiles;
mod warp;
mod warpgroups;
mod written;

use octile_core::sample::Rng;

use crate::{Fault, Global, Program, TensorMap};
use cluster::Cluster;

/// How a kernel is started.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The kernel.
    pub program: &'a Program,
    /// Blocks of the grid.
    pub grid: (usize, usize),
    /// Threads of a block: a multiple of 32.
    pub threads: usize,
    /// Bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// Blocks of a cluster, side by side along the first dimension of the grid.
    pub cluster: usize,
    /// Clusters that run at a time; the others follow when one has left.
    pub resident_clusters: usize,
    /// What the kernel is called with, in order.
    pub parameters: Vec<Parameter>,
    /// Decides who goes first.
    pub seed: u64,
    /// Instructions of all warps after which the run is stopped: only then is an endless loop told from a long one.
    pub most_instructions: u64,
}

/// What a kernel is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// A matrix for the copy engine.
    Map(TensorMap),
    /// A device pointer.
    Pointer(u64),
    /// A number.
    Number(u32),
}

/// What a run took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Instructions, one for all lanes of a warp that executed it together.
    pub instructions: u64,
    /// Lines of the program that were executed, in order and from 1.
    pub lines: Vec<usize>,
    /// Lines with instructions that no one executed: not reached, or with a predicate that never held.
    pub unreached: Vec<usize>,
}

/// What clusters share.
struct World<'a> {
    launch: &'a Launch<'a>,
    global: &'a mut Global,
    rng: Rng,
    instructions: u64,
    /// For every instruction, whether it was executed.
    executed: Vec<bool>,
    /// Counts what others may wait for: as long as it changes, there is no deadlock.
    events: u64,
    /// Rounds in which nothing happened that others may wait for.
    quiet_rounds: usize,
    /// Whether all who wait are told that it is in vain, instead of being held.
    all_waits_time_out: bool,
}

impl World<'_> {
    fn below(&mut self, bound: usize) -> usize {
        (self.rng.next_u64() % bound.max(1) as u64) as usize
    }

    /// Whether a thread that waits is told that what it waits for has not happened, as happens now and then.
    fn waits_time_out(&mut self) -> bool {
        self.all_waits_time_out || self.quiet_rounds < FEW_ROUNDS && self.below(TIMES_OUT) == 0
    }
}

/// Rounds without an event, nothing being under way and all being held, after which waiting is in vain.
const PATIENCE: usize = 20;
/// As [`PATIENCE`], where someone still executes instructions.
const PATIENCE_WITH_BUSY: usize = 2000;
/// One of so many waits times out, unless all has been quiet for more than a few rounds.
const TIMES_OUT: usize = 8;
const FEW_ROUNDS: usize = 3;

impl Launch<'_> {
    /// Runs the kernel to its end.
    ///
    /// # Panics
    /// When the launch does not fit the program: that is a mistake of the caller, not of the kernel.
    pub fn run(&self, global: &mut Global) -> Result<Outcome, Fault> {
        assert_eq!(self.parameters.len(), self.program.parameters.len(), "every parameter is given");
        assert!(
            self.threads.is_multiple_of(32) && self.threads <= self.program.most_threads,
            "a block has whole warps"
        );
        assert!(self.cluster > 0 && self.grid.0.is_multiple_of(self.cluster), "the grid has whole clusters");
        let rng = Rng::new(self.seed, 0x9d2c);
        global.begin_kernel();
        let mut world = World {
            launch: self,
            global,
            rng,
            instructions: 0,
            executed: vec![false; self.program.code.len()],
            events: 0,
            quiet_rounds: 0,
            all_waits_time_out: false,
        };
        let mut waiting = 0..self.grid.0 * self.grid.1 / self.cluster;
        let mut running: Vec<Cluster> = Vec::new();
        let (mut held_rounds, mut suspected) = (0, None);
        loop {
            let free = self.resident_clusters.max(1).saturating_sub(running.len());
            running.extend(waiting.by_ref().take(free).map(|index| Cluster::new(self, index)));
            if running.is_empty() {
                let code = self.program.code.iter().map(|instruction| instruction.line).zip(world.executed);
                let (lines, unreached): (Vec<_>, Vec<_>) = code.partition(|&(_, executed)| executed);
                let lines_of = |these: Vec<(usize, bool)>| these.into_iter().map(|(line, _)| line).collect();
                return Ok(Outcome {
                    instructions: world.instructions,
                    lines: lines_of(lines),
                    unreached: lines_of(unreached),
                });
            }
            let (events, instructions) = (world.events, world.instructions);
            for cluster in &mut running {
                cluster.round(&mut world)?;
            }
            running.retain(|cluster| !cluster.has_left());
            let is_quiet = world.events == events && running.iter().all(|cluster| !cluster.is_copying());
            world.quiet_rounds = if is_quiet { world.quiet_rounds + 1 } else { 0 };
            if !is_quiet {
                (held_rounds, suspected) = (0, None);
            } else if world.all_waits_time_out || world.instructions == instructions {
                held_rounds += 1;
            }
            if held_rounds == PATIENCE / 2 {
                // Once waits time out, threads are not where they wait any more.
                suspected = Some(cluster::deadlock(&running, self.program));
            }
            world.all_waits_time_out = held_rounds >= PATIENCE / 2;
            if held_rounds > PATIENCE || world.quiet_rounds > PATIENCE_WITH_BUSY {
                return Err(suspected.unwrap_or_else(|| cluster::deadlock(&running, self.program)));
            }
        }
    }
}
