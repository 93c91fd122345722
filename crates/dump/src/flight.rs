//! DMAs in flight, for LLO and Mosaic alike: which have certainly completed, and which accesses race with
//! them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::limits::{MAX_COMPARISONS, MAX_TRACKED};

/// Kind of a data race between an access and a DMA in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RaceKind {
    /// Reads the destination of the DMA.
    ReadsDestination,
    /// Writes the destination of the DMA.
    WritesDestination,
    /// Writes the source of the DMA.
    WritesSource,
}

/// A range of memory.
pub(crate) trait MemoryRange {
    /// Whether two ranges overlap; `None` if unknown.
    fn overlaps(&self, other: &Self) -> Option<bool>;
}

/// A DMA that may still be in flight.
#[derive(Clone, Debug)]
pub(crate) struct PendingDma<K, P, T> {
    pub semaphore: K,
    /// Amount it adds to its semaphore.
    pub amount: i64,
    /// Memory that it reads; `None` if this semaphore does not tell that it has been read.
    pub source: Option<P>,
    /// Memory that it writes; `None` if this semaphore does not tell that it has been written.
    pub destination: Option<P>,
    /// Context for reports.
    pub tag: T,
}

/// A load, a store, or one end of a DMA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub writes: bool,
    /// Whether the whole range is certainly accessed.
    pub certain: bool,
}

impl Touch {
    pub(crate) const READS: Self = Self { writes: false, certain: true };
    pub(crate) const WRITES: Self = Self { writes: true, certain: true };
}

/// Running totals of one semaphore.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Amount of all DMAs started.
    started: i64,
    /// Amount signalled directly, less what was subtracted.
    signalled: i64,
    /// Amount that DMAs have certainly delivered.
    arrived: i64,
}

/// All DMAs that may be in flight. `K` identifies a semaphore.
#[derive(Clone, Debug)]
pub(crate) struct Flight<K, P, T> {
    copies: Vec<PendingDma<K, P, T>>,
    semaphores: BTreeMap<K, Sums>,
    /// Whether an unresolved signal or wait makes the semaphore totals unreliable.
    lost: bool,
    compared: u64,
    /// Number of accesses that may or may not race with a DMA.
    pub unresolved: u64,
}

impl<K, P, T> Default for Flight<K, P, T> {
    fn default() -> Self {
        Self { copies: Vec::new(), semaphores: BTreeMap::new(), lost: false, compared: 0, unresolved: 0 }
    }
}

impl<K: Ord + Clone, P: MemoryRange, T> Flight<K, P, T> {
    pub(crate) fn start(&mut self, copy: PendingDma<K, P, T>) {
        if self.copies.len() >= MAX_TRACKED {
            self.unresolved += 1;
            return;
        }
        let amount = copy.amount;
        if let Some(sums) = self.sums(&copy.semaphore) {
            sums.started = sums.started.saturating_add(amount);
            self.copies.push(copy);
        }
    }

    fn sums(&mut self, semaphore: &K) -> Option<&mut Sums> {
        let room = self.semaphores.len() < MAX_TRACKED || self.semaphores.contains_key(semaphore);
        self.unresolved += u64::from(!room);
        room.then(|| self.semaphores.entry(semaphore.clone()).or_default())
    }

    /// A direct signal, or a decrement if negative.
    pub(crate) fn signal(&mut self, semaphore: &K, amount: i64) {
        if let Some(sums) = self.sums(semaphore) {
            sums.signalled = sums.signalled.saturating_add(amount);
        }
    }

    /// A wait until a semaphore holds `held`. DMAs complete in any order: one has certainly completed only if
    /// all others together do not add up to what has arrived.
    pub(crate) fn wait(&mut self, semaphore: &K, held: i64) {
        let Some(sums) = self.semaphores.get_mut(semaphore) else { return };
        // Waiting for more than was started is reported elsewhere.
        let arrived = held.saturating_sub(sums.signalled).min(sums.started);
        sums.arrived = sums.arrived.max(arrived);
        let missing = if self.lost { 0 } else { sums.started.saturating_sub(sums.arrived) };
        self.copies.retain(|copy| copy.semaphore != *semaphore || (missing > 0 && copy.amount <= missing));
    }

    /// An unresolved wait may be for any DMA, so none is certainly in flight afterwards.
    pub(crate) fn lose_wait(&mut self) {
        self.lost = true;
        self.copies.clear();
    }

