//! The loop nest of a lane as a sequence of steps.

use std::ops::Range;

use super::CpuPlan;
use crate::{Problem, device::cpu::RegisterTile};

/// A part of the result whose panels threads claim, group by group; or one of these groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Rows: at most those of a row block.
    pub rows: Range<usize>,
    /// Panels.
    pub panels: Range<usize>,
}

/// One panel and slab: the work on one set of decoded weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Rows of the row block.
    pub rows: Range<usize>,
    /// Range of K whose activations must be decoded before this step, unless they are already.
    pub decode: Option<Range<usize>>,
    /// The first column of K that is decoded.
    pub pass_start: usize,
    /// The panel.
    pub panel: usize,
    /// Which accumulators the panel has.
    pub slot: usize,
    /// The slab's columns of K.
    pub depth: Range<usize>,
    /// Whether this is the first slab of the panel, which initializes the accumulators.
    pub first: bool,
    /// Whether this is the last slab of the panel, which completes the result.
    pub last: bool,
}

/// The steps of the groups that one thread claims, parts of lanes. Loop order, innermost first: slab, panel,
/// pass, group.
#[derive(Clone, Debug)]
pub struct Steps<'a, C> {
    plan: &'a CpuPlan,
    claim: C,
    /// Rows whose activations are decoded over all of K.
    decoded: Range<usize>,
    /// The claimed group, without panels where another must be claimed.
    group: Lane,
    /// Position of the next step.
    pass: usize,
    panel: usize,
    start: usize,
}

impl<'a, C: FnMut() -> Option<Lane>> Steps<'a, C> {
    pub(super) fn new(plan: &'a CpuPlan, claim: C) -> Self {
        let group = Lane { rows: 0..0, panels: 0..0 };
        Self { plan, claim, decoded: 0..0, group, pass: 0, panel: 0, start: 0 }
    }

    fn enter_pass(&mut self, pass: usize) {
        (self.pass, self.panel, self.start) = (pass, self.group.panels.start, pass);
    }

    fn advance(&mut self) {
        let CpuPlan { pass_slabs, tile, problem: Problem { k, .. }, .. } = *self.plan;
        let next_pass = self.pass + pass_slabs * tile.slab;
        self.start += tile.slab;
        if self.start < k.min(next_pass) {
            return;
        }
        (self.start, self.panel) = (self.pass, self.panel + 1);
        if self.panel < self.group.panels.end {
            return;
        }
        if next_pass < k {
            self.enter_pass(next_pass);
        } else {
            self.group.panels = 0..0;
        }
    }
}

impl<C: FnMut() -> Option<Lane>> Iterator for Steps<'_, C> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.group.panels.is_empty() {
            // Only now: another thread may be free sooner.
            self.group = (self.claim)()?;
            self.enter_pass(0);
        }
        let (k, slab) = (self.plan.problem.k, self.plan.tile.slab);
        let pass = self.pass..k.min(self.pass + self.plan.pass_slabs * slab);
        let enters = self.panel == self.group.panels.start && self.start == self.pass;
        let decodes = enters && self.decoded != self.group.rows;
        if decodes {
            self.decoded = if pass.len() == k { self.group.rows.clone() } else { 0..0 };
        }
        let step = Step {
            rows: self.group.rows.clone(),
            decode: decodes.then_some(pass),
            pass_start: self.pass,
            panel: self.panel,
            slot: (self.panel - self.group.panels.start) % self.plan.slots(),
            depth: self.start..k.min(self.start + slab),
            first: self.start == 0,
            last: self.start + slab >= k,
        };
        self.advance();
        Some(step)
    }
}

/// The `index`-th of `parts` nearly equal parts of `0..len`.
pub(super) fn part(len: usize, parts: usize, index: usize) -> Range<usize> {
    let start = |index: usize| len / parts * index + index.min(len % parts);
    start(index)..start(index + 1)
}

/// Neighbouring tiles of a row block with the same number of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileRun {
    /// All their rows.
    pub rows: Range<usize>,
    /// Rows of each.
    pub tile_rows: usize,
    /// Which tiles of the row block they are.
    pub tiles: Range<usize>,
}

/// The fewest tiles, of nearly equal size where any size is as fast, longer ones first.
#[derive(Clone, Debug)]
pub struct TileRuns {
    rows: Range<usize>,
    /// Number and rows of the longer tiles, and rows of the others.
    longer: usize,
    longer_rows: usize,
    shorter_rows: usize,
    tiles: usize,
    next: usize,
    most: usize,
}

impl TileRuns {
    pub(super) fn new(rows: Range<usize>, tile: RegisterTile, most: usize) -> Self {
        let len = rows.len();
        let tiles = len.div_ceil(tile.rows);
        let (longer, longer_rows, shorter_rows) = if tile.row_unit == 1 {
            (len % tiles.max(1), len / tiles.max(1) + 1, len / tiles.max(1))
        } else {
            (len / tile.rows, tile.rows, len % tile.rows)
        };
        Self { rows, longer, longer_rows, shorter_rows, tiles, next: 0, most }
    }

    /// Total number of tiles.
    pub fn count_tiles(&self) -> usize {
        self.tiles
    }

    /// The next run, of a single tile.
    pub fn next_alone(&mut self) -> Option<TileRun> {
        let most = std::mem::replace(&mut self.most, 1);
        let run = self.next();
        self.most = most;
        run
    }
}

impl Iterator for TileRuns {
    type Item = TileRun;

    fn next(&mut self) -> Option<TileRun> {
        let is_longer = self.next < self.longer;
        let same = if is_longer { self.longer } else { self.tiles };
        let tiles = self.next..same.min(self.next.saturating_add(self.most));
        if tiles.is_empty() {
            return None;
        }
        let tile_rows = if is_longer { self.longer_rows } else { self.shorter_rows };
        let start = self.rows.start;
        self.next = tiles.end;
        self.rows.start += tiles.len() * tile_rows;
        Some(TileRun { rows: start..self.rows.start, tile_rows, tiles })
    }
}
