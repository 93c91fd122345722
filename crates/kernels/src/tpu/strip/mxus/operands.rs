//! DMAs of the operands.

use octile_core::plan::tpu::Load;
use octile_mosaic::{
    FunctionBuilder, Value,
    build::{Copy, IntPredicate},
};

use super::{HbmAndChip, Lane, MXUS, Operands, SIDE};

impl Operands<'_> {
    /// The DMA of a whole array.
    pub(super) fn whole(&self, b: &mut FunctionBuilder, array: HbmAndChip, lane: Lane) -> Copy {
        let shape = b.ty(array.hbm).shape().to_vec();
        let semaphore = self.semaphore(b, lane as usize);
        Copy { source: array.hbm, target: b.first_of(array.chip, &shape), semaphore }
    }

    /// A DMA of x, and of the scales of its rows if they come with it.
    pub(super) fn rows(&self, b: &mut FunctionBuilder, number: usize) -> Vec<Copy> {
        let Load { rows, k } = self.x_loads[number];
        let lane = Lane::Loads as usize + 2 * number;
        let mut copies = Vec::new();
        if self.scales_per_row() && k.0 == 0 {
            let (row, zero) = (b.i32(rows.0), b.i32(0));
            let shape = [rows.1, self.plan.k_blocks()];
            copies.push(Copy {
                source: b.slice_memref(self.x_scale.hbm, &[row, zero], &shape),
                target: b.slice_memref(self.x_scale.chip, &[row, zero], &shape),
                semaphore: self.semaphore(b, lane + 1),
            });
        }
        let semaphore = self.semaphore(b, lane);
        copies.push(part_of(b, (self.x.hbm, 0), self.x.chip, self.x_loads[number], semaphore));
        copies
    }

    /// A DMA of the weights of the first step.
    pub(super) fn first_weights(&self, b: &mut FunctionBuilder, number: usize) -> Copy {
        let lane = Lane::Loads as usize + 2 * self.x_loads.len() + number;
        let semaphore = self.semaphore(b, lane);
        part_of(b, (self.w, self.first_column()), self.w_first, self.w_loads[number], semaphore)
    }

    /// The DMAs of x, and of the scales that come with it, or of the first step's weights, by their number.
    pub(super) fn load(&self, b: &mut FunctionBuilder, is_x: bool, number: usize) -> Vec<Copy> {
        if is_x { self.rows(b, number) } else { vec![self.first_weights(b, number)] }
    }

    /// The DMAs that the first step begins with, in groups: parts along K of the first rows and columns, then
    /// the other rows, then the other columns.
    pub(super) fn first_loads(&self) -> Vec<Vec<(bool, usize)>> {
        let k = self.plan.held().k;
        let of = |is_x: bool, loads: &[Load]| -> Vec<(bool, usize, (usize, usize))> {
            loads.iter().enumerate().map(|(number, load)| (is_x, number, load.k)).collect()
        };
        let all = [of(true, &self.x_loads), of(false, &self.w_loads)].concat();
        let (mut parts, whole): (Vec<_>, Vec<_>) = all.into_iter().partition(|(.., part)| part.1 < k);
        parts.sort_by_key(|(.., part)| part.0);
        let groups = parts.chunk_by(|a, b| a.2.0 == b.2.0).chain(whole.chunks(1));
        groups.map(|group| group.iter().map(|&(is_x, number, _)| (is_x, number)).collect()).collect()
    }

    /// Pairs of chunks of columns of all later steps.
    pub(super) fn pairs(&self) -> usize {
        (self.plan.grid.n - 1) * self.pairs_of_step()
    }

    pub(super) fn pairs_of_step(&self) -> usize {
        self.plan.tile.n / (MXUS * SIDE)
    }

    /// The DMA of a pair of the later steps, by its number.
    pub(super) fn pair(&self, b: &mut FunctionBuilder, number: Value) -> Copy {
        let ring = self.w_ring.expect("later steps have a buffer of weights");
        let k = self.plan.given().k;
        let (columns, zero) = (b.i32(MXUS * SIDE), b.i32(0));
        let row = b.muli(number, columns);
        let row = b.multiple_of(row, MXUS * SIDE);
        let stage = self.stage(b, number);
        let lane = b.i32(Lane::Loads as usize + 2 * self.x_loads.len() + self.w_loads.len());
        let lane = b.addi(stage, lane);
        Copy {
            source: b.slice_memref(self.w, &[row, zero], &[MXUS * SIDE, k]),
            target: b.slice_memref(ring, &[stage, zero, zero], &[MXUS * SIDE, k]),
            semaphore: b.slice_memref(self.semaphores, &[lane], &[]),
        }
    }

    pub(super) fn stage(&self, b: &mut FunctionBuilder, number: Value) -> Value {
        let stages = b.i32(self.pipeline.stages);
        b.remsi(number, stages)
    }

    /// The DMAs of the scales of blocks, with their names. Scales per row come with the rows.
    fn block_scales(&self, b: &mut FunctionBuilder) -> Vec<(&'static str, Copy)> {
        let mut copies = vec![("w_scale", self.whole(b, self.w_scale, Lane::WScale))];
        if !self.scales_per_row() {
            copies.push(("x_scale", self.whole(b, self.x_scale, Lane::XScale)));
        }
        copies
    }

    /// Starts all DMAs that have a buffer, in the first step. The compiler keeps the order of loops, not that
    /// of DMAs.
    pub(super) fn start_all(&self, b: &mut FunctionBuilder, n: Value) {
        let (zero, one) = (b.i32(0), b.i32(1));
        let is_first = b.cmpi(IntPredicate::Eq, n, zero);
        let once = b.select(is_first, one, zero);
        b.when(is_first, |b| {
            for (name, copy) in self.block_scales(b) {
                b.located(format!("start {name}"), |b| b.start(copy));
            }
        });
        for group in self.first_loads() {
            b.for_each("once", zero, once, |b, _| {
                for (is_x, number) in group {
                    for copy in self.load(b, is_x, number) {
                        b.located(if is_x { "start x" } else { "start w_q" }, |b| b.start(copy));
                    }
                }
            });
        }
        if self.pipeline.stages > 0 {
            let stages = b.i32(self.pipeline.stages);
            let stages = b.select(is_first, stages, zero);
            b.for_each("pair", zero, stages, |b, number| {
                let copy = self.pair(b, number);
                b.located("start w_q", |b| b.start(copy));
            });
        }
        b.when(is_first, |b| {
            for (name, copy) in self.block_scales(b) {
                b.located(format!("wait {name}"), |b| b.wait(copy));
            }
        });
    }
}

/// A DMA of a part of an operand, whose rows begin in HBM at `first`.
fn part_of(
    b: &mut FunctionBuilder,
    (hbm, first): (Value, usize),
    chip: Value,
    Load { rows, k }: Load,
    semaphore: Value,
) -> Copy {
    let shape = [rows.1, k.1];
    let (from, to, column) = (b.i32(first + rows.0), b.i32(rows.0), b.i32(k.0));
    Copy {
        source: b.slice_memref(hbm, &[from, column], &shape),
        target: b.slice_memref(chip, &[to, column], &shape),
        semaphore,
    }
}
