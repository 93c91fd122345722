//! A warp: 32 lanes with their registers, at one or several places of the program.

use std::{borrow::Cow, cell::Cell, collections::VecDeque};

use super::{
    DeviceMemory, FaultKind, Launch,
    cp_async::ThreadCopy,
    initialized::Initialized,
    memory::{Agent, Clock, Lane, SharedAccess},
    program::{Predicate, Value, Wide, Word},
    tma::TensorStore,
    wgmma::PendingWgmma,
};

pub(super) const LANES: usize = 32;

/// The time at which a CTA starts, on the clock of its first warp.
pub(super) const BEGUN: u32 = 1;

/// Converged lanes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    pub(super) at: usize,
    pub(super) lanes: u32,
    /// At a named barrier where it has arrived: how many phases were complete before.
    pub(super) arrived: Option<u64>,
}

/// A warp.
#[derive(Debug, Default)]
pub(super) struct Warp {
    /// Rank of its CTA in the cluster.
    pub(super) cta: usize,
    /// Index in its CTA, and in the cluster.
    pub(super) index: usize,
    pub(super) in_cluster: usize,
    /// Allocated registers per thread, in a kernel with `setmaxnreg`.
    pub(super) registers: usize,
    words: Vec<[u32; LANES]>,
    /// For every word, how many wgmmas in flight write it.
    awaited: Vec<u32>,
    /// A word that was used while a wgmma in flight writes it, since the last [`Warp::take_used_awaited`].
    used_awaited: Cell<Option<Word>>,
    wides: Vec<[u64; LANES]>,
    predicates: Vec<u32>,
    pub(super) written: Initialized,
    pub(super) splits: Vec<Split>,
    pub(super) exited: u32,
    /// What happens before the next instruction of every lane.
    clock: Clock,
    /// What happens before the next instruction of some lanes only, because only they waited.
    learnt: Vec<(u32, Clock)>,
    /// Lanes that accessed shared memory since the last warp barrier.
    touched: u32,
    /// Logical time of its threads; advances at every release.
    pub(super) time: u32,
    pub(super) wgmmas: VecDeque<PendingWgmma>,
    /// wgmma groups committed so far.
    pub(super) wgmma_groups: u64,
    /// Whether `wgmma.fence` was executed since the last `wgmma.wait_group`.
    pub(super) has_fenced_wgmma: bool,
    pub(super) copies: VecDeque<ThreadCopy>,
    pub(super) stores: VecDeque<TensorStore>,
    /// Asynchronous operations issued so far.
    started_wgmmas: u32,
    started_copies: u32,
    started_stores: u32,
    /// For every lane: phases of the cluster barrier that were complete when it arrived.
    pub(super) cluster_phase: Vec<u64>,
    /// Lanes that have executed `griddepcontrol.wait`.
    pub(super) follows_previous: u32,
    /// Lanes that have arrived at the cluster barrier and not yet waited.
    pub(super) awaits_cluster: u32,
}

/// The lanes of a mask.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

impl Warp {
    pub(super) fn new(launch: &Launch<'_>, cta: usize, index: usize) -> Self {
        let in_cluster = cta * launch.warps() + index;
        let mut clock = Clock::default();
        // The start of the CTA happens before its own accesses, and before those of others after a cluster
        // barrier.
        clock.set(Agent::threads(cta * launch.warps()), BEGUN);
        Self {
            cta,
            index,
            in_cluster,
            registers: launch.program.allotted_registers,
            words: vec![[0; LANES]; launch.program.words],
            awaited: vec![0; launch.program.words],
            wides: vec![[0; LANES]; launch.program.wides],
            predicates: vec![0; launch.program.predicates],
            written: Initialized::new(launch.program),
            splits: vec![Split { at: 0, lanes: u32::MAX, arrived: None }],
            clock,
            time: BEGUN + 1,
            cluster_phase: vec![0; LANES],
            ..Self::default()
        }
    }

    pub(super) fn agent(&self) -> Agent {
        Agent::threads(self.in_cluster)
    }

