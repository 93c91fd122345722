//! Loads, stores, and copies that run beside the threads.

use super::{
    Parameter, World,
    cluster::Cluster,
    lanes::map_index,
    step::{address, resolve},
    warp::{LANES, Warp, lanes},
};
use crate::{
    Fault, FaultKind, Global, TensorMap,
    memory::{Access, Agent, Clock, Lane, SHARED_START, Thread, swizzled},
    program::{At, GlobalAt, SharedAt, TensorLoad, Value, Wide, Word},
};

/// Bytes that the swizzle keeps together.
const UNIT: usize = 16;

/// A tile on its way into shared memory.
#[derive(Debug)]
pub(super) struct TensorCopy {
    /// Rank of the block that asked for it.
    issuer: usize,
    /// Ranks of the blocks that get it.
    blocks: Vec<usize>,
    to: usize,
    barrier: usize,
    map: TensorMap,
    place: (u32, u32),
    clock: Clock,
    /// The instruction that started it, and the thread.
    source: (usize, usize),
}

/// Copies by single threads, or arrivals that wait for those before. Every lane goes on by itself.
#[derive(Debug)]
pub(super) struct ThreadCopy {
    /// Lanes that have not come to it.
    lanes: u32,
    work: ThreadWork,
    clock: Clock,
    time: u32,
    /// The instruction that started it.
    instruction: usize,
}

/// What every lane does.
#[derive(Debug)]
enum ThreadWork {
    /// Copies `bytes` bytes: where to, from where, and how many of them are not zeros.
    Copy { bytes: usize, moves: [(usize, u64, usize); LANES] },
    /// Arrives at a barrier.
    Arrive([usize; LANES]),
}

/// A tile on its way out of shared memory.
#[derive(Debug)]
pub(super) struct TensorStore {
    /// The lane that asked for it.
    pub(super) lane: usize,
    /// Whether it belongs to a group that can be waited for.
    is_committed: bool,
    from: usize,
    map: TensorMap,
    place: (u32, u32),
    clock: Clock,
    time: u32,
}

fn global_address(warp: &Warp, at: GlobalAt, lane: usize) -> u64 {
    warp.wide(at.base, lane).wrapping_add(at.offset)
}

fn aligned(address: u64, alignment: usize) -> Result<(), FaultKind> {
    if address.is_multiple_of(alignment as u64) {
        Ok(())
    } else {
        Err(FaultKind::Misaligned { address, alignment })
    }
}

impl Cluster {
    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        active: u32,
        (to, at, bytes): (&[Word], At, usize),
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        let count = to.len() * bytes;
        if matches!(at, At::Shared(_)) {
            warp.touch(active);
        }
        let known = warp.known(active).into_owned();
        for lane in lanes(active) {
            let loaded = match at {
                At::Shared(at) => {
                    let (rank, place) = resolve(warp, address(warp, at, lane));
                    aligned(place as u64, count)?;
                    let access = warp.access(Lane::new(lane), &known);
                    self.block(rank)?.shared.read(place, count, access)?
                }
                At::Global(at) => {
                    let place = global_address(warp, at, lane);
                    aligned(place, count)?;
                    warp.require_settled(active, place, world.global)?;
                    world.global.bytes(place, count)?
                }
            };
            for (&to, loaded) in to.iter().zip(loaded.chunks(bytes)) {
                let value = loaded.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
                warp.set(to, lane, value);
            }
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        warp: &mut Warp,
        active: u32,
        (from, at, bytes): (&[Value], At, usize),
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        if matches!(at, At::Shared(_)) {
            warp.touch(active);
        }
        let known = warp.known(active);
        let mut stored = Vec::with_capacity(UNIT);
        for lane in lanes(active) {
            stored.clear();
            for &from in from {
                stored.extend_from_slice(&warp.value(from, lane).to_le_bytes()[..bytes]);
            }
            match at {
                At::Shared(at) => {
                    let (rank, place) = resolve(warp, address(warp, at, lane));
                    aligned(place as u64, stored.len())?;
                    let shared = &mut self.block(rank)?.shared;
                    let thread = Thread { warp: warp.in_cluster, lane };
                    shared.store(place, &stored, thread, warp.access(Lane::new(lane), &known))?;
                }
                At::Global(at) => {
                    let place = global_address(warp, at, lane);
                    aligned(place, stored.len())?;
                    warp.require_settled(active, place, world.global)?;
                    world.global.bytes_mut(place, stored.len())?.copy_from_slice(&stored);
                }
            }
        }
        world.events += 1;
        Ok(())
    }

