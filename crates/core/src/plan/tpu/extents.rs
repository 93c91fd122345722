//! Extents of what a plan moves and multiplies: operands, tiles, blocks, slices.

use super::{Arithmetic, DOUBLE_BUFFERED, Dims, TpuPlan, rows, tile, weights};
use crate::{ScaleGranularity, Strategy};

impl TpuPlan {
    /// Chunks of dequantized weight columns in VMEM: the VPU works on one while the MXUs read another. With a
    /// scale per row of x there are more of them: see [`Self::columns_by_row`]. Where one matmul takes all
    /// rows, the compiler hands most dequantized weights to it in registers. Then there is one, because
    /// several let the VPU work on all of them at once, and the MXUs wait for the one that they need.
    pub fn dequantized_chunks(&self) -> usize {
        if self.held().m <= self.chunk.0 { 1 } else { self.columns_by_row().max(DOUBLE_BUFFERED) }
    }

    /// Chunks of the first columns after x has arrived that are multiplied row by row, and slice by slice
    /// along K; the others are multiplied column by column. Repeating the scales of rows along the lanes
    /// takes as long as the matmuls of two chunks of columns, so a step that prepares x does it beside the
    /// matmuls of several.
    pub fn columns_by_row(&self) -> usize {
        let repeats_scales = self.arithmetic == Arithmetic::Dequantized
            && self.problem.x.granularity() == Some(ScaleGranularity::Token);
        if !repeats_scales || self.keeps_quantized_x {
            return 0;
        }
        match self.first_columns() {
            Some(columns) => columns.div_ceil(self.chunk.1).min(DOUBLE_BUFFERED),
            None => self.tile.n.div_ceil(self.chunk.1).min(tile::COLUMNS_BY_ROW),
        }
    }

    /// Extents of the operands and of the result as the kernel is given them: as they are, wherever no tile
    /// has to end outside of them. Where the compiler pipelines tiles, the last ones along M and N may: only
    /// what is inside is moved, and the rest is never read from HBM nor stored. Several tiles along K are
    /// padded, because garbage would be added up; so are weights that one step takes in equal parts.
    pub fn given(&self) -> Dims {
        if self.strategy != Strategy::Strip {
            return self.padded;
        }
        let in_parts = self.weight_pipeline.is_some_and(|pipeline| !pipeline.is_resident);
        let equal_columns = in_parts && self.short_columns().is_none();
        Dims {
            m: self.problem.m,
            n: if equal_columns { self.padded.n } else { self.problem.n },
            k: if self.grid.k > 1 { self.padded.k } else { self.problem.k },
        }
    }

    /// Extents of a tile in VMEM: where one tile covers a dimension, it ends where the operands do.
    pub fn held(&self) -> Dims {
        let (tile, given) = (self.tile, self.given());
        Dims { m: tile.m.min(given.m), n: tile.n.min(given.n), k: tile.k.min(given.k) }
    }

    /// Columns of x and w in a k-block of a tile; the last block may be shorter.
    pub fn block_length(&self, k_block: usize) -> usize {
        let qb = self.problem.quant_block.size();
        qb.min(self.held().k - k_block * qb)
    }

    /// Slices along K, first column and length, of columns that are multiplied row by row.
    pub fn k_slices(&self) -> Vec<(usize, usize)> {
        let k = self.tile.k;
        (0..k).step_by(tile::K_SLICE).map(|first| (first, tile::K_SLICE.min(k - first))).collect()
    }

    /// Slices along K, first column and length, of one matmul over all of K: one, or two halves if both MXUs
    /// shall work on it.
    pub fn matmul_slices(&self, halves: bool) -> Vec<(usize, usize)> {
        let k = self.tile.k;
        let half = (k / 2).next_multiple_of(self.problem.quant_block.size().max(tile::CHUNK));
        if halves && half + tile::CHUNK <= k { vec![(0, half), (half, k - half)] } else { vec![(0, k)] }
    }

    /// Rows of a tile that share an activation scale; a tile may be shorter than a quantization block.
    pub fn x_scale_rows(&self) -> usize {
        match self.problem.x.granularity() {
            _ if self.row_pipeline.is_some() => 1,
            Some(ScaleGranularity::Token) => 1,
            _ => self.problem.quant_block.size().min(self.tile.m),
        }
    }

