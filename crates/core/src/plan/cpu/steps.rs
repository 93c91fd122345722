//! The loop nest of a thread as a sequence of steps.

use std::ops::Range;

use super::{CpuPlan, SLAB};
use crate::{Problem, device::cpu::RegisterTile};

/// The rectangle of the result that one thread computes, in rows and panels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Rows.
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
    /// Index of the panel in its group.
    pub slot: usize,
    /// The slab's columns of K.
    pub depth: Range<usize>,
    /// Whether this is the first slab of the panel, which initializes the accumulators.
    pub first: bool,
    /// Whether this is the last slab of the panel, which completes the result.
    pub last: bool,
}

/// The steps of a share. Loop order, innermost first: slab, panel, pass, group of panels, row block.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    plan: &'a CpuPlan,
    share: Share,
    /// Row blocks, and the one that the next step is in.
    blocks: usize,
    block: usize,
    /// Position of the next step.
    rows: Range<usize>,
    group: usize,
    pass: usize,
    panel: usize,
    start: usize,
}

impl<'a> Steps<'a> {
    pub(super) fn new(plan: &'a CpuPlan, share: Share) -> Self {
        let blocks = if share.panels.is_empty() { 0 } else { share.rows.len().div_ceil(plan.block_rows) };
        let (rows, block, group, pass, panel, start) = (0..0, 0, 0, 0, 0, 0);
        let mut steps = Self { plan, share, blocks, block, rows, group, pass, panel, start };
        steps.enter_block();
        steps
    }

    fn enter_block(&mut self) {
        let Range { start, end } = self.share.rows;
        if self.block < self.blocks {
            let part = part(end - start, self.blocks, self.block);
            self.rows = start + part.start..start + part.end;
            self.enter_group(self.share.panels.start);
        }
    }

    fn enter_group(&mut self, group: usize) {
        self.group = group;
        self.enter_pass(0);
    }

    fn enter_pass(&mut self, pass: usize) {
        (self.pass, self.panel, self.start) = (pass, self.group, pass);
    }

    fn advance(&mut self) {
        let CpuPlan { pass_slabs, group_panels, problem: Problem { k, .. }, .. } = *self.plan;
        let next_pass = self.pass + pass_slabs * SLAB;
        let next_group = self.group + group_panels;
        let panels = self.share.panels.end;
        self.start += SLAB;
        if self.start < k.min(next_pass) {
            return;
        }
        (self.start, self.panel) = (self.pass, self.panel + 1);
        if self.panel < panels.min(next_group) {
            return;
        }
        if next_pass < k {
            self.enter_pass(next_pass);
        } else if next_group < panels {
            self.enter_group(next_group);
        } else {
            self.block += 1;
            self.enter_block();
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.block == self.blocks {
            return None;
        }
        let k = self.plan.problem.k;
        let pass = self.pass..k.min(self.pass + self.plan.pass_slabs * SLAB);
        let stays = pass.len() == k && self.group > self.share.panels.start;
        let enters = self.panel == self.group && self.start == self.pass;
        let step = Step {
            rows: self.rows.clone(),
            decode: (enters && !stays).then_some(pass),
            pass_start: self.pass,
            panel: self.panel,
            slot: self.panel - self.group,
            depth: self.start..k.min(self.start + SLAB),
            first: self.start == 0,
            last: self.start + SLAB >= k,
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
