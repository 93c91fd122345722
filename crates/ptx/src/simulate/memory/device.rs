//! Device memory.

use crate::simulate::FaultKind;

/// Simulated device memory, as separate allocations.
#[derive(Debug, Clone, Default)]
pub struct DeviceMemory {
    allocations: Vec<Allocation>,
}

#[derive(Debug, Clone)]
struct Allocation {
    start: u64,
    bytes: Vec<u8>,
    is_constant: bool,
    /// Per unit, one plus the cluster of the running kernel that has written it; empty if nothing was
    /// written.
    writers: Vec<u32>,
}

/// Granularity of race detection in bytes; no store is smaller.
const WATCHED: usize = 2;

impl Allocation {
    /// The offset of an address, if all bytes are inside.
    fn offset(&self, address: u64, count: usize) -> Option<usize> {
        let from = usize::try_from(address.checked_sub(self.start)?).ok()?;
        (from.checked_add(count)? <= self.bytes.len()).then_some(from)
    }

    /// Whether another cluster has written some of the bytes; clusters do not synchronize.
    fn is_written_by_other(&self, from: usize, count: usize, cluster: usize) -> bool {
        let units = from / WATCHED..(from + count).div_ceil(WATCHED);
        !self.writers.is_empty()
            && self.writers[units].iter().any(|&writer| writer != 0 && writer != cluster as u32 + 1)
    }
}

/// Alignment of allocations, and the gap between them.
const APART: u64 = 1 << 12;

impl DeviceMemory {
    /// Allocates memory with this content; returns its address. The preceding kernel may still use it (PDL).
    pub fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        self.add(bytes, false)
    }

    /// Like [`DeviceMemory::allocate`] for constant memory, which a kernel may read before
    /// `griddepcontrol.wait`.
    pub fn allocate_constant(&mut self, bytes: Vec<u8>) -> u64 {
        self.add(bytes, true)
    }

    fn add(&mut self, bytes: Vec<u8>, is_constant: bool) -> u64 {
        let end = self.allocations.last().map_or(1 << 32, |last| last.start + last.bytes.len() as u64);
        let start = end.next_multiple_of(APART) + APART;
        self.allocations.push(Allocation { start, bytes, is_constant, writers: Vec::new() });
        start
    }

    /// Content of the allocation at this address.
    pub fn read(&self, address: u64) -> Option<&[u8]> {
        self.allocations.iter().find(|allocation| allocation.start == address).map(|found| &found.bytes[..])
    }

    /// Whether an address is in constant memory.
    pub(crate) fn is_constant(&self, address: u64) -> bool {
        let before = self.allocations.iter().rev().find(|allocation| allocation.start <= address);
        before.is_some_and(|allocation| allocation.is_constant)
    }

    /// Starts another kernel, which happens after all earlier writes.
    pub(crate) fn begin_kernel(&mut self) {
        self.allocations.iter_mut().for_each(|allocation| allocation.writers.clear());
    }

    /// Refuses bytes that are not inside one allocation.
    pub(crate) fn require_inside(&self, address: u64, count: usize) -> Result<(), FaultKind> {
        let is_inside = self.allocations.iter().any(|all| all.offset(address, count).is_some());
        if is_inside { Ok(()) } else { Err(FaultKind::OutsideDevice { address, bytes: count }) }
    }

    /// Reads in a cluster.
    pub(crate) fn bytes(&self, address: u64, count: usize, cluster: usize) -> Result<&[u8], FaultKind> {
        let found = self.allocations.iter().find_map(|all| Some((all, all.offset(address, count)?)));
        let (allocation, from) = found.ok_or(FaultKind::OutsideDevice { address, bytes: count })?;
        if allocation.is_written_by_other(from, count, cluster) {
            return Err(FaultKind::DeviceRace { address, does: "reads" });
        }
        Ok(&allocation.bytes[from..from + count])
    }

    /// Writes in a cluster.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8], cluster: usize) -> Result<(), FaultKind> {
        let count = bytes.len();
        let found =
            self.allocations.iter_mut().find_map(|all| all.offset(address, count).map(|from| (all, from)));
        let (allocation, from) = found.ok_or(FaultKind::OutsideDevice { address, bytes: count })?;
        if allocation.is_written_by_other(from, count, cluster) {
            return Err(FaultKind::DeviceRace { address, does: "writes" });
        }
        allocation.writers.resize(allocation.bytes.len().div_ceil(WATCHED), 0);
        allocation.writers[from / WATCHED..(from + count).div_ceil(WATCHED)].fill(cluster as u32 + 1);
        allocation.bytes[from..from + count].copy_from_slice(bytes);
        Ok(())
    }
}

/// A tensor map: a matrix in device memory, loaded in boxes with the 128-byte swizzle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorMap {
    /// Address of the matrix.
    pub address: u64,
    /// Bytes per element.
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

    /// Address and bytes of the part of a box row that is inside the matrix.
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
