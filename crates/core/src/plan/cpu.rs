//! Plans for CPU kernels: register tile, cache blocks, the work of each thread, and its scratch memory.
//!
//! The result is cut into lanes: a row block by a range of panels of [`PANEL`] columns. A thread starts with
//! lanes of its own, claims their panels group by group, and helps with other lanes when it is done, because
//! cores differ in speed. The loops in a lane, outermost first: groups of panels, passes over K, panels,
//! slabs of K, register tiles. Decoded activations of a row block and pass are reused by a whole group of
//! panels; decoded weights of one panel and slab are reused by all tiles. A tile goes through all
//! quantization blocks of its slab.

mod choice;
mod steps;
#[cfg(test)]
mod tests;
mod threads;

pub use choice::{Blocking, CpuChoice};
pub use steps::{Lane, Step, Steps, TileRun, TileRuns};
pub use threads::{is_worth_waking, useful_spinning_threads, useful_threads};

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize};

use self::steps::part;
use super::{BufferId, ElementType, MemoryMap, MemorySpace, PlannedBuffer, rebuilt};
use crate::{
    ActivationKind, FloatKind, Problem, Strategy,
    device::cpu::{Isa, RegisterTile},
};

/// Columns of the result that are packed, decoded and accumulated together.
pub const PANEL: usize = 32;
/// Bytes of a cache line; buffers are aligned to it.
const LINE: usize = 64;
/// Most bytes in a column of decoded activations: enough rows to amortize decoding the weights. Tuned on Zen
/// 4, as are the next two.
const COLUMN_BYTES: usize = 1024;
/// Cache budget for activations decoded over all of K, times the bytes of one: f32 tiles read twice the bytes
/// for the same work, so they get half the budget.
const X_BYTES: usize = 4608 << 10;
/// The same for AMX, whose cores have 2 MiB of L2 cache, which decoded activations and the accumulators of a
/// group of panels share; and the rows that amortize decoding the weights, at least and at most.
const AMX_X_BYTES: usize = 1280 << 10;
const AMX_ROWS: (usize, usize) = (256, 1024);
/// The same where one group of panels is all that reads them: then going through K slab by slab costs nothing
/// but the rereading of accumulators, and leaves the L2 cache to the weights. Tuned on Zen 5.
const ONE_GROUP_X_BYTES: usize = 640 << 10;
/// Panels that share decoded activations when these do not cover all of K.
const GROUP_PANELS: usize = 32;
/// Largest over average size of lanes that pass as equal: their panels may be claimed all at once, and they
/// need no help. Tuned on Zen 5.
const MOST_UNEVEN: (usize, usize) = (9, 8);
/// Fewest activations by which a claimed group of panels is multiplied: claiming takes as long as multiplying
/// a few hundred. AMX multiplies these in a fraction of the time, but was not measured with more. And groups
/// of a lane, at least, where they have several panels for that. Tuned on Zen 5.
const GROUP_ACTIVATIONS: usize = 16 << 10;
const AMX_GROUP_ACTIVATIONS: usize = 4 << 10;
const FEWEST_GROUPS: usize = 8;
/// Most bytes of a result that are worth a place in the caches.
const RESULT_BYTES: usize = 512 << 10;
/// Most bytes of a weight that is read twice.
const TWICE_READ_BYTES: usize = 16 << 20;
/// Bytes of activations quantized at a time, before their rows are multiplied.
const QUANTIZED_BUDGET: usize = 4 << 20;

/// Row stride of decoded activations in bytes: a slab and a cache line, so that rows spread over cache sets.
pub const fn x_row_bytes(slab: usize, operand: FloatKind) -> usize {
    slab * operand.bytes() + LINE
}

/// Where weights are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightPath {
    /// Into a buffer that all tiles of a row block read.
    Buffered,
    /// In registers, by the only tile that needs them: few rows, every weight byte is read once.
    Streamed,
}

