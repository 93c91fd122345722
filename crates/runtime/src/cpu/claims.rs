//! What threads claim of each other's lanes: an owner from the front, helpers from the back, so that threads
//! write neighbouring columns only where they meet. Results of narrow panels share cache lines.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use octile_core::plan::cpu::{CpuPlan, Lane};

/// Numbers of groups that threads have claimed of a lane, from the front (lower half) and from the back, in a
/// pair of cache lines of its own: prefetchers take the other line of a pair, too.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Claims(AtomicU64);

const FRONT: u64 = 1;
const BACK: u64 = 1 << 32;

/// Claims from the front and from the back, as the counter holds them. It exceeds the number of groups once
/// threads have looked in vain, each at most twice.
fn counts(claims: u64) -> (usize, usize) {
    ((claims % BACK) as usize, (claims / BACK) as usize)
}

impl Claims {
    /// Forgets all claims.
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Claims one of `groups` from the front or the back.
    fn claim(&self, groups: usize, is_owner: bool) -> Option<usize> {
        let (front, back) = counts(self.0.fetch_add(if is_owner { FRONT } else { BACK }, Ordering::Relaxed));
        let is_left = front + back < groups;
        is_left.then(|| if is_owner { front } else { groups - 1 - back })
    }

    /// Groups that nobody has claimed.
    fn left(&self, groups: usize) -> usize {
        let (front, back) = counts(self.0.load(Ordering::Relaxed));
        groups.saturating_sub(front + back)
    }
}

/// The groups that one worker claims: of its own lanes, then of lanes of others that have enough left.
pub(super) struct Claimer<'a> {
    plan: &'a CpuPlan,
    /// The rows that are multiplied.
    rows: Range<usize>,
    claims: &'a [Claims],
    /// The worker's own lanes, and the lanes still to visit.
    own: Range<usize>,
    order: std::iter::Chain<Range<usize>, Range<usize>>,
    /// The lane that is visited, its number of groups, and which it is.
    lane: Option<(Lane, usize, usize)>,
    /// Rows of the last group.
    last_rows: Range<usize>,
}

impl<'a> Claimer<'a> {
    pub(super) fn new(plan: &'a CpuPlan, rows: Range<usize>, claims: &'a [Claims], worker: usize) -> Self {
        let own = plan.own_lanes(worker);
        let order = (own.start..plan.lanes()).chain(0..own.start);
        Self { plan, rows, claims, own, order, lane: None, last_rows: 0..0 }
    }

    /// Claims a group.
    pub(super) fn claim(&mut self) -> Option<Lane> {
        loop {
            if let Some((lane, groups, index)) = &self.lane {
                if let Some(group) = self.claims[*index].claim(*groups, self.own.contains(index)) {
                    self.last_rows = lane.rows.clone();
                    return Some(self.plan.group(lane, group));
                }
                self.lane = None;
            }
            let index = self.order.next()?;
            let lane = self.plan.lane(index, self.rows.clone());
            let groups = self.plan.groups(&lane);
            // Activations of the same rows may still be decoded.
            let is_ready = self.own.contains(&index) || lane.rows == self.last_rows;
            let worth = if is_ready { 1 } else { self.plan.groups_worth_helping() };
            if self.claims[index].left(groups) >= worth {
                self.lane = Some((lane, groups, index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use octile_core::{Strategy, device::cpu::Isa, plan::cpu::PANEL};

    use super::*;

    #[test]
    fn owners_claim_from_the_front_and_helpers_from_the_back() {
        let claims = Claims::default();
        let claimed = [true, false, true, false, true, true, false].map(|owner| claims.claim(5, owner));
        assert_eq!(claimed, [Some(0), Some(4), Some(1), Some(3), Some(2), None, None]);
        assert_eq!((claims.left(5), claims.left(9)), (0, 2));
        claims.clear();
        assert_eq!((claims.left(5), claims.claim(0, true)), (5, None));
    }

    #[test]
    fn workers_claim_every_group_once_whoever_comes_first() {
        for shape in ["1x4096x512:128", "24x128x8192:128", "206x512x2048:128", "2048x320x64:128"] {
            let plan = CpuPlan::new(shape.parse().unwrap(), Strategy::Strip, Isa::Avx512Bf16, 3);
            let (rows, panels) = (0..plan.problem.m, plan.problem.n.div_ceil(PANEL));
            for ahead in [0, 1, 5, usize::MAX] {
                let claims: Vec<_> = (0..plan.lanes()).map(|_| Claims::default()).collect();
                let mut workers: Vec<_> = (0..plan.workers())
                    .map(|worker| Claimer::new(&plan, rows.clone(), &claims, worker))
                    .collect();
                let mut seen = vec![0; plan.problem.m * panels];
                let mut count = |group: Lane| {
                    let parts = group.rows.flat_map(|row| group.panels.clone().map(move |at| (row, at)));
                    parts.for_each(|(row, panel)| seen[row * panels + panel] += 1);
                };
                // The first one works alone for a while.
                std::iter::from_fn(|| workers[0].claim()).take(ahead).for_each(&mut count);
                while workers.iter_mut().filter_map(Claimer::claim).map(&mut count).count() > 0 {}
                assert!(seen.iter().all(|&times| times == 1), "{shape} {ahead}");
            }
        }
    }
}
