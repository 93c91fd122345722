//! Scales: where they lie in global memory, and how a consumer thread reads those of a stage.

use octile_core::{
    ScaleGranularity,
    plan::{
        BufferId,
        hopper::{HopperPlan, STAGE_K, WAVE_ROWS},
    },
};

use super::{
    cta::{Cta, Fragment},
    schedule::Tile,
};
use crate::hopper::ptx::{B32, B64, F32, Global, Ptx, Shared};

/// The scales of x or of the weight in global memory.
pub(crate) struct GlobalScales {
    pointer: B64,
    /// log2 of the rows that share a scale.
    shift: B32,
    /// Bytes from row to row.
    row: B32,
    /// Bytes from quantization block to quantization block along K.
    k: B32,
}

impl GlobalScales {
    pub(crate) fn of_x(ptx: &mut Ptx) -> Self {
        let shift = ptx.number("x_scale_shift");
        Self::new(ptx, "x_scale", shift, "x_scale_row", "x_scale_k")
    }

    pub(crate) fn of_w(ptx: &mut Ptx) -> Self {
        let shift = ptx.number("quant_shift");
        Self::new(ptx, "w_scale", shift, "w_scale_row", "w_scale_k")
    }

    fn new(ptx: &mut Ptx, pointer: &str, shift: B32, row: &str, k: &str) -> Self {
        let pointer = ptx.pointer(pointer);
        let (row, k) = (ptx.number(row), ptx.number(k));
        Self { pointer, shift, row: ptx.shl(row, 2), k: ptx.shl(k, 2) }
    }

    /// Address of the first scale of `row`, clamped to the last of `rows`.
    pub(crate) fn row_start(&self, ptx: &mut Ptx, row: B32, rows: B32) -> B64 {
        let last = ptx.sub(rows, 1);
        let row = ptx.min(row, last);
        let block = ptx.shr(row, self.shift);
        ptx.mad_wide(block, self.row, self.pointer)
    }

    /// Address of the scale of one quantization block along K.
    pub(crate) fn at(&self, ptx: &mut Ptx, row_start: B64, quant_k: B32) -> Global {
        Global(ptx.mad_wide(quant_k, self.k, row_start), 0)
    }
}

/// The quantization block along K that a stage lies in.
pub(crate) fn quant_k(ptx: &mut Ptx, k_block: B32) -> B32 {
    let shift = ptx.number("quant_shift");
    let shift = ptx.sub(shift, STAGE_K.ilog2());
    ptx.shr(k_block, shift)
}

/// Weight rows at which the two weight scales of a tile start: the tile's first, and that of the next
/// quantization block.
pub(crate) fn weight_scale_rows(ptx: &mut Ptx, tile: Tile) -> [B32; 2] {
    let shift = ptx.number("quant_shift");
    let block = ptx.shr(tile.b_row, shift);
    let next = ptx.add(block, 1);
    [tile.b_row, ptx.shl(next, shift)]
}

/// Whether the rows of a wave share one scale of x: a quantization block has at least 128 rows, and tiles
/// start at a multiple of 64.
pub(crate) fn has_scale_per_wave(plan: &HopperPlan) -> bool {
    plan.problem.x.granularity() == Some(ScaleGranularity::Block) && !plan.shape.swapped
}

/// The scales that a consumer thread needs in one stage.
pub(crate) struct StageScales {
    /// Unswapped: of the thread's two rows in every wave.
    pub(crate) x: Vec<[F32; 2]>,
    /// Unswapped: of the columns before and after the boundary. Swapped: of every wave.
    pub(crate) w: Vec<F32>,
    /// Swapped: address of the scales of x in shared memory, for the thread's first column.
    pub(crate) x_columns: Option<B32>,
}

impl StageScales {
    /// Registers to keep a stage's scales in.
    pub(crate) fn variables(ptx: &mut Ptx, plan: &HopperPlan) -> Self {
        let (x, w) = if plan.shape.swapped { (0, plan.waves()) } else { (plan.waves(), 2) };
        Self {
            x: (0..x).map(|_| [ptx.f32(), ptx.f32()]).collect(),
            w: (0..w).map(|_| ptx.f32()).collect(),
            x_columns: plan.shape.swapped.then(|| ptx.variable(0)),
        }
    }

    /// Copies a stage's scales into such registers.
    pub(crate) fn set(&self, ptx: &mut Ptx, scales: &Self) {
        let floats = |of: &Self| of.x.iter().flatten().chain(&of.w).copied().collect::<Vec<F32>>();
        assert_eq!(floats(self).len(), floats(scales).len(), "the stage has another number of scales");
        for (variable, scale) in floats(self).into_iter().zip(floats(scales)) {
            ptx.copy_float(variable, scale);
        }
        if let (Some(variable), Some(columns)) = (self.x_columns, scales.x_columns) {
            ptx.set(variable, columns);
        }
    }
}

