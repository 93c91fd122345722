//! Cycle counts: executes the control flow of a listing, one bundle per cycle.

use std::collections::HashMap;

use octile_core::device::tpu::TpuChip;
use serde::Serialize;

use super::{
    Label, Listing, Slot,
    dma::{Race, Route, RouteKey},
    instruction::{Action, Instruction},
    machine::LloMachine,
    program::{Program, dma_spaces},
    units::{UnitUse, touches_spill},
};
use crate::{flight::RaceKind, limits::MAX_LLO_CYCLES};

/// DMA timing: one in-order channel to HBM.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DmaModel {
    /// Bandwidth of the channel.
    pub bytes_per_cycle: f64,
    /// Latency from the last byte to the semaphore.
    pub latency_cycles: f64,
}

/// Simulation options.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SimOptions {
    /// Branch delay slots; inferred from the listing if `None`.
    pub branch_delay: Option<u32>,
    /// DMA timing; waits are free if `None`.
    pub dma: Option<DmaModel>,
    /// Cycle limit.
    pub max_cycles: u64,
    /// Matrix units of the core.
    pub mxus: u32,
    /// Bytes per granule, the unit of DMAs and semaphores.
    pub granule_bytes: u64,
    /// Index of the executing core, if several share the kernel.
    pub core: u32,
    /// Whether branches that depend on data fall through instead of ending the simulation: a conditional
    /// region then runs, and a loop whose length depends on data runs once.
    pub unknown_branches_fall_through: bool,
}

impl DmaModel {
    /// The rates of a chip's device table.
    pub fn of(chip: &TpuChip) -> Self {
        Self { bytes_per_cycle: chip.rates.hbm_bytes_per_cycle(), latency_cycles: chip.rates.copy_latency }
    }
}

impl SimOptions {
    /// Options for a chip, with DMAs at its rates.
    pub fn with_copies(chip: &TpuChip) -> Self {
        Self { dma: Some(DmaModel::of(chip)), ..Self::of(chip) }
    }

    /// Options for a chip, with free waits.
    pub fn of(chip: &TpuChip) -> Self {
        Self { mxus: chip.mxus as u32, granule_bytes: chip.rates.copy_granule as u64, ..Self::default() }
    }
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            branch_delay: None,
            dma: None,
            max_cycles: MAX_LLO_CYCLES,
            mxus: 2,
            granule_bytes: 32,
            core: 0,
            unknown_branches_fall_through: false,
        }
    }
}

/// Why a listing could not be executed. Bundles are identified by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The listing has no bundles.
    #[error("there is no bundle in this listing: give a packed-bundles-post-ra listing of the kernel")]
    NoBundles,
    /// The final pass drops empty bundles, so counting is meaningless.
    #[error("this listing leaves empty bundles out (final_bundles): give the packed-bundles-post-ra one")]
    Untimed,
    /// Part of the listing is missing.
    #[error("the listing is damaged at {0}: cycles cannot be counted")]
    Damaged(String),
    /// A predicate that is never written.
    #[error("bundle {bundle:#x} is predicated on {register}, which no instruction of the listing writes")]
    UndefinedPredicate {
        /// The bundle.
        bundle: usize,
        /// The predicate register.
        register: String,
    },
    /// Control flow depends on data.
    #[error("the branch in bundle {bundle:#x} depends on a value that is not in the listing")]
    UnknownBranch {
        /// The bundle.
        bundle: usize,
    },
    /// Control flow depends on what was spilled.
    #[error(
        "the compiler spills scalars to HBM, and the branch in bundle {bundle:#x} depends on one: choose \
         another strategy, a larger quantization block, or a smaller N or K"
    )]
    SpilledBranch {
        /// The bundle.
        bundle: usize,
    },
    /// A branch without a target.
    #[error("the branch in bundle {bundle:#x} has no target in the listing")]
    NoTarget {
        /// The bundle.
        bundle: usize,
    },
    /// Wrong branch delay, or a damaged listing.
    #[error("bundle {bundle:#x} branches in the delay slots of another branch")]
    BranchInDelaySlot {
        /// The bundle.
        bundle: usize,
    },
    /// A loop that does not end, or a very long kernel.
    #[error("gave up after {cycles} cycles at bundle {bundle:#x}")]
    TooLong {
        /// Cycles executed.
        cycles: u64,
        /// The bundle.
        bundle: usize,
    },
}

