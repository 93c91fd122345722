//! Accesses of a device to its own memory that a DMA of another device may race with.

use std::{collections::BTreeMap, sync::Arc};

use super::clock::VectorClock;
use crate::{
    interpret::{
        finding::{Agent, Site},
        view::Region,
    },
    ir::Place,
};

/// Where an access comes from; a [`Site`] is made of it if it is reported.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) agent: Agent,
    pub(crate) place: Option<Place>,
    pub(crate) op: Arc<str>,
    pub(crate) step: Vec<i64>,
    /// Device that started it.
    pub(crate) device: usize,
}

impl Origin {
    /// The site, with its device.
    pub(crate) fn site(&self) -> Site {
        let site = Site::new(self.agent.clone(), self.place, &self.op, &self.step);
        Site { device: Some(self.device), ..site }
    }
}

/// An access that was over by the end of an epoch.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) region: Region,
    pub(crate) writes: bool,
    epoch: u64,
    /// Another device's epoch whose end also implies that it was over.
    also: Option<(usize, u64)>,
    pub(crate) origin: Origin,
}

impl Record {
    /// Returns whether an observer with this clock comes after the access of `device`.
    pub(crate) fn is_known(&self, device: usize, clock: &VectorClock) -> bool {
        clock.knows(device, self.epoch) || self.also.is_some_and(|(device, epoch)| clock.knows(device, epoch))
    }
}

/// Latest accesses of one device, by buffer.
#[derive(Debug, Default)]
pub(crate) struct History {
    buffers: BTreeMap<usize, Vec<Record>>,
    len: usize,
}

impl History {
    /// Remembers an access. A later one to the same region replaces it: who knows the later one knows both.
    pub(crate) fn add(
        &mut self,
        buffer: usize,
        region: Region,
        writes: bool,
        epoch: u64,
        also: Option<(usize, u64)>,
        origin: Origin,
    ) {
        let records = self.buffers.entry(buffer).or_default();
        let same = |record: &&mut Record| record.writes == writes && record.region == region;
        if let Some(record) = records.iter_mut().rev().find(same) {
            (record.epoch, record.also, record.origin) = (epoch, also, origin);
            return;
        }
        records.push(Record { region, writes, epoch, also, origin });
        self.len += 1;
        // Loops access one tile after the other: adjacent ones of an epoch become one record.
        while let [.., before, last] = &mut records[..] {
            let alike = before.writes == last.writes
                && before.epoch == last.epoch
                && before.also.is_none()
                && last.also.is_none();
            let Some(joined) = before.region.joined(&last.region).filter(|_| alike) else { break };
            before.region = joined;
            records.pop();
            self.len -= 1;
        }
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Accesses to a buffer.
    pub(crate) fn of(&self, buffer: usize) -> &[Record] {
        self.buffers.get(&buffer).map(Vec::as_slice).unwrap_or_default()
    }

    /// Forgets accesses up to the end of an epoch that every device knows.
    pub(crate) fn forget_until(&mut self, epoch: u64) {
        self.retain(|record| record.epoch > epoch);
    }

    fn retain(&mut self, keep: impl Fn(&Record) -> bool) {
        self.buffers.values_mut().for_each(|records| records.retain(&keep));
        self.buffers.retain(|_, records| !records.is_empty());
        self.len = self.buffers.values().map(Vec::len).sum();
    }

    /// Forgets buffers from number `first` on.
    pub(crate) fn release(&mut self, first: usize) {
        self.buffers.split_off(&first);
        self.len = self.buffers.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::{element::Element, view::View};
    use crate::types::Float;

    fn tile(row: i64, column: i64) -> Region {
        let whole = View::whole(0, &[32, 512], Some(Element::Float(Float::F32)));
        whole.slice([row, column].into_iter(), &[8, 128]).region(&[32, 512], 4)
    }

    fn origin() -> Origin {
        Origin { agent: Agent::Core, place: None, op: "vector.load".into(), step: vec![], device: 0 }
    }

    #[test]
    fn the_tiles_of_a_loop_become_one_record() {
        let mut history = History::default();
        for (row, column) in (0..4).flat_map(|row| (0..4).map(move |column| (8 * row, 128 * column))) {
            history.add(3, tile(row, column), false, 1, None, origin());
        }
        assert!(history.len() <= 4, "{}", history.len());
        assert!(history.of(3).iter().any(|record| record.region.overlaps(&tile(24, 384))));
    }

    #[test]
    fn a_later_access_replaces_an_earlier_one_to_the_same_region() {
        let mut history = History::default();
        history.add(0, tile(0, 0), true, 1, None, origin());
        history.add(0, tile(0, 0), true, 5, None, origin());
        assert_eq!(history.len(), 1);
        let mut clock = VectorClock::new(1);
        clock.release(0);
        assert!(!history.of(0)[0].is_known(0, &clock));
        history.forget_until(5);
        assert_eq!(history.len(), 0);
    }
}