    pub(super) fn atomic_max(
        &mut self,
        warp: &mut Warp,
        active: u32,
        to: Word,
        at: SharedAt,
        value: Value,
    ) -> Result<(), FaultKind> {
        warp.touch(active);
        let known = warp.known(active).into_owned();
        for lane in lanes(active) {
            let (rank, place) = resolve(warp, address(warp, at, lane));
            aligned(place as u64, 4)?;
            let (value, thread) = (warp.value(value, lane), Thread { warp: warp.in_cluster, lane });
            let access = warp.access(Lane::new(lane), &known);
            let old = self.block(rank)?.shared.raise(place, value, thread, access)?;
            warp.set(to, lane, old);
        }
        Ok(())
    }

    pub(super) fn tensor_load(
        &mut self,
        warp: &mut Warp,
        active: u32,
        load: &TensorLoad,
        at: usize,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        for lane in lanes(active) {
            let own = 1u32 << warp.block;
            let mask = load.mask.map_or(own, |mask| warp.value(mask, lane));
            let to = address(warp, load.to, lane) as usize;
            let map = tensor_map(warp, load.map, lane, world)?;
            aligned(to as u64, map.box_row())?;
            warp.require_settled(active, map.address, world.global)?;
            let place = (warp.value(load.column, lane), warp.value(load.row, lane));
            self.in_flight.push(TensorCopy {
                issuer: warp.block,
                blocks: lanes(mask).collect(),
                to,
                barrier: address(warp, load.barrier, lane) as usize,
                map,
                place,
                clock: warp.release(1 << lane),
                source: (at, warp.index * LANES + lane),
            });
        }
        world.events += 1;
        Ok(())
    }

    pub(super) fn tensor_store(
        &mut self,
        warp: &mut Warp,
        active: u32,
        map: Wide,
        (column, row): (Value, Value),
        from: SharedAt,
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        for lane in lanes(active) {
            let (_, from) = resolve(warp, address(warp, from, lane));
            let map = tensor_map(warp, map, lane, world)?;
            aligned(from as u64, map.box_row())?;
            warp.require_settled(active, map.address, world.global)?;
            let place = (warp.value(column, lane), warp.value(row, lane));
            let known = warp.known(1 << lane);
            let access = warp.access(Lane::new(lane), &known);
            let shared = &self.block(warp.block)?.shared;
            shared.require_fenced(from, map.box_row() * map.boxes.1, 1 << lane, access)?;
            drop(known);
            let (clock, time) = warp.start_store(1 << lane);
            warp.stores.push_back(TensorStore { lane, is_committed: false, from, map, place, clock, time });
        }
        Ok(())
    }

    /// Lets some of what is under way land.
    pub(super) fn land_some(&mut self, world: &mut World<'_>) -> Result<(), Fault> {
        while !self.in_flight.is_empty() && world.below(3) == 0 {
            let next = world.below(self.in_flight.len());
            self.land_tile(next, world)?;
        }
        Ok(())
    }

    fn land_tile(&mut self, index: usize, world: &mut World<'_>) -> Result<(), Fault> {
        let copy = self.in_flight.swap_remove(index);
        world.events += 1;
        let (instruction, thread) = copy.source;
        self.write_tile(&copy, world)
            .map_err(|kind| self.fault(world.launch, instruction, (copy.issuer, thread), kind))
    }

