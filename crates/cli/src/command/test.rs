//! `octile test`: what to check.

use octile_harness::{
    case::{test_cases, test_cases_with_ragged},
    correctness::TestRequest,
};

use anyhow::Result;

use super::{model::Model, work::problem_cases};
use crate::args::{BackendName, WorkArgs};

/// The request that the arguments describe.
pub fn request(work: &WorkArgs, model: Option<&Model>) -> Result<TestRequest> {
    // Simulated kernels are also run on shapes with partial blocks.
    let standard = match work.backend {
        BackendName::GpuSim | BackendName::TpuSim => test_cases_with_ragged(),
        BackendName::Best | BackendName::Cpu | BackendName::Gpu => test_cases(),
    };
    let cases = match model {
        Some(model) => model.test_cases(&work.problems)?,
        None => problem_cases(&work.problems, standard)?,
    };
    Ok(TestRequest { cases, strategies: work.strategies.clone(), seed: work.seed })
}
