//! The thread pool: started when it is first needed, and again in a forked child.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::CpuError;

/// A number of threads.
#[derive(Debug)]
pub(super) struct Threads {
    count: usize,
    started: Mutex<Option<Started>>,
}

#[derive(Debug)]
struct Started {
    /// The process that the threads belong to: they are not inherited by a fork.
    process: u32,
    pool: Arc<ThreadPool>,
}

impl Threads {
    pub(super) fn new(count: usize) -> Self {
        Self { count, started: Mutex::default() }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Runs `work` where rayon uses these threads. Inside a pool of the caller's it uses that one: a second
    /// pool would compete with it for the cores.
    pub(super) fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, CpuError> {
        if rayon::current_thread_index().is_some() {
            return Ok(work());
        }
        Ok(self.pool()?.install(work))
    }

    /// The threads, started if need be.
    pub(super) fn pool(&self) -> Result<Arc<ThreadPool>, CpuError> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if let Some(started) = &*started
            && started.process == process
        {
            return Ok(Arc::clone(&started.pool));
        }
        let threads = self.count;
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("octile-{index}"))
            .build()
            .map_err(|reason| CpuError::Threads { threads, reason })?;
        let pool = Arc::new(pool);
        // Threads of the parent process cannot be ended here.
        mem::forget(started.replace(Started { process, pool: Arc::clone(&pool) }));
        Ok(pool)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let started = self.started.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if started.as_ref().is_some_and(|started| started.process != std::process::id()) {
            mem::forget(started);
        }
    }
}
