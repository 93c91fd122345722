//! The thread pool: started when it is first needed, and again in a forked child. All backends of a process
//! with the same number of threads share one pool, so that threads do not grow with the callers.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::{CpuError, affinity, pool::Pool};

/// A number of threads.
#[derive(Debug)]
pub(super) struct Threads {
    kind: PoolKind,
    started: Mutex<Option<Started>>,
}

/// What distinguishes pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolKind {
    count: usize,
    /// Whether each thread stays on one core.
    pinned: bool,
}

#[derive(Debug)]
struct Started {
    /// The process that the threads belong to: they are not inherited by a fork.
    process: u32,
    pool: Arc<Pool>,
}

/// A pool that some backend of this process, or of its parent before a fork, has started.
struct Known {
    process: u32,
    kind: PoolKind,
    pool: Weak<Pool>,
}

static POOLS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

impl Threads {
    pub(super) fn new(count: usize, pinned: bool) -> Self {
        Self { kind: PoolKind { count, pinned }, started: Mutex::default() }
    }

    pub(super) fn count(&self) -> usize {
        self.kind.count
    }

    /// The threads, started if need be.
    pub(super) fn pool(&self) -> Result<Arc<Pool>, CpuError> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some(started) = &*started
            && started.process == process
        {
            return Ok(Arc::clone(&started.pool));
        }
        let pool = shared(process, self.kind)?;
        // Threads of the parent process cannot be ended here.
        mem::forget(started.replace(Started { process, pool: Arc::clone(&pool) }));
        Ok(pool)
    }
}

/// The pool of this kind, started if need be.
fn shared(process: u32, kind: PoolKind) -> Result<Arc<Pool>, CpuError> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|known| known.process == process && known.pool.strong_count() > 0);
    let same = pools.iter().find(|known| known.kind == kind);
    if let Some(pool) = same.and_then(|known| known.pool.upgrade()) {
        return Ok(pool);
    }
    let PoolKind { count, pinned } = kind;
    let cores = if pinned { affinity::allowed_cores() } else { Vec::new() };
    let pool = Pool::start(count, move |helper| affinity::stay_on(&cores, helper));
    let pool = Arc::new(pool.map_err(|reason| CpuError::Threads { threads: count, reason })?);
    pools.push(Known { process, kind, pool: Arc::downgrade(&pool) });
    Ok(pool)
}

impl Drop for Threads {
    fn drop(&mut self) {
        let started = self.started.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if started.as_ref().is_some_and(|started| started.process != std::process::id()) {
            mem::forget(started);
        }
    }
}