    /// Whether this is the placeholder of a warp that is executing.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.cluster_phase.is_empty()
    }

    /// Lanes that have not exited.
    pub(super) fn live(&self) -> u32 {
        !self.exited
    }

    /// Refuses memory that the preceding kernel may still use, in lanes that have not waited for it (PDL).
    pub(super) fn require_previous_done(
        &self,
        active: u32,
        address: u64,
        device: &DeviceMemory,
    ) -> Result<(), FaultKind> {
        if active & !self.follows_previous == 0 || device.is_constant(address) {
            return Ok(());
        }
        Err(FaultKind::BeforePreviousKernel { address })
    }

    pub(super) fn word(&self, word: Word, lane: usize) -> u32 {
        self.note_use(word);
        self.written.use_word(word, lane);
        self.words[word][lane]
    }

    pub(super) fn value(&self, value: Value, lane: usize) -> u32 {
        match value {
            Value::Register(word) => self.word(word, lane),
            Value::Number(number) => number,
        }
    }

    pub(super) fn float(&self, value: Value, lane: usize) -> f32 {
        f32::from_bits(self.value(value, lane))
    }

    pub(super) fn wide(&self, wide: Wide, lane: usize) -> u64 {
        self.written.use_wide(wide, lane);
        self.wides[wide][lane]
    }

    /// The value of a register, which must be the same in all lanes.
    pub(super) fn same_wide(&self, wide: Wide) -> Result<u64, FaultKind> {
        let mut values = lanes(self.live()).map(|lane| self.wide(wide, lane));
        let first = values.next().unwrap_or(0);
        if values.all(|value| value == first) { Ok(first) } else { Err(FaultKind::LaneOperandsDiffer) }
    }

    /// Sets a register in all lanes; returns the old values.
    pub(super) fn exchange(&mut self, word: Word, values: [u32; LANES]) -> [u32; LANES] {
        self.written.set_word_of_all(word);
        std::mem::replace(&mut self.words[word], values)
    }

    /// The lanes among these in which a predicate holds.
    pub(super) fn holds(&self, predicate: Predicate, among: u32) -> u32 {
        self.written.use_predicate(predicate, among);
        self.predicates[predicate] & among
    }

    pub(super) fn set(&mut self, word: Word, lane: usize, value: u32) {
        self.note_use(word);
        self.written.set_word(word, lane);
        self.words[word][lane] = value;
    }

    /// Marks words that a wgmma in flight writes.
    pub(super) fn await_words(&mut self, words: &[Word]) {
        words.iter().for_each(|&word| self.awaited[word] += 1);
    }

    /// A wgmma has written these words.
    pub(super) fn have_words(&mut self, words: &[Word]) {
        words.iter().for_each(|&word| self.awaited[word] -= 1);
    }

    /// Bookkeeping that grows with operations that nothing waits for.
    pub(super) fn pending(&self) -> [(usize, &'static str); 4] {
        [
            (self.wgmmas.len(), "wgmmas in flight"),
            (self.copies.len(), "cp.async in flight"),
            (self.stores.len(), "TMA stores in flight"),
            (self.learnt.len(), "sets of lanes that waited separately"),
        ]
    }

    fn note_use(&self, word: Word) {
        if self.awaited[word] > 0 {
            self.used_awaited.set(Some(word));
        }
    }

    /// A word that was used while a wgmma in flight writes it, since the last call.
    pub(super) fn take_used_awaited(&self) -> Option<Word> {
        self.used_awaited.take()
    }

    pub(super) fn set_wide(&mut self, wide: Wide, lane: usize, value: u64) {
        self.written.set_wide(wide, lane);
        self.wides[wide][lane] = value;
    }

    /// Sets a predicate in the active lanes.
    pub(super) fn set_predicate(&mut self, predicate: Predicate, active: u32, value: u32) {
        self.written.set_predicate(predicate, active);
        let old = self.predicates[predicate];
        self.predicates[predicate] = old & !active | value & active;
    }

    /// An access of a lane, after everything in `clock`.
    pub(super) fn access<'a>(&self, lane: Lane, clock: &'a Clock) -> SharedAccess<'a> {
        SharedAccess { agent: self.agent(), time: self.time, lane, clock }
    }

    /// These lanes access shared memory.
    pub(super) fn touch(&mut self, active: u32) {
        self.touched |= active;
    }

    /// Releases: what these lanes did happens before what an acquirer of the returned clock does. Accesses of
    /// other lanes since the last warp barrier are not part of it.
    pub(super) fn release(&mut self, active: u32) -> Clock {
        let mut released = self.known(active).into_owned();
        if self.touched != 0 {
            if self.touched & !active == 0 {
                released.set(self.agent(), self.time);
            }
            // Later accesses are not part of it.
            self.time += 1;
        }
        released
    }

    /// What happens before the next instruction of these lanes.
    pub(super) fn known(&self, active: u32) -> Cow<'_, Clock> {
        let mut known = Cow::Borrowed(&self.clock);
        for (lanes, clock) in &self.learnt {
            if active & !lanes == 0 {
                known.to_mut().join(clock);
            }
        }
        known
    }

    /// Acquires a clock in these lanes.
    pub(super) fn learn(&mut self, active: u32, clock: &Clock) {
        if active == self.live() {
            return self.clock.join(clock);
        }
        match self.learnt.iter_mut().find(|(lanes, _)| *lanes == active) {
            Some((_, learnt)) => learnt.join(clock),
            None => self.learnt.push((active, clock.clone())),
        }
    }

    /// Synchronizes the lanes: what happened before in one lane happens before in all.
    pub(super) fn meet(&mut self) {
        for (_, clock) in std::mem::take(&mut self.learnt) {
            self.clock.join(&clock);
        }
        if self.touched != 0 {
            self.clock.set(self.agent(), self.time);
            (self.touched, self.time) = (0, self.time + 1);
        }
    }

    /// Issues a wgmma: what happens before it, and its time.
    pub(super) fn start_wgmma(&mut self) -> (Clock, u32) {
        self.started_wgmmas += 1;
        (self.release(self.live()), self.started_wgmmas)
    }

    /// Acquires the completion of wgmmas up to this one.
    pub(super) fn finish_wgmmas(&mut self, last: u32) {
        self.clock.set(Agent::wgmmas(self.in_cluster), last);
    }

    /// Issues a `cp.async`: what happens before it, and its time.
    pub(super) fn start_copy(&mut self, active: u32) -> (Clock, u32) {
        self.started_copies += 1;
        (self.release(active), self.started_copies)
    }

    /// Issues a TMA store: what happens before it, and its time.
    pub(super) fn start_store(&mut self, active: u32) -> (Clock, u32) {
        self.started_stores += 1;
        (self.release(active), self.started_stores)
    }

    /// Reconverges lanes that are at the same instruction, the first instruction first.
    pub(super) fn join_splits(&mut self) {
        if self.splits.len() < 2 {
            return;
        }
        self.splits.sort_by_key(|split| split.at);
        self.splits.dedup_by(|later, earlier| {
            let joins = later.at == earlier.at && later.arrived.is_none() && earlier.arrived.is_none();
            if joins {
                earlier.lanes |= later.lanes;
            }
            joins
        });
    }
}
