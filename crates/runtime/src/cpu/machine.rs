//! ISA selection and the thread pool.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use octile_core::{
    Problem, QuantizedWeight, Strategy,
    device::cpu::{Isa, IsaDispatch, Microarchitecture, UnknownIsa},
    plan::{
        DeviceKind,
        cpu::{Blocking, CpuChoice, CpuPlan, is_worth_waking, useful_spinning_threads, useful_threads},
    },
    tuned::TableOrigin,
};

use super::{
    PackedWeight, Workspace,
    dispatch::{self, DispatchSource, ISA_VARIABLE},
    executor::{Executor, Team},
    isa,
    threads::Threads,
    tuned,
};
use crate::switches::{self, INVARIANT, UnknownSwitch};

/// Returns the ISAs that this CPU supports, in the order of [`Isa::ALL`].
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
    /// The environment names an unknown ISA.
    #[error("{ISA_VARIABLE}: {0}")]
    Variable(UnknownIsa),
    /// The environment turns something neither on nor off.
    #[error(transparent)]
    Switch(#[from] UnknownSwitch),
    /// No threads.
    #[error("the thread count is 0: use at least 1")]
    NoThreads,
    /// The operating system cannot start the threads.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// Number of threads.
        threads: usize,
        /// The reason.
        reason: std::io::Error,
    },
}

fn names(isas: &[Isa]) -> String {
    isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ")
}

/// Builds a [`Cpu`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuBuilder {
    isa: Option<Isa>,
    is_batch_invariant: bool,
    threads: Option<usize>,
    pins_threads: bool,
    spreads_small_work: bool,
    executor: Option<&'static dyn Executor>,
    is_tuned: bool,
}

impl CpuBuilder {
    /// Uses one ISA for all problems instead of the fastest for each.
    pub fn isa(self, isa: Isa) -> Self {
        Self { isa: Some(isa), ..self }
    }

    /// Uses the ISA that is fastest for many rows for any number of rows, so that a row's result does not
    /// depend on the rows beside it. Otherwise few rows may use another ISA, whose sums are rounded in
    /// another order.
    pub fn batch_invariant(self) -> Self {
        Self { is_batch_invariant: true, ..self }
    }

    /// Uses all threads for problems of any size, also where waking them costs more than it gains: for tests.
    pub fn spread_small_work(self) -> Self {
        Self { spreads_small_work: true, ..self }
    }

    /// Uses plans of [tuned tables](crate::tuned) for the problems that they hold, with packed weights,
    /// unless an ISA is named, results must not depend on the number of rows, or the threads are
    /// the application's.
    pub fn tuned(self, is_tuned: bool) -> Self {
        Self { is_tuned, ..self }
    }

    /// Sets the number of threads instead of one per core.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Uses the threads of the application, all of them, instead of a pool. Between calls they should spin
    /// for a while: also small problems are spread over them.
    pub fn executor(self, executor: &'static dyn Executor) -> Self {
        Self { executor: Some(executor), ..self }
    }

    /// Keeps each thread of the pool on one core, on Linux: for machines where nothing else runs. The calling
    /// thread, which multiplies small problems, is not pinned.
    pub fn pin_threads(self, pins_threads: bool) -> Self {
        Self { pins_threads, ..self }
    }

    /// Checks the ISA. Threads start with the first multiplication that needs them.
    ///
    /// Without [`CpuBuilder::isa`], the environment variable `OCTILE_ISA` can name one for all problems, and
    /// `OCTILE_BATCH_INVARIANT=1` has the effect of [`CpuBuilder::batch_invariant`].
    pub fn build(self) -> Result<Cpu, CpuError> {
        let isa = match self.isa {
            None => isa_of_environment()?,
            named => named,
        };
        if let Some(isa) = isa.filter(|&isa| !isa::is_available(isa)) {
            return Err(CpuError::MissingIsa { isa, available: available() });
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let of_executor = self.executor.map(|executor| executor.threads());
        let threads = of_executor.or(self.threads).unwrap_or_else(cores);
        if threads == 0 {
            return Err(CpuError::NoThreads);
        }
        switches::require_known()?;
        let own = match isa {
            Some(isa) => Some((IsaDispatch::only(isa), DispatchSource::Named)),
            None if self.is_batch_invariant || INVARIANT.is_on()? => {
                let (dispatch, source) = dispatch::of_machine();
                Some((dispatch.batch_invariant(), source))
            }
            None => None,
        };
        let has_usual_threads = !self.spreads_small_work && self.executor.is_none();
        let uses_tables = self.is_tuned && own.is_none() && has_usual_threads;
        let tuned = if uses_tables { tuned::choices(threads) } else { HashMap::new() };
        Ok(Cpu {
            own,
            uses_tables,
            tuned,
            threads: Threads::new(threads, self.pins_threads),
            spreads_small_work: self.spreads_small_work,
            executor: self.executor,
            design: dispatch::design(),
        })
    }
}

/// The environment variable that keeps this process from the default plans of others, if there is one.
pub fn variable_in_force() -> Result<Option<&'static str>, CpuError> {
    Ok(match isa_of_environment()? {
        Some(_) => Some(ISA_VARIABLE),
        None => INVARIANT.is_on()?.then_some(INVARIANT.variable),
    })
}