/// Everything that a CPU kernel needs to know.
///
/// Deserializing a plan rebuilds it and rejects any field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CpuPlan {
    /// What is multiplied.
    pub problem: Problem,
    /// How the weights are fetched.
    pub strategy: Strategy,
    /// Instruction set.
    pub isa: Isa,
    /// Available threads; [`CpuPlan::workers`] of them have work.
    pub threads: usize,
    /// Cache blocks that are chosen instead of the default ones.
    #[serde(skip_serializing_if = "Blocking::is_default")]
    pub blocking: Blocking,
    /// Type of both operands in the multiply-add.
    pub operand: FloatKind,
    /// Where weights are decoded.
    pub path: WeightPath,
    /// Register tile of the microkernel.
    pub tile: RegisterTile,
    /// Most rows of a row block.
    pub block_rows: usize,
    /// Panels that share decoded activations.
    pub group_panels: usize,
    /// Slabs of K whose activations are decoded together.
    pub pass_slabs: usize,
    /// Rows that are quantized, then multiplied, before the next. All rows unless the call quantizes x.
    pub strip_rows: usize,
    /// Lanes along the rows and along the columns.
    pub grid: (usize, usize),
    /// Scratch memory of one thread.
    pub memory: MemoryMap,
    /// Memory shared by all threads: activations that the call quantizes.
    pub shared: MemoryMap,
}

/// The fields that all others of a plan follow from.
#[derive(Deserialize)]
struct CpuChoices {
    problem: Problem,
    strategy: Strategy,
    isa: Isa,
    threads: usize,
    #[serde(default)]
    blocking: Blocking,
}

impl<'de> Deserialize<'de> for CpuPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        rebuilt(deserializer, |CpuChoices { problem, strategy, isa, threads, blocking }| {
            let choice = CpuChoice { isa, threads, blocking };
            choice.is_sane().then(|| Self::with_choice(problem, strategy, choice))
        })
    }
}

impl CpuPlan {
    /// Plans `problem` for `threads` threads (at least one).
    pub fn new(problem: Problem, strategy: Strategy, isa: Isa, threads: usize) -> Self {
        Self::with_choice(problem, strategy, CpuChoice { isa, threads, blocking: Blocking::default() })
    }

