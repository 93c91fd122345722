//! Shared memory of a block, with the last accesses to every word.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use super::{
    Access, Agent, Barrier, Lane,
    access::Stamp,
    fences::{Fences, Thread},
};
use crate::FaultKind;

/// Address at which a block's shared memory starts: below it lies what the system keeps for itself.
pub(crate) const SHARED_START: usize = 1024;

/// What memory holds that nobody has written: NaN in every format.
const POISON: u8 = 0xff;

/// Bytes that are watched together.
const WORD: usize = 4;

/// Bytes of a barrier.
const BARRIER: usize = 8;

/// Shared memory of a block.
#[derive(Debug)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    barriers: BTreeMap<usize, Barrier>,
    /// Last write of every word.
    writes: Vec<(Agent, Stamp)>,
    /// Last read of every word, for every agent that ever read.
    reads: Vec<Option<Vec<Stamp>>>,
    /// Atomic changes of a word since it was last written. They need no order among themselves.
    atomics: HashMap<usize, Vec<(Agent, Stamp)>>,
    fences: Fences,
}

impl Shared {
    /// Shared memory of a block that begins at a time of `first`: before, no one else may touch it.
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

    /// Reads, after a look at who wrote.
    pub(crate) fn read(
        &mut self,
        address: usize,
        count: usize,
        access: Access<'_>,
    ) -> Result<&[u8], FaultKind> {
        let at = self.offset(address, count)?;
        let words = words(at, count);
        self.require_written(words.clone(), access, "reads")?;
        self.require_settled(words.clone(), access, "reads")?;
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

    /// Refuses what an engine would not see if these lanes started it now: ordinary stores that were not fenced.
    pub(crate) fn require_fenced(
        &self,
        address: usize,
        count: usize,
        active: u32,
        access: Access<'_>,
    ) -> Result<(), FaultKind> {
        let words = words(self.offset(address, count)?, count);
        match self.fences.first_unseen(words, active, access) {
            Some((word, warp)) => Err(FaultKind::NotFenced { offset: word * WORD, warp }),
            None => Ok(()),
        }
    }

    /// Refuses words whose last write has no order with this access.
    fn require_written(
        &self,
        words: Range<usize>,
        access: Access<'_>,
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

    /// Refuses words that were changed atomically with no order with this access.
    fn require_settled(
        &self,
        mut words: Range<usize>,
        access: Access<'_>,
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

    /// Refuses words whose last reads have no order with this access, which writes.
    fn require_read(&self, words: Range<usize>, access: Access<'_>) -> Result<(), FaultKind> {
        for (reader, stamps) in self.reads.iter().enumerate() {
            let (reader, Some(stamps)) = (Agent::of_index(reader), stamps) else { continue };
            if let Some(word) = words.clone().find(|&word| !stamps[word].is_before(reader, access)) {
                return Err(race(word, "writes", reader, "reads"));
            }
        }
        Ok(())
    }

    /// Writes, after a look at who read and wrote.
    pub(crate) fn write(
        &mut self,
        address: usize,
        bytes: &[u8],
        access: Access<'_>,
    ) -> Result<(), FaultKind> {
        let at = self.offset(address, bytes.len())?;
        let words = words(at, bytes.len());
        if let Some((&offset, _)) =
            self.barriers.range((at + 1).saturating_sub(BARRIER)..at + bytes.len()).next()
        {
            return Err(FaultKind::OverBarrier { offset });
        }
        self.require_written(words.clone(), access, "writes")?;
        self.require_settled(words.clone(), access, "writes")?;
        self.require_read(words.clone(), access)?;
        if !self.atomics.is_empty() {
            words.clone().for_each(|word| drop(self.atomics.remove(&word)));
        }
        self.writes[words.clone()].fill((access.agent, Stamp::of(access)));
        self.fences.clear(words);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// As [`Shared::write`], by a thread: engines see it only after a fence.
    pub(crate) fn store(
        &mut self,
        address: usize,
        bytes: &[u8],
        thread: Thread,
        access: Access<'_>,
    ) -> Result<(), FaultKind> {
        self.write(address, bytes, access)?;
        let at = self.offset(address, bytes.len())?;
        self.fences.store(words(at, bytes.len()), thread);
        Ok(())
    }

    /// Raises a word to `value` at once, whoever else does so too; gives what it was.
    pub(crate) fn raise(
        &mut self,
        address: usize,
        value: u32,
        thread: Thread,
        access: Access<'_>,
    ) -> Result<u32, FaultKind> {
        let at = self.offset(address, WORD)?;
        let words = words(at, WORD);
        self.require_written(words.clone(), access, "writes")?;
        self.require_read(words.clone(), access)?;
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

    /// Lets engines see what these lanes of `warp` stored.
    pub(crate) fn fence(&mut self, warp: usize, active: u32, time: u32) {
        self.fences.fence(warp, active, time);
        self.fence_barriers(warp);
    }

    /// Lets the copy engine see the barriers that `warp` made.
    pub(crate) fn fence_barriers(&mut self, warp: usize) {
        for (offset, barrier) in &mut self.barriers {
            barrier.is_fenced |= self.writes[offset / WORD].0 == Agent::threads(warp);
        }
    }

    /// Makes a barrier, whose tiles `tiles` stands for.
    pub(crate) fn set_barrier(
        &mut self,
        address: usize,
        arrivals: u32,
        tiles: Agent,
        access: Access<'_>,
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

    /// The barrier at an address, for someone who knows that it was made.
    pub(crate) fn barrier(&mut self, address: usize, access: Access<'_>) -> Result<&mut Barrier, FaultKind> {
        let offset = self.offset(address, BARRIER)?;
        if self.barriers.contains_key(&offset) {
            self.require_written(words(offset, BARRIER), access, "uses the barrier at")?;
        }
        self.barriers.get_mut(&offset).ok_or(FaultKind::NoBarrier { offset })
    }
}

/// The words that bytes lie in.
fn words(at: usize, bytes: usize) -> Range<usize> {
    at / WORD..(at + bytes).div_ceil(WORD)
}

fn race(word: usize, does: &'static str, other: Agent, did: &'static str) -> FaultKind {
    FaultKind::Race { offset: word * WORD, does, other: other.name(), did }
}
