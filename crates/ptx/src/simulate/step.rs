//! Executes one instruction in the lanes that are at it.

use super::{
    Fault, FaultKind, KernelArgument, World,
    cluster::Cluster,
    cp_async, lanes,
    memory::SHARED_START,
    program::{Op, SharedAt, Special, Word},
    tma,
    warp::{LANES, Split, Warp, lanes},
    warpgroups::Joint,
    wgmma,
};

/// Whether lanes progressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Executed.
    Done,
    /// The lanes are blocked.
    Held,
}

/// Addresses in other CTAs of the cluster have their rank plus one from this bit on.
const RANK_SHIFT: u32 = 24;

/// The address of the same offset in the CTA of this rank.
fn in_cta(address: u32, rank: u32) -> u32 {
    address & ((1 << RANK_SHIFT) - 1) | (rank + 1) << RANK_SHIFT
}

/// CTA rank and CTA-local address of an address.
pub(super) fn resolve(warp: &Warp, address: u32) -> (usize, usize) {
    let own = address & ((1 << RANK_SHIFT) - 1);
    let rank = (address >> RANK_SHIFT).checked_sub(1).map_or(warp.cta, |rank| rank as usize);
    (rank, own as usize)
}

/// The address in a lane.
pub(super) fn address(warp: &Warp, at: SharedAt, lane: usize) -> u32 {
    warp.word(at.base, lane).wrapping_add(at.offset)
}

/// Where the lanes continue.
pub(super) enum Flow {
    Next,
    To(usize),
    Exit,
    Held,
}

impl Cluster {
    /// Executes the next instruction of one split of a warp.
    pub(super) fn step(
        &mut self,
        warp: &mut Warp,
        split: usize,
        world: &mut World<'_>,
    ) -> Result<Step, Fault> {
        let launch = world.launch;
        let Split { at, lanes: here, .. } = warp.splits[split];
        let instruction = &launch.program.code[at];
        let active = match instruction.guard {
            Some((predicate, wanted)) => {
                let holds = warp.holds(predicate, here);
                if wanted { holds } else { here & !holds }
            }
            None => here,
        };
        let flow = if active == 0 {
            Ok(Flow::Next)
        } else {
            self.execute(warp, split, active, &instruction.op, world)
        };
        // An uninitialized register comes before the errors that follow from its value.
        let flow = require_values(warp, world).and(flow).map_err(|kind| {
            let who = if active == 0 { here } else { active };
            let thread = warp.index * LANES + who.trailing_zeros() as usize;
            self.fault(launch, at, (warp.cta, thread), kind)
        })?;
        let (goes, goes_to) = match flow {
            Flow::Held => return Ok(Step::Held),
            Flow::Next => (here, at + 1),
            Flow::To(target) => (active, target),
            Flow::Exit => {
                warp.exited |= active;
                world.events += 1;
                (0, at)
            }
        };
        warp.splits[split] = Split { at: goes_to, lanes: goes, arrived: None };
        let stays = match flow {
            Flow::Next | Flow::Held => 0,
            Flow::To(_) | Flow::Exit => here & !active,
        };
        if stays != 0 {
            warp.splits.push(Split { at: at + 1, lanes: stays, arrived: None });
        }
        world.instructions += 1;
        world.executed[at] |= active != 0;
        let max = launch.max_instructions;
        if world.instructions > max {
            let thread = warp.index * LANES + here.trailing_zeros() as usize;
            return Err(self.fault(launch, at, (warp.cta, thread), FaultKind::InstructionLimit { max }));
        }
        Ok(Step::Done)
    }