/// DMAs of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmaTraffic {
    /// The operation, for example `dma.hbm_to_vmem`.
    pub kind: String,
    /// Number started.
    pub starts: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// All DMAs between two buffers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmaRoute {
    /// The operation, for example `dma.hbm_to_vmem`.
    pub kind: String,
    /// Source memory, for example `hbm`; empty if not stated.
    pub from: String,
    /// Destination memory.
    pub to: String,
    /// Source buffer: an allocation, or the register of a kernel operand; empty if unresolved.
    pub source: String,
    /// Destination buffer.
    pub destination: String,
    /// Number started.
    pub starts: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Number of buffer slots: distinct destination offsets.
    pub depth: usize,
    /// Whether one was in flight during a matmul.
    pub overlaps_multiply: bool,
    /// Bundle of the first start.
    pub first: u32,
    /// The first data race with one in flight.
    pub race: Option<DmaRace>,
}

/// A data race with a DMA in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DmaRace {
    /// Kind of race.
    pub kind: RaceKind,
    /// Number of the bundle.
    pub bundle: u32,
    /// Offset of the access in the text.
    #[serde(skip)]
    pub offset: u32,
}

impl DmaRace {
    fn of(listing: &Listing<'_>, race: &Race) -> Option<Self> {
        let bundle = listing.bundles().get(race.at)?;
        let starts_dma =
            |slot: &&Slot| listing.op(slot).starts_with("dma.") && !listing.op(slot).contains("done");
        let dma = || listing.slots(bundle).iter().find(starts_dma).map(|slot| slot.op.start);
        let offset = race.offset.or_else(dma).unwrap_or(bundle.span.start);
        Some(Self { kind: race.kind, bundle: bundle.address, offset })
    }
}

/// Totals of one semaphore over the execution, in granules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SemaphoreLedger {
    /// For example `#allocation8 + 3`.
    pub semaphore: String,
    /// DMAs that signal it.
    pub starts: u64,
    /// Granules that they deliver.
    pub granules: i64,
    /// Waits on it.
    pub waits: u64,
    /// Final value; 0 if every DMA was waited for.
    pub left: i64,
    /// The first bundle that waits for more than was started.
    pub starved_at: Option<u32>,
    /// The first bundle that subtracts a DMA without a wait.
    pub unawaited_at: Option<u32>,
}

impl SemaphoreLedger {
    /// Whether every DMA has a wait and every wait a DMA.
    pub fn is_balanced(&self) -> bool {
        self.left == 0 && self.starved_at.is_none() && self.unawaited_at.is_none()
    }
}

/// A loop and its trip count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LoopCount {
    /// Number of the first bundle of the body.
    pub first: u32,
    /// Number of the bundle that branches back.
    pub last: u32,
    /// Nesting depth, itself included.
    pub depth: u16,
    /// Iterations.
    pub iterations: u64,
}

/// Result of an execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cycles {
    /// Bundles issued, empty ones included: the cycles with free waits.
    pub issued: u64,
    /// Stall cycles under the DMA model.
    pub stalled: f64,
    /// Bundles in the listing.
    pub code_bundles: usize,
    /// Delay slots assumed after a branch.
    pub branch_delay: u32,
    /// Matrix units assumed.
    pub mxus: u32,
    /// Use of every unit.
    pub units: UnitUse,
    /// DMA by kind, in order of appearance.
    pub dma: Vec<DmaTraffic>,
    /// DMA by the buffers at both ends.
    pub routes: Vec<DmaRoute>,
    /// Waits executed.
    pub waits: u64,
    /// DMA operations whose size, semaphore or predicate could not be resolved.
    pub unresolved_dma: u64,
    /// Loads and stores with an unresolved address or predicate while a DMA was in flight.
    pub unresolved_accesses: u64,
    /// Branches on data that were assumed to fall through.
    #[serde(skip)]
    pub assumed_branches: u64,
    /// Every semaphore.
    pub semaphores: Vec<SemaphoreLedger>,
    /// Every loop.
    pub loops: Vec<LoopCount>,
    /// Issue count of each bundle.
    #[serde(skip)]
    pub executions: Vec<u64>,
    /// Stall cycles of each bundle that waits.
    #[serde(skip)]
    pub stalls: HashMap<usize, f64>,
}

