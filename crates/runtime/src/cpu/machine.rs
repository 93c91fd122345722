//! The machine: its instruction sets and threads.

use octile_core::{
    Problem, Strategy,
    device::cpu::Isa,
    plan::{DeviceKind, cpu::CpuPlan},
};

use super::{Workspace, isa};

/// The instruction sets that this machine has, slowest first.
pub fn available() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|&isa| isa::is_available(isa)).collect()
}

/// A CPU backend that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CpuError {
    /// The instruction set is missing.
    #[error("this machine has no {isa} instructions: use one of {}", names(available))]
    MissingIsa {
        /// What was asked for.
        isa: Isa,
        /// What there is.
        available: Vec<Isa>,
    },
    /// No threads.
    #[error("a CPU backend needs at least 1 thread, but 0 were asked for")]
    NoThreads,
    /// The operating system refused the threads.
    #[error("cannot start {threads} threads: {source}")]
    Threads {
        /// How many.
        threads: usize,
        /// Why.
        source: rayon::ThreadPoolBuildError,
    },
}

fn names(isas: &[Isa]) -> String {
    isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ")
}

/// Choices to make before there is a [`Cpu`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuBuilder {
    isa: Option<Isa>,
    threads: Option<usize>,
}

impl CpuBuilder {
    /// Uses these instructions instead of the fastest there are.
    pub fn isa(self, isa: Isa) -> Self {
        Self { isa: Some(isa), ..self }
    }

    /// Uses so many threads instead of one per core.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Looks at the machine and starts the threads.
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
                .map_err(|source| CpuError::Threads { threads, source })
        };
        // One thread is the caller's own.
        let pool = (threads > 1).then(pool).transpose()?;
        Ok(Cpu { isa, threads, pool })
    }
}

/// The CPU backend: an instruction set and a pool of threads.
#[derive(Debug)]
pub struct Cpu {
    isa: Isa,
    threads: usize,
    pool: Option<rayon::ThreadPool>,
}

impl Cpu {
    /// The fastest instructions of this machine, one thread per core.
    pub fn new() -> Result<Self, CpuError> {
        Self::builder().build()
    }

    /// For choosing instructions and threads.
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

    /// Instructions used.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Threads used.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The strategy that is fastest for a problem, given the form of the weight.
    ///
    /// A packed weight wins everywhere. Row by row, what counts is whether decoded weights are used more than once:
    /// if so, decoding the next ones meanwhile pays.
    pub fn best(&self, problem: &Problem, packed: bool) -> Strategy {
        let device = DeviceKind::Cpu { isa: self.isa, threads: self.threads, packed };
        Strategy::best_for(problem, device)
    }

    /// How a problem would be run.
    pub fn plan(&self, problem: &Problem, strategy: Strategy) -> CpuPlan {
        CpuPlan::new(*problem, strategy, self.isa, self.threads)
    }

    /// A workspace with all the memory that a problem needs, so that even the first call allocates nothing.
    pub fn workspace(&self, problem: &Problem, strategy: Strategy) -> Workspace {
        Workspace::for_plan(self.plan(problem, strategy))
    }

    /// The threads, when there are more than the caller's.
    pub(super) fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }

    /// Runs the same thing on every thread at once.
    pub(super) fn on_each_thread<R: Send>(&self, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
        match &self.pool {
            None => vec![work(0)],
            Some(pool) => pool.broadcast(|context| work(context.index())),
        }
    }
}
