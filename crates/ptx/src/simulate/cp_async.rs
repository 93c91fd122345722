//! `cp.async`, and mbarrier arrivals that wait for it.

use super::{
    DeviceMemory, Fault, FaultKind, World,
    accesses::{aligned, global_address},
    cluster::Cluster,
    memory::{Agent, Clock, SHARED_START, SharedAccess, UNIT},
    program::{GlobalAt, SharedAt, Value},
    step::{address, resolve},
    warp::{LANES, Warp, lanes},
};

/// A `cp.async` of a warp, or arrivals that wait for the earlier ones. Lanes complete independently.
#[derive(Debug)]
pub(super) struct ThreadCopy {
    /// Lanes that have not completed.
    lanes: u32,
    work: ThreadWork,
    clock: Clock,
    time: u32,
    /// The instruction that issued it.
    pub(super) instruction: usize,
}

/// What each lane does.
#[derive(Debug)]
enum ThreadWork {
    /// Copies `bytes` bytes: destination, source, and how many are not zero-filled.
    Copy { bytes: usize, moves: Box<[(usize, u64, usize); LANES]> },
    /// Arrives at an mbarrier.
    Arrive(Box<[usize; LANES]>),
}

impl Cluster {
    /// Completes some of this warp's copies, in a random number of lanes.
    pub(super) fn land_thread_copies(&mut self, warp: &mut Warp, world: &mut World<'_>) -> Result<(), Fault> {
        while !warp.copies.is_empty() && world.below(3) == 0 {
            let landing = if world.below(2) == 0 { u32::MAX } else { world.below(1 << LANES) as u32 };
            let depth = 1 + world.below(warp.copies.len());
            let agent = Agent::copies(warp.in_cluster);
            for copy in warp.copies.iter_mut().take(depth) {
                let landing = copy.lanes & landing;
                let thread = warp.index * LANES + lanes(landing).next().unwrap_or(0);
                land_lanes(self, warp.cta, copy, (landing, agent), world)
                    .map_err(|kind| self.fault(world.launch, copy.instruction, (warp.cta, thread), kind))?;
                copy.lanes &= !landing;
            }
            warp.copies.retain(|copy| copy.lanes != 0);
            world.events += 1;
        }
        Ok(())
    }
}

/// Completes the copies of some lanes.
fn land_lanes(
    cluster: &mut Cluster,
    rank: usize,
    copy: &ThreadCopy,
    (landing, agent): (u32, Agent),
    world: &World<'_>,
) -> Result<(), FaultKind> {
    let index = cluster.index;
    let shared = &mut cluster.cta(rank)?.shared;
    for lane in lanes(landing) {
        match &copy.work {
            ThreadWork::Copy { bytes, moves } => {
                let (to, from, taken) = moves[lane];
                let mut data = [0; UNIT];
                if taken > 0 {
                    data[..taken].copy_from_slice(world.device.bytes(from, taken, index)?);
                }
                shared.write(to, &data[..*bytes], SharedAccess::of_async(agent, copy.time, &copy.clock))?;
            }
            ThreadWork::Arrive(barriers) => {
                let mut landed = copy.clock.clone();
                landed.set(agent, copy.time);
                let barrier =
                    shared.barrier(barriers[lane], SharedAccess::of_async(agent, copy.time, &copy.clock))?;
                if !barrier.arrive(&landed) {
                    let offset = barriers[lane].saturating_sub(SHARED_START);
                    return Err(FaultKind::TooManyArrivals { offset });
                }
            }
        }
    }
    Ok(())
}

/// Issues a copy of `bytes.0` bytes in every lane; those beyond `bytes.1` become zeros.
pub(super) fn start(
    warp: &mut Warp,
    active: u32,
    to: SharedAt,
    from: GlobalAt,
    bytes: (usize, Value),
    (instruction, device): (usize, &DeviceMemory),
) -> Result<(), FaultKind> {
    let mut moves = Box::new([(0, 0, 0); LANES]);
    for lane in lanes(active) {
        let (_, place) = resolve(warp, address(warp, to, lane));
        let source = global_address(warp, from, lane);
        let taken = (warp.value(bytes.1, lane) as usize).min(bytes.0);
        aligned(place as u64, bytes.0)?;
        // Even where fewer bytes are copied: compute-sanitizer checks every copy as a whole one.
        aligned(source, bytes.0)?;
        device.require_inside(source, bytes.0)?;
        if taken > 0 {
            warp.require_previous_done(active, source, device)?;
        }
        moves[lane] = (place, source, taken);
    }
    let (clock, time) = warp.start_copy(active);
    let work = ThreadWork::Copy { bytes: bytes.0, moves };
    warp.copies.push_back(ThreadCopy { lanes: active, work, clock, time, instruction });
    Ok(())
}

/// Arrives at an mbarrier when the copies so far have completed.
pub(super) fn arrive_after(warp: &mut Warp, active: u32, at: SharedAt, instruction: usize) {
    let mut barriers = Box::new([0; LANES]);
    lanes(active).for_each(|lane| barriers[lane] = resolve(warp, address(warp, at, lane)).1);
    let (clock, time) = warp.start_copy(active);
    let work = ThreadWork::Arrive(barriers);
    warp.copies.push_back(ThreadCopy { lanes: active, work, clock, time, instruction });
}
