//! DMAs in flight and the semaphores that they signal.
//!
//! Each DMA is an agent. It happens after everything the core did before starting it, and before everything
//! the core does after a wait that cannot return unless the DMA has completed. With one core, the vector
//! clock over these agents reduces to one bit per DMA: whether the core has observed its completion.
//! [`Copies`] holds the DMAs it has not observed. An access that overlaps one of them is a data race, in
//! whatever order the two happened to run here.
//!
//! A DMA moves its bytes as late as possible: when a wait needs them. So a kernel that waits too late, or not
//! at all, computes with stale data.

use std::collections::{BTreeMap, VecDeque};

use super::{
    finding::{Agent, Site},
    view::{Region, View},
};
use crate::ir::Place;

/// A semaphore: buffer and index.
pub(crate) type SemaphoreId = (usize, usize);

/// A DMA that was started.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) agent: Agent,
    pub(crate) source: View,
    pub(crate) target: View,
    pub(crate) reads: Region,
    pub(crate) writes: Region,
    pub(crate) semaphore: SemaphoreId,
    pub(crate) bytes: i64,
    pub(crate) place: Option<Place>,
    pub(crate) step: Vec<i64>,
    /// Whether the bytes have been moved.
    pub(crate) moved: bool,
    /// Completion time on the modelled clock.
    pub(crate) ends: f64,
}

impl Copy {
    pub(crate) fn site(&self) -> Site {
        copy_site(&self.agent, self.place, &self.step)
    }
}

/// Where a DMA was started.
pub(crate) fn copy_site(agent: &Agent, place: Option<Place>, step: &[i64]) -> Site {
    let op = match agent {
        Agent::Window(_) => "window copy",
        _ => "tpu.enqueue_dma",
    };
    Site::new(agent.clone(), place, op, step)
}

/// State of one semaphore.
#[derive(Clone, Debug, Default)]
pub(crate) struct Semaphore {
    /// Signalled amount not yet consumed by a wait.
    pub(crate) count: i64,
    /// DMAs that will signal it, oldest first.
    pub(crate) pending: VecDeque<usize>,
    /// DMAs on it whose completion the core has not observed.
    pub(crate) unordered: Vec<usize>,
    /// Sites that signalled it last.
    pub(crate) recent: VecDeque<Site>,
}

const RECENT: usize = 3;

impl Semaphore {
    fn remember(&mut self, site: Site) {
        if self.recent.iter().any(|known| known.line == site.line && known.line.is_some()) {
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(site);
    }
}

/// All DMAs whose completion the core has not observed, and all semaphores used so far.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// DMAs by number, in start order.
    pub(crate) in_flight: BTreeMap<usize, Copy>,
    pub(crate) semaphores: BTreeMap<SemaphoreId, Semaphore>,
    started: usize,
}

impl Copies {
    /// Registers a new DMA.
    pub(crate) fn start(&mut self, copy: Copy) -> usize {
        let number = self.started;
        self.started += 1;
        let semaphore = self.semaphores.entry(copy.semaphore).or_default();
        semaphore.pending.push_back(number);
        semaphore.unordered.push(number);
        semaphore.remember(copy.site());
        self.in_flight.insert(number, copy);
        number
    }

    /// Numbers a DMA to another device.
    pub(crate) fn take_number(&mut self) -> usize {
        self.started += 1;
        self.started - 1
    }

    /// Remembers who signals a semaphore, before it does.
    pub(crate) fn remember(&mut self, id: SemaphoreId, site: Site) {
        self.semaphores.entry(id).or_default().remember(site);
    }

    /// Adds the bytes of a DMA between devices.
    pub(crate) fn arrived(&mut self, id: SemaphoreId, bytes: i64) {
        let semaphore = self.semaphores.entry(id).or_default();
        semaphore.count = semaphore.count.saturating_add(bytes);
    }

    /// Sites that signalled a semaphore last.
    pub(crate) fn recent(&self, id: SemaphoreId) -> Vec<Site> {
        self.semaphores
            .get(&id)
            .map(|semaphore| semaphore.recent.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Number of the next DMA.
    pub(crate) fn next_number(&self) -> usize {
        self.started
    }

    /// Signals a semaphore.
    pub(crate) fn signal(&mut self, id: SemaphoreId, amount: i64, site: Site) {
        let semaphore = self.semaphores.entry(id).or_default();
        semaphore.count = semaphore.count.saturating_add(amount);
        semaphore.remember(site);
    }

    /// Bytes of the DMAs on this semaphore that have not moved them.
    pub(crate) fn pending_bytes(&self, id: SemaphoreId) -> i64 {
        let pending = self.semaphores.get(&id).into_iter().flat_map(|semaphore| &semaphore.pending);
        let bytes = pending.filter_map(|number| self.in_flight.get(number)).map(|copy| copy.bytes);
        bytes.fold(0, i64::saturating_add)
    }

    /// Oldest DMA on this semaphore that has not moved its bytes.
    pub(crate) fn oldest_pending(&self, id: SemaphoreId) -> Option<usize> {
        self.semaphores.get(&id)?.pending.front().copied()
    }

    /// Marks a DMA as moved; its bytes count as arrived.
    pub(crate) fn arrive(&mut self, number: usize) {
        let Some(copy) = self.in_flight.get_mut(&number).filter(|copy| !copy.moved) else { return };
        copy.moved = true;
        let semaphore = self.semaphores.entry(copy.semaphore).or_default();
        semaphore.pending.retain(|&other| other != number);
        semaphore.count = semaphore.count.saturating_add(copy.bytes);
    }

    pub(crate) fn count(&self, id: SemaphoreId) -> i64 {
        self.semaphores.get(&id).map_or(0, |semaphore| semaphore.count)
    }

    /// Consumes `amount` from a semaphore that holds it. The core observes the completion of the DMAs on it,
    /// which are returned, only if nothing is left and no DMA of another device is due: otherwise the bytes
    /// may have come from any of them.
    pub(crate) fn consume(&mut self, id: SemaphoreId, amount: i64, others_due: bool) -> Vec<Copy> {
        let semaphore = self.semaphores.entry(id).or_default();
        semaphore.count = semaphore.count.saturating_sub(amount);
        if semaphore.count != 0 || !semaphore.pending.is_empty() || others_due {
            return Vec::new();
        }
        let observed = std::mem::take(&mut semaphore.unordered);
        observed.iter().filter_map(|number| self.in_flight.remove(number)).collect()
    }

    /// Treats a racing DMA as ordered, so that one race is reported once.
    pub(crate) fn forgive(&mut self, number: usize) {
        let Some(copy) = self.in_flight.get(&number) else { return };
        let semaphore = self.semaphores.entry(copy.semaphore).or_default();
        semaphore.unordered.retain(|&other| other != number);
        self.in_flight.remove(&number);
    }
}