    fn write_tile(&mut self, copy: &TensorCopy, world: &World<'_>) -> Result<(), FaultKind> {
        let TensorCopy { map, place: (column, row), clock, .. } = copy;
        let width = map.box_row();
        // Known to the one who asked for it.
        let asked = Access::of_engine(Agent::copies(0), 0, clock);
        let mut writers = Vec::with_capacity(copy.blocks.len());
        for &rank in &copy.blocks {
            let barrier = self.block(rank)?.shared.barrier(copy.barrier, asked)?;
            if !barrier.is_fenced {
                return Err(FaultKind::BarrierNotFenced {
                    offset: copy.barrier.saturating_sub(SHARED_START),
                });
            }
            writers.push((rank, barrier.tile()));
        }
        let mut line = vec![0; width];
        for box_row in 0..map.boxes.1 {
            line.fill(0);
            if let Some((address, bytes)) = map.inside(*column, *row, box_row) {
                line[..bytes].copy_from_slice(world.global.bytes(address, bytes)?);
            }
            for &(rank, (agent, time)) in &writers {
                let (shared, access) = (&mut self.block(rank)?.shared, Access::of_engine(agent, time, clock));
                for (unit, bytes) in line.chunks(UNIT).enumerate() {
                    shared.write(swizzled(copy.to + box_row * width + unit * UNIT), bytes, access)?;
                }
            }
        }
        for &rank in &copy.blocks {
            self.block(rank)?.shared.barrier(copy.barrier, asked)?.land(width * map.boxes.1, clock);
        }
        Ok(())
    }

    /// Lets this warp's own copies land as far as chance has it: lanes do not wait for one another.
    pub(super) fn land_thread_copies(&mut self, warp: &mut Warp, world: &mut World<'_>) -> Result<(), Fault> {
        while !warp.copies.is_empty() && world.below(3) == 0 {
            let landing = if world.below(2) == 0 { u32::MAX } else { world.below(1 << LANES) as u32 };
            let depth = 1 + world.below(warp.copies.len());
            let agent = Agent::copies(warp.in_cluster);
            for copy in warp.copies.iter_mut().take(depth) {
                let thread = (
                    warp.block,
                    warp.index * LANES + (copy.lanes & landing).trailing_zeros() as usize % LANES,
                );
                land_lanes(self, warp.block, copy, (landing, agent), world)
                    .map_err(|kind| self.fault(world.launch, copy.instruction, thread, kind))?;
                copy.lanes &= !landing;
            }
            warp.copies.retain(|copy| copy.lanes != 0);
            world.events += 1;
        }
        Ok(())
    }

    /// Refuses that a block leaves while something is on its way into it.
    pub(super) fn require_landed(&self, rank: usize, world: &World<'_>) -> Result<(), Fault> {
        if let Some(copy) = self.in_flight.iter().find(|copy| copy.blocks.contains(&rank)) {
            let (instruction, thread) = copy.source;
            return Err(self.fault(
                world.launch,
                instruction,
                (copy.issuer, thread),
                FaultKind::LeavesCopies,
            ));
        }
        for warp in &self.blocks[rank].warps {
            if let Some(copy) = warp.copies.front() {
                let thread = (rank, warp.index * LANES);
                return Err(self.fault(world.launch, copy.instruction, thread, FaultKind::LeavesCopies));
            }
        }
        Ok(())
    }

    /// Reads what these lanes have handed to the copy engine and closed a group of, and tells them that it was read.
    pub(super) fn land_stores(
        &mut self,
        warp: &mut Warp,
        active: u32,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let agent = Agent::stores(warp.in_cluster);
        let is_waited = |store: &TensorStore| store.is_committed && active >> store.lane & 1 == 1;
        let (waited, left) = warp.stores.drain(..).partition(is_waited);
        warp.stores = left;
        for store in Vec::from(waited) {
            let TensorStore { from, map, place: (column, row), clock, time, .. } = store;
            let access = Access::of_engine(agent, time, &clock);
            for box_row in 0..map.boxes.1 {
                let Some((address, bytes)) = map.inside(column, row, box_row) else { continue };
                let shared = &mut self.block(warp.block)?.shared;
                let mut line = Vec::with_capacity(map.box_row());
                for at in (0..map.box_row()).step_by(UNIT) {
                    let unit = swizzled(from + box_row * map.box_row() + at);
                    line.extend_from_slice(shared.read(unit, UNIT, access)?);
                }
                world.global.bytes_mut(address, bytes)?.copy_from_slice(&line[..bytes]);
            }
            let mut read = clock;
            read.set(agent, time);
            warp.learn(active, &read);
            world.events += 1;
        }
        Ok(())
    }
}

