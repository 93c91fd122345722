//! Shared memory of a block, with the last accesses to every word.

use std::{collections::HashMap, ops::Range};

use super::{Agent, Barrier, Clock};
use crate::FaultKind;

/// Address at which a block's shared memory starts: below it lies what the system keeps for itself.
pub(crate) const SHARED_START: usize = 1024;

/// What memory holds that nobody has written: NaN in every format.
const POISON: u8 = 0xff;

/// Bytes that are watched together.
const WORD: usize = 4;

/// Who accesses shared memory, and what happened before as far as they know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access<'a> {
    pub(crate) agent: Agent,
    pub(crate) lane: Lane,
    pub(crate) clock: &'a Clock,
}

/// The lane of the agent's warp that accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane(u8);

impl Lane {
    /// Not one lane: several together, or an engine.
    pub(crate) const SEVERAL: Self = Self(32);

    pub(crate) fn new(lane: usize) -> Self {
        Self(lane as u8)
    }
}

/// Time and lane of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp(u32);

impl Stamp {
    const NEVER: Self = Self(0);

    fn new(time: u32, lane: Lane) -> Self {
        Self(time << 6 | u32::from(lane.0))
    }

    fn time(self) -> u32 {
        self.0 >> 6
    }

    fn lane(self) -> Lane {
        Lane(self.0 as u8 & 63)
    }

    /// Whether there is an order between this access of `agent` and another one.
    fn is_before(self, agent: Agent, access: Access<'_>) -> bool {
        let time = access.clock.of(agent);
        if agent != access.agent {
            return self.time() <= time;
        }
        // Since the lanes last met, each has an order with itself alone.
        self.time() < time || self.lane() == access.lane && access.lane != Lane::SEVERAL
    }
}

/// Shared memory of a block.
#[derive(Debug)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    barriers: HashMap<usize, Barrier>,
    /// Last write of every word.
    writes: Vec<(u16, Stamp)>,
    /// Last read of every word, for every agent that ever read.
    reads: Vec<Option<Vec<Stamp>>>,
    /// The warp that stored to a word and has not fenced since, plus one.
    unfenced: Vec<u16>,
    /// Whether there is any.
    has_unfenced: bool,
}

impl Shared {
    /// Shared memory of a block that begins with the first thing that `first` does: before, no one else may touch it.
    pub(crate) fn new(size: usize, first: Agent) -> Self {
        let words = size.div_ceil(WORD);
        Self {
            bytes: vec![POISON; size],
            barriers: HashMap::new(),
            writes: vec![(first.0 as u16, Stamp::new(1, Lane::SEVERAL)); words],
            reads: Vec::new(),
            unfenced: vec![0; words],
            has_unfenced: false,
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
        let words = at / WORD..(at + count).div_ceil(WORD);
        self.require_written(words.clone(), access, "reads")?;
        let agent = access.agent.0;
        if self.reads.len() <= agent {
            self.reads.resize(agent + 1, None);
        }
        let (len, now) = (self.writes.len(), access.clock.of(access.agent));
        for stamp in &mut self.reads[agent].get_or_insert_with(|| vec![Stamp::NEVER; len])[words] {
            let is_alone = stamp.time() < now || stamp.lane() == access.lane;
            *stamp = Stamp::new(now, if is_alone { access.lane } else { Lane::SEVERAL });
        }
        Ok(&self.bytes[at..at + count])
    }

    /// As [`Shared::read`], by an engine, which does not see stores that were not fenced.
    pub(crate) fn read_by_engine(
        &mut self,
        address: usize,
        count: usize,
        access: Access<'_>,
    ) -> Result<&[u8], FaultKind> {
        let at = self.offset(address, count)?;
        if self.has_unfenced {
            let mut words = at / WORD..(at + count).div_ceil(WORD);
            if let Some(word) = words.find(|&word| self.unfenced[word] != 0) {
                let warp = usize::from(self.unfenced[word]) - 1;
                return Err(FaultKind::NotFenced { offset: word * WORD, warp });
            }
        }
        self.read(address, count, access)
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
            let writer = Agent(usize::from(writer));
            if !stamp.is_before(writer, access) {
                return Err(race(word, does, writer, "writes"));
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
        let words = at / WORD..(at + bytes.len()).div_ceil(WORD);
        self.require_written(words.clone(), access, "writes")?;
        for (reader, stamps) in self.reads.iter().enumerate() {
            let (reader, Some(stamps)) = (Agent(reader), stamps) else { continue };
            if let Some(word) = words.clone().find(|&word| !stamps[word].is_before(reader, access)) {
                return Err(race(word, "writes", reader, "reads"));
            }
        }
        let stamp = Stamp::new(access.clock.of(access.agent), access.lane);
        self.writes[words.clone()].fill((access.agent.0 as u16, stamp));
        self.unfenced[words].fill(0);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// As [`Shared::write`], by threads of `warp`: engines see it only after a fence.
    pub(crate) fn store(
        &mut self,
        address: usize,
        bytes: &[u8],
        warp: usize,
        access: Access<'_>,
    ) -> Result<(), FaultKind> {
        self.write(address, bytes, access)?;
        let at = self.offset(address, bytes.len())?;
        self.unfenced[at / WORD..(at + bytes.len()).div_ceil(WORD)].fill(warp as u16 + 1);
        self.has_unfenced = true;
        Ok(())
    }

    /// Raises a word to `value` at once, whoever else does so too; gives what it was.
    pub(crate) fn raise(
        &mut self,
        address: usize,
        value: u32,
        warp: usize,
        access: Access<'_>,
    ) -> Result<u32, FaultKind> {
        let at = self.offset(address, WORD)?;
        let word = &mut self.bytes[at..at + WORD];
        let old = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        word.copy_from_slice(&old.max(value).to_le_bytes());
        let stamp = Stamp::new(access.clock.of(access.agent), access.lane);
        self.writes[at / WORD] = (access.agent.0 as u16, stamp);
        self.unfenced[at / WORD] = warp as u16 + 1;
        self.has_unfenced = true;
        Ok(old)
    }

    /// Lets engines see what `warp` stored.
    pub(crate) fn fence(&mut self, warp: usize) {
        if !self.has_unfenced {
            return;
        }
        self.has_unfenced = false;
        for mark in &mut self.unfenced {
            if *mark == warp as u16 + 1 {
                *mark = 0;
            }
            self.has_unfenced |= *mark != 0;
        }
    }

    /// Makes a barrier.
    pub(crate) fn set_barrier(&mut self, address: usize, barrier: Barrier) -> Result<(), FaultKind> {
        if !address.is_multiple_of(8) {
            return Err(FaultKind::Misaligned { address: address as u64, alignment: 8 });
        }
        let offset = self.offset(address, 8)?;
        self.barriers.insert(offset, barrier);
        Ok(())
    }

    /// The barrier at an address.
    pub(crate) fn barrier(&mut self, address: usize) -> Result<&mut Barrier, FaultKind> {
        let offset = self.offset(address, 8)?;
        self.barriers.get_mut(&offset).ok_or(FaultKind::NoBarrier { offset })
    }
}

fn race(word: usize, does: &'static str, other: Agent, did: &'static str) -> FaultKind {
    FaultKind::Race { offset: word * WORD, does, other: other.name(), did }
}
