//! Every number that the CPU kernels need: tiles, blocks, the share of each thread, and its scratch memory.
//!
//! The loops, outermost first: blocks of rows, groups of panels, passes over K, panels of [`PANEL`] columns, slabs
//! of K, tiles. Activations of one row block and pass stay decoded while a whole group of panels uses
//! them; the weights of one panel and slab stay decoded while all tiles use them. A tile goes through all
//! quantization blocks of its slab.

mod steps;
#[cfg(test)]
mod tests;

pub use steps::{Share, Step, Steps, TileRun, TileRuns};

use std::ops::Range;

use serde::Serialize;

use self::steps::part;
use super::{MemoryMap, MemorySpace};
use crate::{
    ActivationKind, FloatKind, Problem, Strategy,
    device::cpu::{Isa, Tile},
};

/// Columns of the result that are packed, decoded and accumulated together.
pub const PANEL: usize = 32;
/// Columns of K that are decoded and multiplied together: the largest quantization block, a multiple of the others.
pub const SLAB: usize = 512;
/// Buffers start on cache lines.
const LINE: usize = 64;
/// Bytes of the longest column of decoded activations: enough rows to make decoding the weights cheap. Measured on
/// Zen 4, as are the next two.
const COLUMN_BYTES: usize = 1024;
/// Bytes of decoded activations that may stay for the whole K, times the bytes of one: f32 tiles read twice as many
/// bytes for the same work, so they must be twice as near.
const X_BYTES: usize = 4608 << 10;
/// Panels that share decoded activations when those do not stay for the whole K.
const GROUP_PANELS: usize = 32;
/// Codes of activations that are quantized in the call, before the rows they come from are multiplied.
const QUANTIZED_BUDGET: usize = 4 << 20;

/// Bytes from one row of decoded activations to the next: a slab and a line, so that rows spread over cache sets.
pub const fn x_row_bytes(operand: FloatKind) -> usize {
    SLAB * operand.bytes() + LINE
}

/// How the weights get from their codes to the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightPath {
    /// Decoded into a buffer that all tiles of a row block read.
    Buffered,
    /// Decoded in registers by the one tile that needs them: few rows, every weight byte read once.
    Streamed,
}

/// How one multiplication runs on a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// How the weights are fetched.
    pub strategy: Strategy,
    /// Instructions used.
    pub isa: Isa,
    /// Threads there are. [`CpuPlan::shares`] of them have something to do.
    pub threads: usize,
    /// The type in which activations and weights meet.
    pub operand: FloatKind,
    /// How the weights get to the arithmetic.
    pub path: WeightPath,
    /// The register tile.
    pub tile: Tile,
    /// Most rows of a row block.
    pub block_rows: usize,
    /// Panels that share decoded activations.
    pub group_panels: usize,
    /// Slabs of K whose activations are decoded together.
    pub pass_slabs: usize,
    /// Rows that are quantized, then multiplied, before the next ones. All of them unless x is quantized in the call.
    pub strip_rows: usize,
    /// Threads along the rows and along the columns.
    pub grid: (usize, usize),
    /// Scratch memory of one thread.
    pub memory: MemoryMap,
    /// Memory that all threads share: activations quantized in the call.
    pub shared: MemoryMap,
}

impl CpuPlan {
    /// Plans `problem` for `threads` threads (at least one).
    pub fn new(problem: Problem, strategy: Strategy, isa: Isa, threads: usize) -> Self {
        let operand = isa.operand(problem.x);
        let tile = isa.tile(operand);
        let slabs = problem.k.div_ceil(SLAB);
        let strip_rows = strip_rows(&problem);
        let threads = threads.max(1);
        let grid = grid(strip_rows, problem.n, tile, threads);
        let thread_tiles = strip_rows.div_ceil(tile.rows).div_ceil(grid.0);
        let thread_rows = strip_rows.min(thread_tiles * tile.rows);
        let block_rows = even_size(thread_rows, COLUMN_BYTES / operand.bytes());
        let all_of_k_stays = block_rows * slabs * x_row_bytes(operand) <= X_BYTES / operand.bytes();
        let (pass_slabs, group_panels) = if all_of_k_stays { (slabs, 1) } else { (1, GROUP_PANELS) };
        let one_reader = matches!(strategy, Strategy::Auto | Strategy::Strip);
        let streamed = one_reader && block_rows <= tile.decoding_rows;
        let mut plan = Self {
            problem,
            strategy,
            isa,
            threads,
            operand,
            path: if streamed { WeightPath::Streamed } else { WeightPath::Buffered },
            tile,
            block_rows,
            group_panels,
            pass_slabs,
            strip_rows,
            grid,
            memory: MemoryMap::default(),
            shared: MemoryMap::default(),
        };
        plan.map_memory();
        plan
    }

