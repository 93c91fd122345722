//! Which plans may be launched.

use serde::{Deserialize, Deserializer};

use super::{HopperPlan, MOST_STAGES, Release, STAGE_K, TileConfig, is_candidate};
use crate::{Problem, Strategy, device::hopper::HopperGpu, plan::rebuilt};

/// The fields that all others of a plan follow from.
#[derive(Deserialize)]
struct HopperChoices {
    problem: Problem,
    #[serde(deserialize_with = "crate::device::hopper::by_name::deserialize")]
    gpu: HopperGpu,
    strategy: Strategy,
    shape: TileConfig,
    stages: usize,
    promote_every: usize,
    release: Release,
}

impl HopperChoices {
    /// The plan that the constructors make of these choices, if they do.
    fn rebuild(self) -> Option<HopperPlan> {
        let Self { problem, gpu, strategy, shape, stages, promote_every, release } = self;
        Problem::new(problem.m, problem.n, problem.k, problem.quant_block).ok()?;
        let plan = if promote_every == STAGE_K {
            let is_known = match strategy {
                Strategy::Strip => is_candidate(&problem, shape),
                Strategy::Auto | Strategy::Dma | Strategy::Smem => shape == TileConfig::PLAIN,
            };
            if !is_known || stages > MOST_STAGES {
                return None;
            }
            HopperPlan::new(&problem, &gpu, strategy, shape, Some(stages))
        } else {
            HopperPlan::with_promotion(&problem, &gpu, strategy, promote_every)
        };
        let plan = plan.ok()?;
        Some(if release == Release::Thread { plan.for_racecheck() } else { plan })
    }
}

impl HopperPlan {
    /// Whether the constructors make exactly this plan for this GPU, with [`TileConfig::PLAIN`] or a shape
    /// that [`is_candidate`].
    ///
    /// A plan's fields are public. Kernels trust all of them: memory accesses are in bounds because tiles,
    /// stages and shared memory agree. So rebuild and compare a plan before launching it.
    pub fn is_made_for(&self, gpu: &HopperGpu) -> bool {
        let Self { problem, strategy, shape, stages, promote_every, release, .. } = *self;
        let choices = HopperChoices { problem, gpu: *gpu, strategy, shape, stages, promote_every, release };
        choices.rebuild().is_some_and(|made| Self { gpu: self.gpu, ..made } == *self)
    }
}

impl<'de> Deserialize<'de> for HopperPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        rebuilt(deserializer, HopperChoices::rebuild)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ActivationKind, FloatKind, QuantBlock, ScaleGranularity,
        device::hopper::HOPPER_GPUS,
        plan::hopper::{ClusterMode, GpuTile, PROMOTIONS},
    };

    const GPU: HopperGpu = HOPPER_GPUS[1];

    fn problem(m: usize, n: usize, k: usize) -> Problem {
        Problem::new(m, n, k, QuantBlock::B512)
            .unwrap()
            .with_x(ActivationKind::Fp8(ScaleGranularity::Token))
            .with_out(FloatKind::Bf16)
    }

    #[test]
    fn plans_of_the_constructors_may_be_launched() {
        for m in [1, 17, 64, 100, 200, 1000, 4096] {
            let problem = problem(m, 520, 1100);
            for strategy in Strategy::ALL {
                let best = HopperPlan::best(&problem, &GPU, strategy).unwrap();
                assert!(best.is_made_for(&GPU), "{best:?}");
                assert!(best.for_racecheck().is_made_for(&GPU));
                for every in PROMOTIONS {
                    let promoting = HopperPlan::with_promotion(&problem, &GPU, strategy, every);
                    assert!(promoting.is_ok_and(|plan| plan.is_made_for(&GPU)) || strategy == Strategy::Auto);
                }
            }
            for plan in HopperPlan::candidates(&problem, &GPU).unwrap() {
                assert!(plan.is_made_for(&GPU), "{plan:?}");
            }
        }
    }

    #[test]
    fn changed_plans_may_not_be_launched() {
        let plan = HopperPlan::best(&problem(300, 520, 1100), &GPU, Strategy::Strip).unwrap();
        let changes: [fn(&mut HopperPlan); 16] = [
            |plan| plan.problem.m += 500,
            |plan| plan.problem.n = 0,
            |plan| plan.problem.k = 1 << 62,
            |plan| plan.problem.out = FloatKind::F32,
            |plan| plan.strategy = Strategy::Auto,
            |plan| plan.shape.tile = GpuTile { a: 7, b: 13 },
            |plan| plan.shape.tile.a = 0,
            |plan| plan.shape.swapped = true,
            |plan| plan.shape.cluster = ClusterMode::SplitK(100),
            |plan| plan.units.0 += 1,
            |plan| plan.stages = 1000,
            |plan| plan.consumers = 3,
            |plan| plan.blocks = 0,
            |plan| plan.raster = 0,
            |plan| plan.promote_every = 3,
            |plan| plan.memory = crate::plan::MemoryMap::default(),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = plan.clone();
            change(&mut changed);
            assert!(!changed.is_made_for(&GPU), "change {index}");
        }
        let smaller = HopperGpu { sms: 78, ..GPU };
        let large = HopperPlan::best(&problem(4096, 4096, 1100), &GPU, Strategy::Strip).unwrap();
        assert!(!large.is_made_for(&smaller));
    }

    #[test]
    fn plans_are_read_back_unless_they_were_changed() {
        let problem = problem(300, 520, 1100);
        for strategy in Strategy::ALL {
            let plan = HopperPlan::best(&problem, &GPU, strategy).unwrap();
            for plan in [plan.clone(), plan.for_racecheck()] {
                let written = serde_json::to_value(&plan).unwrap();
                assert_eq!(written["gpu"], "h200");
                assert_eq!(serde_json::from_value::<HopperPlan>(written.clone()).unwrap(), plan);
                for (field, value) in [("stages", 1000.into()), ("gpu", "a100".into()), ("new", 1.into())] {
                    let mut changed = written.clone();
                    changed[field] = value;
                    assert!(serde_json::from_value::<HopperPlan>(changed).is_err(), "{field}");
                }
            }
        }
    }
}
