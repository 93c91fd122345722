//! Shared memory of a CTA, with the last accesses to every word.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use super::{
    Agent, Barrier, Lane, SharedAccess,
    access::Stamp,
    fences::{Fences, Thread},
};
use crate::simulate::FaultKind;

/// Start address of dynamic shared memory; the system reserves what is below.
pub(crate) const SHARED_START: usize = 1024;

/// Initial content: NaN in every format.
const POISON: u8 = 0xff;

/// Granularity of race detection in bytes.
const WORD: usize = 4;

/// Bytes of an mbarrier.
const BARRIER: usize = 8;

/// Shared memory of a CTA.
#[derive(Debug)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    barriers: BTreeMap<usize, Barrier>,
    /// Last write of every word.
    writes: Vec<(Agent, Stamp)>,
    /// Last read of every word, for every agent that ever read.
    reads: Vec<Option<Vec<Stamp>>>,
    /// Atomics on a word since it was last written; they do not race with each other.
    atomics: HashMap<usize, Vec<(Agent, Stamp)>>,
    fences: Fences,
}

impl Shared {
    /// Shared memory of a CTA that starts at time `begun` of `first`; earlier accesses race.
    pub(crate) fn new(size: usize, first: Agent, begun: u32) -> Self {
        let words = size.div_ceil(WORD);
        Self {
            bytes: vec![POISON; size],
            barriers: BTreeMap::new(),
            writes: vec![(first, Stamp::new(begun, Lane::SEVERAL)); words],
            reads: Vec::new(),
            atomics: HashMap::new(),
            fences: Fences::new(words),
        }
    }

    /// The offset of `bytes` bytes at an address.
    fn offset(&self, address: usize, bytes: usize) -> Result<usize, FaultKind> {
        let offset = address as i64 - SHARED_START as i64;
        let size = self.bytes.len();
        let inside = usize::try_from(offset).ok().filter(|offset| offset + bytes <= size);
        inside.ok_or(FaultKind::OutsideShared { offset, bytes, size })
    }

    /// Reads, unless that races with a write.
    pub(crate) fn read(
        &mut self,
        address: usize,
        count: usize,
        access: SharedAccess<'_>,
    ) -> Result<&[u8], FaultKind> {
        let at = self.offset(address, count)?;
        let words = words(at, count);
        self.require_after_writes(words.clone(), access, "reads")?;
        self.require_after_atomics(words.clone(), access, "reads")?;
        let agent = access.agent.index();
        if self.reads.len() <= agent {
            self.reads.resize(agent + 1, None);
        }
        let len = self.writes.len();
        for stamp in &mut self.reads[agent].get_or_insert_with(|| vec![Stamp::NEVER; len])[words] {
            *stamp = stamp.and(access);
        }
        Ok(&self.bytes[at..at + count])
    }

    /// Refuses stores that the async proxy would not see if these lanes issued it now, for lack of a proxy
    /// fence.
    pub(crate) fn require_fenced(
        &self,
        address: usize,
        count: usize,
        active: u32,
        access: SharedAccess<'_>,
    ) -> Result<(), FaultKind> {
        let words = words(self.offset(address, count)?, count);
        match self.fences.first_unseen(words, active, access) {
            Some((word, warp)) => Err(FaultKind::NotFenced { offset: word * WORD, warp }),
            None => Ok(()),
        }
    }

    /// Refuses words whose last write does not happen before this access.
    fn require_after_writes(
        &self,
        words: Range<usize>,
        access: SharedAccess<'_>,
        does: &'static str,
    ) -> Result<(), FaultKind> {
        for word in words {
            let (writer, stamp) = self.writes[word];
            if !stamp.is_before(writer, access) {
                return Err(race(word, does, writer, "writes"));
            }
        }
        Ok(())
    }

    /// Refuses words whose atomics do not happen before this access.
    fn require_after_atomics(
        &self,
        mut words: Range<usize>,
        access: SharedAccess<'_>,
        does: &'static str,
    ) -> Result<(), FaultKind> {
        if self.atomics.is_empty() {
            return Ok(());
        }
        let unsettled = words.find_map(|word| {
            let changes = self.atomics.get(&word)?;
            let &(agent, _) = changes.iter().find(|(agent, stamp)| !stamp.is_before(*agent, access))?;
            Some((word, agent))
        });
        unsettled.map_or(Ok(()), |(word, agent)| Err(race(word, does, agent, "writes")))
    }

    /// Refuses words whose last reads do not happen before this write.
    fn require_after_reads(&self, words: Range<usize>, access: SharedAccess<'_>) -> Result<(), FaultKind> {
        for (reader, stamps) in self.reads.iter().enumerate() {
            let (reader, Some(stamps)) = (Agent::of_index(reader), stamps) else { continue };
            if let Some(word) = words.clone().find(|&word| !stamps[word].is_before(reader, access)) {
                return Err(race(word, "writes", reader, "reads"));
            }
        }
        Ok(())
    }

