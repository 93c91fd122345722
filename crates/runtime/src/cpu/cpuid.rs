//! The CPUID instruction.

use std::arch::x86_64::{__cpuid_count, CpuidResult};

/// Returns what CPUID says about this leaf and subleaf. Leaves without subleaves ignore the latter.
// Newer versions of Rust than the oldest supported one have made the intrinsic safe.
#[allow(unused_unsafe)]
pub(super) fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { __cpuid_count(leaf, subleaf) }
}
