//! Remaining operation and memory budget of a run.

use crate::{limits::MAX_ON_CHIP_BYTES, types::MemorySpace};

/// Operation and byte counters.
#[derive(Debug)]
pub(crate) struct Budget {
    max_bytes: usize,
    operations: u64,
    bytes: usize,
    on_chip: usize,
}

impl Budget {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, operations: 0, bytes: 0, on_chip: 0 }
    }

    /// Bytes left.
    pub(crate) fn bytes_left(&self) -> usize {
        self.max_bytes.saturating_sub(self.bytes)
    }

    /// Counts operations; the limit is checked where the next operation begins.
    #[inline]
    pub(crate) fn spend(&mut self, operations: u64) {
        self.operations = self.operations.saturating_add(operations);
    }

    #[inline]
    pub(crate) fn spent(&self) -> u64 {
        self.operations
    }

    /// Reserves memory for values.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let total = self.bytes.saturating_add(bytes);
        if total > self.max_bytes {
            return Err(format!(
                "the run would need {total} bytes; the limit for these operands is {}",
                self.max_bytes
            ));
        }
        self.bytes = total;
        Ok(())
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Reserves memory for a buffer; `bytes` is `None` if its size overflows.
    pub(crate) fn take_buffer(&mut self, space: MemorySpace, bytes: Option<usize>) -> Result<(), String> {
        let bytes = bytes.unwrap_or(usize::MAX);
        if is_on_chip(space) {
            let total = self.on_chip.saturating_add(bytes);
            if total > MAX_ON_CHIP_BYTES {
                return Err(format!(
                    "with it the kernel takes {total} bytes of on-chip memory, and no chip has more than \
                     {MAX_ON_CHIP_BYTES}"
                ));
            }
            self.take(bytes)?;
            self.on_chip = total;
            return Ok(());
        }
        self.take(bytes)
    }

    pub(crate) fn give_back_buffer(&mut self, space: MemorySpace, bytes: usize) {
        self.give_back(bytes);
        if is_on_chip(space) {
            self.on_chip = self.on_chip.saturating_sub(bytes);
        }
    }
}

fn is_on_chip(space: MemorySpace) -> bool {
    matches!(space, MemorySpace::Vmem | MemorySpace::Smem | MemorySpace::Semaphore)
}
