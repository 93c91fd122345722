//! ISA selection and the thread pool.

use octile_core::{
    Problem, Strategy,
    device::cpu::Isa,
    plan::{DeviceKind, cpu::CpuPlan},
};

use super::{Workspace, isa};

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
}

impl CpuBuilder {
    /// Selects an ISA instead of the fastest one.
    pub fn isa(self, isa: Isa) -> Self {
        Self { isa: Some(isa), ..self }
    }

    /// Sets the number of threads instead of one per core.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Detects the ISA and starts the threads.
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
        let pool = || {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|index| format!("octile-{index}"))
                .build()
                .map_err(|reason| CpuError::Threads { threads, reason })
        };
        // A single thread is the caller's own.
        let pool = (threads > 1).then(pool).transpose()?;
        Ok(Cpu { isa, threads, pool })
    }
}

/// The CPU backend: an ISA and a thread pool.
#[derive(Debug)]
pub struct Cpu {
    isa: Isa,
    threads: usize,
    pool: Option<rayon::ThreadPool>,
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
        self.threads
    }

    /// Returns the fastest strategy for a problem, given the layout of the weight.
    ///
    /// A packed weight is always fastest. For a row-major one, double buffering pays if decoded weights are
    /// used more than once.
    pub fn best(&self, problem: &Problem, packed: bool) -> Strategy {
        let device = DeviceKind::Cpu { isa: self.isa, threads: self.threads, packed };
        Strategy::best_for(problem, device)
    }

    /// Plans a problem.
    pub fn plan(&self, problem: &Problem, strategy: Strategy) -> CpuPlan {
        CpuPlan::new(*problem, strategy, self.isa, self.threads)
    }

    /// Allocates a workspace for a problem, so that even the first call does not allocate.
    pub fn workspace(&self, problem: &Problem, strategy: Strategy) -> Workspace {
        Workspace::for_plan(self.plan(problem, strategy))
    }

    /// The thread pool, if there is more than one thread.
    pub(super) fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }

    /// Runs `work` on every thread.
    pub(super) fn on_each_thread<R: Send>(&self, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
        match &self.pool {
            None => vec![work(0)],
            Some(pool) => pool.broadcast(|context| work(context.index())),
        }
    }
}
