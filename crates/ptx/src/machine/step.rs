//! One instruction of the lanes that are at the same place.

use super::{
    Parameter, World,
    cluster::Cluster,
    lanes, products, thread_copies, tiles,
    warp::{LANES, Split, Warp, lanes},
    warpgroups::Joint,
};
use crate::{
    Fault, FaultKind,
    memory::SHARED_START,
    program::{Op, SharedAt, Special, Word},
};

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Executed.
    Done,
    /// The lanes must wait.
    Held,
}

/// Addresses of other blocks of the cluster have their rank, plus one, from this bit on.
const RANK_SHIFT: u32 = 24;

/// The address of the same place in the block of this rank.
fn in_block(address: u32, rank: u32) -> u32 {
    address & ((1 << RANK_SHIFT) - 1) | (rank + 1) << RANK_SHIFT
}

/// Rank of the block that an address means, and the address there.
pub(super) fn resolve(warp: &Warp, address: u32) -> (usize, usize) {
    let own = address & ((1 << RANK_SHIFT) - 1);
    let rank = (address >> RANK_SHIFT).checked_sub(1).map_or(warp.block, |rank| rank as usize);
    (rank, own as usize)
}

/// The address in one lane.
pub(super) fn address(warp: &Warp, at: SharedAt, lane: usize) -> u32 {
    warp.word(at.base, lane).wrapping_add(at.offset)
}