    fn map_memory(&mut self) {
        let Problem { k, quant_block, .. } = self.problem;
        let (depth, blocks) = (SLAB.min(k.next_multiple_of(2)), quant_block.count(k));
        let add = |map: &mut MemoryMap, name, buffers, bytes: usize| {
            map.push(name, MemorySpace::Cache, buffers, bytes.next_multiple_of(LINE));
        };
        let x = self.pass_slabs * self.block_rows * x_row_bytes(self.operand);
        add(&mut self.memory, "x", 1, x);
        add(&mut self.memory, "out", 1, self.group_panels * self.block_rows * PANEL * 4);
        if self.path == WeightPath::Buffered {
            let buffers = match self.strategy {
                Strategy::Auto | Strategy::Strip => 1,
                Strategy::Dma | Strategy::Smem => 2,
            };
            add(&mut self.memory, "w", buffers, depth * PANEL * self.tile.weight_bytes);
        }
        if self.strategy != Strategy::Strip {
            add(&mut self.memory, "w_q", 1, depth * PANEL);
        }
        if matches!(self.strategy, Strategy::Smem | Strategy::Strip) {
            add(&mut self.memory, "scales", 1, blocks * self.block_rows * 4);
        }
        if let ActivationKind::Quantized(_, granularity) = self.problem.x {
            let scale_rows = self.strip_rows.div_ceil(granularity.rows(quant_block));
            add(&mut self.shared, "x_q", 1, self.strip_rows * k);
            add(&mut self.shared, "x_scale", 1, scale_rows * blocks * 4);
        }
    }

    /// The row ranges that are quantized and multiplied one after the other.
    pub fn strips(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (m, size) = (self.problem.m, self.strip_rows);
        (0..m).step_by(size).map(move |start| start..m.min(start + size))
    }

    /// Whether this is the plan for these arguments of [`CpuPlan::new`].
    pub fn is_for(&self, problem: &Problem, strategy: Strategy, isa: Isa, threads: usize) -> bool {
        (&self.problem, self.strategy, self.isa, self.threads) == (problem, strategy, isa, threads)
    }

    /// How many threads work at the same time.
    pub fn shares(&self) -> usize {
        self.grid.0 * self.grid.1
    }

    /// The part of `rows` that belongs to one of the threads: empty where the last strip is short.
    pub fn share(&self, index: usize, rows: Range<usize>) -> Share {
        let (along_rows, along_cols) = self.grid;
        let (row, col) = (index / along_cols, index % along_cols);
        // Whole tiles, so that at most one thread has a short one.
        let tiles = part(rows.len().div_ceil(self.tile.rows), along_rows, row);
        let limit = |tile: usize| rows.end.min(rows.start + tile * self.tile.rows);
        Share {
            rows: limit(tiles.start)..limit(tiles.end),
            panels: part(self.problem.n.div_ceil(PANEL), along_cols, col),
        }
    }

    /// The steps of a share, in order.
    pub fn steps(&self, share: Share) -> Steps<'_> {
        Steps::new(self, share)
    }

    /// The tiles of a row block, in runs of at most `most` tiles with the same number of rows.
    pub fn tiles(&self, rows: Range<usize>, most: usize) -> TileRuns {
        TileRuns::new(rows, self.tile.rows, most)
    }

    /// Bytes of scratch memory of one thread.
    pub fn thread_bytes(&self) -> usize {
        self.memory.total(MemorySpace::Cache)
    }
}

/// Rows of x that are quantized at once: whole quantization blocks, and no more codes than the budget.
fn strip_rows(problem: &Problem) -> usize {
    let ActivationKind::Quantized(_, granularity) = problem.x else {
        return problem.m;
    };
    let unit = granularity.rows(problem.quant_block);
    (QUANTIZED_BUDGET / problem.k / unit * unit).max(unit).min(problem.m)
}

/// How many threads to use along the rows and along the columns, so that the largest share is small. Columns
/// come first: threads that share columns all decode the same weights.
fn grid(rows: usize, cols: usize, tile: Tile, threads: usize) -> (usize, usize) {
    let (tiles, panels) = (rows.div_ceil(tile.rows), cols.div_ceil(PANEL));
    let largest_share = |&along_rows: &usize| {
        let along_cols = threads / along_rows;
        tiles.div_ceil(along_rows) * panels.div_ceil(along_cols)
    };
    let along_rows = (1..=threads.min(tiles)).min_by_key(largest_share).unwrap_or(1);
    (along_rows, (threads / along_rows).min(panels))
}

/// The size of the largest part when `len` is cut into as few parts of at most `max` as possible.
fn even_size(len: usize, max: usize) -> usize {
    len.div_ceil(len.div_ceil(max))
}