    /// Plans `problem` with these choices.
    pub fn with_choice(problem: Problem, strategy: Strategy, choice: CpuChoice) -> Self {
        let CpuChoice { isa, threads, blocking } = choice;
        let operand = isa.operand(problem.x);
        let tile = isa.tile(operand).for_problem(&problem);
        let slabs = problem.k.div_ceil(tile.slab);
        let x_bytes_per_row = slabs * x_row_bytes(tile.slab, operand);
        let strip_rows = strip_rows(&problem);
        let threads = threads.max(1);
        let (most_rows, x_bytes) = if tile.decodes_ahead {
            ((AMX_X_BYTES / x_bytes_per_row).clamp(AMX_ROWS.0, AMX_ROWS.1), AMX_X_BYTES)
        } else {
            (COLUMN_BYTES / operand.bytes(), X_BYTES / operand.bytes())
        };
        let one_reader = matches!(strategy, Strategy::Auto | Strategy::Strip);
        let most_rows = if one_reader && tile.decodes_twice(&problem) { tile.rows } else { most_rows };
        let most_rows = blocking.rows.unwrap_or(most_rows);
        let grid = grid(strip_rows, problem.n, tile, most_rows, threads, one_reader);
        let lane_unit = tile.lane_unit(threads);
        let block_units = strip_rows.div_ceil(lane_unit).div_ceil(grid.0);
        let block_rows = strip_rows.min(block_units * lane_unit).next_multiple_of(tile.row_unit);
        let (units, panels) = (strip_rows.div_ceil(lane_unit), problem.n.div_ceil(PANEL));
        // A group is claimed as a whole, so that each thread must get as many, of nearly the same size.
        let is_one_group = panels.div_ceil(grid.1) <= GROUP_PANELS
            && (grid.0 * grid.1).is_multiple_of(threads)
            && is_even(units, grid.0)
            && is_even(panels, grid.1);
        let x_bytes = match is_one_group && slabs > 1 && !tile.decodes_ahead {
            true => ONE_GROUP_X_BYTES / operand.bytes(),
            false => x_bytes,
        };
        let all_of_k_stays = blocking.whole_k.unwrap_or(block_rows * x_bytes_per_row <= x_bytes);
        let (pass_slabs, group_panels) = if all_of_k_stays {
            let activations = if tile.decodes_ahead { AMX_GROUP_ACTIVATIONS } else { GROUP_ACTIVATIONS };
            let enough = activations / (block_rows * problem.k).max(1);
            (slabs, enough.min(panels / grid.1 / FEWEST_GROUPS).max(1))
        } else {
            (1, GROUP_PANELS)
        };
        let streamed = one_reader && block_rows <= tile.decoding_rows;
        let mut plan = Self {
            problem,
            strategy,
            isa,
            threads,
            blocking,
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
        // Weights and activations past K are zero up to a multiple of twice the unit.
        let (depth, blocks) =
            (self.tile.slab.min(k.next_multiple_of(2 * self.tile.row_unit)), quant_block.count(k));
        let add = |map: &mut MemoryMap, id, copies, element, shape: &[usize]| {
            let buffer = PlannedBuffer::new(id, MemorySpace::Cache, copies, element, shape);
            let bytes = buffer.bytes.next_multiple_of(LINE);
            map.push(buffer.with_bytes(bytes));
        };
        let operand = self.operand.into();
        let x_row = self.x_row_bytes() / self.operand.bytes();
        add(&mut self.memory, BufferId::X, 1, operand, &[self.pass_slabs, self.block_rows, x_row]);
        let out = [self.slots(), self.block_rows, PANEL];
        add(&mut self.memory, BufferId::Out, 1, ElementType::F32, &out);
        if self.path == WeightPath::Buffered {
            let copies = match self.strategy {
                Strategy::Strip if self.decodes_next_weights() => 2,
                Strategy::Auto | Strategy::Strip => 1,
                Strategy::Dma | Strategy::Smem => 2,
            };
            add(&mut self.memory, BufferId::W, copies, self.tile.weight.into(), &[depth, PANEL]);
        }
        if self.strategy != Strategy::Strip {
            add(&mut self.memory, BufferId::WQ, 1, ElementType::F8E4M3, &[depth, PANEL]);
        }
        if matches!(self.strategy, Strategy::Smem | Strategy::Strip) {
            add(&mut self.memory, BufferId::Scales, 1, ElementType::F32, &[blocks, self.block_rows]);
        }
        if let ActivationKind::Quantized(_, granularity) = self.problem.x {
            let scale_rows = self.strip_rows.div_ceil(granularity.rows(quant_block));
            add(&mut self.shared, BufferId::XQ, 1, ElementType::F8E4M3, &[self.strip_rows, k]);
            add(&mut self.shared, BufferId::XScale, 1, ElementType::F32, &[scale_rows, blocks]);
        }
    }

    /// Row ranges that are quantized and multiplied one after the other.
    pub fn strips(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (m, size) = (self.problem.m, self.strip_rows);
        (0..m).step_by(size).map(move |start| start..m.min(start + size))
    }

    /// Whether [`CpuPlan::with_choice`] makes this plan from these arguments.
    pub fn is_for(&self, problem: &Problem, strategy: Strategy, choice: CpuChoice) -> bool {
        (&self.problem, self.strategy, self.choice()) == (problem, strategy, choice)
    }

    /// Panels whose accumulators are kept at a time: all of a group where each pass goes through them.
    pub fn slots(&self) -> usize {
        let is_one_pass = self.pass_slabs * self.tile.slab >= self.problem.k;
        if is_one_pass { 1 } else { self.group_panels }
    }

    /// What the plan was made from.
    pub fn choice(&self) -> CpuChoice {
        CpuChoice { isa: self.isa, threads: self.threads, blocking: self.blocking }
    }

    /// Row stride of decoded activations in bytes.
    pub const fn x_row_bytes(&self) -> usize {
        x_row_bytes(self.tile.slab, self.operand)
    }

    /// Number of lanes.
    pub fn lanes(&self) -> usize {
        self.grid.0 * self.grid.1
    }

    /// Number of threads that have work.
    pub fn workers(&self) -> usize {
        self.threads.min(self.lanes())
    }

    /// The lanes that a worker starts with.
    pub fn own_lanes(&self, worker: usize) -> Range<usize> {
        part(self.lanes(), self.workers(), worker)
    }

    /// A lane of `rows`; empty where the last strip is short.
    pub fn lane(&self, index: usize, rows: Range<usize>) -> Lane {
        let (along_rows, along_cols) = self.grid;
        let (row, col) = (index / along_cols, index % along_cols);
        let unit = self.tile.lane_unit(self.threads);
        let units = part(rows.len().div_ceil(unit), along_rows, row);
        let limit = |at: usize| rows.end.min(rows.start + at * unit);
        Lane {
            rows: limit(units.start)..limit(units.end),
            panels: part(self.problem.n.div_ceil(PANEL), along_cols, col),
        }
    }

    /// Groups of panels in a lane: what a thread claims at a time.
    pub fn groups(&self, lane: &Lane) -> usize {
        if lane.rows.is_empty() { 0 } else { lane.panels.len().div_ceil(self.group_panels) }
    }

    /// Groups that another thread must leave in a lane of other rows to be worth helping, since a helper
    /// decodes its activations.
    pub fn groups_worth_helping(&self) -> usize {
        let panels = self.tile.x_panels().div_ceil(PANEL_COST);
        panels.div_ceil(self.group_panels)
    }

    /// One of the groups of a lane.
    pub fn group(&self, lane: &Lane, index: usize) -> Lane {
        let start = lane.panels.start + index * self.group_panels;
        Lane { rows: lane.rows.clone(), panels: start..lane.panels.end.min(start + self.group_panels) }
    }

    /// The steps of the groups that `claim` returns, in its order.
    pub fn steps<C: FnMut() -> Option<Lane>>(&self, claim: C) -> Steps<'_, C> {
        Steps::new(self, claim)
    }

