//! Compiled kernels of one multiplication, for each number of rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use octile_core::{
    Problem, Strategy,
    plan::hopper::{HopperPlan, QuantizeTuning},
};

use super::{CudaError, Gpu, module::ModuleCache, planned::PlannedKernels, tuned};

/// Numbers of rows whose kernels are kept, unless they are pinned; the least recently used go first.
pub(super) const MOST_KEPT: usize = 64;

/// Plans and compiled kernels for any number of rows.
#[derive(Debug)]
pub(super) struct KernelCache {
    gpu: Gpu,
    /// The multiplication, for one row.
    problem: Problem,
    strategy: Strategy,
    modules: ModuleCache,
    /// Most recently used last.
    kernels: Mutex<Vec<CachedKernels>>,
}

#[derive(Debug)]
struct CachedKernels {
    m: usize,
    is_pinned: bool,
    kernels: Arc<PlannedKernels>,
}

impl KernelCache {
    /// Checks that the GPU can multiply this. The M of `problem` is ignored.
    pub(super) fn new(gpu: &Gpu, problem: &Problem, strategy: Strategy) -> Result<Self, CudaError> {
        let (gpu, problem) = (gpu.clone(), Problem { m: 1, ..*problem });
        let (modules, kernels) = (ModuleCache::default(), Mutex::default());
        let cache = Self { gpu, problem, strategy, modules, kernels };
        cache.plan(1)?;
        Ok(cache)
    }

    /// The multiplication of `m` rows.
    pub(super) fn problem(&self, m: usize) -> Result<Problem, CudaError> {
        let Problem { n, k, quant_block, x, out, .. } = self.problem;
        let problem = Problem::new(m, n, k, quant_block).map_err(|_| CudaError::TooLarge)?;
        Ok(problem.with_x(x).with_out(out))
    }

    /// The plan for `m` rows.
    pub(super) fn plan(&self, m: usize) -> Result<HopperPlan, CudaError> {
        let default = HopperPlan::best(&self.problem(m)?, self.gpu.properties(), self.strategy)?;
        Ok(tuned::plan(&self.gpu, &default).unwrap_or(default))
    }

    /// The kernels for `m` rows, if they are compiled.
    pub(super) fn cached(&self, m: usize) -> Option<Arc<PlannedKernels>> {
        let mut kernels = lock(&self.kernels);
        let at = kernels.iter().position(|kept| kept.m == m)?;
        kernels[at..].rotate_left(1);
        kernels.last().map(|kept| Arc::clone(&kept.kernels))
    }

    /// The kernels for `m` rows, compiled if need be.
    pub(super) fn kernels(&self, m: usize) -> Result<Arc<PlannedKernels>, CudaError> {
        if let Some(kernels) = self.cached(m) {
            return Ok(kernels);
        }
        let made = PlannedKernels::tuned(&self.gpu, &self.plan(m)?, QuantizeTuning::BEST, &self.modules)?;
        let made = Arc::new(made);
        let mut kernels = lock(&self.kernels);
        if kernels.iter().filter(|kept| !kept.is_pinned).count() >= MOST_KEPT
            && let Some(oldest) = kernels.iter().position(|kept| !kept.is_pinned)
        {
            kernels.remove(oldest);
        }
        kernels.push(CachedKernels { m, is_pinned: false, kernels: Arc::clone(&made) });
        Ok(made)
    }

    /// The same, and keeps them as long as the cache.
    pub(super) fn pinned(&self, m: usize) -> Result<Arc<PlannedKernels>, CudaError> {
        let made = self.kernels(m)?;
        let mut kernels = lock(&self.kernels);
        match kernels.iter_mut().find(|kept| kept.m == m) {
            Some(kept) => kept.is_pinned = true,
            // Another thread's kernels took its place.
            None => kernels.push(CachedKernels { m, is_pinned: true, kernels: Arc::clone(&made) }),
        }
        Ok(made)
    }
}

/// Locks, also if another thread panicked meanwhile: what is kept is valid at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
