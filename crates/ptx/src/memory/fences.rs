//! Which ordinary stores the engines see.

use std::ops::Range;

use super::{Access, Agent, Lane, access::Stamp};

/// A thread of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) warp: usize,
    pub(crate) lane: usize,
}

/// For every word of shared memory, the thread whose store it holds, and when that thread fenced.
#[derive(Debug)]
pub(super) struct Fences {
    marks: Vec<Option<Mark>>,
    /// Words that threads stored to and have not fenced.
    unfenced: Vec<(Thread, Range<usize>)>,
    /// Whether anything was ever stored.
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

/// Stores that are kept account of, whatever the size of the memory.
const FEW: usize = 1 << 10;

impl Fences {
    pub(super) fn new(words: usize) -> Self {
        Self { marks: vec![None; words], unfenced: Vec::new(), is_used: false }
    }

    /// An engine wrote: it needs no fence to see that.
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

    /// Forgets stores that others have overwritten since, and repeated ones: without it, a kernel that never fences fills the memory.
    fn forget_overwritten(&mut self) {
        let marks = &self.marks;
        let holds = |thread: Thread, word: usize| {
            marks[word].is_some_and(|mark| mark.is_by(thread) && mark.fenced == Stamp::NEVER)
        };
        let mut kept = vec![false; marks.len()];
        // The words of a store that are still its own; each word has one owner, so that no word is kept twice.
        let unfenced = std::mem::take(&mut self.unfenced).into_iter().rev();
        self.unfenced = unfenced
            .flat_map(|(thread, words)| words.map(move |word| (thread, word..word + 1)))
            .filter(|(thread, word)| {
                holds(*thread, word.start) && !std::mem::replace(&mut kept[word.start], true)
            })
            .collect();
    }

    /// Lets engines see what these lanes of `warp` stored, once they hear of it.
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

    /// The first word, and who stored to it, that an engine would not see if these lanes started it.
    pub(super) fn first_unseen(
        &self,
        words: Range<usize>,
        active: u32,
        access: Access<'_>,
    ) -> Option<(usize, usize)> {
        if !self.is_used {
            return None;
        }
        let first = words.start;
        self.marks[words].iter().enumerate().find_map(|(at, mark)| {
            let Mark { warp, lane, fenced } = (*mark)?;
            let agent = Agent::threads(usize::from(warp));
            let starts_it = agent == access.agent && active >> lane & 1 == 1;
            let is_seen = fenced != Stamp::NEVER && (starts_it || fenced.is_before(agent, access));
            (!is_seen).then_some((first + at, usize::from(warp)))
        })
    }
}
