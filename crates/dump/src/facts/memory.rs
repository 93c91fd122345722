//! On-chip memory use of a kernel.

use super::{Facts, Level, MemoryUse, Origin, Space};
use crate::mosaic::TensorType;

/// Sums the buffers where the compiler does not state the total.
pub fn settle(facts: &mut Facts) {
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

/// Bytes of a buffer as its memory lays it out: vector memory in tiles of 8 x 128 words, of which few rows take a
/// smaller one; scalar memory in rows of 128 words. More than can be counted is as much as can be; `None` is of a type
/// whose size is not known.
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
        1 => extent.checked_next_multiple_of(LANES).unwrap_or(u64::MAX),
        2 if !scalar => {
            let rows = SUBLANES * (WORD_BITS / bits);
            let rows = extent.checked_next_power_of_two().map_or(rows, |power| rows.min(power));
            extent.checked_next_multiple_of(rows).unwrap_or(u64::MAX)
        }
        _ => extent,
    };
    // An extent of zero leaves nothing to count, however long the others are.
    let empty = memory.dims.contains(&0);
    let elements = if empty {
        Some(0)
    } else {
        memory.dims.iter().enumerate().map(padded).try_fold(1u64, u64::checked_mul)
    };
    let bits = if scalar { WORD_BITS } else { bits };
    let all_bits = elements.and_then(|elements| elements.checked_mul(bits));
    Some(all_bits.map_or(u64::MAX, |all_bits| all_bits.div_ceil(8)))
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
        assert_eq!(bytes(&[2, u64::MAX], "f32", "vmem"), Some(u64::MAX));
        assert_eq!(bytes(&[u64::MAX, u64::MAX, 8, 128], "bf16", "vmem"), Some(u64::MAX));
        assert_eq!(bytes(&[0, u64::MAX], "f32", "vmem"), Some(0));
        assert_eq!(bytes(&[8, 128], "f64", "vmem"), None);
        assert_eq!(bytes(&[2, 5], "!tpu.dma_semaphore", "semaphore_mem"), None);
    }
}
