//! How much of the on-chip memories a kernel takes.

use super::{Facts, Level, MemoryUse, Origin, Space};
use crate::mosaic::TensorType;

/// Sums buffers up where the compiler does not state what they take.
pub fn settle(facts: &mut Facts) {
    facts.vmem = facts.vmem.take().or_else(|| summed(facts, &Space::Vmem, facts.vmem_limit));
    facts.smem = summed(facts, &Space::Smem, None);
}

/// The buffers of one memory, from the table of a listing, else as the kernel declares them.
fn summed(facts: &Facts, space: &Space, limit: Option<u64>) -> Option<MemoryUse> {
    let sum = |level: Level, origin: Origin| {
        let buffers =
            || facts.buffers.iter().filter(|buffer| buffer.level == level && buffer.space == *space);
        let evidence = buffers().next()?.evidence.clone();
        // Each of several files about one kernel says it all.
        let sizes = buffers().filter(|buffer| buffer.evidence.file == evidence.file);
        let used = sizes.map(|buffer| buffer.bytes).try_fold(0u64, |sum, bytes| sum.checked_add(bytes?))?;
        Some(MemoryUse { used, limit, origin, evidence })
    };
    sum(Level::Llo, Origin::Listed).or_else(|| sum(Level::Mosaic, Origin::Declared))
}

/// Bytes of a buffer as its memory lays it out: vector memory in tiles of 8 x 128 words, of which few rows take a
/// smaller one; scalar memory in rows of 128 words.
pub fn padded_bytes(memory: &TensorType) -> Option<u64> {
    const LANES: u64 = 128;
    const SUBLANES: u64 = 8;
    const WORD_BITS: u64 = 32;
    let digits = memory.element.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let bits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    let bits = bits.parse().ok().filter(|bits| (1..=WORD_BITS).contains(bits))?;
    let scalar = memory.space == "smem";
    let rank = memory.dims.len();
    let padded = |(dimension, &extent): (usize, &u64)| match rank - dimension {
        1 => extent.checked_next_multiple_of(LANES),
        2 if !scalar => {
            let rows = SUBLANES * (WORD_BITS / bits);
            extent.checked_next_multiple_of(rows.min(extent.checked_next_power_of_two()?))
        }
        _ => Some(extent),
    };
    let mut extents = memory.dims.iter().enumerate().map(padded);
    let elements = extents.try_fold(1u64, |product, extent| product.checked_mul(extent?))?;
    let bits = if scalar { WORD_BITS } else { bits };
    Some(elements.checked_mul(bits)?.div_ceil(8))
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
        assert_eq!(bytes(&[33, 100], "bf16", "vmem"), Some(48 * 128 * 2));
        assert_eq!(bytes(&[4, 4], "f32", "smem"), Some(4 * 512));
        assert_eq!(bytes(&[2, u64::MAX], "f32", "vmem"), None);
        assert_eq!(bytes(&[2, 5], "!tpu.dma_semaphore", "semaphore_mem"), None);
    }
}
