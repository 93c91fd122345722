//! Threads that a multiplication runs on: those of a pool, or of the application.

use std::{
    fmt,
    marker::PhantomData,
    sync::atomic::{AtomicUsize, Ordering},
};

use rayon::prelude::*;

use super::pool::Pool;

/// Threads of another library, used in place of a pool of Octile's own.
///
/// An inference engine has threads already. A second pool on the same cores competes with them: its threads
/// wait for cores on which the others still spin, and wake up from sleep for every layer.
///
/// ```
/// use octile_runtime::cpu::{Cpu, Executor};
///
/// #[derive(Debug)]
/// struct Scoped;
///
/// impl Executor for Scoped {
///     fn threads(&self) -> usize {
///         2
///     }
///
///     fn execute(&self, work: &(dyn Fn() + Sync)) {
///         std::thread::scope(|scope| {
///             scope.spawn(work);
///             work();
///         });
///     }
/// }
///
/// let cpu = Cpu::builder().executor(&Scoped).build()?;
/// assert_eq!(cpu.threads(), 2);
/// # Ok::<(), octile_runtime::cpu::CpuError>(())
/// ```
pub trait Executor: fmt::Debug + Send + Sync {
    /// Number of threads, the calling one included.
    fn threads(&self) -> usize;

    /// Calls `work` on the threads, once on each, and returns when every call has returned.
    ///
    /// Results are right however often it is called, and from which threads; with fewer calls there is less
    /// parallelism.
    fn execute(&self, work: &(dyn Fn() + Sync));
}

/// The threads of one call.
#[derive(Clone, Copy)]
pub(super) enum Team<'a> {
    /// The calling thread.
    Alone,
    /// The calling thread and helpers.
    Pool(&'a Pool),
    /// The same for little work: those that sleep are woken only if the calls come in a row.
    AwakeInPool(&'a Pool),
    /// The rayon pool that the calling thread belongs to: a second one would compete with it for the cores.
    CallersPool,
    Application(&'a dyn Executor),
}

impl Team<'_> {
    /// Calls `work` once with each index below `count`.
    pub(super) fn for_each(self, count: usize, work: impl Fn(usize) + Sync + Send) {
        let next = AtomicUsize::new(0);
        let claim = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count);
        let run = || {
            while let Some(index) = claim() {
                work(index);
            }
        };
        match self {
            Self::Alone => {}
            Self::Pool(pool) => pool.execute(count.saturating_sub(1), false, &run),
            Self::AwakeInPool(pool) => pool.execute(count.saturating_sub(1), true, &run),
            Self::CallersPool => {
                (0..count).into_par_iter().with_max_len(1).for_each(&work);
                return;
            }
            Self::Application(executor) => executor.execute(&run),
        }
        // What is left: an executor may make no calls.
        run();
    }
}

/// The chunks of a slice, which threads borrow one by one.
pub(super) struct Chunks<'a, T> {
    first: *mut T,
    len: usize,
    size: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: this is a mutable slice, of which each thread borrows other chunks.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    /// Chunks of `size` elements; the last one may be shorter.
    pub(super) fn new(slice: &'a mut [T], size: usize) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), size, owner: PhantomData }
    }

    pub(super) fn count(&self) -> usize {
        self.len.div_ceil(self.size)
    }

    /// # Safety
    /// Each index is used once at a time.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that chunks are disjoint")]
    pub(super) unsafe fn get(&self, index: usize) -> &mut [T] {
        let start = (index * self.size).min(self.len);
        // SAFETY: the range is inside the slice, and nobody else has this chunk.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), self.size.min(self.len - start)) }
    }

    /// The whole slice.
    ///
    /// # Safety
    /// Nobody has a chunk, nor gets one as long as the result is used.
    pub(super) unsafe fn all(&self) -> &[T] {
        // SAFETY: the slice that this was made of, which nobody changes.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `work` this many times, one after another.
    #[derive(Debug)]
    struct Calls(usize);

    impl Executor for Calls {
        fn threads(&self) -> usize {
            4
        }

        fn execute(&self, work: &(dyn Fn() + Sync)) {
            (0..self.0).for_each(|_| work());
        }
    }

    #[test]
    fn every_index_is_used_once_whatever_the_executor_does() {
        let pool = Pool::start(3, |_| ()).unwrap();
        let teams = [Team::Alone, Team::Pool(&pool), Team::AwakeInPool(&pool), Team::CallersPool];
        let executors = [Calls(0), Calls(1), Calls(9)];
        let teams = teams.into_iter().chain(executors.iter().map(|calls| Team::Application(calls)));
        for (at, team) in teams.enumerate() {
            let mut values = vec![0; 23];
            let chunks = Chunks::new(&mut values, 4);
            assert_eq!(chunks.count(), 6);
            team.for_each(chunks.count(), |index| {
                // SAFETY: each index comes once.
                unsafe { chunks.get(index) }.iter_mut().for_each(|value| *value += index + 1);
            });
            assert_eq!(values, (0..23).map(|at| at / 4 + 1).collect::<Vec<_>>(), "team {at}");
        }
    }
}
