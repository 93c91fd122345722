//! ISA selection and the thread pool.

use octile_core::{
    Problem, Strategy,
    device::cpu::Isa,
    plan::{
        DeviceKind,
        cpu::{CpuPlan, useful_threads},
    },
};

use super::{Workspace, isa, threads::Threads};

/// Returns the ISAs that this CPU supports, slowest first.
pub fn available() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|&isa| isa::is_available(isa)).collect()
}

/// A CPU backend that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// The CPU does not support the ISA.
    #[error("this CPU does not support {isa}: use one of {}", names(available))]
    MissingIsa {
        /// The ISA requested.
        isa: Isa,
        /// The ISAs supported.
        available: Vec<Isa>,
    },
    /// No threads.
    #[error("the thread count is 0: use at least 1")]
    NoThreads,
    /// The operating system cannot start the threads.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// Number of threads.
        threads: usize,
        /// The reason.
        reason: rayon::ThreadPoolBuildError,
    },
}

fn names(isas: &[Isa]) -> String {
    isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ")
}

/// Builds a [`Cpu`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuBuilder {
    isa: Option<Isa>,
    threads: Option<usize>,
    spreads_small_work: bool,
}

impl CpuBuilder {
    /// Selects an ISA instead of the fastest one.
    pub fn isa(self, isa: Isa) -> Self {
        Self { isa: Some(isa), ..self }
    }

    /// Uses all threads for problems of any size, also where waking them costs more than it gains: for tests.
    pub fn spread_small_work(self) -> Self {
        Self { spreads_small_work: true, ..self }
    }

    /// Sets the number of threads instead of one per core.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Detects the ISA. Threads start with the first multiplication that needs them.
    pub fn build(self) -> Result<Cpu, CpuError> {
        let available = available();
        let isa = self.isa.or(available.last().copied()).unwrap_or(Isa::Portable);
        if !available.contains(&isa) {
            return Err(CpuError::MissingIsa { isa, available });
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or_else(cores);
        if threads == 0 {
            return Err(CpuError::NoThreads);
        }
        Ok(Cpu { isa, threads: Threads::new(threads), spreads_small_work: self.spreads_small_work })
    }
}

/// The CPU backend: an ISA and a thread pool.
#[derive(Debug)]
pub struct Cpu {
    isa: Isa,
    threads: Threads,
    spreads_small_work: bool,
}

impl Cpu {
    /// Selects the fastest ISA, with one thread per core.
    pub fn new() -> Result<Self, CpuError> {
        Self::builder().build()
    }

    /// Returns a builder to choose ISA and threads.
    ///
    /// ```
    /// use octile_runtime::cpu::{Cpu, Isa};
    ///
    /// let cpu = Cpu::builder().isa(Isa::Portable).threads(1).build()?;
    /// assert_eq!((cpu.isa(), cpu.threads()), (Isa::Portable, 1));
    /// # Ok::<(), octile_runtime::cpu::CpuError>(())
    /// ```
    pub fn builder() -> CpuBuilder {
        CpuBuilder::default()
    }

    /// The ISA.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Number of threads that a problem is worth.
    pub(super) fn threads_for(&self, problem: &Problem) -> usize {
        if self.spreads_small_work { self.threads() } else { useful_threads(problem, self.threads()) }
    }

    /// Starts the threads, so that no multiplication has to. The calling thread is enough for one.
    pub fn start_threads(&self) -> Result<(), CpuError> {
        if self.threads() > 1 { self.threads.pool().map(drop) } else { Ok(()) }
    }

    /// Returns the fastest strategy for a problem, given the layout of the weight.
    ///
    /// A packed weight is always fastest. For a row-major one, double buffering pays if decoded weights are
    /// used more than once.
    pub fn best(&self, problem: &Problem, packed: bool) -> Strategy {
        let device = DeviceKind::Cpu { isa: self.isa, threads: self.threads_for(problem), packed };
        Strategy::best_for(problem, device)
    }

    /// Plans a problem.
    pub fn plan(&self, problem: &Problem, strategy: Strategy) -> CpuPlan {
        CpuPlan::new(*problem, strategy, self.isa, self.threads_for(problem))
    }

    /// Allocates a workspace for a problem, so that even the first call does not allocate.
    pub fn workspace(&self, problem: &Problem, strategy: Strategy) -> Workspace {
        Workspace::for_plan(self.plan(problem, strategy))
    }

    /// Runs `work` where rayon uses the threads.
    pub(super) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, CpuError> {
        self.threads.install(work)
    }

    /// Runs `work` on every thread that can be started, the calling one at least.
    pub(super) fn on_each_thread<R: Send>(&self, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let pool = (self.threads() > 1).then(|| self.threads.pool().ok()).flatten();
        match pool {
            Some(pool) => pool.broadcast(|context| work(context.index())),
            None => vec![work(0)],
        }
    }
}
