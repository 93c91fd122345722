//! Device memory.

use crate::FaultKind;

/// Device memory: allocations with nothing between them.
#[derive(Debug, Clone, Default)]
pub struct Global {
    allocations: Vec<Allocation>,
}

#[derive(Debug, Clone)]
struct Allocation {
    start: u64,
    bytes: Vec<u8>,
    is_settled: bool,
    /// For every unit, the cluster that the kernel at hand has written it in, plus one; empty where it has written nothing.
    writers: Vec<u32>,
}

/// Bytes that are watched together: no store is smaller.
const WATCHED: usize = 2;

impl Allocation {
    /// The offset of bytes at an address, if all of them are inside.
    fn offset(&self, address: u64, count: usize) -> Option<usize> {
        let from = usize::try_from(address.checked_sub(self.start)?).ok()?;
        (from.checked_add(count)? <= self.bytes.len()).then_some(from)
    }

    /// Whether another cluster than this one has written some of the bytes: clusters have no order among themselves.
    fn is_written_by_other(&self, from: usize, count: usize, cluster: usize) -> bool {
        let units = from / WATCHED..(from + count).div_ceil(WATCHED);
        !self.writers.is_empty()
            && self.writers[units].iter().any(|&writer| writer != 0 && writer != cluster as u32 + 1)
    }
}

/// Allocations start at multiples of this, and there is as much unused between them.
const APART: u64 = 1 << 12;

impl Global {
    /// Allocates and fills; gives the address. The kernel before the next one may still use it.
    pub fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        self.add(bytes, false)
    }

    /// As [`Global::allocate`], for what does not change any more: kernels need not wait for one another to read it.
    pub fn allocate_settled(&mut self, bytes: Vec<u8>) -> u64 {
        self.add(bytes, true)
    }

    fn add(&mut self, bytes: Vec<u8>, is_settled: bool) -> u64 {
        let end = self.allocations.last().map_or(1 << 32, |last| last.start + last.bytes.len() as u64);
        let start = end.next_multiple_of(APART) + APART;
        self.allocations.push(Allocation { start, bytes, is_settled, writers: Vec::new() });
        start
    }

    /// What was allocated at this address.
    pub fn read(&self, address: u64) -> Option<&[u8]> {
        self.allocations.iter().find(|allocation| allocation.start == address).map(|found| &found.bytes[..])
    }

    /// Whether what lies at an address does not change any more.
    pub(crate) fn is_settled(&self, address: u64) -> bool {
        let before = self.allocations.iter().rev().find(|allocation| allocation.start <= address);
        before.is_some_and(|allocation| allocation.is_settled)
    }

    /// Begins another kernel: what was written before is there for all of it.
    pub(crate) fn begin_kernel(&mut self) {
        self.allocations.iter_mut().for_each(|allocation| allocation.writers.clear());
    }

    /// Refuses bytes that are not all in one allocation.
    pub(crate) fn require_inside(&self, address: u64, count: usize) -> Result<(), FaultKind> {
        let is_inside = self.allocations.iter().any(|all| all.offset(address, count).is_some());
        if is_inside { Ok(()) } else { Err(FaultKind::OutsideGlobal { address, bytes: count }) }
    }

    /// Reads in a cluster.
    pub(crate) fn bytes(&self, address: u64, count: usize, cluster: usize) -> Result<&[u8], FaultKind> {
        let found = self.allocations.iter().find_map(|all| Some((all, all.offset(address, count)?)));
        let (allocation, from) = found.ok_or(FaultKind::OutsideGlobal { address, bytes: count })?;
        if allocation.is_written_by_other(from, count, cluster) {
            return Err(FaultKind::GlobalRace { address, does: "reads" });
        }
        Ok(&allocation.bytes[from..from + count])
    }

    /// Writes in a cluster.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8], cluster: usize) -> Result<(), FaultKind> {
        let count = bytes.len();
        let found =
            self.allocations.iter_mut().find_map(|all| all.offset(address, count).map(|from| (all, from)));
        let (allocation, from) = found.ok_or(FaultKind::OutsideGlobal { address, bytes: count })?;
        if allocation.is_written_by_other(from, count, cluster) {
            return Err(FaultKind::GlobalRace { address, does: "writes" });
        }
        allocation.writers.resize(allocation.bytes.len().div_ceil(WATCHED), 0);
        allocation.writers[from / WATCHED..(from + count).div_ceil(WATCHED)].fill(cluster as u32 + 1);
        allocation.bytes[from..from + count].copy_from_slice(bytes);
        Ok(())
    }
}

/// A matrix as the copy engine knows it. In shared memory its boxes lie in the 128-byte swizzle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap {
    /// Where it starts.
    pub address: u64,
    /// Bytes of an element.
    pub element: usize,
    /// Columns and rows.
    pub size: (usize, usize),
    /// Bytes from row to row.
    pub stride: usize,
    /// Columns and rows of a box.
    pub boxes: (usize, usize),
}

impl TensorMap {
    /// Bytes of a row of a box.
    pub(crate) fn box_row(&self) -> usize {
        self.boxes.0 * self.element
    }

    /// The part of a row of a box that is inside the matrix: its address and bytes.
    pub(crate) fn inside(&self, column: u32, row: u32, box_row: usize) -> Option<(u64, usize)> {
        let (column, row) = (column as usize, row as usize + box_row);
        if column >= self.size.0 || row >= self.size.1 {
            return None;
        }
        let columns = (self.size.0 - column).min(self.boxes.0);
        let address = self.address + (row * self.stride + column * self.element) as u64;
        Some((address, columns * self.element))
    }
}
