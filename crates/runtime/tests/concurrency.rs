//! Concurrent and nested calls share the threads: they neither deadlock nor start more.

#![cfg(target_os = "linux")]

mod common;

use std::{fs, thread};

use common::{Case, pool_threads, started_pool_threads, wait_until};
use octile_runtime::cpu::{Cpu, Problem, QuantBlock, Strategy, Workspace};
use rayon::prelude::*;

/// The list of cores in the status of a thread.
fn allowed_cores(task: &std::path::Path) -> String {
    let status = fs::read_to_string(task.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap().trim().to_owned()
}

fn large() -> Case {
    Case::new(Problem::new(64, 1024, 1024, QuantBlock::B128).unwrap(), 2)
}

fn run(cpu: &Cpu, case: &Case) -> Vec<f32> {
    case.multiply(cpu, Strategy::Strip, &mut Workspace::new())
}

// A single test function, so that no other test starts threads meanwhile.
#[test]
fn callers_share_the_threads() {
    let (cpu, case) = (Cpu::builder().threads(2).build().unwrap(), large());
    let expected = run(&cpu, &case);
    assert_eq!(started_pool_threads(1).len(), 1, "beside the calling thread");

    // Threads of the operating system, with one backend and with one each.
    thread::scope(|scope| {
        for caller in 0..6 {
            let (cpu, case, expected) = (&cpu, &case, &expected);
            scope.spawn(move || {
                let own = Cpu::builder().threads(2).build().unwrap();
                for round in 0..8 {
                    let cpu = if (caller + round) % 2 == 0 { cpu } else { &own };
                    assert!(run(cpu, case) == *expected, "caller {caller}, round {round}");
                    let count = pool_threads().len();
                    assert!(count <= 1, "{count} threads, caller {caller}, round {round}");
                }
            });
        }
    });

    // Tasks of the caller's pool, nested, each of which waits for multiplications inside it.
    let named = |index| format!("caller-{index}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).thread_name(named).build().unwrap();
    pool.install(|| {
        (0..6).into_par_iter().for_each(|_| {
            let (first, second) = rayon::join(|| run(&cpu, &case), || run(&cpu, &case));
            assert!(first == expected && second == expected);
        });
    });

    // Both at once: the caller's pool works while other threads use the backend's.
    thread::scope(|scope| {
        scope.spawn(|| (0..8).for_each(|_| assert!(run(&cpu, &case) == expected)));
        scope.spawn(|| {
            pool.install(|| (0..8).into_par_iter().for_each(|_| assert!(run(&cpu, &case) == expected)));
        });
    });
    assert_eq!(pool_threads().len(), 1);

    // Packing uses the same threads.
    let weight = &case.operands.weight;
    assert_eq!(cpu.pack(weight).as_bytes(), case.packed.as_bytes());
    assert_eq!(pool_threads().len(), 1);

    // Without pinning, threads may use what the process may.
    let all = allowed_cores("/proc/self".as_ref());
    assert!(pool_threads().iter().all(|task| allowed_cores(task) == all));
    let before = pool_threads();
    let pinned = Cpu::builder().threads(3).pin_threads(true).build().unwrap();
    assert!(run(&pinned, &case) == expected);
    let mut threads = started_pool_threads(before.len() + 2);
    threads.retain(|task| !before.contains(task));
    // A thread moves to its core when it first runs.
    wait_until(|| threads.iter().all(|task| allowed_cores(task) != all));
    let mut cores: Vec<String> = threads.iter().map(|task| allowed_cores(task)).collect();
    cores.sort();
    assert_eq!(cores.len(), 2, "a pool of its own");
    let has_one = |cores: &String| cores.parse::<usize>().is_ok();
    assert!(cores.iter().all(has_one), "each thread has one core: {cores:?}");
    let is_single_core = all.parse::<usize>().is_ok();
    assert!(is_single_core || cores[0] != cores[1], "each has its own: {cores:?}");
}