    fn execute(
        &mut self,
        warp: &mut Warp,
        split: usize,
        active: u32,
        op: &Op,
        world: &mut World<'_>,
    ) -> Result<Flow, FaultKind> {
        let at = warp.splits[split].at;
        if needs_whole_warp(op) && active != warp.live() {
            return Ok(Flow::Held);
        }
        match op {
            Op::Nothing => {}
            Op::WaitForPreviousKernel => warp.follows_previous |= active,
            Op::WarpBarrier => warp.meet(),
            Op::Branch(target) => return Ok(Flow::To(*target)),
            Op::Return => {
                if warp.stores.iter().any(|store| active >> store.lane & 1 == 1) {
                    return Err(FaultKind::ExitsWithCopiesInFlight);
                }
                if let Some(first) = warp.wgmmas.front() {
                    let line = world.launch.program.code[first.at].line;
                    return Err(FaultKind::ExitsWithWgmmaInFlight { line });
                }
                self.exit_warpgroup(warp, world)?;
                return Ok(Flow::Exit);
            }
            Op::Special(to, special) => {
                for lane in lanes(active) {
                    let value = self.special(warp, *special, lane, world);
                    warp.set(*to, lane, value as u32);
                }
            }
            Op::Parameter(to, index) => {
                let KernelArgument::Number(number) = world.launch.arguments[*index] else {
                    return Err(FaultKind::ParameterKindMismatch { index: *index });
                };
                lanes(active).for_each(|lane| warp.set(*to, lane, number));
            }
            Op::ParameterWide(to, index) => {
                let KernelArgument::Pointer(address) = world.launch.arguments[*index] else {
                    return Err(FaultKind::ParameterKindMismatch { index: *index });
                };
                lanes(active).for_each(|lane| warp.set_wide(*to, lane, address));
            }
            Op::Load { to, at, bytes } => self.load(warp, active, (to, *at, *bytes), world)?,
            Op::Store { from, at, bytes } => self.store(warp, active, (from, *at, *bytes), world)?,
            Op::AtomicMax { to, at, value } => self.atomic_max(warp, active, *to, *at, *value)?,
            Op::CtaBarrier { id, threads } => {
                let id = warp.value(*id, active.trailing_zeros() as usize) as usize;
                return self.cta_barrier(warp, split, id, threads.map(|threads| threads as usize), world);
            }
            Op::ClusterArrive => self.cluster_arrive(warp, active, world)?,
            Op::ClusterWait => return self.cluster_wait(warp, active),
            Op::MapToCta(to, at, rank) => {
                for lane in lanes(active) {
                    let (at, rank) = (warp.value(*at, lane), warp.value(*rank, lane));
                    if rank as usize >= self.ctas.len() {
                        let (rank, ctas) = (rank as usize, self.ctas.len());
                        return Err(FaultKind::NoSuchCta { rank, ctas });
                    }
                    warp.set(*to, lane, in_cta(at, rank));
                }
            }
            Op::BarrierInit(at, arrivals) => self.make_barrier(warp, active, *at, *arrivals)?,
            Op::Arrive { at, times, expecting } => {
                self.arrive(warp, active, *at, (*times, *expecting), world)?;
            }
            Op::Test { done, at, parity, waits } => {
                let completed = self.completed(warp, active, *at, *parity)?;
                if *waits && completed == 0 && !world.waits_time_out() {
                    return Ok(Flow::Held);
                }
                warp.set_predicate(*done, active, completed);
            }
            Op::PrefetchTensorMap(map) => tma::prefetch(warp, active, *map, world)?,
            Op::TensorLoad(load) => self.tensor_load(warp, active, load, at, world)?,
            Op::BulkLoad { to, from, bytes, barrier } => {
                self.bulk_load(warp, active, (*to, *from, *bytes), *barrier, at, world)?;
            }
            Op::TensorStore { map, column, row, from } => {
                self.tensor_store(warp, active, *map, (*column, *row), *from, world)?;
            }
            Op::CommitStores => tma::commit_stores(warp, active),
            Op::WaitStores => self.land_stores(warp, active, world)?,
            Op::Copy { to, from, bytes, taken } => {
                cp_async::start(warp, active, *to, *from, (*bytes, *taken), (at, world.device))?
            }
            Op::ArriveAfterCopies(barrier) => cp_async::arrive_after(warp, active, *barrier, at),
            Op::FenceStores => {
                warp.touch(active);
                self.cta(warp.cta)?.shared.fence(warp.in_cluster, active, warp.time);
            }
            Op::FenceBarriers => self.cta(warp.cta)?.shared.fence_barriers(warp.in_cluster),
            Op::SetRegisters(wanted) => return self.set_registers(warp, at, *wanted, world),
            Op::FenceWgmma => {
                self.join_warpgroup(warp, Joint::at(at), world)?;
                warp.has_fenced_wgmma = true;
            }
            Op::Wgmma(wgmma) => self.start_wgmma(warp, wgmma, at, world)?,
            Op::CommitWgmma => {
                self.join_warpgroup(warp, Joint::at(at), world)?;
                warp.wgmma_groups += 1;
            }
            Op::WaitWgmma(pending) => {
                self.join_warpgroup(warp, Joint::at(at), world)?;
                self.multiply(warp, *pending as u64)?;
            }
            Op::StoreMatrices(at, values) => self.store_matrices(warp, *at, values)?,
            Op::TransposeMatrix(to, value) => wgmma::transpose(warp, *to, *value),
            Op::Shuffle(to, value, other) => lanes::shuffle(warp, *to, *value, *other),
            plain => lanes::execute(warp, active, plain),
        }
        Ok(Flow::Next)
    }

    fn special(&self, warp: &Warp, special: Special, lane: usize, world: &World<'_>) -> usize {
        let (grid, cluster) = (world.launch.grid(), world.launch.cluster());
        match special {
            Special::Thread => warp.index * LANES + lane,
            Special::Cta => self.ctas[warp.cta].index.0,
            Special::CtaY => self.ctas[warp.cta].index.1,
            Special::Ctas => grid.0,
            Special::Cluster => self.ctas[warp.cta].index.0 / cluster,
            Special::Clusters => grid.0 / cluster,
            Special::ClusterRank => warp.cta,
            Special::SharedMemory => SHARED_START,
        }
    }
}

/// Refuses uninitialized registers and accumulators in flight.
fn require_values(warp: &Warp, world: &World<'_>) -> Result<(), FaultKind> {
    let used_awaited = warp.take_used_awaited();
    if warp.written.take_used_unwritten() {
        return Err(FaultKind::UninitializedRegister);
    }
    used_awaited.map_or(Ok(()), |word| Err(in_flight(warp, word, world)))
}

/// The wgmma in flight that writes a word.
fn in_flight(warp: &Warp, word: Word, world: &World<'_>) -> FaultKind {
    let wgmma = warp.wgmmas.iter().find(|started| started.wgmma.sums.contains(&word));
    let at = wgmma.expect("a wgmma writes the word").at;
    FaultKind::AccumulatorInFlight { line: world.launch.program.code[at].line }
}

/// Whether all lanes that have not exited must execute it together.
fn needs_whole_warp(op: &Op) -> bool {
    matches!(
        op,
        Op::WarpBarrier
            | Op::Elect(_)
            | Op::CtaBarrier { .. }
            | Op::Shuffle(..)
            | Op::SetRegisters(_)
            | Op::FenceWgmma
            | Op::Wgmma(_)
            | Op::CommitWgmma
            | Op::WaitWgmma(_)
            | Op::StoreMatrices(..)
            | Op::TransposeMatrix(..)
    )
}
