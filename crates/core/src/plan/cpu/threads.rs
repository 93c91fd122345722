//! How many threads a problem is worth.

use crate::{
    ActivationKind, Problem,
    device::cpu::{Isa, Microarchitecture},
};

/// Nanoseconds of work that are worth a thread: waking one takes that long, and the caller works meanwhile.
const WORTH_A_THREAD: f64 = 20_000.0;

/// Nanoseconds of work that are worth a thread that spins until there is some.
const WORTH_A_SPINNING_THREAD: f64 = 4_000.0;

/// The same for a second thread on Zen 5, where threads are woken as [`is_worth_waking`] says.
const WORTH_TWO_THREADS: f64 = 6_000.0;

/// Nanoseconds of work on one thread for which waking others is sure to pay, on Zen 5 in a virtual machine.
const WORTH_WAKING: f64 = 75_000.0;

/// Number of threads, of those available, that a problem is worth on a CPU design, if it is known.
pub fn useful_threads(
    problem: &Problem,
    isa: Isa,
    design: Option<Microarchitecture>,
    threads: usize,
) -> usize {
    let useful = (nanoseconds(problem, isa) / WORTH_A_THREAD) as usize;
    let is_worth_two = nanoseconds_on(design, problem, isa).is_some_and(|time| time >= WORTH_TWO_THREADS);
    useful.max(if is_worth_two { 2 } else { 1 }).min(threads.max(1))
}

/// The same of threads that spin between calls, and so start within a few microseconds.
pub fn useful_spinning_threads(problem: &Problem, isa: Isa, threads: usize) -> usize {
    ((nanoseconds(problem, isa) / WORTH_A_SPINNING_THREAD) as usize).clamp(1, threads.max(1))
}

/// Whether a single multiplication is worth waking threads that sleep. Less work is worth it where others
/// follow at once, and find them awake.
pub fn is_worth_waking(problem: &Problem, isa: Isa, design: Option<Microarchitecture>) -> bool {
    nanoseconds_on(design, problem, isa).is_none_or(|time| time >= WORTH_WAKING)
}

/// Time that a problem takes on one thread of a design: its rates, as a cost of each weight and of each
/// product. None where threads were not measured.
fn nanoseconds_on(design: Option<Microarchitecture>, problem: &Problem, isa: Isa) -> Option<f64> {
    let (weight, product) = match (design?, isa) {
        (Microarchitecture::Zen5, Isa::Avx512Bf16) => (0.012, 0.0037),
        (Microarchitecture::Zen5, Isa::Avx512) => (0.012, 0.0076),
        _ => return None,
    };
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as f64);
    Some(n * k * (weight + m * product))
}

/// Time that a problem takes on one thread, roughly: decoding a weight, multiplying it by a row, and
/// quantizing an activation. Measured on Emerald Rapids (AMX, AVX-512) and Zen 3 (AVX2).
fn nanoseconds(problem: &Problem, isa: Isa) -> f64 {
    let (weight, product) = match isa {
        Isa::Amx => (0.075, 0.0022),
        Isa::Avx512 | Isa::Avx512Bf16 => (0.045, 0.014),
        Isa::Avx2 | Isa::Neon | Isa::NeonBf16 => (0.025, 0.025),
        Isa::Portable => (0.2, 0.2),
    };
    let quantizing = if matches!(problem.x, ActivationKind::Quantized(..)) { 0.4 } else { 0.0 };
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as f64);
    n * k * (weight + m * product) + m * k * quantizing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_problems_are_worth_two_threads_and_no_waking_on_zen_5() {
        let zen = Some(Microarchitecture::Zen5);
        let threads = |shape: &str, design| {
            let problem: Problem = shape.parse().unwrap();
            let isa = Isa::Avx512Bf16;
            (useful_threads(&problem, isa, design, 4), is_worth_waking(&problem, isa, design))
        };
        assert_eq!(threads("1x64x2048:128", zen), (1, false));
        assert_eq!(threads("3x128x2560:128", zen), (2, false));
        assert_eq!(threads("3x128x2560:128", None), (1, true));
        assert_eq!(threads("64x1024x1024:128", zen), (4, true));
        // Not measured there.
        let other = Some(Microarchitecture::EmeraldRapids);
        assert_eq!(threads("3x128x2560:128", other), (1, true));
    }
}
