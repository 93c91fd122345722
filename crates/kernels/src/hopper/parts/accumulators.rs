//! A consumer thread's accumulators, the wgmma that fill them, and promotion.

use std::ops::Range;

use super::{
    boundary::Boundary,
    cta::{Cta, Descriptors, K_STEPS},
    scales::StageScales,
    schedule::KRange,
};
use crate::hopper::ptx::{B32, F32, Pred, Ptx, Shared};

/// How a stage's scaled wgmma results enter the promoted accumulators.
#[derive(Clone, Copy)]
pub(crate) enum Promotion {
    /// They are the tile's first and overwrite them, which saves clearing them.
    Set,
    /// They are added.
    Add,
}

impl Promotion {
    fn apply(self, ptx: &mut Ptx, accumulator: F32, partial: F32, scale: F32) {
        match self {
            Self::Set => ptx.mul_into(accumulator, partial, scale),
            Self::Add => ptx.fma_into(accumulator, partial, scale),
        }
    }
}

/// A chain of wgmma that accumulate in the tensor cores between two promotions.
#[derive(Clone)]
pub(crate) struct Chain {
    /// k-steps of the stage.
    steps: Range<u32>,
    /// For a chain longer than a stage: whether it continues from the previous stage.
    continues: Option<Pred>,
}

impl Chain {
    /// A whole stage.
    pub(crate) const STAGE: Self = Self { steps: 0..K_STEPS, continues: None };

    /// The chains of a stage.
    pub(crate) fn of_stage(ptx: &mut Ptx, cta: &Cta<'_>, k_block: B32, k: KRange) -> Vec<Self> {
        let per_chain = cta.plan.stages_per_chain() as u32;
        if per_chain > 1 {
            let into = ptx.and(k_block, per_chain - 1);
            let (later, after_first) = (ptx.ne(into, 0), ptx.ne(k_block, k.first));
            return vec![Self { continues: Some(ptx.both(later, after_first)), ..Self::STAGE }];
        }
        let steps = K_STEPS / cta.plan.chains_per_stage() as u32;
        (0..K_STEPS)
            .step_by(steps as usize)
            .map(|at| Self { steps: at..at + steps, continues: None })
            .collect()
    }

    /// Whether the chain ends with this stage; `None` where every stage ends one.
    pub(crate) fn ends(ptx: &mut Ptx, cta: &Cta<'_>, k_block: B32, k: KRange) -> Option<Pred> {
        let per_chain = cta.plan.stages_per_chain() as u32;
        (per_chain > 1).then(|| {
            let next = ptx.add(k_block, 1);
            let into = ptx.and(next, per_chain - 1);
            let left = ptx.sub(k.end, next);
            // Zero exactly when a factor is: the first is below 4, so the product does not wrap to 0.
            let product = ptx.mul(into, left);
            ptx.eq(product, 0)
        })
    }
}

/// The two levels of accumulators. Inside a wgmma chain the tensor cores keep about 13 mantissa bits, so its
/// results are promoted: scaled and added in f32.
pub(crate) struct Accumulators {
    /// Promoted f32 accumulators, by wave.
    pub(crate) promoted: Vec<Vec<F32>>,
    /// Registers that wgmma accumulate in: one set for each stage in flight.
    partial: Vec<Vec<F32>>,
}

/// The wgmma of one wave, and the set of registers they accumulate in.
#[derive(Clone, Copy)]
pub(crate) struct WaveProduct {
    wave: usize,
    set: usize,
}

impl WaveProduct {
    /// A wave where one stage is in flight.
    pub(crate) fn of_wave(wave: usize) -> Self {
        Self { wave, set: 0 }
    }

    /// The only wave in one of two stages in flight.
    pub(crate) fn of_stage(stage: usize) -> Self {
        Self { wave: 0, set: stage }
    }
}

impl Accumulators {
    pub(crate) fn new(ptx: &mut Ptx, cta: &Cta<'_>) -> Self {
        let count = cta.plan.shape.tile.b / 2;
        let in_flight = if cta.plan.overlaps_stages { 2 } else { 1 };
        let mut sets = |sets: usize| (0..sets).map(|_| ptx.f32s(count)).collect();
        Self { promoted: sets(cta.plan.waves()), partial: sets(in_flight) }
    }

    /// Sets the promoted accumulators to zero.
    pub(crate) fn clear(&self, ptx: &mut Ptx) {
        for &accumulator in self.promoted.iter().flatten() {
            ptx.set_float(accumulator, 0.0);
        }
    }

    /// Issues the wgmma of one chain and commits them as a group.
    pub(crate) fn multiply(
        &self,
        ptx: &mut Ptx,
        cta: &Cta<'_>,
        descriptors: &Descriptors,
        stage: B32,
        product: WaveProduct,
        chain: Chain,
    ) {
        let columns = cta.plan.shape.tile.b;
        ptx.wgmma_fence();
        for step in chain.steps.clone() {
            let is_first = step == chain.steps.start;
            let add = chain.continues.filter(|_| is_first).unwrap_or_else(|| ptx.ne(u32::from(!is_first), 0));
            let a = descriptors.a(ptx, cta, stage, product.wave, step);
            let b = descriptors.b(ptx, cta, stage, step);
            ptx.wgmma(&self.partial[product.set], columns, a, b, add);
        }
        ptx.wgmma_commit();
    }

    /// Promotes one wave's finished wgmma results. `boundary_column`: see [`Boundary::column_scales`].
    pub(crate) fn promote(
        &self,
        ptx: &mut Ptx,
        scales: &StageScales,
        boundary: &Boundary,
        boundary_column: Option<usize>,
        WaveProduct { wave, set }: WaveProduct,
        promotion: Promotion,
    ) {
        let (promoted, partial) = (&self.promoted[wave], &self.partial[set]);
        let width = 2 * promoted.len();
        let chunks = promoted.chunks(4).zip(partial.chunks(4)).enumerate();
        if let Some(columns) = scales.x_columns {
            for (chunk, (promoted, partial)) in chunks {
                let x: [F32; 2] = ptx.load_shared_floats(Shared(columns, 32 * chunk as u32));
                let scale = x.map(|x| ptx.mul_f32(x, scales.w[wave]));
                for (at, (&promoted, &partial)) in promoted.iter().zip(partial).enumerate() {
                    promotion.apply(ptx, promoted, partial, scale[at % 2]);
                }
            }
            return;
        }
        let column_scales = boundary.column_scales(ptx, width, boundary_column, |ptx, w| {
            scales.x[wave].map(|x| ptx.mul_f32(x, scales.w[w]))
        });
        for (chunk, (promoted, partial)) in chunks {
            for (at, (&promoted, &partial)) in promoted.iter().zip(partial).enumerate() {
                promotion.apply(ptx, promoted, partial, column_scales[chunk][at / 2]);
            }
        }
    }
}