    /// Tiles of a row block, in runs of at most `most` tiles with equal row counts.
    pub fn tiles(&self, rows: Range<usize>, most: usize) -> TileRuns {
        TileRuns::new(rows, self.tile, most)
    }

    /// Whether tiles decode the weights of the next step, beside those that they multiply by. With more rows
    /// the first tile of a step decodes its own weights: then both would not stay in the L1 cache.
    pub fn decodes_next_weights(&self) -> bool {
        self.tile.decodes_ahead && self.block_rows <= RegisterTile::FEW_ROWS
    }

    /// Whether a result of f32 is too large to stay in the caches beside the operands.
    pub fn result_exceeds_caches(&self) -> bool {
        self.problem.m * self.problem.n * size_of::<f32>() > RESULT_BYTES
    }

    /// Bytes of scratch memory of one thread.
    pub fn thread_bytes(&self) -> usize {
        self.memory.total(MemorySpace::Cache)
    }
}

/// Rows of x that are quantized at once: whole quantization blocks within the budget.
fn strip_rows(problem: &Problem) -> usize {
    let ActivationKind::Quantized(_, granularity) = problem.x else {
        return problem.m;
    };
    let unit = granularity.rows(problem.quant_block);
    (QUANTIZED_BUDGET / problem.k / unit * unit).max(unit).min(problem.m)
}

/// The unit of costs below: quarters of the time to multiply one tile by one panel.
const PANEL_COST: usize = 4;

