//! Block sizes as Python passes them.

use octile::Block;
use pyo3::PyResult;

use crate::error;

/// The block of this size.
pub(crate) fn read(size: usize) -> PyResult<Block> {
    let block = Block::ALL.into_iter().find(|block| block.size() == size);
    block.ok_or_else(|| error::value(format!("block {size} is not 128, 256 or 512")))
}

/// The block size that gives these numbers of blocks; the smallest where several do.
pub(crate) fn infer([n, k]: [usize; 2], blocks: [usize; 2]) -> PyResult<Block> {
    let block = Block::ALL.into_iter().find(|block| [block.count(n), block.count(k)] == blocks);
    block.ok_or_else(|| {
        error::value(format!(
            "scales have shape {blocks:?}, but codes {:?} need one per block of 128, 256 or 512",
            [n, k]
        ))
    })
}
