//! DMAs and semaphores during an execution.

use std::collections::{BTreeMap, BTreeSet};

use super::{cycles::DmaModel, extent::Extent, program::buffer_of};
use crate::{
    flight::{Flight, PendingDma, RaceKind, Touch},
    limits::MAX_TRACKED,
};

/// State of one semaphore.
#[derive(Clone, Debug, Default)]
pub(super) struct Semaphore {
    /// Granules that arrive, with arrival times.
    arrivals: Vec<(f64, i64)>,
    pub starts: u64,
    pub started: i64,
    pub waits: u64,
    /// Granules waited for and not yet subtracted.
    awaited: i64,
    /// Final value.
    pub left: i64,
    /// The first bundle that waits for more than was started.
    pub starved_at: Option<usize>,
    /// The first bundle that subtracts without a wait.
    pub unawaited_at: Option<usize>,
}

impl Semaphore {
    /// Merges what has arrived by now into one entry.
    fn merge(&mut self, now: f64) {
        let arrived = self.arrivals.iter().filter(|arrival| arrival.0 <= now).map(|arrival| arrival.1);
        let arrived = arrived.fold(0i64, i64::saturating_add);
        self.arrivals.retain(|arrival| arrival.0 > now);
        self.arrivals.push((now, arrived));
    }
}

/// Kind of a DMA and the buffers at both ends, if resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteKey {
    pub kind: u32,
    pub source: Option<i64>,
    pub destination: Option<i64>,
}

/// All DMAs of one route.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    pub starts: u64,
    pub bytes: u64,
    /// Distinct offsets in the destination.
    pub destinations: BTreeSet<i64>,
    /// Whether one was in flight during a matmul.
    pub overlaps_multiply: bool,
    /// The bundle of the first start.
    pub first_at: usize,
    /// The first access that races with one in flight.
    pub race: Option<Race>,
}

/// A data race with a DMA in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Race {
    pub kind: RaceKind,
    /// The bundle of the access.
    pub at: usize,
    /// Offset of the access in the text; `None` for a DMA.
    pub offset: Option<u32>,
}

/// A DMA start with its resolved operands.
pub(super) struct Start {
    pub at: usize,
    pub kind: u32,
    pub uses_channel: bool,
    pub granules: Option<i64>,
    pub semaphore: Option<i64>,
    pub source: Option<i64>,
    pub destination: Option<i64>,
    /// Source and destination.
    pub extents: [Extent; 2],
}

/// A load, a store, or one end of a DMA.
#[derive(Clone, Copy)]
pub(super) struct BundleAccess {
    pub at: usize,
    pub offset: Option<u32>,
    pub touch: Touch,
}

/// All DMA traffic of an execution.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    model: Option<DmaModel>,
    granule_bytes: u64,
    /// When the memory channel is free again.
    channel_free: f64,
    pub semaphores: BTreeMap<i64, Semaphore>,
    pub routes: BTreeMap<RouteKey, Route>,
    in_flight: Flight<i64, Extent, RouteKey>,
    pub waits: u64,
    /// DMA operations whose size or semaphore could not be resolved.
    pub unresolved: u64,
}

impl Ledger {
    pub(super) fn new(model: Option<DmaModel>, granule_bytes: u64) -> Self {
        Self { model, granule_bytes, ..Self::default() }
    }

    pub(super) fn start(&mut self, now: f64, start: &Start) {
        let granules = start.granules.filter(|&granules| granules >= 0);
        let bytes = granules.map_or(0, i64::unsigned_abs).saturating_mul(self.granule_bytes);
        let (source, destination) = (start.source.map(buffer_of), start.destination.map(buffer_of));
        let key = RouteKey {
            kind: start.kind,
            source: source.map(|(buffer, _)| buffer),
            destination: destination.map(|(buffer, _)| buffer),
        };
        let route =
            self.routes.entry(key).or_insert_with(|| Route { first_at: start.at, ..Route::default() });
        route.starts += 1;
        route.bytes = route.bytes.saturating_add(bytes);
        route.destinations.extend(destination.map(|(_, offset)| offset));

        let Some((granules, semaphore)) = granules.zip(start.semaphore) else {
            self.unresolved += 1;
            return;
        };
        let [source, destination] = start.extents;
        let at = start.at;
        self.access(BundleAccess { at, offset: None, touch: Touch::READS }, &source);
        self.access(BundleAccess { at, offset: None, touch: Touch::WRITES }, &destination);
        let (source, destination) = (Some(source), Some(destination));
        self.in_flight.start(PendingDma { semaphore, amount: granules, source, destination, tag: key });
        let mut done = now;
        if let Some(model) = self.model {
            done = now.max(self.channel_free) + bytes as f64 / model.bytes_per_cycle;
            if start.uses_channel {
                self.channel_free = done;
            }
            done += model.latency_cycles;
        }
        self.add(done, semaphore, granules);
        if let Some(semaphore) = self.semaphore(semaphore) {
            semaphore.starts += 1;
            semaphore.started = semaphore.started.saturating_add(granules);
        }
    }