impl RegisterTile {
    /// Rows that the lanes of several threads are made of: where tiles may have any number of rows, lanes
    /// differ by one row at most. Otherwise they are whole tiles, so that at most one lane has a partial one.
    const fn lane_unit(self, threads: usize) -> usize {
        if self.row_unit == 1 && threads > 1 { 1 } else { self.rows }
    }

    /// Cost of decoding the activations of a tile.
    const fn x_panels(self) -> usize {
        if self.decodes_ahead { 7 } else { 1 }
    }

    /// Whether tiles of the most rows can decode weights in registers: with AVX-512 BF16, which was measured
    /// on Zen 5. Other ISAs decode in registers for fewer rows.
    const fn can_stream(self) -> bool {
        self.decoding_rows == self.rows
    }

    /// Whether two tiles that decode weights in registers are faster than a buffer for both: up to 12 rows,
    /// and weights that the L3 cache holds.
    const fn decodes_twice(self, problem: &Problem) -> bool {
        let rows = problem.m;
        let are_few = self.can_stream() && rows > self.rows && rows <= self.rows * 3 / 2;
        are_few && problem.n * problem.k <= TWICE_READ_BYTES
    }

    /// Cost of decoding the weights of a panel once per row block, times the rows of a tile: that of half a
    /// tile into a buffer, and less in registers.
    const fn w_rows(self, lane_rows: usize, streams: bool) -> usize {
        let in_registers = streams && self.can_stream() && lane_rows <= self.decoding_rows;
        match (self.decodes_ahead, in_registers) {
            (true, _) => self.rows * 4,
            (false, true) => self.rows * 3 / 2,
            (false, false) => self.rows * 2,
        }
    }
}

/// Whether parts of nearly equal size are so equal that no thread waits long for the largest.
fn is_even(len: usize, parts: usize) -> bool {
    len.div_ceil(parts) * parts * MOST_UNEVEN.1 <= len * MOST_UNEVEN.0
}

/// Lanes along the rows, of at most `most_rows` or a tile, and along the columns that minimize the time of
/// the slowest thread. Ties go to fewer lanes. If it `streams`, the only tile of a lane decodes weights in
/// registers.
fn grid(
    rows: usize,
    cols: usize,
    tile: RegisterTile,
    most_rows: usize,
    threads: usize,
    streams: bool,
) -> (usize, usize) {
    let unit = tile.lane_unit(threads);
    let (units, panels) = (rows.div_ceil(unit), cols.div_ceil(PANEL));
    let along_cols = |along_rows: usize| threads.div_ceil(along_rows).min(panels);
    // Costs are times the rows of a tile, of which only whole units count.
    let slowest = |&along_rows: &usize| {
        let along_cols = along_cols(along_rows);
        let lane_units = units.div_ceil(along_rows);
        let (all_rows, lane_rows) = (units * unit, lane_units * unit);
        let lane_panels = panels.div_ceil(along_cols);
        let w_rows = tile.w_rows(lane_rows, streams);
        let panel = PANEL_COST * lane_rows + w_rows;
        let lanes = along_rows * along_cols;
        if tile.decodes_ahead {
            let lane = lane_panels * panel + tile.x_panels() * lane_rows;
            return lanes.div_ceil(threads) * lane;
        }
        // Threads start late and help each other, so that all end within one panel of each other. Helpers
        // decode the activations again where some thread has more to do.
        let is_shared = !is_even(units, along_rows) || !lanes.is_multiple_of(threads);
        let again = if is_shared { lane_rows } else { 0 };
        let all = panels * (PANEL_COST * all_rows + w_rows * along_rows)
            + tile.x_panels() * (all_rows * along_cols + again);
        all.div_ceil(threads.min(along_rows * panels)) + if threads > 1 { panel } else { 0 }
    };
    let fewest = units.div_ceil(most_rows.max(tile.rows) / unit);
    let most = rows.div_ceil(tile.rows).min(fewest.max(4 * threads));
    let along_rows = (fewest..=most).min_by_key(slowest).unwrap_or(1);
    (along_rows, along_cols(along_rows))
}