    /// An unresolved signal may be to any semaphore, so no total is reliable afterwards.
    pub(crate) fn lose_signal(&mut self) {
        self.lost = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Context of each DMA in flight.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &T> {
        self.copies.iter().map(|copy| &copy.tag)
    }

    /// Reports the races of an access with the DMAs in flight.
    pub(crate) fn touch(&mut self, part: &P, touch: Touch, mut race: impl FnMut(&T, RaceKind)) {
        self.compared += self.copies.len() as u64;
        if self.compared > MAX_COMPARISONS {
            self.unresolved += 1;
            return;
        }
        let overlaps = |end: &Option<P>| end.as_ref().map_or(Some(false), |end| end.overlaps(part));
        for copy in &self.copies {
            let destination = overlaps(&copy.destination);
            let source = if touch.writes { overlaps(&copy.source) } else { Some(false) };
            let kind = match (destination, source) {
                (Some(false), Some(false)) => continue,
                (Some(true), _) if touch.writes => RaceKind::WritesDestination,
                (Some(true), _) => RaceKind::ReadsDestination,
                (_, Some(true)) => RaceKind::WritesSource,
                _ => {
                    self.unresolved += 1;
                    continue;
                }
            };
            match touch.certain {
                true => race(&copy.tag, kind),
                false => self.unresolved += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cell(u32);

    impl MemoryRange for Cell {
        fn overlaps(&self, other: &Self) -> Option<bool> {
            Some(self.0 == other.0)
        }
    }

    fn flight(amounts: &[i64]) -> Flight<&'static str, Cell, usize> {
        let mut flight = Flight::default();
        for (at, &amount) in amounts.iter().enumerate() {
            let (source, destination) = (Some(Cell(100)), Some(Cell(at as u32)));
            flight.start(PendingDma { semaphore: "s", amount, source, destination, tag: at });
        }
        flight
    }

    fn wait(flight: &mut Flight<&'static str, Cell, usize>, amount: i64) -> Vec<usize> {
        flight.wait(&"s", amount);
        flight.signal(&"s", -amount);
        flight.tags().copied().collect()
    }

    #[test]
    fn copies_of_one_semaphore_land_together() {
        let mut equal = flight(&[64, 64]);
        assert_eq!(wait(&mut equal, 64), [0, 1], "either may be the one that landed");
        assert_eq!(wait(&mut equal, 64), [0usize; 0]);
        // Two waits without a decrement see the same DMA.
        let mut looked = flight(&[64, 64]);
        looked.wait(&"s", 64);
        looked.wait(&"s", 64);
        assert_eq!(looked.len(), 2);
        looked.wait(&"s", 128);
        assert!(looked.is_empty());
    }

    #[test]
    fn a_copy_without_which_the_sum_is_not_reached_has_landed() {
        let mut unequal = flight(&[100, 20, 20]);
        assert_eq!(wait(&mut unequal, 30), [0, 1, 2], "the large one alone suffices, and is not needed");
        let mut unequal = flight(&[100, 20, 20]);
        assert_eq!(wait(&mut unequal, 100), [1, 2]);
        assert_eq!(wait(&mut unequal, 40), [0usize; 0]);
    }

    #[test]
    fn a_signal_is_no_copy() {
        let mut signalled = flight(&[64]);
        signalled.signal(&"s", 64);
        assert_eq!(wait(&mut signalled, 64), [0], "the signal may be what was seen");
        assert_eq!(wait(&mut signalled, 64), [0usize; 0]);
    }

    #[test]
    fn what_was_lost_makes_no_race() {
        let mut lost = flight(&[64, 64]);
        lost.lose_signal();
        assert_eq!(lost.len(), 2);
        assert_eq!(wait(&mut lost, 64), [0usize; 0]);
    }

    #[test]
    fn uncertain_accesses_are_counted() {
        let mut one = flight(&[64]);
        let mut races = Vec::new();
        one.touch(&Cell(0), Touch { writes: true, certain: false }, |_, kind| races.push(kind));
        assert_eq!((races.len(), one.unresolved), (0, 1));
        for (cell, touch) in
            [(0, Touch::READS), (0, Touch::WRITES), (100, Touch::WRITES), (100, Touch::READS)]
        {
            one.touch(&Cell(cell), touch, |_, kind| races.push(kind));
        }
        assert_eq!(races, [RaceKind::ReadsDestination, RaceKind::WritesDestination, RaceKind::WritesSource]);
        assert_eq!(one.unresolved, 1);
    }

    #[test]
    fn more_copies_than_are_followed_prove_nothing() {
        let mut many = flight(&[1; MAX_TRACKED]);
        assert_eq!(many.unresolved, 0);
        many.start(PendingDma {
            semaphore: "s",
            amount: 1,
            source: None,
            destination: Some(Cell(0)),
            tag: 0,
        });
        assert_eq!((many.len(), many.unresolved), (MAX_TRACKED, 1));
    }
}