impl Cycles {
    /// Issue and stall cycles together.
    pub fn total(&self) -> f64 {
        self.issued as f64 + self.stalled
    }

    /// Utilization of the matrix units, from 0 to 1.
    pub fn mxu_share(&self) -> f64 {
        let available = f64::from(self.mxus) * self.total();
        if available > 0.0 { self.units.mxu as f64 / available } else { 0.0 }
    }

    /// Bytes over every DMA from or to HBM.
    pub fn hbm_bytes(&self) -> u64 {
        let touches_hbm = |route: &&DmaRoute| route.from == "hbm" || route.to == "hbm";
        self.routes.iter().filter(touches_hbm).fold(0, |sum, route| sum.saturating_add(route.bytes))
    }

    /// Bytes over every DMA whose kind contains `name`, for example `hbm`.
    pub fn dma_bytes(&self, name: &str) -> u64 {
        let matching = self.dma.iter().filter(|traffic| traffic.kind.contains(name));
        matching.map(|traffic| traffic.bytes).sum()
    }
}

/// Whether scalars are spilled to HBM, to slots whose addresses DMAs take.
fn spills_to_hbm(listing: &Listing<'_>) -> bool {
    let takes_address =
        |slot: &Slot| listing.op(slot) == "smov" && touches_spill(slot.args.of(listing.text()));
    listing.all_slots().any(|(_, slot)| takes_address(slot))
}

/// Executes the control flow of a listing.
pub fn simulate(listing: &Listing<'_>, options: &SimOptions) -> Result<Cycles, SimError> {
    if listing.bundles().is_empty() {
        return Err(SimError::NoBundles);
    }
    if let Some(damage) = listing.damage().first() {
        return Err(SimError::Damaged(damage.to_string()));
    }
    if !listing.is_timed() {
        return Err(SimError::Untimed);
    }
    let program = Program::compile(listing);
    if let Some((bundle, register)) = program.undefined.clone() {
        return Err(SimError::UndefinedPredicate { bundle, register });
    }
    let branch_delay = options.branch_delay.unwrap_or_else(|| branch_delay(listing, &program)).max(1);
    let mut machine = LloMachine::new(&program, options);
    machine.run(branch_delay, options.max_cycles).map_err(|error| match error {
        SimError::UnknownBranch { bundle } if spills_to_hbm(listing) => SimError::SpilledBranch { bundle },
        error => error,
    })?;

    let mut units = UnitUse::default();
    for (bundle, &executions) in listing.bundles().iter().zip(&machine.executions) {
        units.add_scaled(&static_use(listing, bundle), executions);
    }
    let routes: Vec<_> =
        machine.dma.routes.iter().map(|(key, route)| dma_route(listing, &program, key, route)).collect();
    let semaphores = machine.dma.semaphores.iter().map(|(&address, semaphore)| SemaphoreLedger {
        semaphore: program.describe(address),
        starts: semaphore.starts,
        granules: semaphore.started,
        waits: semaphore.waits,
        left: semaphore.left,
        starved_at: semaphore.starved_at.map(|at| at as u32),
        // A semaphore without DMAs may be decremented before the wait.
        unawaited_at: semaphore.unawaited_at.filter(|_| semaphore.starts > 0).map(|at| at as u32),
    });
    Ok(Cycles {
        issued: machine.issued,
        stalled: machine.stalled,
        code_bundles: listing.bundles().len(),
        branch_delay,
        mxus: options.mxus,
        units,
        dma: by_kind(&routes),
        routes,
        waits: machine.dma.waits,
        unresolved_dma: machine.dma.unresolved,
        unresolved_accesses: machine.dma.unresolved_accesses(),
        assumed_branches: machine.assumed,
        semaphores: semaphores.collect(),
        loops: loops(listing, &program, &machine.executions),
        executions: machine.executions,
        stalls: machine.stalls,
    })
}

