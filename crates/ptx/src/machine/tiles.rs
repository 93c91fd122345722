//! Tiles that the copy engine moves beside the threads.

use super::{
    Parameter, World,
    accesses::aligned,
    cluster::Cluster,
    lanes::map_index,
    step::{address, resolve},
    warp::{LANES, Warp, lanes},
};
use crate::{
    Fault, FaultKind, TensorMap,
    memory::{Access, Agent, Clock, Lane, SHARED_START, UNIT, swizzled},
    program::{SharedAt, TensorLoad, Value, Wide},
};

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

impl Cluster {
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
        // Whoever asked for a tile must know that the barrier was made. As whom it is used then does not matter.
        let asked = Access::of_engine(Agent::stores(0), 0, clock);
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
                line[..bytes].copy_from_slice(world.global.bytes(address, bytes, self.index)?);
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
                world.global.write(address, &line[..bytes], self.index)?;
            }
            let mut read = clock;
            read.set(agent, time);
            warp.learn(active, &read);
            world.events += 1;
        }
        Ok(())
    }
}

/// Closes a group of the copies out of shared memory that these lanes asked for.
pub(super) fn commit_stores(warp: &mut Warp, active: u32) {
    for store in warp.stores.iter_mut().filter(|store| active >> store.lane & 1 == 1) {
        store.is_committed = true;
    }
}

fn tensor_map(warp: &Warp, map: Wide, lane: usize, world: &World<'_>) -> Result<TensorMap, FaultKind> {
    let address = warp.wide(map, lane);
    let index = map_index(address).ok_or(FaultKind::OutsideGlobal { address, bytes: 128 })?;
    match world.launch.parameters.get(index) {
        Some(Parameter::Map(map)) => Ok(*map),
        _ => Err(FaultKind::OtherParameter { index }),
    }
}
