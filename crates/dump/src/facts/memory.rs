//! On-chip memory use of a kernel.

use octile_core::device::tpu;

use super::{Facts, Level, MemoryUse, Origin, Space};
use crate::mosaic::TensorType;

/// Sums the buffers where the compiler does not state the total.
pub(super) fn settle(facts: &mut Facts) {
    facts.vmem = facts.vmem.take().or_else(|| summed(facts, &Space::Vmem, facts.vmem_limit));
    facts.smem = summed(facts, &Space::Smem, None);
}

/// Total of one memory, from the allocation table of a listing, else from the kernel's declarations.
fn summed(facts: &Facts, space: &Space, limit: Option<u64>) -> Option<MemoryUse> {
    let sum = |level: Level, origin: Origin| {
        let buffers =
            || facts.buffers.iter().filter(|buffer| buffer.level == level && buffer.space == *space);
        let evidence = buffers().next()?.evidence.clone();
        // Each file lists all buffers, so one file counts.
        let sizes = buffers().filter(|buffer| buffer.evidence.file == evidence.file);
        let used =
            sizes.map(|buffer| buffer.bytes).try_fold(0u64, |sum, bytes| Some(sum.saturating_add(bytes?)))?;
        Some(MemoryUse { used, limit, origin, evidence })
    };
    sum(Level::Llo, Origin::Listed).or_else(|| sum(Level::Mosaic, Origin::Declared))
}

/// Bytes of a buffer with padding; `None` if the size of its elements is not known. Saturates.
pub(super) fn padded_bytes(memory: &TensorType) -> Option<u64> {
    let digits = memory.element.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let bits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let bits = bits.parse().ok().filter(|bits| (1..=32).contains(bits))?;
    let shape: Vec<_> =
        memory.dims.iter().map(|&extent| usize::try_from(extent).unwrap_or(usize::MAX)).collect();
    let bytes = match memory.space.as_str() {
        "smem" => tpu::smem_bytes(&shape),
        _ => tpu::vmem_bytes(&shape, bits),
    };
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_padded_as_their_memory_lays_them_out() {
        let bytes = |dims: &[u64], element: &str, space: &str| {
            let (element, space) = (element.to_owned(), space.to_owned());
            padded_bytes(&TensorType { dims: dims.to_vec(), element, space })
        };
        assert_eq!(bytes(&[2, 128, 128], "f8E4M3FN", "vmem"), Some(2 * 128 * 128));
        assert_eq!(bytes(&[16, 512], "f8E4M3FN", "vmem"), Some(16 * 512));
        assert_eq!(bytes(&[2, 1, 1], "f32", "vmem"), Some(2 * 512));
        assert_eq!(bytes(&[33, 100], "bf16", "vmem"), Some(40 * 128 * 2));
        assert_eq!(bytes(&[4, 4], "f32", "smem"), Some(4 * 512));
        assert_eq!(bytes(&[2, u64::MAX], "f32", "vmem"), Some(u64::MAX));
        assert_eq!(bytes(&[u64::MAX, u64::MAX, 8, 128], "bf16", "vmem"), Some(u64::MAX));
        assert_eq!(bytes(&[0, u64::MAX], "f32", "vmem"), Some(0));
        assert_eq!(bytes(&[8, 128], "f64", "vmem"), None);
        assert_eq!(bytes(&[2, 5], "!tpu.dma_semaphore", "semaphore_mem"), None);
    }
}
