//! TMA loads and stores, and bulk copies.

use super::{
    Fault, FaultKind, KernelArgument, TensorMap, World,
    accesses::{aligned, global_address},
    cluster::Cluster,
    lanes::map_index,
    memory::{Agent, Clock, Lane, SHARED_START, SharedAccess, UNIT, swizzled},
    program::{GlobalAt, SharedAt, TensorLoad, Value, Wide},
    step::{address, resolve},
    warp::{LANES, Warp, lanes},
};

/// A TMA load or a bulk copy in flight.
#[derive(Debug)]
pub(super) struct Load {
    /// Rank of the CTA that issued it.
    issuer: usize,
    /// Ranks of the CTAs that receive it.
    ctas: Vec<usize>,
    to: usize,
    barrier: usize,
    from: LoadSource,
    clock: Clock,
    /// The instruction that issued it, and the thread.
    issued: (usize, usize),
}

/// What a load brings.
#[derive(Debug)]
enum LoadSource {
    /// The box at a column and row, swizzled.
    Box { map: TensorMap, place: (u32, u32) },
    /// So many adjacent bytes.
    Bytes { address: u64, bytes: usize },
}

/// A TMA store in flight.
#[derive(Debug)]
pub(super) struct TensorStore {
    /// The lane that issued it.
    pub(super) lane: usize,
    /// Whether it belongs to a committed group.
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
            let own = 1u32 << warp.cta;
            let mask = load.mask.map_or(own, |mask| warp.value(mask, lane));
            let to = address(warp, load.to, lane) as usize;
            let map = tensor_map(warp, load.map, lane, world)?;
            aligned(to as u64, map.box_row())?;
            warp.require_previous_done(active, map.address, world.device)?;
            let place = (warp.value(load.column, lane), warp.value(load.row, lane));
            self.in_flight.push(Load {
                issuer: warp.cta,
                ctas: lanes(mask).collect(),
                to,
                barrier: address(warp, load.barrier, lane) as usize,
                from: LoadSource::Box { map, place },
                clock: warp.release(1 << lane),
                issued: (at, warp.index * LANES + lane),
            });
        }
        world.events += 1;
        Ok(())
    }

    pub(super) fn bulk_load(
        &mut self,
        warp: &mut Warp,
        active: u32,
        (to, from, bytes): (SharedAt, GlobalAt, Value),
        barrier: SharedAt,
        at: usize,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        for lane in lanes(active) {
            let (to, source) = (address(warp, to, lane) as usize, global_address(warp, from, lane));
            let bytes = warp.value(bytes, lane) as usize;
            aligned(to as u64, UNIT)?;
            aligned(source, UNIT)?;
            aligned(bytes as u64, UNIT)?;
            world.device.require_inside(source, bytes)?;
            warp.require_previous_done(active, source, world.device)?;
            self.in_flight.push(Load {
                issuer: warp.cta,
                ctas: vec![warp.cta],
                to,
                barrier: address(warp, barrier, lane) as usize,
                from: LoadSource::Bytes { address: source, bytes },
                clock: warp.release(1 << lane),
                issued: (at, warp.index * LANES + lane),
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
            warp.require_previous_done(active, map.address, world.device)?;
            let place = (warp.value(column, lane), warp.value(row, lane));
            let known = warp.known(1 << lane);
            let access = warp.access(Lane::new(lane), &known);
            let shared = &self.cta(warp.cta)?.shared;
            shared.require_fenced(from, map.box_row() * map.boxes.1, 1 << lane, access)?;
            drop(known);
            let (clock, time) = warp.start_store(1 << lane);
            warp.stores.push_back(TensorStore { lane, is_committed: false, from, map, place, clock, time });
        }
        Ok(())
    }

    /// Completes some of the loads in flight.
    pub(super) fn land_some(&mut self, world: &mut World<'_>) -> Result<(), Fault> {
        while !self.in_flight.is_empty() && world.below(3) == 0 {
            let next = world.below(self.in_flight.len());
            self.land_load(next, world)?;
        }
        Ok(())
    }

    fn land_load(&mut self, index: usize, world: &mut World<'_>) -> Result<(), Fault> {
        let load = self.in_flight.swap_remove(index);
        world.events += 1;
        let (instruction, thread) = load.issued;
        self.write_load(&load, world)
            .map_err(|kind| self.fault(world.launch, instruction, (load.issuer, thread), kind))
    }

    fn write_load(&mut self, load: &Load, world: &World<'_>) -> Result<(), FaultKind> {
        let Load { from, clock, .. } = load;
        // The issuer must know that the mbarrier was initialized; as which agent it is used does not matter.
        let asked = SharedAccess::of_async(Agent::stores(0), 0, clock);
        let mut writers = Vec::with_capacity(load.ctas.len());
        for &rank in &load.ctas {
            let barrier = self.cta(rank)?.shared.barrier(load.barrier, asked)?;
            if !barrier.is_fenced {
                return Err(FaultKind::BarrierNotFenced {
                    offset: load.barrier.saturating_sub(SHARED_START),
                });
            }
            writers.push((rank, barrier.tile()));
        }
        let write = |cluster: &mut Self, at: usize, unit: &[u8]| -> Result<(), FaultKind> {
            for &(rank, (agent, time)) in &writers {
                let access = SharedAccess::of_async(agent, time, clock);
                cluster.cta(rank)?.shared.write(at, unit, access)?;
            }
            Ok(())
        };
        let landed = match from {
            LoadSource::Box { map, place: (column, row) } => {
                let width = map.box_row();
                let mut line = vec![0; width];
                for box_row in 0..map.boxes.1 {
                    line.fill(0);
                    if let Some((address, bytes)) = map.inside(*column, *row, box_row) {
                        line[..bytes].copy_from_slice(world.device.bytes(address, bytes, self.index)?);
                    }
                    for (unit, bytes) in line.chunks(UNIT).enumerate() {
                        write(self, swizzled(load.to + box_row * width + unit * UNIT), bytes)?;
                    }
                }
                width * map.boxes.1
            }
            LoadSource::Bytes { address, bytes } => {
                for (unit, data) in world.device.bytes(*address, *bytes, self.index)?.chunks(UNIT).enumerate()
                {
                    write(self, load.to + unit * UNIT, data)?;
                }
                *bytes
            }
        };
        for &rank in &load.ctas {
            self.cta(rank)?.shared.barrier(load.barrier, asked)?.land(landed, clock);
        }
        Ok(())
    }

    /// Refuses that a CTA exits while copies into it are in flight.
    pub(super) fn require_landed(&self, rank: usize, world: &World<'_>) -> Result<(), Fault> {
        if let Some(copy) = self.in_flight.iter().find(|copy| copy.ctas.contains(&rank)) {
            let (instruction, thread) = copy.issued;
            return Err(self.fault(
                world.launch,
                instruction,
                (copy.issuer, thread),
                FaultKind::ExitsWithCopiesInFlight,
            ));
        }
        for warp in &self.ctas[rank].warps {
            if let Some(copy) = warp.copies.front() {
                let thread = (rank, warp.index * LANES);
                return Err(self.fault(
                    world.launch,
                    copy.instruction,
                    thread,
                    FaultKind::ExitsWithCopiesInFlight,
                ));
            }
        }
        Ok(())
    }

    /// Completes the committed stores of these lanes, which then know that the source was read.
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
            let access = SharedAccess::of_async(agent, time, &clock);
            for box_row in 0..map.boxes.1 {
                let Some((address, bytes)) = map.inside(column, row, box_row) else { continue };
                let shared = &mut self.cta(warp.cta)?.shared;
                let mut line = Vec::with_capacity(map.box_row());
                for at in (0..map.box_row()).step_by(UNIT) {
                    let unit = swizzled(from + box_row * map.box_row() + at);
                    line.extend_from_slice(shared.read(unit, UNIT, access)?);
                }
                world.device.write(address, &line[..bytes], self.index)?;
            }
            let mut read = clock;
            read.set(agent, time);
            warp.learn(active, &read);
            world.events += 1;
        }
        Ok(())
    }
}

/// Commits the stores of these lanes as a group.
pub(super) fn commit_stores(warp: &mut Warp, active: u32) {
    for store in warp.stores.iter_mut().filter(|store| active >> store.lane & 1 == 1) {
        store.is_committed = true;
    }
}

/// Checks the address of a prefetched tensor map.
pub(super) fn prefetch(warp: &Warp, active: u32, map: GlobalAt, world: &World<'_>) -> Result<(), FaultKind> {
    lanes(active).try_for_each(|lane| {
        let address = warp.wide(map.base, lane).wrapping_add(map.offset);
        map_at(address, world).map(drop)
    })
}

fn tensor_map(warp: &Warp, map: Wide, lane: usize, world: &World<'_>) -> Result<TensorMap, FaultKind> {
    map_at(warp.wide(map, lane), world)
}

fn map_at(address: u64, world: &World<'_>) -> Result<TensorMap, FaultKind> {
    let index = map_index(address).ok_or(FaultKind::OutsideDevice { address, bytes: 128 })?;
    match world.launch.arguments.get(index) {
        Some(KernelArgument::TensorMap(map)) => Ok(*map),
        _ => Err(FaultKind::ParameterKindMismatch { index }),
    }
}
