//! A warp: 32 lanes with their registers, in one or several places of the program.

use std::{borrow::Cow, cell::Cell, collections::VecDeque};

use super::{
    Launch, products::StartedProduct, thread_copies::ThreadCopy, tiles::TensorStore, written::Written,
};
use crate::{
    FaultKind, Global,
    memory::{Access, Agent, Clock, Lane},
    program::{Predicate, Value, Wide, Word},
};

pub(super) const LANES: usize = 32;

/// The time at which a block begins, as its first warp counts.
pub(super) const BEGUN: u32 = 1;

/// Lanes that are at the same place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    pub(super) at: usize,
    pub(super) lanes: u32,
    /// At a barrier of the block that it has arrived at: how often that had opened before.
    pub(super) arrived: Option<u64>,
}

/// A warp.
#[derive(Debug, Default)]
pub(super) struct Warp {
    /// Rank of its block in the cluster.
    pub(super) block: usize,
    /// Index in its block, and in the cluster.
    pub(super) index: usize,
    pub(super) in_cluster: usize,
    /// Registers of each thread that the machine sets aside, where the kernel changes that.
    pub(super) registers: usize,
    words: Vec<[u32; LANES]>,
    /// For every word, how many started products write it.
    awaited: Vec<u32>,
    /// A word that was used although products write it, since that was last asked.
    used_awaited: Cell<Option<Word>>,
    wides: Vec<[u64; LANES]>,
    predicates: Vec<u32>,
    pub(super) written: Written,
    pub(super) splits: Vec<Split>,
    pub(super) exited: u32,
    /// What all lanes know to have happened, also of what other lanes did.
    clock: Clock,
    /// What some lanes know besides, because only they waited for it.
    learnt: Vec<(u32, Clock)>,
    /// Lanes that accessed shared memory since the warp last met.
    touched: u32,
    /// The time of its threads: goes on when they tell others what they did.
    pub(super) time: u32,
    pub(super) products: VecDeque<StartedProduct>,
    /// Groups of products that were closed.
    pub(super) product_groups: u64,
    /// Whether registers were fenced since products were last waited for.
    pub(super) has_fenced_products: bool,
    pub(super) copies: VecDeque<ThreadCopy>,
    pub(super) stores: VecDeque<TensorStore>,
    /// Work that was given to the engines so far.
    started_products: u32,
    started_copies: u32,
    started_stores: u32,
    /// For every lane: how often the cluster's barrier had opened when it arrived there.
    pub(super) cluster_phase: Vec<u64>,
    /// Lanes that have waited for the kernel before this one.
    pub(super) follows_previous: u32,
    /// Lanes that have arrived there and not yet waited.
    pub(super) awaits_cluster: u32,
}

/// The lanes of a mask.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

