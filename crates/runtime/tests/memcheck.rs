//! A few shapes for slow memory checkers: `cargo xtask memcheck`. Valgrind does not support AVX-512 and hides
//! it; AddressSanitizer runs every ISA.
//!
//! Each operand has its own allocation of exact size, so that out-of-bounds reads are found.

mod common;

use std::io::Write;

use common::{Case, X_KINDS, cpus};
use half::bf16;
use octile_runtime::cpu::{FloatKind, Problem, QuantBlock, Strategy};

#[test]
fn nothing_outside_the_matrices_is_touched() {
    for cpu in cpus(1) {
        // To stderr, because the test harness hides the stdout of passing tests.
        let _ = writeln!(std::io::stderr(), "memcheck: {}", cpu.dispatch());
        for (m, n, k) in [(1, 33, 131), (7, 31, 65), (13, 65, 514)] {
            for x in X_KINDS {
                let problem = Problem::new(m, n, k, QuantBlock::B128).unwrap().with_x(x);
                let case = Case::new(problem, 1);
                let narrow = Case::new(problem.with_out(FloatKind::Bf16), 1);
                let (reference, narrow_reference) = (case.reference(), narrow.reference());
                for strategy in Strategy::ALL {
                    case.check::<f32>(&cpu, strategy, &reference);
                    narrow.check::<bf16>(&cpu, strategy, &narrow_reference);
                }
            }
        }
    }
}
