//! Which registers of a warp are initialized.

use std::cell::Cell;

use super::program::{Predicate, Program, Wide, Word};

/// The lanes that have written each register.
#[derive(Debug, Default)]
pub(super) struct Initialized {
    words: Vec<u32>,
    wides: Vec<u32>,
    predicates: Vec<u32>,
    /// Whether a lane has read an uninitialized register since the last [`Initialized::take_used_unwritten`].
    used_unwritten: Cell<bool>,
}

impl Initialized {
    pub(super) fn new(program: &Program) -> Self {
        Self {
            words: vec![0; program.words],
            wides: vec![0; program.wides],
            predicates: vec![0; program.predicates],
            used_unwritten: Cell::new(false),
        }
    }

    pub(super) fn set_word(&mut self, word: Word, lane: usize) {
        self.words[word] |= 1 << lane;
    }

    pub(super) fn set_word_of_all(&mut self, word: Word) {
        self.words[word] = u32::MAX;
    }

    pub(super) fn set_wide(&mut self, wide: Wide, lane: usize) {
        self.wides[wide] |= 1 << lane;
    }

    pub(super) fn set_predicate(&mut self, predicate: Predicate, lanes: u32) {
        self.predicates[predicate] |= lanes;
    }

    pub(super) fn use_word(&self, word: Word, lane: usize) {
        self.note(self.words[word] >> lane & 1 == 1);
    }

    pub(super) fn use_word_of(&self, word: Word, lanes: u32) {
        self.note(lanes & !self.words[word] == 0);
    }

    pub(super) fn use_wide(&self, wide: Wide, lane: usize) {
        self.note(self.wides[wide] >> lane & 1 == 1);
    }

    pub(super) fn use_predicate(&self, predicate: Predicate, lanes: u32) {
        self.note(lanes & !self.predicates[predicate] == 0);
    }

    fn note(&self, is_written: bool) {
        if !is_written {
            self.used_unwritten.set(true);
        }
    }

    /// Whether a lane has read a register that it has not written, since the last call.
    pub(super) fn take_used_unwritten(&self) -> bool {
        self.used_unwritten.take()
    }
}
