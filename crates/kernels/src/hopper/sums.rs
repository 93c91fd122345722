//! The sums of a multiplying thread, and how products get into them.

use std::ops::Range;

use super::{
    frame::{Frame, K_STEPS, Operands},
    ptx::{B32, F32, Pred, Ptx, Shared},
    scales::{Boundary, StageScales},
    schedule::Stages,
};

/// What becomes of a stage's products.
#[derive(Clone, Copy)]
pub(super) enum Promotion {
    /// They are the first and become the sums.
    Set,
    /// They are added to the sums.
    Add,
}

impl Promotion {
    fn apply(self, ptx: &mut Ptx, sum: F32, product: F32, scale: F32) {
        match self {
            Self::Set => ptx.mul_into(sum, product, scale),
            Self::Add => ptx.fma_into(sum, product, scale),
        }
    }
}

/// Products that are added up before they are promoted.
#[derive(Clone)]
pub(super) struct Chain {
    /// Steps along K of the stage.
    steps: Range<u32>,
    /// Where the chain began in a stage before: whether it did so for this stage.
    goes_on: Option<Pred>,
}

impl Chain {
    /// A whole stage.
    pub(super) const STAGE: Self = Self { steps: 0..K_STEPS, goes_on: None };

    /// The chains of a stage.
    pub(super) fn of_stage(ptx: &mut Ptx, frame: &Frame<'_>, k_block: B32, stages: Stages) -> Vec<Self> {
        let per_chain = frame.plan.stages_per_chain() as u32;
        if per_chain > 1 {
            let begins = ptx.and(k_block, per_chain - 1);
            let (later, after_first) = (ptx.ne(begins, 0), ptx.ne(k_block, stages.first));
            return vec![Self { goes_on: Some(ptx.both(later, after_first)), ..Self::STAGE }];
        }
        let steps = K_STEPS / frame.plan.chains_per_stage() as u32;
        (0..K_STEPS).step_by(steps as usize).map(|at| Self { steps: at..at + steps, goes_on: None }).collect()
    }

    /// Whether the chain ends with this stage; `None` where all do.
    pub(super) fn ends(ptx: &mut Ptx, frame: &Frame<'_>, k_block: B32, stages: Stages) -> Option<Pred> {
        let per_chain = frame.plan.stages_per_chain() as u32;
        (per_chain > 1).then(|| {
            let next = ptx.add(k_block, 1);
            let into = ptx.and(next, per_chain - 1);
            let left = ptx.sub(stages.end, next);
            // Zero when either is: the first is below 4, so that nothing is lost.
            let product = ptx.mul(into, left);
            ptx.eq(product, 0)
        })
    }
}

/// The f32 sums of a thread, and the registers that the tensor cores add up one stage in.
pub(super) struct Sums {
    /// One block of sums per wave.
    pub(super) waves: Vec<Vec<F32>>,
    /// One block of products for each stage that is on its way at the same time.
    partial: Vec<Vec<F32>>,
}

/// Which products: of a wave, in one of the blocks of registers.
#[derive(Clone, Copy)]
pub(super) struct Products {
    wave: usize,
    block: usize,
}

impl Products {
    /// Those of a wave, one stage at a time.
    pub(super) fn of_wave(wave: usize) -> Self {
        Self { wave, block: 0 }
    }

    /// Those of the only wave in one of two stages.
    pub(super) fn of_stage(stage: usize) -> Self {
        Self { wave: 0, block: stage }
    }
}

impl Sums {
    pub(super) fn new(ptx: &mut Ptx, frame: &Frame<'_>) -> Self {
        let count = frame.plan.shape.tile.b / 2;
        let stages = if frame.plan.overlaps_stages { 2 } else { 1 };
        let mut blocks = |blocks: usize| (0..blocks).map(|_| ptx.f32s(count)).collect();
        Self { waves: blocks(frame.plan.waves()), partial: blocks(stages) }
    }

    pub(super) fn clear(&self, ptx: &mut Ptx) {
        for &sum in self.waves.iter().flatten() {
            ptx.set_float(sum, 0.0);
        }
    }

    /// Starts the products of one wave of a stage, or of the part of it that is a chain: the tensor cores keep about 13 bits
    /// inside a chain, so its products are added to the sums in f32. With `goes_on` they join those of the stage before.
    pub(super) fn start(
        &self,
        ptx: &mut Ptx,
        frame: &Frame<'_>,
        operands: &Operands,
        stage: B32,
        products: Products,
        chain: Chain,
    ) {
        let columns = frame.plan.shape.tile.b;
        ptx.wgmma_fence();
        for step in chain.steps.clone() {
            let is_first = step == chain.steps.start;
            let add = chain.goes_on.filter(|_| is_first).unwrap_or_else(|| ptx.ne(u32::from(!is_first), 0));
            let a = operands.a(ptx, frame, stage, products.wave, step);
            let b = operands.b(ptx, frame, stage, step);
            ptx.wgmma(&self.partial[products.block], columns, a, b, add);
        }
        ptx.wgmma_commit();
    }

    /// Adds the finished products of one wave to the sums, scaled. `begins` says where the second weight scale does if this code is for
    /// one such column.
    pub(super) fn promote(
        &self,
        ptx: &mut Ptx,
        scales: &StageScales,
        boundary: &Boundary,
        begins: Option<usize>,
        Products { wave, block }: Products,
        promotion: Promotion,
    ) {
        let (sums, partial) = (&self.waves[wave], &self.partial[block]);
        let width = 2 * sums.len();
        let chunks = sums.chunks(4).zip(partial.chunks(4)).enumerate();
        if let Some(columns) = scales.x_columns {
            for (chunk, (sums, partial)) in chunks {
                let x: [F32; 2] = ptx.load_shared_floats(Shared(columns, 32 * chunk as u32));
                let scale = x.map(|x| ptx.mul_f32(x, scales.w[wave]));
                for (at, (&sum, &partial)) in sums.iter().zip(partial).enumerate() {
                    promotion.apply(ptx, sum, partial, scale[at % 2]);
                }
            }
            return;
        }
        let of_columns = boundary.scales_of_columns(ptx, width, begins, |ptx, w| {
            scales.x[wave].map(|x| ptx.mul_f32(x, scales.w[w]))
        });
        for (chunk, (sums, partial)) in chunks {
            for (at, (&sum, &partial)) in sums.iter().zip(partial).enumerate() {
                promotion.apply(ptx, sum, partial, of_columns[chunk][at / 2]);
            }
        }
    }
}
