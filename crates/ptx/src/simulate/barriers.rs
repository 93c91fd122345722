//! Barriers: mbarriers in shared memory, named barriers of a CTA, and the cluster barrier.

use super::{
    FaultKind, World,
    cluster::Cluster,
    memory::{Agent, Lane, SHARED_START},
    program::{SharedAt, Value},
    step::{Flow, address, resolve},
    warp::{LANES, Warp, lanes},
};

impl Cluster {
    pub(super) fn make_barrier(
        &mut self,
        warp: &mut Warp,
        active: u32,
        at: SharedAt,
        arrivals: u32,
    ) -> Result<(), FaultKind> {
        warp.touch(active);
        let known = warp.known(active);
        for lane in lanes(active) {
            let (rank, place) = resolve(warp, address(warp, at, lane));
            let tiles = Agent::tiles(self.made_barriers);
            self.made_barriers += 1;
            let access = warp.access(Lane::new(lane), &known);
            self.cta(rank)?.shared.set_barrier(place, arrivals, tiles, access)?;
        }
        Ok(())
    }

    pub(super) fn arrive(
        &mut self,
        warp: &mut Warp,
        active: u32,
        at: SharedAt,
        (times, expecting): (u32, Option<Value>),
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let clock = warp.release(active);
        for lane in lanes(active) {
            let (rank, place) = resolve(warp, address(warp, at, lane));
            let bytes = expecting.map_or(0, |bytes| warp.value(bytes, lane));
            let access = warp.access(Lane::new(lane), &clock);
            let barrier = self.cta(rank)?.shared.barrier(place, access)?;
            barrier.expect(bytes);
            if (0..times).any(|_| !barrier.arrive(&clock)) {
                return Err(FaultKind::TooManyArrivals { offset: place.saturating_sub(SHARED_START) });
            }
        }
        world.events += 1;
        Ok(())
    }

    /// The lanes whose phase has completed; they acquire the clocks that arrivals released.
    pub(super) fn completed(
        &mut self,
        warp: &mut Warp,
        active: u32,
        at: SharedAt,
        parity: Value,
    ) -> Result<u32, FaultKind> {
        // Lanes that test the same phase of the same mbarrier get the same answer.
        let mut questions: Vec<((usize, usize), u32, u32)> = Vec::new();
        for lane in lanes(active) {
            let (place, parity) = (resolve(warp, address(warp, at, lane)), warp.value(parity, lane));
            match questions.iter_mut().find(|question| (question.0, question.1) == (place, parity)) {
                Some((_, _, asking)) => *asking |= 1 << lane,
                None => questions.push((place, parity, 1 << lane)),
            }
        }
        let mut completed = 0;
        for ((rank, place), parity, asking) in questions {
            let lane = if asking.count_ones() == 1 {
                Lane::new(asking.trailing_zeros() as usize)
            } else {
                Lane::SEVERAL
            };
            let known = warp.known(asking);
            let barrier = self.cta(rank)?.shared.barrier(place, warp.access(lane, &known))?;
            drop(known);
            if let Some(known) = barrier.completed(parity) {
                warp.learn(asking, known);
                completed |= asking;
            }
        }
        Ok(completed)
    }

    pub(super) fn cta_barrier(
        &mut self,
        warp: &mut Warp,
        split: usize,
        id: usize,
        threads: Option<usize>,
        world: &mut World<'_>,
    ) -> Result<Flow, FaultKind> {
        let cta = self.cta(warp.cta)?;
        // Without a count it waits for all warps that have not exited.
        let live = cta.warps.iter().filter(|other| other.live() != 0).count();
        let barrier = cta.barriers.get_mut(id).ok_or(FaultKind::NoNamedBarrier { id })?;
        match warp.splits[split].arrived {
            Some(opened) if opened != barrier.opened => {
                warp.learn(warp.live(), &barrier.known);
                return Ok(Flow::Next);
            }
            Some(_) => {}
            None => {
                if barrier.arrived > 0 && barrier.threads != threads {
                    return Err(FaultKind::BarrierCountMismatch { id });
                }
                barrier.threads = threads;
                barrier.arrived += LANES;
                warp.meet();
                barrier.gathering.join(&warp.release(warp.live()));
                warp.splits[split].arrived = Some(barrier.opened);
                world.events += 1;
            }
        }
        if barrier.arrived < threads.unwrap_or(live * LANES) {
            return Ok(Flow::Held);
        }
        barrier.arrived = 0;
        barrier.opened += 1;
        barrier.known = std::mem::take(&mut barrier.gathering);
        warp.learn(warp.live(), &barrier.known);
        Ok(Flow::Next)
    }

    pub(super) fn cluster_arrive(
        &mut self,
        warp: &mut Warp,
        active: u32,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        if warp.awaits_cluster & active != 0 {
            return Err(FaultKind::ArrivesTwice);
        }
        warp.awaits_cluster |= active;
        let released = warp.release(active);
        lanes(active).for_each(|lane| warp.cluster_phase[lane] = self.barrier.opened);
        self.barrier.gathering.join(&released);
        self.barrier.arrived[warp.in_cluster] |= active;
        world.events += 1;
        self.open_cluster_barrier(warp);
        Ok(())
    }

    /// Completes the cluster barrier when every thread that has not exited has arrived. `warp` is out of its
    /// CTA meanwhile.
    fn open_cluster_barrier(&mut self, warp: &Warp) {
        let others = self.ctas.iter().flat_map(|cta| &cta.warps);
        let mut live = others.map(|other| if other.is_elsewhere() { warp.live() } else { other.live() });
        if self.barrier.arrived.iter().all(|&arrived| live.next().is_some_and(|live| live & !arrived == 0)) {
            self.barrier.arrived.fill(0);
            self.barrier.opened += 1;
            self.barrier.known = std::mem::take(&mut self.barrier.gathering);
        }
    }

    pub(super) fn cluster_wait(&mut self, warp: &mut Warp, active: u32) -> Result<Flow, FaultKind> {
        if active & !warp.awaits_cluster != 0 {
            return Err(FaultKind::WaitsWithoutArrival);
        }
        // Threads that have exited count as arrived.
        self.open_cluster_barrier(warp);
        if lanes(active).any(|lane| warp.cluster_phase[lane] == self.barrier.opened) {
            return Ok(Flow::Held);
        }
        warp.awaits_cluster &= !active;
        warp.learn(active, &self.barrier.known);
        Ok(Flow::Next)
    }
}
