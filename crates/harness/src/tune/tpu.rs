//! Plans of a TPU, by static cycles of the real compiler, without a TPU.

use octile_core::{
    Problem, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, TpuPlan},
    tuned::{TunedChoice, TunedDevice, TunedWith},
};
use octile_runtime::pjrt::tuned;

use super::{Model, Trial, Tuner};
use crate::{
    HarnessError, Result,
    check::Check,
    static_cycles::{CycleBound, StaticCounter, StaticCycles},
};

/// Candidates that are compiled unless the user names a number.
const MOST_CANDIDATES: usize = 12;

/// A chip, and the compiler for it.
pub struct TpuTuner {
    chip: &'static TpuChip,
    counter: StaticCounter,
    /// Version of libtpu.
    libtpu: String,
    /// Most candidates that are compiled.
    most_candidates: usize,
}

impl TpuTuner {
    /// Counts cycles on a chip with this version of libtpu.
    pub fn new(chip: &'static TpuChip, counter: StaticCounter, libtpu: String) -> Self {
        Self { chip, counter, libtpu, most_candidates: MOST_CANDIDATES }
    }

    /// The same with at most so many candidates, the default one included.
    pub fn with_candidates(self, most_candidates: usize) -> Self {
        Self { most_candidates: most_candidates.max(2), ..self }
    }
}

impl Tuner for TpuTuner {
    fn device(&self) -> TunedDevice {
        tuned::device(self.chip)
    }

    fn with(&self, problem: &Problem, choice: Option<TunedChoice>) -> Option<TunedWith> {
        let tile = match choice {
            Some(TunedChoice::Tpu(tile)) => Some(tile),
            Some(TunedChoice::Cpu(_) | TunedChoice::Gpu(_)) => return None,
            None => None,
        };
        tuned::with(self.chip, &self.libtpu, problem, tile)
    }

    fn calls(&self) -> &'static [&'static str] {
        &["static"]
    }

    fn unit(&self) -> &'static str {
        "cycles"
    }

    fn candidates(&self, problem: &Problem) -> Option<usize> {
        Some(TpuPlan::candidates(problem, self.chip, Strategy::Strip).len().min(self.most_candidates))
    }

    fn trial<'a>(&'a self, problem: &Problem) -> Result<Box<dyn Trial + 'a>> {
        let mut plans = TpuPlan::candidates(problem, self.chip, Strategy::Strip);
        if plans.is_empty() {
            // The error of the default plan tells why there is none.
            plans.push(TpuPlan::new(problem, self.chip, Strategy::Strip, BlockMode::Auto)?);
        }
        // The default one, and of the others those that the model expects most of.
        plans[1..].sort_by(|a, b| a.modelled_cycles().total_cmp(&b.modelled_cycles()));
        plans.truncate(self.most_candidates);
        Ok(Box::new(TpuTrial { tuner: self, counted: vec![None; plans.len()], plans }))
    }
}

struct TpuTrial<'a> {
    tuner: &'a TpuTuner,
    plans: Vec<TpuPlan>,
    counted: Vec<Option<StaticCycles>>,
}

impl Trial for TpuTrial<'_> {
    fn candidates(&self) -> Vec<TunedChoice> {
        self.plans.iter().map(|plan| TunedChoice::Tpu(plan.tile)).collect()
    }

    fn describe(&self, candidate: usize) -> String {
        let tile = self.plans[candidate].tile;
        format!("tile {}x{}x{}", tile.m, tile.n, tile.k)
    }

    fn sample(&mut self, candidate: usize) -> Result<Vec<f64>> {
        let counted = self.tuner.counter.count(&self.plans[candidate]);
        let counted = match counted {
            // A candidate that the compiler rejects is no candidate; a default that it rejects is an error.
            Err(error) if candidate == 0 => return Err(HarnessError::Contender(Box::new(error))),
            Err(_) => return Ok(vec![f64::MAX]),
            Ok(counted) => counted,
        };
        // Tiles differ in padding, which happens before the kernel.
        let total = counted.total() + self.plans[candidate].padding_cycles();
        self.counted[candidate] = Some(counted);
        Ok(vec![total])
    }

    fn check(&mut self, _: usize) -> Result<Option<Check>> {
        Ok(None)
    }

    /// The bound of the candidate's arithmetic: what no tile can beat.
    fn model(&self, candidate: usize) -> Result<Model, HarnessError> {
        let plan = &self.plans[candidate];
        let bound = CycleBound::new(&plan.problem, self.tuner.chip, plan.arithmetic);
        let limit = if bound.mxu >= bound.hbm { "MXU" } else { "HBM" };
        Ok(Model { cost: Some(bound.larger()), limit: limit.to_owned() })
    }

    fn limit(&self, candidate: usize) -> Option<String> {
        let counted = self.counted[candidate].as_ref()?;
        let total = counted.total().max(1.0);
        let limit = if counted.stalled > 0.25 * total {
            "HBM"
        } else if counted.mxu_busy > 0.6 * total {
            "MXU"
        } else {
            "VPU and issue"
        };
        let percent = |part: f64| 100.0 * part / total;
        Some(format!(
            "{limit} (MXU {:.0} %, waits {:.0} %)",
            percent(counted.mxu_busy),
            percent(counted.stalled)
        ))
    }

    fn is_counted(&self) -> bool {
        true
    }
}