    /// Writes, unless that races with a read or write.
    pub(crate) fn write(
        &mut self,
        address: usize,
        bytes: &[u8],
        access: SharedAccess<'_>,
    ) -> Result<(), FaultKind> {
        let at = self.offset(address, bytes.len())?;
        let words = words(at, bytes.len());
        if let Some((&offset, _)) =
            self.barriers.range((at + 1).saturating_sub(BARRIER)..at + bytes.len()).next()
        {
            return Err(FaultKind::OverwritesBarrier { offset });
        }
        self.require_after_writes(words.clone(), access, "writes")?;
        self.require_after_atomics(words.clone(), access, "writes")?;
        self.require_after_reads(words.clone(), access)?;
        if !self.atomics.is_empty() {
            words.clone().for_each(|word| drop(self.atomics.remove(&word)));
        }
        self.writes[words.clone()].fill((access.agent, Stamp::of(access)));
        self.fences.clear(words);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// Like [`Shared::write`] by a thread; the async proxy sees it only after a fence.
    pub(crate) fn store(
        &mut self,
        address: usize,
        bytes: &[u8],
        thread: Thread,
        access: SharedAccess<'_>,
    ) -> Result<(), FaultKind> {
        self.write(address, bytes, access)?;
        let at = self.offset(address, bytes.len())?;
        self.fences.store(words(at, bytes.len()), thread);
        Ok(())
    }

    /// Atomic maximum; returns the old value.
    pub(crate) fn raise(
        &mut self,
        address: usize,
        value: u32,
        thread: Thread,
        access: SharedAccess<'_>,
    ) -> Result<u32, FaultKind> {
        let at = self.offset(address, WORD)?;
        let words = words(at, WORD);
        self.require_after_writes(words.clone(), access, "writes")?;
        self.require_after_reads(words.clone(), access)?;
        let changes = self.atomics.entry(words.start).or_default();
        match changes.iter_mut().find(|(agent, _)| *agent == access.agent) {
            Some((_, stamp)) => *stamp = stamp.and(access),
            None => changes.push((access.agent, Stamp::of(access))),
        }
        self.fences.store(words, thread);
        let word = &mut self.bytes[at..at + WORD];
        let old = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        word.copy_from_slice(&old.max(value).to_le_bytes());
        Ok(old)
    }

    /// Makes stores of these lanes of `warp` visible to the async proxy.
    pub(crate) fn fence(&mut self, warp: usize, active: u32, time: u32) {
        self.fences.fence(warp, active, time);
        self.fence_barriers(warp);
    }

    /// Makes mbarriers that `warp` initialized visible to TMA.
    pub(crate) fn fence_barriers(&mut self, warp: usize) {
        for (offset, barrier) in &mut self.barriers {
            barrier.is_fenced |= self.writes[offset / WORD].0 == Agent::threads(warp);
        }
    }

    /// Initializes an mbarrier; `tiles` is the agent of its TMA loads.
    pub(crate) fn set_barrier(
        &mut self,
        address: usize,
        arrivals: u32,
        tiles: Agent,
        access: SharedAccess<'_>,
    ) -> Result<(), FaultKind> {
        if !address.is_multiple_of(BARRIER) {
            return Err(FaultKind::Misaligned { address: address as u64, alignment: BARRIER });
        }
        let offset = self.offset(address, BARRIER)?;
        self.barriers.remove(&offset);
        self.write(address, &[POISON; BARRIER], access)?;
        self.barriers.insert(offset, Barrier::new(arrivals, tiles, access.clock));
        Ok(())
    }

    /// The mbarrier at an address, whose initialization must happen before the access.
    pub(crate) fn barrier(
        &mut self,
        address: usize,
        access: SharedAccess<'_>,
    ) -> Result<&mut Barrier, FaultKind> {
        let offset = self.offset(address, BARRIER)?;
        if self.barriers.contains_key(&offset) {
            self.require_after_writes(words(offset, BARRIER), access, "uses the mbarrier at")?;
        }
        self.barriers.get_mut(&offset).ok_or(FaultKind::NoBarrier { offset })
    }
}

/// The words of a byte range.
fn words(at: usize, bytes: usize) -> Range<usize> {
    at / WORD..(at + bytes).div_ceil(WORD)
}

fn race(word: usize, does: &'static str, other: Agent, did: &'static str) -> FaultKind {
    FaultKind::Race { offset: word * WORD, does, other: other.name(), did }
}
