//! A small choice of shapes for running under a memory checker, which is slow: `cargo xtask memcheck`. Valgrind knows no AVX-512 and
//! hides it from programs; AddressSanitizer leaves every ISA of the machine.
//!
//! Operands have allocations of their own size, so that reading past one is noticed.

mod common;

use std::io::Write;

use common::{Case, X_KINDS, cpus};
use half::bf16;
use octile_runtime::cpu::{FloatKind, Problem, QuantBlock, Strategy};

#[test]
fn nothing_outside_the_matrices_is_touched() {
    for cpu in cpus(1) {
        // Past the test harness, which keeps what passing tests print to itself.
        let _ = writeln!(std::io::stderr(), "memcheck: {}", cpu.isa());
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