/// Where a consumer thread reads scales from.
pub(crate) enum ScaleReader {
    /// Global memory, beside the wgmma: the addresses of the thread's rows in every wave, and of the two
    /// weight scales.
    Global { x: ScaleRows, w: ScaleRows },
    /// The stage in shared memory that holds the operands.
    Stage,
}

/// The rows of scales that a thread reads.
pub(crate) struct ScaleRows {
    scales: GlobalScales,
    starts: Vec<B64>,
}

impl ScaleReader {
    /// A reader of global memory for one tile.
    pub(crate) fn global(ptx: &mut Ptx, cta: &Cta<'_>, fragment: Fragment, tile: Tile) -> Self {
        assert!(!cta.plan.shape.swapped, "only `strip` swaps operands, and it stages its scales");
        let (x, w) = (GlobalScales::of_x(ptx), GlobalScales::of_w(ptx));
        let (m, n) = (ptx.number("m"), ptx.number("n"));
        let first = ptx.add(tile.a_row, fragment.warp_row);
        let first = ptx.add(first, fragment.lane_row);
        let offsets = (0..cta.plan.waves()).flat_map(|wave| [wave * WAVE_ROWS, wave * WAVE_ROWS + 8]);
        let x_starts = offsets
            .map(|offset| {
                let row = ptx.add(first, offset as u32);
                x.row_start(ptx, row, m)
            })
            .collect();
        let w_starts = weight_scale_rows(ptx, tile).into_iter().map(|row| w.row_start(ptx, row, n)).collect();
        let (x, w) = (ScaleRows { scales: x, starts: x_starts }, ScaleRows { scales: w, starts: w_starts });
        Self::Global { x, w }
    }

    /// Reads the scales of one stage.
    pub(crate) fn read(
        &self,
        ptx: &mut Ptx,
        cta: &Cta<'_>,
        fragment: Fragment,
        stage: B32,
        k_block: B32,
    ) -> StageScales {
        match self {
            Self::Global { x, w } => {
                let quant_k = quant_k(ptx, k_block);
                let mut load = |rows: &ScaleRows| -> Vec<F32> {
                    let starts = rows.starts.iter();
                    starts
                        .map(|&start| {
                            let at = rows.scales.at(ptx, start, quant_k);
                            ptx.load_global_f32(at)
                        })
                        .collect()
                };
                let x = load(x).chunks(2).map(|pair| [pair[0], pair[1]]).collect();
                StageScales { x, w: load(w), x_columns: None }
            }
            Self::Stage => read_stage(ptx, cta, fragment, stage),
        }
    }
}

fn read_stage(ptx: &mut Ptx, cta: &Cta<'_>, fragment: Fragment, stage: B32) -> StageScales {
    let plan = cta.plan;
    let x_scales = cta.buffer(ptx, BufferId::XScale, stage);
    let w_scales = cta.buffer(ptx, BufferId::WScale, stage);
    if plan.shape.swapped {
        let wave = ptx.shr(fragment.warp_row, WAVE_ROWS.ilog2());
        let at = ptx.mad(wave, 4, w_scales);
        let w = (0..plan.waves() as u32).map(|wave| ptx.load_shared_f32(Shared(at, 4 * wave))).collect();
        return StageScales { x: Vec::new(), w, x_columns: Some(ptx.mad(fragment.column, 4, x_scales)) };
    }
    let x = if has_scale_per_wave(plan) {
        let wave = ptx.shr(fragment.warp_row, WAVE_ROWS.ilog2());
        let at = ptx.mad(wave, 4, x_scales);
        let scales = (0..plan.waves() as u32).map(|wave| ptx.load_shared_f32(Shared(at, 4 * wave)));
        scales.map(|scale| [scale; 2]).collect()
    } else {
        let row = ptx.add(fragment.warp_row, fragment.lane_row);
        let at = ptx.mad(row, 4, x_scales);
        let scale = |ptx: &mut Ptx, row: usize| ptx.load_shared_f32(Shared(at, 4 * row as u32));
        (0..plan.waves()).map(|wave| [0, 8].map(|row| scale(ptx, wave * WAVE_ROWS + row))).collect()
    };
    let w = ptx.load_shared_floats::<2>(Shared(w_scales, 0)).to_vec();
    StageScales { x, w, x_columns: None }
}
