//! Runs PTX without a GPU, thread by thread, in an order that a seed decides.
//!
//! A [`Program`] is loaded from text and run by a [`Launch`] on [`DeviceMemory`]: every thread of every CTA,
//! with barriers, TMA, `cp.async`, clusters and wgmma. The seed decides the order in which warps run and
//! asynchronous operations complete. Errors stop the run with a [`Fault`] that names the line: data races in
//! shared memory (vector clocks), deadlocks, accesses out of bounds, warps that do not execute the collective
//! instructions of their warpgroup, uninitialized registers. Register reallocation is counted from what the
//! assembler allots; claiming more than there is deadlocks. Memory that was not written is NaN, and so are
//! accumulators of a wgmma in flight.
//!
//! Differences from a GPU:
//! - In device memory only races between clusters are found.
//! - wgmma accumulates in f32, without the truncation of the tensor cores.
//! - The warps of a warpgroup execute their rows of a wgmma at different times.
//! - Kernels do not overlap; but accesses before `griddepcontrol.wait` to memory of the preceding kernel are
//!   found (PDL).
//! - Cache hints have no effect.
//! - Whether the assembler fits a warpgroup's code into its registers is not checked.
//! - Livelock is not detected; such a run ends at the instruction limit.

mod accesses;
mod barriers;
mod cluster;
mod cp_async;
mod decode;
mod fault;
mod initialized;
mod lanes;
mod matmul;
mod memory;
mod program;
mod step;
mod tma;
mod warp;
mod warpgroups;
mod wgmma;

pub use decode::LoadError;
pub use fault::{Fault, FaultKind};
pub use matmul::{SimulatedMatmul, Simulator};
pub use memory::{DeviceMemory, TensorMap};
pub use program::{ParameterKind, Program};

pub use octile_core::plan::hopper::LaunchConfig;
use octile_core::sample::Rng;

use cluster::Cluster;

/// A kernel launch.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The kernel.
    pub program: &'a Program,
    /// Grid, CTAs and clusters.
    pub config: LaunchConfig,
    /// Kernel arguments, in order.
    pub arguments: Vec<KernelArgument>,
    /// Clusters that run at a time; the next one starts when one has exited.
    pub resident_clusters: usize,
    /// Decides the order of warps and asynchronous operations.
    pub seed: u64,
    /// Warp instructions after which the run is stopped: a long loop cannot be told from an endless one.
    pub max_instructions: u64,
}

impl Launch<'_> {
    fn grid(&self) -> (usize, usize) {
        (self.config.grid.0 as usize, self.config.grid.1 as usize)
    }

    /// Warps of a CTA.
    fn warps(&self) -> usize {
        self.config.threads as usize / warp::LANES
    }

    /// CTAs of a cluster.
    fn cluster(&self) -> usize {
        self.config.cluster as usize
    }
}

/// A kernel argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelArgument {
    /// A tensor map for TMA.
    TensorMap(TensorMap),
    /// A device pointer.
    Pointer(u64),
    /// A number.
    Number(u32),
}

/// What a run executed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Warp instructions: one for all lanes that executed it together.
    pub instructions: u64,
    /// Executed lines of the PTX, in order and from 1.
    pub lines: Vec<usize>,
    /// Lines with instructions that were not executed: not reached, or with a guard that never held.
    pub unreached: Vec<usize>,
}

/// State that clusters share.
struct World<'a> {
    launch: &'a Launch<'a>,
    device: &'a mut DeviceMemory,
    rng: Rng,
    instructions: u64,
    /// Whether each instruction was executed.
    executed: Vec<bool>,
    /// Counts events that others may wait for; while it changes there is no deadlock.
    events: u64,
    /// Rounds without such an event.
    quiet_rounds: usize,
    /// Whether every `try_wait` times out instead of blocking.
    all_waits_time_out: bool,
}

impl World<'_> {
    fn below(&mut self, bound: usize) -> usize {
        (self.rng.next_u64() % bound.max(1) as u64) as usize
    }

    /// Whether a `try_wait` times out, as it may on a GPU.
    fn waits_time_out(&mut self) -> bool {
        self.all_waits_time_out || self.quiet_rounds < FEW_ROUNDS && self.below(TIMES_OUT) == 0
    }
}

/// Rounds without an event, with nothing in flight and every warp blocked, that make a deadlock.
const DEADLOCK_ROUNDS: usize = 20;
/// Rounds without an event that make a deadlock while some warp still executes instructions.
const BUSY_DEADLOCK_ROUNDS: usize = 2000;
/// One in this many `try_wait` times out, unless there was no event for [`FEW_ROUNDS`].
const TIMES_OUT: usize = 8;
const FEW_ROUNDS: usize = 3;

impl Launch<'_> {
    /// Runs the kernel to its end.
    ///
    /// # Panics
    /// When the launch does not fit the program: a mistake of the caller, not of the kernel.
    pub fn run(&self, device: &mut DeviceMemory) -> Result<Coverage, Fault> {
        let (threads, cluster, grid) = (self.config.threads as usize, self.cluster(), self.grid());
        assert_eq!(self.arguments.len(), self.program.parameters.len(), "every parameter has an argument");
        assert!(threads.is_multiple_of(32) && threads <= self.program.max_threads, "a CTA has whole warps");
        assert!(cluster > 0 && grid.0.is_multiple_of(cluster), "the grid has whole clusters");
        let rng = Rng::new(self.seed, 0x9d2c);
        device.begin_kernel();
        let mut world = World {
            launch: self,
            device,
            rng,
            instructions: 0,
            executed: vec![false; self.program.code.len()],
            events: 0,
            quiet_rounds: 0,
            all_waits_time_out: false,
        };
        let mut waiting = 0..grid.0 * grid.1 / cluster;
        let mut running: Vec<Cluster> = Vec::new();
        let (mut held_rounds, mut suspected) = (0, None);
        loop {
            let free = self.resident_clusters.max(1).saturating_sub(running.len());
            running.extend(waiting.by_ref().take(free).map(|index| Cluster::new(self, index)));
            if running.is_empty() {
                let code = self.program.code.iter().map(|instruction| instruction.line).zip(world.executed);
                let (lines, unreached): (Vec<_>, Vec<_>) = code.partition(|&(_, executed)| executed);
                let lines_of = |these: Vec<(usize, bool)>| these.into_iter().map(|(line, _)| line).collect();
                return Ok(Coverage {
                    instructions: world.instructions,
                    lines: lines_of(lines),
                    unreached: lines_of(unreached),
                });
            }
            let (events, instructions) = (world.events, world.instructions);
            for cluster in &mut running {
                cluster.round(&mut world)?;
            }
            running.retain(|cluster| !cluster.has_exited());
            let is_quiet = world.events == events && running.iter().all(|cluster| !cluster.is_copying());
            world.quiet_rounds = if is_quiet { world.quiet_rounds + 1 } else { 0 };
            if !is_quiet {
                (held_rounds, suspected) = (0, None);
            } else if world.all_waits_time_out || world.instructions == instructions {
                held_rounds += 1;
            }
            if held_rounds == DEADLOCK_ROUNDS / 2 {
                // Once waits time out, threads are no longer where they waited.
                suspected = Some(cluster::deadlock(&running, self.program));
            }
            world.all_waits_time_out = held_rounds >= DEADLOCK_ROUNDS / 2;
            if held_rounds > DEADLOCK_ROUNDS || world.quiet_rounds > BUSY_DEADLOCK_ROUNDS {
                return Err(suspected.unwrap_or_else(|| cluster::deadlock(&running, self.program)));
            }
        }
    }
}
