//! Threads that help the calling one. It works itself, at once, and waits only for helpers that have begun:
//! one that wakes up late finds nothing left, so that a small multiplication never waits for it. A pool that
//! takes over the whole work, as rayon's does, costs two changes of threads instead.

use std::{
    hint::spin_loop,
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{JoinHandle, yield_now},
    time::{Duration, Instant},
};

use super::affinity;

/// How long an idle helper looks for work before it sleeps, and a caller for the end of its helpers: waking a
/// thread takes about as long.
const SPIN: Duration = Duration::from_micros(30);

/// Least time between two moves of a helper.
const SETTLED: Duration = Duration::from_millis(1);

/// A number of threads: the calling one and helpers.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    threads: usize,
    state: Mutex<State>,
    /// For helpers that sleep.
    posted: Condvar,
    /// For callers that sleep.
    left: Condvar,
    /// Number of jobs so far, for helpers that spin.
    posts: AtomicUsize,
    /// The core that the last job was posted from.
    callers_core: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Posted>,
    /// Helpers inside of jobs, and asleep.
    helping: usize,
    asleep: usize,
    /// When a job of little work ended that not all helpers were awake for.
    ended: Option<Instant>,
    /// Callers that sleep until their helpers have left.
    waiting: usize,
    is_closing: bool,
}

/// What a caller wants done, on its stack.
struct Job<'a> {
    work: &'a (dyn Fn() + Sync),
    /// Most helpers, and how many are inside.
    most: usize,
    inside: AtomicUsize,
    is_little: bool,
    /// Whether a call of `work` has returned, so that nothing is left.
    is_exhausted: AtomicBool,
    has_panicked: AtomicBool,
}

/// A job that helpers may enter. Its caller waits until it is off the list and they have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Posted(*const Job<'static>);

// SAFETY: a shared reference to a job, whose fields may be used by all threads.
unsafe impl Send for Posted {}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Enters the first job that wants a helper, unless all threads are busy: every job has a caller, too.
    fn enter(&mut self, threads: usize) -> Option<Posted> {
        if self.jobs.len() + self.helping >= threads {
            return None;
        }
        let wants_help = |posted: &&Posted| {
            // SAFETY: jobs live as long as they are on the list.
            let job = unsafe { &*posted.0 };
            job.inside.load(Ordering::Relaxed) < job.most && !job.is_exhausted.load(Ordering::Relaxed)
        };
        let posted = *self.jobs.iter().find(wants_help)?;
        // SAFETY: as above; from here on the caller waits for this helper.
        unsafe { &*posted.0 }.inside.fetch_add(1, Ordering::Relaxed);
        self.helping += 1;
        Some(posted)
    }
}

impl Pool {
    /// Starts helpers, all but one of `threads`; each calls `begin` with its number.
    pub(super) fn start(threads: usize, begin: impl Fn(usize) + Clone + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            threads,
            state: Mutex::default(),
            posted: Condvar::new(),
            left: Condvar::new(),
            posts: AtomicUsize::new(0),
            callers_core: AtomicUsize::new(usize::MAX),
        });
        let mut pool = Self { shared, helpers: Vec::new() };
        for helper in 1..threads {
            let (shared, begin) = (Arc::clone(&pool.shared), begin.clone());
            let thread = std::thread::Builder::new().name(format!("octile-{helper}"));
            // Helpers that have started end when the pool is dropped.
            pool.helpers.push(thread.spawn(move || {
                begin(helper);
                help(&shared);
            })?);
        }
        Ok(pool)
    }

    /// Calls `work` on this thread and on up to `helpers` others. Each call returns when nothing is left.
    /// Helpers that sleep are woken for little work only if the last such work has just ended: more will
    /// follow.
    pub(super) fn execute(&self, helpers: usize, is_little: bool, work: &(dyn Fn() + Sync)) {
        let job = Job {
            work,
            most: helpers,
            is_little,
            inside: AtomicUsize::new(0),
            is_exhausted: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
        };
        let open = OpenJob::new(&self.shared, &job);
        work();
        drop(open);
        assert!(!job.has_panicked.into_inner(), "a thread of the pool panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.posted.notify_all();
        for helper in mem::take(&mut self.helpers) {
            // Work that panics is reported to its caller.
            _ = helper.join();
        }
    }
}

