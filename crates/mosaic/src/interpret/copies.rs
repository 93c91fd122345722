//! Asynchronous copies and the semaphores that they signal.
//!
//! Every copy is an agent of its own. It is ordered after what the core did before it started the copy, and before
//! what the core does after a wait that cannot return unless the copy has ended. With one core, a vector clock over
//! these agents says for each copy only whether the core knows its end; [`Copies`] keeps the copies of which it does
//! not. An access that meets one of those is a race, whichever of the two happened to come first in this run.
//!
//! A copy moves its bytes as late as a correct kernel cannot notice: when a wait needs it. So a kernel that waits too
//! late or not at all computes with what was there before.

use std::collections::{BTreeMap, VecDeque};

use super::{
    finding::{Agent, Site},
    view::{Region, View},
};
use crate::ir::Place;

/// One semaphore: buffer and index.
pub(crate) type SemaphoreId = (usize, usize);

/// A copy that was started.
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
    /// When it ends, on the modelled clock.
    pub(crate) ends: f64,
}

impl Copy {
    pub(crate) fn site(&self) -> Site {
        copy_site(&self.agent, self.place, &self.step)
    }
}

/// Where a copy was started.
pub(crate) fn copy_site(agent: &Agent, place: Option<Place>, step: &[i64]) -> Site {
    let op = match agent {
        Agent::Window(_) => "window copy",
        _ => "tpu.enqueue_dma",
    };
    Site::new(agent.clone(), place, op, step)
}

/// The state of one semaphore.
#[derive(Clone, Debug, Default)]
pub(crate) struct Semaphore {
    /// What has arrived and was not waited for.
    pub(crate) count: i64,
    /// Copies that will signal it, oldest first.
    pub(crate) pending: VecDeque<usize>,
    /// Copies that signal it and whose end the core does not know.
    pub(crate) unordered: Vec<usize>,
    /// The sites that signalled it last.
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

/// All copies whose end the core does not know, and all semaphores that were ever used.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// By number, in the order of their start.
    pub(crate) in_flight: BTreeMap<usize, Copy>,
    pub(crate) semaphores: BTreeMap<SemaphoreId, Semaphore>,
    started: usize,
}

impl Copies {
    /// Takes a new copy into the books.
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

    /// The number that the next copy gets.
    pub(crate) fn next_number(&self) -> usize {
        self.started
    }

    /// Adds to a semaphore.
    pub(crate) fn signal(&mut self, id: SemaphoreId, amount: i64, site: Site) {
        let semaphore = self.semaphores.entry(id).or_default();
        semaphore.count = semaphore.count.saturating_add(amount);
        semaphore.remember(site);
    }

    /// The oldest copy that signals this semaphore and has not moved yet.
    pub(crate) fn oldest_pending(&self, id: SemaphoreId) -> Option<usize> {
        self.semaphores.get(&id)?.pending.front().copied()
    }

    /// A copy has moved its bytes: from now on they count as arrived.
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

    /// Takes `amount` from a semaphore that holds it. The core knows the end of the copies on it only if nothing is
    /// left: otherwise the bytes that it waited for may have come from any of them.
    pub(crate) fn consume(&mut self, id: SemaphoreId, amount: i64) {
        let semaphore = self.semaphores.entry(id).or_default();
        semaphore.count = semaphore.count.saturating_sub(amount);
        if semaphore.count == 0 && semaphore.pending.is_empty() {
            for number in std::mem::take(&mut semaphore.unordered) {
                self.in_flight.remove(&number);
            }
        }
    }

    /// Treats a copy as ordered although nothing orders it: its race was reported, once is enough.
    pub(crate) fn forgive(&mut self, number: usize) {
        let Some(copy) = self.in_flight.get(&number) else { return };
        let semaphore = self.semaphores.entry(copy.semaphore).or_default();
        semaphore.unordered.retain(|&other| other != number);
        self.in_flight.remove(&number);
    }
}