    fn semaphore(&mut self, address: i64) -> Option<&mut Semaphore> {
        let room = self.semaphores.len() < MAX_TRACKED || self.semaphores.contains_key(&address);
        self.unresolved += u64::from(!room);
        room.then(|| self.semaphores.entry(address).or_default())
    }

    /// Adds to a semaphore immediately. After a wait, the code subtracts the DMA with a negative amount.
    pub(super) fn signal(&mut self, now: f64, at: usize, semaphore: i64, amount: i64) {
        self.in_flight.signal(&semaphore, amount);
        self.add(now, semaphore, amount);
        let Some(semaphore) = self.semaphore(semaphore) else { return };
        if amount < 0 {
            let awaited = semaphore.awaited.saturating_add(amount);
            if awaited < 0 {
                semaphore.unawaited_at.get_or_insert(at);
            }
            semaphore.awaited = awaited.max(0);
        }
    }

    fn add(&mut self, time: f64, semaphore: i64, amount: i64) {
        let Some(semaphore) = self.semaphore(semaphore) else { return };
        semaphore.left = semaphore.left.saturating_add(amount);
        if semaphore.arrivals.len() >= MAX_TRACKED {
            let held = semaphore.arrivals.iter().fold(0i64, |sum, arrival| sum.saturating_add(arrival.1));
            semaphore.arrivals = vec![(time, held)];
        }
        semaphore.arrivals.push((time, amount));
    }

    /// Returns the time at which the wait ends.
    pub(super) fn wait(&mut self, now: f64, at: usize, semaphore: Option<i64>, needed: Option<i64>) -> f64 {
        self.waits += 1;
        let Some((address, needed)) = semaphore.zip(needed) else {
            self.lose_track();
            return now;
        };
        self.in_flight.wait(&address, needed);
        let Some(semaphore) = self.semaphore(address) else { return now };
        semaphore.waits += 1;
        semaphore.awaited = semaphore.awaited.saturating_add(needed);
        // Merge what has arrived, or an amount that was subtracted since would still count.
        semaphore.merge(now);
        semaphore.arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut held = 0i64;
        let ready = semaphore.arrivals.iter().find(|(_, amount)| {
            held = held.saturating_add(*amount);
            held >= needed
        });
        let Some(&(ready, _)) = ready else {
            semaphore.starved_at.get_or_insert(at);
            return now;
        };
        let now = now.max(ready);
        semaphore.merge(now);
        now
    }

    /// Records an unresolved wait.
    pub(super) fn lose_track(&mut self) {
        self.unresolved += 1;
        self.in_flight.lose_wait();
    }

    /// Records an unresolved signal.
    pub(super) fn lose_signal(&mut self) {
        self.unresolved += 1;
        self.in_flight.lose_signal();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Number of accesses that may or may not race with a DMA.
    pub(super) fn unresolved_accesses(&self) -> u64 {
        self.in_flight.unresolved
    }

    /// Records the races of an access with the DMAs in flight.
    pub(super) fn access(&mut self, access: BundleAccess, extent: &Extent) {
        let BundleAccess { at, offset, touch } = access;
        self.in_flight.touch(extent, touch, |route, kind| {
            if let Some(route) = self.routes.get_mut(route) {
                route.race.get_or_insert(Race { kind, at, offset });
            }
        });
    }

    /// Marks the DMAs in flight as overlapping with a matmul.
    pub(super) fn multiply(&mut self) {
        for route in self.in_flight.tags() {
            if let Some(route) = self.routes.get_mut(route) {
                route.overlaps_multiply = true;
            }
        }
    }
}
