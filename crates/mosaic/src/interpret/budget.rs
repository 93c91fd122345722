//! What a run may still take of this machine.

use crate::{
    limits::{MAX_BYTES, MAX_ON_CHIP_BYTES},
    types::MemorySpace,
};

/// Operations and bytes.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    operations: u64,
    bytes: usize,
    on_chip: usize,
}

impl Budget {
    /// Counts operations; whether they are too many is asked where the next one begins.
    #[inline]
    pub(crate) fn spend(&mut self, operations: u64) {
        self.operations = self.operations.saturating_add(operations);
    }

    #[inline]
    pub(crate) fn spent(&self) -> u64 {
        self.operations
    }

    /// Takes memory for values.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let total = self.bytes.saturating_add(bytes);
        if total > MAX_BYTES {
            return Err(format!(
                "with it the run takes {total} bytes, and at most {MAX_BYTES} are given to one"
            ));
        }
        self.bytes = total;
        Ok(())
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Takes memory for a buffer; `bytes` is none where they cannot be counted.
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