/// Lets copies of some lanes land.
fn land_lanes(
    cluster: &mut Cluster,
    rank: usize,
    copy: &ThreadCopy,
    (landing, agent): (u32, Agent),
    world: &World<'_>,
) -> Result<(), FaultKind> {
    let shared = &mut cluster.block(rank)?.shared;
    for lane in lanes(copy.lanes & landing) {
        match &copy.work {
            ThreadWork::Copy { bytes, moves } => {
                let (to, from, taken) = moves[lane];
                let mut data = vec![0; *bytes];
                if taken > 0 {
                    data[..taken].copy_from_slice(world.global.bytes(from, taken)?);
                }
                shared.write(to, &data, Access::of_engine(agent, copy.time, &copy.clock))?;
            }
            ThreadWork::Arrive(barriers) => {
                let mut landed = copy.clock.clone();
                landed.set(agent, copy.time);
                let barrier =
                    shared.barrier(barriers[lane], Access::of_engine(agent, copy.time, &copy.clock))?;
                if !barrier.arrive(&landed) {
                    let offset = barriers[lane].saturating_sub(SHARED_START);
                    return Err(FaultKind::TooManyArrivals { offset });
                }
            }
        }
    }
    Ok(())
}

/// Closes a group of the copies out of shared memory that these lanes asked for.
pub(super) fn commit_stores(warp: &mut Warp, active: u32) {
    for store in warp.stores.iter_mut().filter(|store| active >> store.lane & 1 == 1) {
        store.is_committed = true;
    }
}

/// Starts a copy of `bytes.0` bytes in every lane, of which those beyond `bytes.1` become zeros.
pub(super) fn copy(
    warp: &mut Warp,
    active: u32,
    to: SharedAt,
    from: GlobalAt,
    bytes: (usize, Value),
    (instruction, global): (usize, &Global),
) -> Result<(), FaultKind> {
    let mut moves = [(0, 0, 0); LANES];
    for lane in lanes(active) {
        let (_, place) = resolve(warp, address(warp, to, lane));
        let source = global_address(warp, from, lane);
        let taken = (warp.value(bytes.1, lane) as usize).min(bytes.0);
        aligned(place as u64, bytes.0)?;
        // Also where nothing is copied.
        aligned(source, bytes.0)?;
        if taken > 0 {
            warp.require_settled(active, source, global)?;
        }
        moves[lane] = (place, source, taken);
    }
    let (clock, time) = warp.start_copy(active);
    let work = ThreadWork::Copy { bytes: bytes.0, moves };
    warp.copies.push_back(ThreadCopy { lanes: active, work, clock, time, instruction });
    Ok(())
}

/// Arrives at a barrier when the copies so far have landed.
pub(super) fn arrive_after(warp: &mut Warp, active: u32, at: SharedAt, instruction: usize) {
    let mut barriers = [0; LANES];
    lanes(active).for_each(|lane| barriers[lane] = resolve(warp, address(warp, at, lane)).1);
    let (clock, time) = warp.start_copy(active);
    let work = ThreadWork::Arrive(barriers);
    warp.copies.push_back(ThreadCopy { lanes: active, work, clock, time, instruction });
}

fn tensor_map(warp: &Warp, map: Wide, lane: usize, world: &World<'_>) -> Result<TensorMap, FaultKind> {
    let address = warp.wide(map, lane);
    let index = map_index(address).ok_or(FaultKind::OutsideGlobal { address, bytes: 128 })?;
    match world.launch.parameters.get(index) {
        Some(Parameter::Map(map)) => Ok(*map),
        _ => Err(FaultKind::OtherParameter { index }),
    }
}
