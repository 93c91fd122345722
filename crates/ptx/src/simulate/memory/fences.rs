//! Which generic-proxy stores are visible to the async proxy (TMA, wgmma).

use std::ops::Range;

use super::{Agent, Lane, SharedAccess, access::Stamp};

/// A thread of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) warp: usize,
    pub(crate) lane: usize,
}

/// For every word of shared memory, the thread that stored it, and when that thread executed a proxy fence.
#[derive(Debug)]
pub(super) struct Fences {
    marks: Vec<Option<Mark>>,
    /// Stores without a fence.
    unfenced: Vec<(Thread, Range<usize>)>,
    /// Whether there was any store.
    is_used: bool,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    warp: u16,
    lane: u8,
    fenced: Stamp,
}

impl Mark {
    fn is_by(&self, thread: Thread) -> bool {
        usize::from(self.warp) == thread.warp && usize::from(self.lane) == thread.lane
    }
}

/// Stores that are tracked, whatever the size of the memory.
const FEW: usize = 1 << 10;

impl Fences {
    pub(super) fn new(words: usize) -> Self {
        Self { marks: vec![None; words], unfenced: Vec::new(), is_used: false }
    }

    /// The async proxy wrote: it needs no fence to see that.
    pub(super) fn clear(&mut self, words: Range<usize>) {
        if self.is_used {
            self.marks[words].fill(None);
        }
    }

    pub(super) fn store(&mut self, words: Range<usize>, thread: Thread) {
        let mark = Mark { warp: thread.warp as u16, lane: thread.lane as u8, fenced: Stamp::NEVER };
        self.marks[words.clone()].fill(Some(mark));
        self.unfenced.push((thread, words));
        self.is_used = true;
        if self.unfenced.len() > 2 * self.marks.len() + FEW {
            self.forget_overwritten();
        }
    }

    /// Drops overwritten and repeated stores, so that a kernel that never fences takes bounded memory.
    fn forget_overwritten(&mut self) {
        let marks = &self.marks;
        let holds = |thread: Thread, word: usize| {
            marks[word].is_some_and(|mark| mark.is_by(thread) && mark.fenced == Stamp::NEVER)
        };
        let mut kept = vec![false; marks.len()];
        // Keep the words that still hold the store; each word has one owner, so none is kept twice.
        let unfenced = std::mem::take(&mut self.unfenced).into_iter().rev();
        self.unfenced = unfenced
            .flat_map(|(thread, words)| words.map(move |word| (thread, word..word + 1)))
            .filter(|(thread, word)| {
                holds(*thread, word.start) && !std::mem::replace(&mut kept[word.start], true)
            })
            .collect();
    }

    /// Fences what these lanes of `warp` stored.
    pub(super) fn fence(&mut self, warp: usize, active: u32, time: u32) {
        let marks = &mut self.marks;
        self.unfenced.retain(|(thread, words)| {
            let fences = thread.warp == warp && active >> thread.lane & 1 == 1;
            if fences {
                for mark in marks[words.clone()].iter_mut().flatten() {
                    if mark.is_by(*thread) {
                        mark.fenced = Stamp::new(time, Lane::new(thread.lane));
                    }
                }
            }
            !fences
        });
    }

    /// The first word that the async proxy would not see if these lanes issued it, and the warp that stored
    /// it.
    pub(super) fn first_unseen(
        &self,
        words: Range<usize>,
        active: u32,
        access: SharedAccess<'_>,
    ) -> Option<(usize, usize)> {
        if !self.is_used {
            return None;
        }
        let first = words.start;
        self.marks[words].iter().enumerate().find_map(|(at, mark)| {
            let Mark { warp, lane, fenced } = (*mark)?;
            let agent = Agent::threads(usize::from(warp));
            let issues = agent == access.agent && active >> lane & 1 == 1;
            let is_seen = fenced != Stamp::NEVER && (issues || fenced.is_before(agent, access));
            (!is_seen).then_some((first + at, usize::from(warp)))
        })
    }
}