    /// Activation scales of one tile: rows and k-blocks.
    pub fn x_scale_tile(&self) -> (usize, usize) {
        (self.held().m.div_ceil(self.x_scale_rows()), self.k_blocks())
    }

    /// Weight scales of one tile: rows and k-blocks.
    pub fn w_scale_tile(&self) -> (usize, usize) {
        (self.held().n.div_ceil(self.problem.quant_block.size()), self.k_blocks())
    }

    /// Whether a kernel with a pipeline of rows dequantizes its weights once, for several blocks of rows.
    pub fn keeps_dequantized_w(&self) -> bool {
        self.arithmetic == Arithmetic::Dequantized && self.grid.m * self.row_blocks().len() > 1
    }

    /// Whether blocks of dequantized rows leave work to each other across the waits between them. With few
    /// columns the VPU has no time for it.
    pub fn overlaps_rows(&self) -> bool {
        self.keeps_dequantized_w() && self.row_pipeline.is_some() && rows::overlap(self.tile)
    }

    /// Whether the first block of rows waits for the next one when it waits for its last weights, and begins
    /// to dequantize it beside their matmuls.
    pub fn joins_waits(&self) -> bool {
        self.overlaps_rows() && rows::joins_waits(self)
    }

    /// K-blocks of the next block of rows that are dequantized beside the matmuls of this one.
    pub fn blocks_ahead(&self) -> usize {
        self.k_blocks().min(rows::AHEAD / self.problem.quant_block.size())
    }

    /// Rows of the first step of a pipeline of rows: the last ones, as many as whole blocks leave over.
    pub fn short_rows(&self) -> usize {
        self.problem.m - (self.grid.m - 1) * self.tile.m
    }

    /// Columns of the first step of a kernel whose weights stream in several steps past dequantized x, past
    /// codes of x along the lanes, or past any x if the steps do not divide them: the last ones, as many as
    /// whole steps leave over.
    pub fn short_columns(&self) -> Option<usize> {
        let in_parts = self.weight_pipeline.is_some_and(|pipeline| !pipeline.is_resident);
        let is_ragged = self.problem.n != self.padded.n;
        let cuts = self.arithmetic == Arithmetic::Dequantized || self.rows_in_lanes || is_ragged;
        let has = in_parts && cuts && self.grid.n > 1;
        has.then(|| self.problem.n - (self.grid.n - 1) * self.tile.n)
    }

    /// Rows of the weight scales of all steps. The first step may take more columns than a tile has.
    pub fn w_scale_rows(&self) -> usize {
        match self.mxu_pipeline {
            Some(_) => self.problem.n.div_ceil(self.problem.quant_block.size()),
            None => self.grid.n * self.w_scale_tile().0,
        }
    }

    /// Columns of the first block of weights that a kernel multiplies x with.
    pub(super) fn first_columns(&self) -> Option<usize> {
        self.short_columns().or_else(|| self.weight_blocks().first().map(|block| block.1))
    }

    /// Weight blocks of one grid step, or of the first one with a pipeline of rows, each with a DMA of its
    /// own: first column and number of columns. `[]` where the compiler pipelines the weights.
    pub fn weight_blocks(&self) -> Vec<(usize, usize)> {
        if self.row_pipeline.is_some() {
            return rows::weight_blocks(self);
        }
        self.weight_pipeline.map_or(Vec::new(), |pipeline| {
            let blocks = weights::blocks(self.tile.n, pipeline).into_iter();
            let columns = self.held().n;
            let inside = blocks.filter(|&(begins, _)| begins < columns);
            inside.map(|(begins, size)| (begins, size.min(columns - begins))).collect()
        })
    }

    /// Blocks of rows of one grid step, each with a DMA of its own: first row and number of rows. `[]`
    /// without a pipeline of rows.
    pub fn row_blocks(&self) -> Vec<(usize, usize)> {
        self.row_pipeline.map_or(Vec::new(), |_| rows::blocks(self))
    }

    /// Quantization blocks along K in one tile.
    pub fn k_blocks(&self) -> usize {
        self.tile.k / self.problem.quant_block.size()
    }
}
