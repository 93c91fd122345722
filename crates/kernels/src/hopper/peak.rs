//! Peak throughput of the tensor cores: wgmma on operands that stay in shared memory, without scaling.

use super::{
    Kernel,
    parts::cta::WARPGROUP,
    ptx::{LaunchBounds, Parameter, Ptx, Shared},
};

/// Warpgroups of a CTA, columns of a wgmma, wgmma per group, and groups.
const GROUPS: u32 = 2;
const COLUMNS: usize = 256;
const CHAIN: u32 = 8;
const ROUNDS: u32 = 4000;
/// Operands, 128 deep for four wgmma along K: 64 rows of A for each warpgroup, and the rows of B.
const A_BYTES: u32 = 64 * 128;
const B_BYTES: u32 = COLUMNS as u32 * 128;

/// The kernel that measures the peak, with its launch.
#[derive(Debug, Clone)]
pub struct PeakKernel {
    /// The kernel. It takes a pointer to 4 bytes, which it never writes.
    pub kernel: Kernel,
}

impl PeakKernel {
    /// Threads of a CTA.
    pub const THREADS: u32 = GROUPS * WARPGROUP;
    /// Shared memory of a CTA, in bytes.
    pub const SHARED_BYTES: u32 = GROUPS * A_BYTES + B_BYTES;

    /// Floating-point operations of one launch with `blocks` CTAs.
    pub fn flops(blocks: usize) -> f64 {
        let instruction = 2.0 * 64.0 * COLUMNS as f64 * 32.0;
        instruction * f64::from(GROUPS * CHAIN * ROUNDS) * blocks as f64
    }
}

/// Emits the kernel.
pub fn peak() -> PeakKernel {
    let mut ptx = Ptx::default();
    let base = ptx.shared_memory();
    let thread = ptx.thread();
    fill(&mut ptx, base, thread);
    let warp = ptx.shr(thread, 5);
    let warp = ptx.of_first_lane(warp);
    let group = ptx.shr(warp, 2);
    let a = ptx.mad(group, A_BYTES, base);
    let b = ptx.add(base, GROUPS * A_BYTES);
    let (a, b) = (ptx.descriptor_low(a), ptx.descriptor_low(b));
    let sums = ptx.f32s(COLUMNS / 2);
    for &sum in &sums {
        ptx.set_float(sum, 0.0);
    }
    let round = ptx.variable(0);
    ptx.while_(
        |ptx| ptx.lt(round, ROUNDS),
        |ptx| {
            ptx.wgmma_fence();
            for step in 0..CHAIN {
                let (a, b) = (ptx.add(a, 2 * (step % 4)), ptx.add(b, 2 * (step % 4)));
                let (a, b) = (ptx.descriptor(a), ptx.descriptor(b));
                let add = ptx.ne(step, 0);
                ptx.wgmma(&sums, COLUMNS, a, b, add);
            }
            ptx.wgmma_commit();
            ptx.wgmma_wait(0);
            ptx.increase(round, 1);
        },
    );
    // Keeps the assembler from removing the wgmma. Finite operands never sum to infinity.
    let out = ptx.pointer("out");
    let impossible = ptx.float(f32::INFINITY);
    for &sum in &sums {
        let happens = ptx.eq_f32(sum, impossible);
        ptx.store_global_f32_if(super::ptx::Global(out, 0), sum, happens);
    }
    let bounds = LaunchBounds { threads: PeakKernel::THREADS, blocks_per_sm: 1, cluster: 1 };
    let entry = "octile_peak".to_owned();
    let ptx = ptx.module(&entry, &[Parameter::Pointer("out")], bounds).to_string();
    PeakKernel { kernel: Kernel { ptx, entry } }
}

/// Fills shared memory with varied codes: zeros would draw less power and run faster than real operands.
fn fill(ptx: &mut Ptx, base: super::ptx::B32, thread: super::ptx::B32) {
    let at = ptx.variable(thread);
    ptx.while_(
        |ptx| ptx.lt(at, PeakKernel::SHARED_BYTES / 16),
        |ptx| {
            let address = ptx.mad(at, 16, base);
            let words = [1, 2, 3, 4].map(|word| {
                let seed = ptx.mad(at, 4, word);
                let hash = ptx.mul(seed, 2_654_435_761);
                let folded = ptx.shr(hash, 15);
                let hash = ptx.xor(hash, folded);
                let hash = ptx.mul(hash, 2_246_822_519);
                // Codes up to 0x37, magnitudes below 1, so that accumulators stay finite.
                ptx.and(hash, 0xb7b7_b7b7)
            });
            ptx.store_shared_16(Shared(address, 0), words);
            ptx.increase(at, PeakKernel::THREADS);
        },
    );
    ptx.fence_shared_stores();
    ptx.block_barrier();
}