/// Where the lanes go on.
pub(super) enum Flow {
    Next,
    To(usize),
    Leave,
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
        // What comes of a register without a value is not the kernel's first mistake.
        let flow = require_values(warp, world).and(flow).map_err(|kind| {
            let who = if active == 0 { here } else { active };
            let thread = warp.index * LANES + who.trailing_zeros() as usize;
            self.fault(launch, at, (warp.block, thread), kind)
        })?;
        let (goes, goes_to) = match flow {
            Flow::Held => return Ok(Step::Held),
            Flow::Next => (here, at + 1),
            Flow::To(target) => (active, target),
            Flow::Leave => {
                warp.exited |= active;
                world.events += 1;
                (0, at)
            }
        };
        warp.splits[split] = Split { at: goes_to, lanes: goes, arrived: None };
        let stays = match flow {
            Flow::Next | Flow::Held => 0,
            Flow::To(_) | Flow::Leave => here & !active,
        };
        if stays != 0 {
            warp.splits.push(Split { at: at + 1, lanes: stays, arrived: None });
        }
        world.instructions += 1;
        world.executed[at] |= active != 0;
        let most = launch.most_instructions;
        if world.instructions > most {
            let thread = warp.index * LANES + here.trailing_zeros() as usize;
            return Err(self.fault(launch, at, (warp.block, thread), FaultKind::OutOfInstructions { most }));
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
            Op::WaitForPrevious => warp.follows_previous |= active,
            Op::WarpBarrier => warp.meet(),
            Op::Branch(target) => return Ok(Flow::To(*target)),
            Op::Return => {
                if warp.stores.iter().any(|store| active >> store.lane & 1 == 1) {
                    return Err(FaultKind::LeavesCopies);
                }
                if let Some(first) = warp.products.front() {
                    let line = world.launch.program.code[first.at].line;
                    return Err(FaultKind::LeavesProducts { line });
                }
                self.leave_warpgroup(warp, world)?;
                return Ok(Flow::Leave);
            }
            Op::Special(to, special) => {
                for lane in lanes(active) {
                    let value = self.special(warp, *special, lane, world);
                    warp.set(*to, lane, value as u32);
                }
            }
            Op::Parameter(to, index) => {
                let Parameter::Number(number) = world.launch.parameters[*index] else {
                    return Err(FaultKind::OtherParameter { index: *index });
                };
                lanes(active).for_each(|lane| warp.set(*to, lane, number));
            }
            Op::ParameterWide(to, index) => {
                let Parameter::Pointer(address) = world.launch.parameters[*index] else {
                    return Err(FaultKind::OtherParameter { index: *index });
                };
                lanes(active).for_each(|lane| warp.set_wide(*to, lane, address));
            }
            Op::Load { to, at, bytes } => self.load(warp, active, (to, *at, *bytes), world)?,
            Op::Store { from, at, bytes } => self.store(warp, active, (from, *at, *bytes), world)?,
            Op::AtomicMax { to, at, value } => self.atomic_max(warp, active, *to, *at, *value)?,
            Op::BlockBarrier { id, threads } => {
                let id = warp.value(*id, active.trailing_zeros() as usize) as usize;
                return self.block_barrier(warp, split, id, threads.map(|threads| threads as usize), world);
            }
            Op::ClusterArrive => self.cluster_arrive(warp, active, world)?,
            Op::ClusterWait => return self.cluster_wait(warp, active),
            Op::MapToBlock(to, at, rank) => {
                for lane in lanes(active) {
                    let (at, rank) = (warp.value(*at, lane), warp.value(*rank, lane));
                    if rank as usize >= self.blocks.len() {
                        return Err(FaultKind::NoSuchBlock {
                            rank: rank as usize,
                            blocks: self.blocks.len(),
                        });
                    }
                    warp.set(*to, lane, in_block(at, rank));
                }
            }
            Op::BarrierInit(at, arrivals) => self.make_barrier(warp, active, *at, *arrivals)?,
            Op::Arrive { at, expecting } => self.arrive(warp, active, *at, *expecting, world)?,
            Op::Test { done, at, parity, waits } => {
                let completed = self.completed(warp, active, *at, *parity)?;
                if *waits && completed == 0 && !world.waits_time_out() {
                    return Ok(Flow::Held);
                }
                warp.set_predicate(*done, active, completed);
            }
            Op::TensorLoad(load) => self.tensor_load(warp, active, load, at, world)?,
            Op::TensorStore { map, column, row, from } => {
                self.tensor_store(warp, active, *map, (*column, *row), *from, world)?;
            }
            Op::CommitStores => tiles::commit_stores(warp, active),
            Op::WaitStores => self.land_stores(warp, active, world)?,
            Op::Copy { to, from, bytes, taken } => {
                thread_copies::start(warp, active, *to, *from, (*bytes, *taken), (at, world.global))?
            }
            Op::ArriveAfterCopies(barrier) => thread_copies::arrive_after(warp, active, *barrier, at),
            Op::FenceStores => {
                warp.touch(active);
                self.block(warp.block)?.shared.fence(warp.in_cluster, active, warp.time);
            }
            Op::FenceBarriers => self.block(warp.block)?.shared.fence_barriers(warp.in_cluster),
            Op::SetRegisters(wanted) => return self.set_registers(warp, at, *wanted, world),
            Op::FenceProducts => {
                self.join_warpgroup(warp, Joint::at(at), world)?;
                warp.has_fenced_products = true;
            }
            Op::Product(product) => self.start_product(warp, product, at, world)?,
            Op::CommitProducts => {
                self.join_warpgroup(warp, Joint::at(at), world)?;
                warp.product_groups += 1;
            }
            Op::WaitProducts(pending) => {
                self.join_warpgroup(warp, Joint::at(at), world)?;
                self.multiply(warp, *pending as u64)?;
            }
            Op::StoreMatrices(at, values) => self.store_matrices(warp, *at, values)?,
            Op::TransposeMatrix(to, value) => products::transpose(warp, *to, *value),
            Op::Shuffle(to, value, other) => lanes::shuffle(warp, *to, *value, *other),
            plain => lanes::execute(warp, active, plain),
        }
        Ok(Flow::Next)
    }

    fn special(&self, warp: &Warp, special: Special, lane: usize, world: &World<'_>) -> usize {
        let (grid, cluster) = (world.launch.grid, world.launch.cluster);
        match special {
            Special::Thread => warp.index * LANES + lane,
            Special::Block => self.blocks[warp.block].index.0,
            Special::BlockY => self.blocks[warp.block].index.1,
            Special::Blocks => grid.0,
            Special::Cluster => self.blocks[warp.block].index.0 / cluster,
            Special::Clusters => grid.0 / cluster,
            Special::ClusterRank => warp.block,
            Special::SharedMemory => SHARED_START,
        }
    }
}

/// Refuses registers that were used before they had a value.
fn require_values(warp: &Warp, world: &World<'_>) -> Result<(), FaultKind> {
    let used_awaited = warp.take_used_awaited();
    if warp.written.take_used_unwritten() {
        return Err(FaultKind::Unwritten);
    }
    used_awaited.map_or(Ok(()), |word| Err(not_waited_for(warp, word, world)))
}

/// The product that a word is waited for from.
fn not_waited_for(warp: &Warp, word: Word, world: &World<'_>) -> FaultKind {
    let product = warp.products.iter().find(|started| started.product.sums.contains(&word));
    let at = product.expect("a product writes the word").at;
    FaultKind::NotWaitedFor { line: world.launch.program.code[at].line }
}

/// Whether all lanes that have not left execute it together.
fn needs_whole_warp(op: &Op) -> bool {
    matches!(
        op,
        Op::WarpBarrier
            | Op::Elect(_)
            | Op::BlockBarrier { .. }
            | Op::Shuffle(..)
            | Op::SetRegisters(_)
            | Op::FenceProducts
            | Op::Product(_)
            | Op::CommitProducts
            | Op::WaitProducts(_)
            | Op::StoreMatrices(..)
            | Op::TransposeMatrix(..)
    )
}
