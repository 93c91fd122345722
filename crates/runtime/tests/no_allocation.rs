//! The hot call does not allocate once there is a workspace.

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

use common::{Case, X_KINDS, cpu};
use octile_runtime::cpu::{Cpu, MatMut, Problem, QuantBlock, Strategy, available};

struct Counting;

/// Allocations of all threads, and of this one.
static ALL: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static OWN: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: forwards everything to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALL.fetch_add(1, Ordering::Relaxed);
        OWN.with(|own| own.set(own.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations during some calls, the first included: by all threads, and by this one.
fn allocations(cpu: &Cpu, case: &Case, strategy: Strategy, calls: usize) -> (usize, usize) {
    let problem = case.problem();
    let mut workspace = cpu.workspace(&problem, strategy);
    let mut out = vec![0.0f32; problem.m * problem.n];
    let before = (ALL.load(Ordering::Relaxed), OWN.get());
    for _ in 0..calls {
        let out = MatMut::new(&mut out, problem.m, problem.n).unwrap();
        cpu.multiply(strategy, case.x(), case.weight(strategy), out, &mut workspace).unwrap();
    }
    (ALL.load(Ordering::Relaxed) - before.0, OWN.get() - before.1)
}

// A single test function, so that nothing else runs concurrently.
#[test]
fn the_hot_call_allocates_nothing() {
    let isa = *available().last().unwrap();
    let (one, two) = (cpu(isa, 1), cpu(isa, 2));
    for x in X_KINDS {
        for m in [1, 40] {
            let case = Case::new(Problem::new(m, 130, 600, QuantBlock::B128).unwrap().with_x(x), 1);
            for strategy in Strategy::ALL {
                assert_eq!(allocations(&one, &case, strategy, 3).1, 0, "{strategy} {x}");
                // Threads allocate when they start, which may be after the first calls.
                let is_free = (0..10).any(|_| allocations(&two, &case, strategy, 100).0 == 0);
                assert!(is_free, "{strategy} {x}, two threads");
            }
        }
    }
}
