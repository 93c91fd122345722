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
    }

    /// Lets engines see what these lanes of `warp` stored, once they hear of it.
    pub(super) fn fence(&mut self, warp: usize, active: u32, time: u32) {
        let marks = &mut self.marks;
        self.unfenced.retain(|(thread, words)| {
            let fences = thread.warp == warp && active >> thread.lane & 1 == 1;
            if fences {
                for mark in marks[words.clone()].iter_mut().flatten() {
                    if usize::from(mark.warp) == warp && usize::from(mark.lane) == thread.lane {
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
