//! Plans of a TPU, by static cycles of the real compiler, without a TPU.

use std::thread;

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
    static_cycles::{CycleBound, StaticCounter, StaticCycles, StaticCyclesError},
};

/// Candidates that are compiled unless the user names a number.
const MOST_CANDIDATES: usize = 12;
/// Candidates that the model expects to take more than this factor of the default's cycles are not compiled:
/// it is off by some percent, and those take the compiler the longest.
const HOPELESS: f64 = 1.3;
/// Most candidates that are compiled at once: a large kernel takes the compiler gigabytes.
const MOST_AT_ONCE: usize = 4;

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

    /// The default plan, and of the others those that the model expects most of.
    fn promising(&self, problem: &Problem) -> Vec<TpuPlan> {
        let mut plans = TpuPlan::candidates(problem, self.chip, Strategy::Strip);
        let Some((default, others)) = plans.split_first_mut() else { return plans };
        let worth = HOPELESS * default.modelled_cycles();
        others.sort_by(|a, b| a.modelled_cycles().total_cmp(&b.modelled_cycles()));
        let promising = others.iter().take_while(|plan| plan.modelled_cycles() <= worth).count();
        plans.truncate((1 + promising).min(self.most_candidates));
        plans
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
        Some(self.promising(problem).len())
    }

    fn trial<'a>(&'a self, problem: &Problem) -> Result<Box<dyn Trial + 'a>> {
        let mut plans = self.promising(problem);
        if plans.is_empty() {
            // The error of the default plan tells why there is none.
            plans.push(TpuPlan::new(problem, self.chip, Strategy::Strip, BlockMode::Auto)?);
        }
        Ok(Box::new(TpuTrial { tuner: self, counted: plans.iter().map(|_| None).collect(), plans }))
    }
}

struct TpuTrial<'a> {
    tuner: &'a TpuTuner,
    plans: Vec<TpuPlan>,
    counted: Vec<Option<Result<StaticCycles, StaticCyclesError>>>,
}

impl TpuTrial<'_> {
    /// Counts the cycles of a candidate, and beside it of those that follow, as many as there are cores. One
    /// that fails for another reason than its plan is compiled once more alone: memory and disk may be too
    /// small for all at once.
    fn count_from(&mut self, candidate: usize) {
        let at_once = thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE);
        let counter = &self.tuner.counter;
        let left = self.plans.iter().zip(&mut self.counted).skip(candidate);
        let mut counting: Vec<_> = left.filter(|(_, counted)| counted.is_none()).take(at_once).collect();
        thread::scope(|scope| {
            for (plan, counted) in &mut counting {
                scope.spawn(move || **counted = Some(counter.count(plan)));
            }
        });
        for (plan, counted) in counting {
            if matches!(counted, Some(Err(error)) if !error.is_of_plan()) {
                *counted = Some(counter.count(plan));
            }
        }
    }
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
        if self.counted[candidate].is_none() {
            self.count_from(candidate);
        }
        match &self.counted[candidate] {
            // Tiles differ in padding, which happens before the kernel.
            Some(Ok(counted)) => Ok(vec![counted.total() + self.plans[candidate].padding_cycles()]),
            // Others than the default do without their cycles: see `lost`.
            Some(Err(error)) if candidate == 0 => Err(HarnessError::Contender(error.to_string().into())),
            _ => Ok(vec![f64::MAX]),
        }
    }

    fn lost(&self) -> Vec<String> {
        let errors = self.counted.iter().enumerate().filter_map(|(candidate, counted)| {
            let error = counted.as_ref()?.as_ref().err()?;
            (!error.is_of_plan()).then(|| format!("{}: {error}", self.describe(candidate)))
        });
        errors.collect()
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
        let counted = self.counted[candidate].as_ref()?.as_ref().ok()?;
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Counts two candidates with a compiler that is a shell script.
    fn counted(script: &str) -> (usize, Vec<String>) {
        let chip = TpuChip::named("tpu7x").unwrap();
        let script = format!("cat > /dev/null; {script}");
        let child = ["sh", "-c", &script].map(Into::into).to_vec();
        let counter = StaticCounter::new("unused.so".into(), child, chip);
        let tuner = TpuTuner::new(chip, counter, "0".to_owned()).with_candidates(2);
        let plans = tuner.promising(&"512x1024x1024:128".parse().unwrap());
        let mut trial = TpuTrial { tuner: &tuner, counted: plans.iter().map(|_| None).collect(), plans };
        let default = trial.sample(0);
        assert!(default.is_err(), "{default:?}");
        assert_eq!(trial.sample(1).unwrap(), [f64::MAX]);
        (trial.plans.len(), trial.lost())
    }

    #[test]
    fn a_compiler_that_was_killed_runs_again_alone() {
        let folder = tempfile::tempdir().unwrap();
        let rejects = r#"echo '{"Rejected":{"Other":"no"}}'"#;
        let killed_once = format!("mkdir {}/once 2>&1 && kill -9 $$; {rejects}", folder.path().display());
        assert_eq!(counted(&killed_once), (2, Vec::new()), "what the compiler rejects is not lost");
        assert!(folder.path().join("once").exists());
    }

    #[test]
    fn candidates_whose_compiler_is_always_killed_are_lost() {
        let (plans, lost) = counted("kill -9 $$");
        assert_eq!((plans, lost.len()), (2, 2));
        assert!(
            lost[1].starts_with("tile ") && lost[1].contains(": the compiler died of signal 9"),
            "{lost:?}"
        );
    }
}