/// A job on the list. Dropping it, also while its caller unwinds, waits until no helper uses the job.
struct OpenJob<'a> {
    shared: &'a Shared,
    job: &'a Job<'a>,
}

impl<'a> OpenJob<'a> {
    fn new(shared: &'a Shared, job: &'a Job<'a>) -> Self {
        let core = affinity::current_core().unwrap_or(usize::MAX);
        let mut state = shared.lock();
        shared.callers_core.store(core, Ordering::Relaxed);
        state.jobs.push(posted(job));
        shared.posts.fetch_add(1, Ordering::Relaxed);
        // Others spin, and see it.
        let awake = shared.threads - 1 - state.asleep - state.helping;
        let follows = || state.ended.is_some_and(|ended| ended.elapsed() < SPIN);
        let to_wake = match job.most.saturating_sub(awake).min(state.asleep) {
            1.. if job.is_little && !follows() => 0,
            count => count,
        };
        let all = to_wake == state.asleep;
        drop(state);
        if all && to_wake > 0 {
            shared.posted.notify_all();
        } else {
            (0..to_wake).for_each(|_| shared.posted.notify_one());
        }
        Self { shared, job }
    }
}

impl Drop for OpenJob<'_> {
    fn drop(&mut self) {
        let has_helpers = || self.job.inside.load(Ordering::Acquire) > 0;
        let posted = posted(self.job);
        let mut state = self.shared.lock();
        state.jobs.retain(|other| *other != posted);
        if self.job.is_little && state.asleep > 0 {
            state.ended = Some(Instant::now());
        }
        drop(state);
        spin_while(has_helpers);
        if has_helpers() {
            let mut state = self.shared.lock();
            state.waiting += 1;
            while has_helpers() {
                state = self.shared.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
    }
}

fn posted(job: &Job<'_>) -> Posted {
    Posted(std::ptr::from_ref(job).cast())
}

/// The life of a helper.
fn help(shared: &Shared) {
    let mut moved = None;
    let mut state = shared.lock();
    while !state.is_closing {
        let Some(posted) = state.enter(shared.threads) else {
            let seen = shared.posts.load(Ordering::Relaxed);
            drop(state);
            leave_caller(shared, &mut moved);
            wait_for_post(shared, seen);
            leave_caller(shared, &mut moved);
            state = shared.lock();
            continue;
        };
        drop(state);
        // SAFETY: the caller waits for this helper, which it counts.
        let job = unsafe { &*posted.0 };
        if catch_unwind(AssertUnwindSafe(job.work)).is_err() {
            job.has_panicked.store(true, Ordering::Relaxed);
        }
        job.is_exhausted.store(true, Ordering::Relaxed);
        // The job may be gone after this.
        job.inside.fetch_sub(1, Ordering::Release);
        state = shared.lock();
        state.helping -= 1;
        if state.waiting > 0 {
            shared.left.notify_all();
        }
    }
}

/// Leaves the core of the last caller, which must wait as long as another thread runs there. Where no other
/// core counts as idle, as may be in virtual machines, systems wake threads on the core of the caller, and
/// again there the next time.
fn leave_caller(shared: &Shared, moved: &mut Option<Instant>) {
    let core = shared.callers_core.load(Ordering::Relaxed);
    let is_there = affinity::current_core() == Some(core);
    if is_there && moved.is_none_or(|moved| moved.elapsed() > SETTLED) {
        affinity::leave(core);
        *moved = Some(Instant::now());
    }
}

/// Waits for a job, at first without sleeping. May return without one.
fn wait_for_post(shared: &Shared, seen: usize) {
    let is_unchanged = || shared.posts.load(Ordering::Relaxed) == seen;
    spin_while(is_unchanged);
    let mut state = shared.lock();
    if is_unchanged() && !state.is_closing {
        state.asleep += 1;
        state = shared.posted.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.asleep -= 1;
    }
}

/// Waits as long as `condition` holds, for a thread that is at work: it may need this core to go on.
pub(super) fn wait_while(condition: impl Fn() -> bool) {
    spin_while(&condition);
    while condition() {
        yield_now();
    }
}

/// Spins for a while, as long as `condition` holds.
fn spin_while(condition: impl Fn() -> bool) {
    if !condition() {
        return;
    }
    let start = Instant::now();
    // Reading the clock takes as long as some rounds.
    let has_ended = |_| {
        spin_loop();
        !condition()
    };
    while !(0..32).any(has_ended) && start.elapsed() < SPIN {}
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Does `count` pieces of work, each by one thread.
    fn execute(pool: &Pool, helpers: usize, count: usize, piece: impl Fn(usize) + Sync) {
        let next = AtomicUsize::new(0);
        pool.execute(helpers, false, &|| {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    break;
                }
                piece(at);
            }
        });
    }

    #[test]
    fn every_piece_is_done_when_a_call_returns() {
        let pool = Pool::start(4, |_| ()).unwrap();
        for round in 0..2000 {
            let done: Vec<AtomicUsize> = (0..round % 9).map(|_| AtomicUsize::new(0)).collect();
            execute(&pool, round % 5, done.len(), |at| _ = done[at].fetch_add(1, Ordering::Relaxed));
            assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1), "round {round}");
            if round % 100 == 0 {
                // Helpers fall asleep.
                thread::sleep(2 * SPIN);
            }
        }
    }

    #[test]
    fn callers_share_helpers_and_may_nest() {
        let pool = Pool::start(3, |_| ()).unwrap();
        let sum = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        execute(&pool, 2, 3, |_| {
                            execute(&pool, 2, 2, |_| _ = sum.fetch_add(1, Ordering::Relaxed));
                        });
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 4 * 200 * 3 * 2);
    }

    #[test]
    fn helpers_help() {
        let pool = Pool::start(2, |_| ()).unwrap();
        let threads = Mutex::new(Vec::new());
        let caller = thread::current().id();
        // Each thread waits for the other one.
        execute(&pool, 1, 2, |_| {
            threads.lock().unwrap().push(thread::current().id());
            while threads.lock().unwrap().len() < 2 {
                thread::yield_now();
            }
        });
        let threads = threads.into_inner().unwrap();
        assert!(threads.contains(&caller) && threads[0] != threads[1]);
    }

    #[test]
    fn little_work_wakes_helpers_only_where_more_follows() {
        let pool = Pool::start(2, |_| ()).unwrap();
        let threads = Mutex::new(Vec::new());
        let work = || threads.lock().unwrap().push(thread::current().id());
        for _ in 0..20 {
            while pool.shared.lock().asleep == 0 {
                thread::sleep(SPIN);
            }
            thread::sleep(2 * SPIN);
            threads.lock().unwrap().clear();
            pool.execute(1, true, &work);
            assert_eq!(*threads.lock().unwrap(), [thread::current().id()]);
        }
        // Calls in a row wake the helper sooner or later. Little may pass between them: looking through a log
        // of all calls would soon take longer than a helper counts as needed.
        let caller = thread::current().id();
        let has_come = AtomicBool::new(false);
        let work = || _ = has_come.fetch_or(thread::current().id() != caller, Ordering::Relaxed);
        while !has_come.load(Ordering::Relaxed) {
            pool.execute(1, true, &work);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = Pool::start(2, |_| ()).unwrap();
        for round in 0..100 {
            let both = std::sync::Barrier::new(2);
            let caller = thread::current().id();
            let result = catch_unwind(AssertUnwindSafe(|| {
                execute(&pool, 1, 2, |_| {
                    both.wait();
                    let is_caller = thread::current().id() == caller;
                    assert!(is_caller != (round % 2 == 0), "this thread panics");
                });
            }));
            assert!(result.is_err(), "round {round}");
        }
        let done = AtomicUsize::new(0);
        execute(&pool, 1, 5, |_| _ = done.fetch_add(1, Ordering::Relaxed));
        assert_eq!(done.into_inner(), 5);
    }
}
