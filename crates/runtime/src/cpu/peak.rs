//! Measured peaks of this machine: the denominators of "percent of peak".

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use octile_core::{ActivationKind, FloatKind, ScaleGranularity};

use super::{
    Cpu, isa,
    kernel::Kernels,
    memory::{Line, Memory, bytes},
};

/// Duration of each measurement, after a warm-up of the same length.
const PATIENCE: Duration = Duration::from_millis(50);

/// Peak GFLOP/s with fp8 operands in registers, all threads.
pub fn gflops(cpu: &Cpu) -> f64 {
    operations_per_second(cpu, ActivationKind::Fp8(ScaleGranularity::Block))
}

/// The same with f32 activations.
pub fn plain_f32_gflops(cpu: &Cpu) -> f64 {
    operations_per_second(cpu, ActivationKind::Plain(FloatKind::F32))
}

fn operations_per_second(cpu: &Cpu, x: ActivationKind) -> f64 {
    let kernels = isa::kernels(cpu.isa(), cpu.isa().operand(x));
    let per_thread = |_| {
        spin(kernels);
        spin(kernels)
    };
    cpu.on_each_thread(per_thread).iter().sum::<f64>() / 1e9
}

/// Operations per second of the calling thread.
fn spin(kernels: &Kernels) -> f64 {
    const ROUNDS: usize = 10_000;
    let (start, mut operations) = (Instant::now(), 0.0);
    while start.elapsed() < PATIENCE {
        // SAFETY: a `Cpu` has only kernels that this CPU supports.
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
