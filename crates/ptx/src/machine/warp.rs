//! A warp: 32 lanes with their registers, in one or several places of the program.

use std::{borrow::Cow, collections::VecDeque};

use super::{Launch, copies, products::StartedProduct};
use crate::{
    memory::{Agent, Clock},
    program::{Predicate, Value, Wide, Word},
};

pub(super) const LANES: usize = 32;

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
    words: Vec<[u32; LANES]>,
    wides: Vec<[u64; LANES]>,
    predicates: Vec<u32>,
    pub(super) splits: Vec<Split>,
    pub(super) exited: u32,
    /// What all lanes know to have happened.
    clock: Clock,
    /// What some lanes know besides, because only they waited for it.
    learnt: Vec<(u32, Clock)>,
    /// Lanes that accessed shared memory since the warp last met.
    pub(super) touched: u32,
    pub(super) products: VecDeque<StartedProduct>,
    /// Groups of products that were closed.
    pub(super) product_groups: u64,
    pub(super) copies: VecDeque<copies::ThreadCopy>,
    pub(super) stores: VecDeque<copies::TensorStore>,
    /// Work that was given to the engines so far.
    started_products: u32,
    /// The last of them that is over.
    pub(super) finished_products: u32,
    started_copies: u32,
    /// For every lane: how often the cluster's barrier had opened when it arrived there.
    pub(super) cluster_phase: Vec<u64>,
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
        let mut clock = Clock::new(launch.cluster * per_block);
        // That the block has begun is known inside of it, and to others once they have met.
        clock.advance(Agent::threads(block * per_block));
        clock.advance(Agent::threads(in_cluster));
        Self {
            block,
            index,
            in_cluster,
            words: vec![[0; LANES]; launch.program.words],
            wides: vec![[0; LANES]; launch.program.wides],
            predicates: vec![0; launch.program.predicates],
            splits: vec![Split { at: 0, lanes: u32::MAX, arrived: None }],
            clock,
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

    pub(super) fn word(&self, word: Word, lane: usize) -> u32 {
        self.words[word][lane]
    }

    pub(super) fn value(&self, value: Value, lane: usize) -> u32 {
        match value {
            Value::Register(word) => self.words[word][lane],
            Value::Number(number) => number,
        }
    }

    pub(super) fn float(&self, value: Value, lane: usize) -> f32 {
        f32::from_bits(self.value(value, lane))
    }

    pub(super) fn wide(&self, wide: Wide, lane: usize) -> u64 {
        self.wides[wide][lane]
    }

    pub(super) fn holds(&self, predicate: Predicate) -> u32 {
        self.predicates[predicate]
    }

    pub(super) fn set(&mut self, word: Word, lane: usize, value: u32) {
        self.words[word][lane] = value;
    }

    pub(super) fn set_wide(&mut self, wide: Wide, lane: usize, value: u64) {
        self.wides[wide][lane] = value;
    }

    /// Sets a predicate in the active lanes.
    pub(super) fn set_predicate(&mut self, predicate: Predicate, active: u32, value: u32) {
        let old = self.predicates[predicate];
        self.predicates[predicate] = old & !active | value & active;
    }

    /// What happened before what these lanes do now. What the other lanes did since the warp last met is not part of it.
    fn before(&self, active: u32) -> Clock {
        let mut before = self.known(active).into_owned();
        if self.touched & !active != 0 {
            before.set(self.agent(), before.of(self.agent()) - 1);
        }
        before
    }

    /// Says that what these lanes did so far happened before what others do once they hear of it.
    pub(super) fn release(&mut self, active: u32) -> Clock {
        let released = self.before(active);
        if self.touched & !active == 0 {
            self.begin_epoch();
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
            self.begin_epoch();
        }
    }

    fn begin_epoch(&mut self) {
        self.clock.advance(Agent::threads(self.in_cluster));
        self.touched = 0;
    }

    /// Hands work to the tensor cores: what happened before it.
    pub(super) fn start_product(&mut self) -> Clock {
        self.started_products += 1;
        let mut clock = self.clock.clone();
        clock.set(Agent::products(self.in_cluster), self.started_products);
        clock
    }

    /// Gets to know that products up to this one are over.
    pub(super) fn finish_products(&mut self, last: u32) {
        self.clock.set(Agent::products(self.in_cluster), last);
    }

    /// Hands work to the copy engine: what happened before it.
    pub(super) fn start_copy(&mut self, active: u32) -> Clock {
        self.started_copies += 1;
        let mut clock = self.before(active);
        clock.set(Agent::copies(self.in_cluster), self.started_copies);
        clock
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
