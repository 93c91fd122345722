//! Loads, stores, and copies that run beside the threads.

use super::{
    Parameter, World,
    cluster::Cluster,
    lanes::map_index,
    step::{address, resolve},
    warp::{LANES, Warp, lanes},
};
use crate::{
    Fault, FaultKind, TensorMap,
    memory::{Access, Agent, Clock, Lane, SHARED_START, swizzled},
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
    agent: Agent,
    clock: Clock,
    /// The instruction that started it, and the thread.
    source: (usize, usize),
}

/// A copy by single threads, or an arrival that waits for those before.
#[derive(Debug)]
pub(super) struct ThreadCopy {
    /// Where to, from where, bytes to write, bytes to read.
    moves: Vec<(usize, u64, usize, usize)>,
    /// Barriers to arrive at.
    arrivals: Vec<usize>,
    agent: Agent,
    clock: Clock,
    /// The instruction that started it.
    instruction: usize,
}

/// A tile on its way out of shared memory.
#[derive(Debug)]
pub(super) struct TensorStore {
    from: usize,
    map: TensorMap,
    place: (u32, u32),
    clock: Clock,
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
        let (count, agent) = (to.len() * bytes, warp.agent());
        if matches!(at, At::Shared(_)) {
            warp.touched |= active;
        }
        let known = warp.known(active).into_owned();
        for lane in lanes(active) {
            let loaded = match at {
                At::Shared(at) => {
                    let (rank, place) = resolve(warp, address(warp, at, lane));
                    aligned(place as u64, count)?;
                    let access = Access { agent, lane: Lane::new(lane), clock: &known };
                    self.block(rank)?.shared.read(place, count, access)?
                }
                At::Global(at) => {
                    let place = global_address(warp, at, lane);
                    aligned(place, count)?;
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
            warp.touched |= active;
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
                    let access = Access { agent: warp.agent(), lane: Lane::new(lane), clock: &known };
                    shared.store(place, &stored, warp.in_cluster, access)?;
                }
                At::Global(at) => {
                    let place = global_address(warp, at, lane);
                    aligned(place, stored.len())?;
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
        warp.touched |= active;
        for lane in lanes(active) {
            let (rank, place) = resolve(warp, address(warp, at, lane));
            let value = warp.value(value, lane);
            let access = Access { agent: warp.agent(), lane: Lane::new(lane), clock: &warp.known(active) };
            let old = self.block(rank)?.shared.raise(place, value, warp.in_cluster, access)?;
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
            let place = (warp.value(load.column, lane), warp.value(load.row, lane));
            self.in_flight.push(TensorCopy {
                issuer: warp.block,
                blocks: lanes(mask).collect(),
                to,
                barrier: address(warp, load.barrier, lane) as usize,
                map,
                place,
                agent: Agent::copies(warp.in_cluster),
                clock: warp.start_copy(active),
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
            let place = (warp.value(column, lane), warp.value(row, lane));
            let clock = warp.start_copy(active);
            warp.stores.push_back(TensorStore { from, map, place, clock });
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
        let TensorCopy { map, place: (column, row), agent, clock, .. } = copy;
        let access = Access { agent: *agent, lane: Lane::SEVERAL, clock };
        let width = map.box_row();
        let mut line = vec![0; width];
        for box_row in 0..map.boxes.1 {
            line.fill(0);
            if let Some((address, bytes)) = map.inside(*column, *row, box_row) {
                line[..bytes].copy_from_slice(world.global.bytes(address, bytes)?);
            }
            for &rank in &copy.blocks {
                let shared = &mut self.block(rank)?.shared;
                for (unit, bytes) in line.chunks(UNIT).enumerate() {
                    shared.write(swizzled(copy.to + box_row * width + unit * UNIT), bytes, access)?;
                }
            }
        }
        for &rank in &copy.blocks {
            self.block(rank)?.shared.barrier(copy.barrier)?.land(width * map.boxes.1, clock);
        }
        Ok(())
    }

    /// Lets this warp's own copies land as far as chance has it.
    pub(super) fn land_thread_copies(&mut self, warp: &mut Warp, world: &mut World<'_>) -> Result<(), Fault> {
        while !warp.copies.is_empty() && world.below(3) == 0 {
            let copy = warp.copies.pop_front().expect("there is one");
            world.events += 1;
            let thread = (warp.block, warp.index * LANES);
            self.land_thread_copy(warp.block, &copy, world)
                .map_err(|kind| self.fault(world.launch, copy.instruction, thread, kind))?;
        }
        Ok(())
    }

    fn land_thread_copy(
        &mut self,
        rank: usize,
        copy: &ThreadCopy,
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        let shared = &mut self.block(rank)?.shared;
        for &(to, from, bytes, taken) in &copy.moves {
            let mut data = vec![0; bytes];
            if taken > 0 {
                aligned(from, bytes)?;
                data[..taken].copy_from_slice(world.global.bytes(from, taken)?);
            }
            let access = Access { agent: copy.agent, lane: Lane::SEVERAL, clock: &copy.clock };
            shared.write(to, &data, access)?;
        }
        for &at in &copy.arrivals {
            if !shared.barrier(at)?.arrive(&copy.clock) {
                return Err(FaultKind::TooManyArrivals { offset: at.saturating_sub(SHARED_START) });
            }
        }
        Ok(())
    }

    /// Reads what this warp's threads have handed to the copy engine, and tells them that it was read.
    pub(super) fn land_stores(
        &mut self,
        warp: &mut Warp,
        active: u32,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let agent = Agent::copies(warp.in_cluster);
        while let Some(store) = warp.stores.pop_front() {
            let TensorStore { from, map, place: (column, row), clock } = store;
            let access = Access { agent, lane: Lane::SEVERAL, clock: &clock };
            for box_row in 0..map.boxes.1 {
                let Some((address, bytes)) = map.inside(column, row, box_row) else { continue };
                let shared = &mut self.block(warp.block)?.shared;
                let mut line = Vec::with_capacity(map.box_row());
                for at in (0..map.box_row()).step_by(UNIT) {
                    let unit = swizzled(from + box_row * map.box_row() + at);
                    line.extend_from_slice(shared.read_by_engine(unit, UNIT, access)?);
                }
                world.global.bytes_mut(address, bytes)?.copy_from_slice(&line[..bytes]);
            }
            warp.learn(active, &clock);
            world.events += 1;
        }
        Ok(())
    }
}

/// Starts a copy of `bytes.0` bytes in every lane, of which those beyond `bytes.1` become zeros.
pub(super) fn copy(
    warp: &mut Warp,
    active: u32,
    to: SharedAt,
    from: GlobalAt,
    bytes: (usize, Value),
    instruction: usize,
) {
    let moves = lanes(active).map(|lane| {
        let (_, place) = resolve(warp, address(warp, to, lane));
        let taken = (warp.value(bytes.1, lane) as usize).min(bytes.0);
        (place, global_address(warp, from, lane), bytes.0, taken)
    });
    let moves = moves.collect();
    let (agent, clock) = (Agent::copies(warp.in_cluster), warp.start_copy(active));
    warp.copies.push_back(ThreadCopy { moves, arrivals: Vec::new(), agent, clock, instruction });
}

/// Arrives at a barrier when the copies so far have landed.
pub(super) fn arrive_after(warp: &mut Warp, active: u32, at: SharedAt, instruction: usize) {
    let arrivals = lanes(active).map(|lane| resolve(warp, address(warp, at, lane)).1).collect();
    let (agent, clock) = (Agent::copies(warp.in_cluster), warp.start_copy(active));
    warp.release(active);
    warp.copies.push_back(ThreadCopy { moves: Vec::new(), arrivals, agent, clock, instruction });
}

fn tensor_map(warp: &Warp, map: Wide, lane: usize, world: &World<'_>) -> Result<TensorMap, FaultKind> {
    let address = warp.wide(map, lane);
    let index = map_index(address).ok_or(FaultKind::OutsideGlobal { address, bytes: 128 })?;
    match world.launch.parameters.get(index) {
        Some(Parameter::Map(map)) => Ok(*map),
        _ => Err(FaultKind::OtherParameter { index }),
    }
}