fn isa_of_environment() -> Result<Option<Isa>, CpuError> {
    let named = std::env::var_os(ISA_VARIABLE).filter(|name| !name.is_empty());
    named.map(|name| name.to_string_lossy().parse()).transpose().map_err(CpuError::Variable)
}

/// Bytes of a weight from which several threads pack it sooner than one.
const WORTH_PACKING_TOGETHER: usize = 1 << 20;

/// The CPU backend: kernels for each ISA and a thread pool.
#[derive(Debug)]
pub struct Cpu {
    /// Unless it is that of the machine.
    own: Option<(IsaDispatch, DispatchSource)>,
    uses_tables: bool,
    /// Choices of tuned tables; all of them fit this machine.
    tuned: HashMap<Problem, (CpuChoice, TableOrigin)>,
    threads: Threads,
    spreads_small_work: bool,
    executor: Option<&'static dyn Executor>,
    /// The design of the CPU, if it is known.
    design: Option<Microarchitecture>,
}

impl Cpu {
    /// Uses the fastest ISA for each problem, and one thread per core.
    pub fn new() -> Result<Self, CpuError> {
        Self::builder().build()
    }

    /// Returns a builder to choose ISA and threads.
    ///
    /// ```
    /// use octile_runtime::cpu::{Cpu, Isa};
    ///
    /// let cpu = Cpu::builder().isa(Isa::Portable).threads(1).build()?;
    /// let problem = "16x4096x4096:128".parse()?;
    /// assert_eq!((cpu.isa_for(&problem), cpu.threads()), (Isa::Portable, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> CpuBuilder {
        CpuBuilder::default()
    }

    /// Which ISA multiplies what.
    ///
    /// On a CPU whose rates are not known, the first call in a process measures them, in some milliseconds.
    pub fn dispatch(&self) -> &IsaDispatch {
        self.own.as_ref().map_or_else(|| dispatch::of_machine().0, |(dispatch, _)| dispatch)
    }

    /// Where the choice of ISAs comes from.
    pub fn dispatch_source(&self) -> DispatchSource {
        self.own.as_ref().map_or_else(|| dispatch::of_machine().1, |(_, source)| *source)
    }

    /// The ISA that multiplies a problem.
    pub fn isa_for(&self, problem: &Problem) -> Isa {
        self.dispatch().isa_for(problem)
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Number of threads that a problem is worth.
    pub(super) fn threads_for(&self, problem: &Problem) -> usize {
        match self.executor {
            _ if self.spreads_small_work => self.threads(),
            Some(_) => useful_spinning_threads(problem, self.isa_for(problem), self.threads()),
            None => useful_threads(problem, self.isa_for(problem), self.design, self.threads()),
        }
    }

    /// The choices that a plan for a problem follows from: those of a tuned table, or the default ones.
    pub fn choice_for(&self, problem: &Problem, strategy: Strategy) -> CpuChoice {
        self.tuned_choice(problem, strategy)
            .map_or_else(|| self.default_choice(problem), |(choice, _)| choice)
    }

    /// The choices of a tuned table for a problem, and which table that is.
    pub fn tuned_choice(&self, problem: &Problem, strategy: Strategy) -> Option<(CpuChoice, TableOrigin)> {
        // Few processes have tables, and hashing a problem takes as long as the rest of a small call's plan.
        let may_be_tuned = !self.tuned.is_empty() && strategy == Strategy::Strip;
        if may_be_tuned { self.tuned.get(problem).copied() } else { None }
    }

    /// What a user should know about tuned tables before these problems are multiplied: sentences about files
    /// and entries that are ignored.
    pub fn table_notes(&self, problems: &[Problem]) -> Vec<String> {
        if self.uses_tables { tuned::notes(self.threads(), problems) } else { Vec::new() }
    }

    /// The choices that a plan follows from without tuned tables.
    pub fn default_choice(&self, problem: &Problem) -> CpuChoice {
        CpuChoice {
            isa: self.isa_for(problem),
            threads: self.threads_for(problem),
            blocking: Blocking::default(),
        }
    }

    /// Starts the threads, so that no multiplication has to. The calling thread is enough for one.
    pub fn start_threads(&self) -> Result<(), CpuError> {
        let needs_pool = self.threads() > 1 && self.executor.is_none();
        if needs_pool { self.threads.pool().map(drop) } else { Ok(()) }
    }

    /// Returns the fastest strategy for a problem, given the layout of the weight.
    ///
    /// A packed weight is always fastest. For a row-major one, double buffering pays if decoded weights are
    /// used more than once.
    pub fn best(&self, problem: &Problem, packed: bool) -> Strategy {
        let device =
            DeviceKind::Cpu { isa: self.isa_for(problem), threads: self.threads_for(problem), packed };
        Strategy::best_for(problem, device)
    }

    /// Plans a problem.
    pub fn plan(&self, problem: &Problem, strategy: Strategy) -> CpuPlan {
        CpuPlan::with_choice(*problem, strategy, self.choice_for(problem, strategy))
    }

    /// Allocates a workspace for a problem, so that even the first call does not allocate.
    pub fn workspace(&self, problem: &Problem, strategy: Strategy) -> Workspace {
        Workspace::for_plan(self.plan(problem, strategy))
    }

    /// Packs a weight with the threads, so that those which will read it touch it first: on machines with
    /// several memory nodes its pages are spread over them.
    pub fn pack(&self, weight: &QuantizedWeight) -> PackedWeight {
        let is_large = weight.codes().len() >= WORTH_PACKING_TOGETHER;
        let parts = if is_large && self.executor.is_none() { self.threads() } else { 1 };
        let packed = self.with_team(parts, |team| PackedWeight::made_by(team, weight, parts));
        packed.unwrap_or_else(|_| PackedWeight::new(weight))
    }

    /// The same with the threads for a plan. A small problem wakes none of the pool unless others follow it.
    pub(super) fn with_team_for<R>(
        &self,
        plan: &CpuPlan,
        work: impl FnOnce(Team<'_>) -> R,
    ) -> Result<R, CpuError> {
        let is_small = !is_worth_waking(&plan.problem, plan.isa, self.design);
        self.with_team(plan.workers(), |team| {
            work(match team {
                Team::Pool(pool) if is_small && !self.spreads_small_work => Team::AwakeInPool(pool),
                team => team,
            })
        })
    }

    /// Whether codes that are decoded once are best prefetched straight into the L1 cache.
    pub(super) fn prefetches_into_l1(&self) -> bool {
        self.design.is_some_and(Microarchitecture::prefetches_into_l1)
    }

    /// Calls `work` with the threads that multiply: of the application, of the pool that the calling thread
    /// belongs to, or of this backend's, which are started if need be.
    pub(super) fn with_team<R>(
        &self,
        workers: usize,
        work: impl FnOnce(Team<'_>) -> R,
    ) -> Result<R, CpuError> {
        match self.executor {
            _ if workers <= 1 => Ok(work(Team::Alone)),
            Some(executor) => Ok(work(Team::Application(executor))),
            None if rayon::current_thread_index().is_some() => Ok(work(Team::CallersPool)),
            None => Ok(work(Team::Pool(&*self.threads.pool()?))),
        }
    }

    /// Calls `work` as often as there are threads, each time on another one unless they cannot be started.
    pub(super) fn on_each_thread<R: Send>(&self, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let threads = self.threads();
        let results = Mutex::new(Vec::with_capacity(threads));
        let work = |thread| {
            let result = work(thread);
            results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        };
        if self.with_team(threads, |team| team.for_each(threads, work)).is_err() {
            work(0);
        }
        results.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
