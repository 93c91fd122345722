//! Threads start when they are needed, and again in a forked child.

#![cfg(target_os = "linux")]

mod common;

use common::{Case, pool_threads, started_pool_threads};
use octile_runtime::cpu::{Cpu, Problem, QuantBlock, Strategy, Workspace};

// A single test function, so that nothing else runs concurrently.
#[test]
fn threads_start_when_they_are_needed() {
    let cpu = Cpu::builder().threads(2).build().unwrap();
    let small = Case::new(Problem::new(1, 256, 512, QuantBlock::B128).unwrap(), 1);
    let large = Case::new(Problem::new(64, 1024, 1024, QuantBlock::B128).unwrap(), 2);
    let run = |case: &Case| case.multiply::<f32>(&cpu, Strategy::Strip, &mut Workspace::new());
    run(&small);
    assert_eq!(pool_threads().len(), 0, "a small multiplication needs no threads");
    let expected = run(&large);
    assert_eq!(started_pool_threads(1).len(), 1, "beside the calling thread");

    // SAFETY: the child calls what a child of a process with threads may: memory allocation, which glibc
    // keeps usable, its own new threads, and `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60);
            let is_same = run(&large) == expected && started_pool_threads(1).len() == 1;
            libc::_exit(i32::from(!is_same));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFEXITED(status), "the child did not hang: {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child has the same result, with threads of its own");
    }
    assert_eq!(run(&large), expected, "and the parent still works");

    // Inside a pool of the caller's, that one does the work.
    drop(cpu);
    let cpu = Cpu::builder().threads(2).build().unwrap();
    let run = || large.multiply::<f32>(&cpu, Strategy::Strip, &mut Workspace::new());
    let named = |index| format!("caller-{index}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).thread_name(named).build().unwrap();
    let before = pool_threads().len();
    let (first, second) = pool.join(run, run);
    assert!(first == expected && second == expected);
    assert!(pool_threads().len() <= before, "no threads beside those of the caller's pool");
}