impl Warp {
    pub(super) fn new(launch: &Launch<'_>, block: usize, index: usize) -> Self {
        let per_block = launch.threads / LANES;
        let in_cluster = block * per_block + index;
        let mut clock = Clock::default();
        // That the block has begun is known inside of it, and to others once they have met.
        clock.set(Agent::threads(block * per_block), BEGUN);
        Self {
            block,
            index,
            in_cluster,
            registers: launch.program.allotted_registers,
            words: vec![[0; LANES]; launch.program.words],
            awaited: vec![0; launch.program.words],
            wides: vec![[0; LANES]; launch.program.wides],
            predicates: vec![0; launch.program.predicates],
            written: Written::new(launch.program),
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

    /// Whether this only stands for a warp that is taking its turn.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.cluster_phase.is_empty()
    }

    /// Lanes that have not left.
    pub(super) fn live(&self) -> u32 {
        !self.exited
    }

    /// Refuses memory that the kernel before this one may still use, for lanes that have not waited for it.
    pub(super) fn require_settled(
        &self,
        active: u32,
        address: u64,
        global: &Global,
    ) -> Result<(), FaultKind> {
        if active & !self.follows_previous == 0 || global.is_settled(address) {
            return Ok(());
        }
        Err(FaultKind::BeforePrevious { address })
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

    /// The value of a register that all lanes have in common.
    pub(super) fn same_wide(&self, wide: Wide) -> Result<u64, FaultKind> {
        let mut values = lanes(self.live()).map(|lane| self.wide(wide, lane));
        let first = values.next().unwrap_or(0);
        if values.all(|value| value == first) { Ok(first) } else { Err(FaultKind::OperandsDiffer) }
    }

    /// Sets a register in all lanes; gives what it was.
    pub(super) fn exchange(&mut self, word: Word, values: [u32; LANES]) -> [u32; LANES] {
        self.written.set_word_of_all(word);
        std::mem::replace(&mut self.words[word], values)
    }

    /// Of these lanes, those in which a predicate holds.
    pub(super) fn holds(&self, predicate: Predicate, among: u32) -> u32 {
        self.written.use_predicate(predicate, among);
        self.predicates[predicate] & among
    }

    pub(super) fn set(&mut self, word: Word, lane: usize, value: u32) {
        self.note_use(word);
        self.written.set_word(word, lane);
        self.words[word][lane] = value;
    }

    /// These words are no one's business until products have written them.
    pub(super) fn await_words(&mut self, words: &[Word]) {
        words.iter().for_each(|&word| self.awaited[word] += 1);
    }

    /// A product has written these words.
    pub(super) fn have_words(&mut self, words: &[Word]) {
        words.iter().for_each(|&word| self.awaited[word] -= 1);
    }

    /// What it has started and not waited for, or keeps for some of its lanes alone.
    pub(super) fn pending(&self) -> [(usize, &'static str); 4] {
        [
            (self.products.len(), "products in flight"),
            (self.copies.len(), "copies in flight"),
            (self.stores.len(), "stores of tiles in flight"),
            (self.learnt.len(), "sets of lanes that waited by themselves"),
        ]
    }

    fn note_use(&self, word: Word) {
        if self.awaited[word] > 0 {
            self.used_awaited.set(Some(word));
        }
    }

    /// A word that was used although products write it, since this was last asked.
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

    /// An access of a lane that knows this much.
    pub(super) fn access<'a>(&self, lane: Lane, clock: &'a Clock) -> Access<'a> {
        Access { agent: self.agent(), time: self.time, lane, clock }
    }

    /// These lanes access shared memory.
    pub(super) fn touch(&mut self, active: u32) {
        self.touched |= active;
    }

    /// Says that what these lanes did so far happened before what others do once they hear of it. What the other lanes did since the
    /// warp last met is not part of it.
    pub(super) fn release(&mut self, active: u32) -> Clock {
        let mut released = self.known(active).into_owned();
        if self.touched != 0 {
            if self.touched & !active == 0 {
                released.set(self.agent(), self.time);
            }
            // What they do from now on is not part of it.
            self.time += 1;
        }
        released
    }

    /// What these lanes know to have happened.
    pub(super) fn known(&self, active: u32) -> Cow<'_, Clock> {
        let mut known = Cow::Borrowed(&self.clock);
        for (lanes, clock) in &self.learnt {
            if active & !lanes == 0 {
                known.to_mut().join(clock);
            }
        }
        known
    }

    /// These lanes get to know that something happened.
    pub(super) fn learn(&mut self, active: u32, clock: &Clock) {
        if active == self.live() {
            return self.clock.join(clock);
        }
        match self.learnt.iter_mut().find(|(lanes, _)| *lanes == active) {
            Some((_, learnt)) => learnt.join(clock),
            None => self.learnt.push((active, clock.clone())),
        }
    }

    /// The lanes meet: what one did or knew before, all know.
    pub(super) fn meet(&mut self) {
        for (_, clock) in std::mem::take(&mut self.learnt) {
            self.clock.join(&clock);
        }
        if self.touched != 0 {
            self.clock.set(self.agent(), self.time);
            (self.touched, self.time) = (0, self.time + 1);
        }
    }

    /// Hands work to the tensor cores: what happened before it, and when it is.
    pub(super) fn start_product(&mut self) -> (Clock, u32) {
        self.started_products += 1;
        (self.release(self.live()), self.started_products)
    }

    /// Gets to know that products up to this one are over.
    pub(super) fn finish_products(&mut self, last: u32) {
        self.clock.set(Agent::products(self.in_cluster), last);
    }

    /// Hands a copy into shared memory over: what happened before it, and when it is.
    pub(super) fn start_copy(&mut self, active: u32) -> (Clock, u32) {
        self.started_copies += 1;
        (self.release(active), self.started_copies)
    }

    /// Hands a copy out of shared memory over: what happened before it, and when it is.
    pub(super) fn start_store(&mut self, active: u32) -> (Clock, u32) {
        self.started_stores += 1;
        (self.release(active), self.started_stores)
    }

    /// Joins lanes that have come to the same place, the hindmost first.
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
