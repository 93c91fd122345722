//! Measured peaks of this machine: the denominators of "percent of peak".

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use octile_core::{ActivationKind, Problem, ScaleGranularity, device::cpu::Isa};

use super::{
    Cpu, isa,
    kernel::Kernels,
    memory::{Line, Memory, bytes},
};

/// Duration of each measurement, after a warm-up of the same length.
const PATIENCE: Duration = Duration::from_millis(50);
/// The same where one figure for a reader is wanted soon.
const SHORT_PATIENCE: Duration = Duration::from_millis(10);

/// Peak GFLOP/s of the ISA that multiplies `problem`, with operands in registers, all threads.
pub fn gflops(cpu: &Cpu, problem: &Problem) -> f64 {
    let isa = cpu.isa_for(problem);
    let kernels = isa::kernels(isa, isa.operand(problem.x));
    let per_thread = |_| {
        spin(kernels, PATIENCE);
        spin(kernels, PATIENCE)
    };
    cpu.on_each_thread(per_thread).iter().sum::<f64>() / 1e9
}

/// Peak GFLOP/s of an ISA with fp8 operands in registers, on the calling thread; `None` if this machine lacks
/// the ISA.
pub fn isa_gflops(isa: Isa) -> Option<f64> {
    isa::is_available(isa).then(|| {
        let kernels = isa::kernels(isa, isa.operand(ActivationKind::Fp8(ScaleGranularity::Token)));
        spin(kernels, SHORT_PATIENCE);
        spin(kernels, SHORT_PATIENCE) / 1e9
    })
}

/// Operations per second of the calling thread. The ISA of the kernels is available.
fn spin(kernels: &Kernels, patience: Duration) -> f64 {
    const ROUNDS: usize = 10_000;
    let (start, mut operations) = (Instant::now(), 0.0);
    while start.elapsed() < patience {
        // SAFETY: callers pass only kernels that this CPU supports.
        operations += unsafe { (kernels.spin)(ROUNDS) };
    }
    operations / start.elapsed().as_secs_f64()
}

/// Memory read bandwidth in GB/s, all threads.
pub fn read_gbytes(cpu: &Cpu) -> f64 {
    const BYTES: usize = 256 << 20;
    let memory = Memory::zeroed(BYTES / size_of::<Line>());
    let part = memory.len() / cpu.threads();
    let sum = |thread| {
        let words = bytes(&memory[thread * part..][..part]).as_chunks().0.iter();
        words.fold(0u64, |sum, word| sum.wrapping_add(u64::from_ne_bytes(*word)))
    };
    let read_all = || {
        let start = Instant::now();
        let parts = black_box(cpu.on_each_thread(sum)).len();
        (parts * part * size_of::<Line>()) as f64 / start.elapsed().as_secs_f64()
    };
    (0..3).map(|_| read_all()).fold(0.0, f64::max) / 1e9
}
