//! Copies that single threads start, and arrivals that wait for them.

use super::{
    World,
    accesses::{aligned, global_address},
    cluster::Cluster,
    step::{address, resolve},
    warp::{LANES, Warp, lanes},
};
use crate::{
    Fault, FaultKind, Global,
    memory::{Access, Agent, Clock, SHARED_START, UNIT},
    program::{GlobalAt, SharedAt, Value},
};

/// Copies by single threads, or arrivals that wait for those before. Every lane goes on by itself.
#[derive(Debug)]
pub(super) struct ThreadCopy {
    /// Lanes that have not come to it.
    lanes: u32,
    work: ThreadWork,
    clock: Clock,
    time: u32,
    /// The instruction that started it.
    pub(super) instruction: usize,
}

/// What every lane does.
#[derive(Debug)]
enum ThreadWork {
    /// Copies `bytes` bytes: where to, from where, and how many of them are not zeros.
    Copy { bytes: usize, moves: Box<[(usize, u64, usize); LANES]> },
    /// Arrives at a barrier.
    Arrive(Box<[usize; LANES]>),
}

impl Cluster {
    /// Lets this warp's own copies land as far as chance has it: lanes do not wait for one another.
    pub(super) fn land_thread_copies(&mut self, warp: &mut Warp, world: &mut World<'_>) -> Result<(), Fault> {
        while !warp.copies.is_empty() && world.below(3) == 0 {
            let landing = if world.below(2) == 0 { u32::MAX } else { world.below(1 << LANES) as u32 };
            let depth = 1 + world.below(warp.copies.len());
            let agent = Agent::copies(warp.in_cluster);
            for copy in warp.copies.iter_mut().take(depth) {
                let landing = copy.lanes & landing;
                let thread = warp.index * LANES + lanes(landing).next().unwrap_or(0);
                land_lanes(self, warp.block, copy, (landing, agent), world)
                    .map_err(|kind| self.fault(world.launch, copy.instruction, (warp.block, thread), kind))?;
                copy.lanes &= !landing;
            }
            warp.copies.retain(|copy| copy.lanes != 0);
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
    let index = cluster.index;
    let shared = &mut cluster.block(rank)?.shared;
    for lane in lanes(landing) {
        match &copy.work {
            ThreadWork::Copy { bytes, moves } => {
                let (to, from, taken) = moves[lane];
                let mut data = [0; UNIT];
                if taken > 0 {
                    data[..taken].copy_from_slice(world.global.bytes(from, taken, index)?);
                }
                shared.write(to, &data[..*bytes], Access::of_engine(agent, copy.time, &copy.clock))?;
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

/// Starts a copy of `bytes.0` bytes in every lane, of which those beyond `bytes.1` become zeros.
pub(super) fn start(
    warp: &mut Warp,
    active: u32,
    to: SharedAt,
    from: GlobalAt,
    bytes: (usize, Value),
    (instruction, global): (usize, &Global),
) -> Result<(), FaultKind> {
    let mut moves = Box::new([(0, 0, 0); LANES]);
    for lane in lanes(active) {
        let (_, place) = resolve(warp, address(warp, to, lane));
        let source = global_address(warp, from, lane);
        let taken = (warp.value(bytes.1, lane) as usize).min(bytes.0);
        aligned(place as u64, bytes.0)?;
        // Also where nothing is copied, or less: a GPU reads no more than that, but its checking tools take every copy for a whole one.
        aligned(source, bytes.0)?;
        global.require_inside(source, bytes.0)?;
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
    let mut barriers = Box::new([0; LANES]);
    lanes(active).for_each(|lane| barriers[lane] = resolve(warp, address(warp, at, lane)).1);
    let (clock, time) = warp.start_copy(active);
    let work = ThreadWork::Arrive(barriers);
    warp.copies.push_back(ThreadCopy { lanes: active, work, clock, time, instruction });
}