/// Names the ends of a route.
fn dma_route(listing: &Listing<'_>, program: &Program, key: &RouteKey, route: &Route) -> DmaRoute {
    let kind = program.dma_kinds.get(key.kind as usize).cloned().unwrap_or_default();
    let bundle = listing.bundles().get(route.first_at);
    let slots = bundle.map(|bundle| listing.slots(bundle)).unwrap_or_default();
    let slot = slots.iter().find(|slot| listing.op(slot) == kind);
    let args = slot.map_or("", |slot| slot.args.of(listing.text()));
    let (from, to) = dma_spaces(&kind, args);
    let describe = |buffer: Option<i64>| buffer.map_or_else(String::new, |buffer| program.describe(buffer));
    DmaRoute {
        from: from.to_owned(),
        to: to.to_owned(),
        source: describe(key.source),
        destination: describe(key.destination),
        starts: route.starts,
        bytes: route.bytes,
        depth: route.destinations.len(),
        overlaps_multiply: route.overlaps_multiply,
        first: bundle.map_or(0, |bundle| bundle.address),
        race: route.race.and_then(|race| DmaRace::of(listing, &race)),
        kind,
    }
}

/// Sums over routes, in order of appearance in the code.
fn by_kind(routes: &[DmaRoute]) -> Vec<DmaTraffic> {
    let mut kinds: Vec<DmaTraffic> = Vec::new();
    for route in routes {
        match kinds.iter_mut().find(|traffic| traffic.kind == route.kind) {
            Some(traffic) => {
                traffic.starts += route.starts;
                traffic.bytes = traffic.bytes.saturating_add(route.bytes);
            }
            None => {
                kinds.push(DmaTraffic { kind: route.kind.clone(), starts: route.starts, bytes: route.bytes });
            }
        }
    }
    kinds
}

/// Units that one bundle occupies.
pub fn static_use(listing: &Listing<'_>, bundle: &super::Bundle) -> UnitUse {
    let mut units = UnitUse::default();
    for slot in listing.slots(bundle) {
        units.count(listing.op(slot), slot.args.of(listing.text()));
    }
    units
}

/// Infers the branch delay: the region that a branch leaves ends with its last delay slot. Other regions may
/// end nearby, so the distance that fits most branches counts.
fn branch_delay(listing: &Listing<'_>, program: &Program) -> u32 {
    /// Of v4, of v5 and v6e, and of tpu7x; the latest wins a tie.
    const KNOWN: [u32; 3] = [1, 4, 6];
    const DEFAULT: u32 = 6;
    let branches = |instructions: &&Vec<Instruction>| {
        instructions.iter().any(|i| matches!(i.action, Action::Branch { .. }))
    };
    let branches: Vec<_> =
        program.bundles.iter().enumerate().filter(|(_, bundle)| branches(bundle)).map(|(at, _)| at).collect();
    let ends_region = |at: usize| {
        let bundle = listing.bundles().get(at);
        bundle.is_some_and(|bundle| listing.regions(bundle).any(|mark| mark.ends && !mark.starts))
    };
    let fits = |delay: u32| branches.iter().filter(|at| ends_region(**at + delay as usize)).count();
    let best = KNOWN.into_iter().max_by_key(|delay| fits(*delay)).filter(|delay| fits(*delay) > 0);
    best.unwrap_or(DEFAULT)
}

/// Backward branches and the issue counts of their targets.
fn loops(listing: &Listing<'_>, program: &Program, executions: &[u64]) -> Vec<LoopCount> {
    let mut loops = Vec::new();
    for (at, instructions) in program.bundles.iter().enumerate() {
        for instruction in instructions {
            let Action::Branch { target: Some(target) } = instruction.action else {
                continue;
            };
            let (Some(first), Some(last)) = (listing.bundles().get(target), listing.bundles().get(at)) else {
                continue;
            };
            if target <= at && first.label != Some(Label::PredicatedFallthrough) {
                loops.push(LoopCount {
                    first: first.address,
                    last: last.address,
                    depth: first.depth,
                    iterations: executions.get(target).copied().unwrap_or_default(),
                });
            }
        }
    }
    loops
}
