//! Device memory: a table of allocations. Addresses are never reused, so that uses after free are found.

use std::collections::BTreeMap;

/// Alignment of allocations, and the least gap between two.
const APART: u64 = 1 << 12;
/// Largest allocation; larger ones fail as on a full GPU.
const LARGEST: usize = 1 << 32;

#[derive(Default)]
pub(crate) struct Memory {
    allocations: BTreeMap<u64, Allocation>,
}

pub(crate) struct Allocation {
    pub device: usize,
    /// `None` after it was freed.
    bytes: Option<Vec<u8>>,
    len: usize,
}

impl Memory {
    /// Allocates on a device. Uninitialized bytes are NaN.
    pub(crate) fn allocate(&mut self, device: usize, len: usize) -> Option<u64> {
        if len == 0 || len > LARGEST {
            return None;
        }
        let end = self.allocations.last_key_value().map_or(1 << 40, |(start, last)| start + last.len as u64);
        let start = end.next_multiple_of(APART) + APART;
        self.allocations.insert(start, Allocation { device, bytes: Some(vec![0xff; len]), len });
        Some(start)
    }

    /// Frees the allocation at an address.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), String> {
        let allocation = self
            .allocations
            .get_mut(&address)
            .ok_or(format!("frees {address:#x}, which is not an allocation"))?;
        allocation.bytes.take().map(drop).ok_or(format!("frees {address:#x} twice"))
    }

    /// The live allocation that contains an address, and its start.
    pub(crate) fn holding(&self, device: usize, address: u64) -> Result<(u64, &[u8]), String> {
        let (start, found) = self
            .allocations
            .range(..=address)
            .next_back()
            .filter(|(start, found)| address - **start < found.len as u64)
            .ok_or(format!("{address:#x} is not device memory"))?;
        if found.device != device {
            return Err(format!("{address:#x} belongs to GPU {}, but is used on GPU {device}", found.device));
        }
        let bytes = found.bytes.as_ref().ok_or(format!("{address:#x} was freed"))?;
        Ok((*start, bytes))
    }

    /// Bytes that may be read.
    pub(crate) fn read(&self, device: usize, address: u64, len: usize) -> Result<&[u8], String> {
        if len == 0 {
            return Ok(&[]);
        }
        let (start, bytes) = self.holding(device, address)?;
        let from = (address - start) as usize;
        bytes.get(from..).and_then(|bytes| bytes.get(..len)).ok_or_else(|| {
            format!(
                "{len} bytes from {address:#x} on end {} bytes behind their allocation",
                from + len - bytes.len()
            )
        })
    }

    /// Bytes that may be written.
    pub(crate) fn write(&mut self, device: usize, address: u64, new: &[u8]) -> Result<(), String> {
        self.read(device, address, new.len())?;
        let start = self.allocations.range_mut(..=address).next_back();
        if let Some((start, Allocation { bytes: Some(bytes), .. })) = start.filter(|_| !new.is_empty()) {
            bytes[(address - start) as usize..][..new.len()].copy_from_slice(new);
        }
        Ok(())
    }
}
