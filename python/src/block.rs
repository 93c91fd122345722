//! Block sizes as Python passes them.

use octile::Block;
use pyo3::prelude::*;

use crate::error;

/// The argument `block`.
pub(crate) struct BlockSize(pub Block);

impl BlockSize {
    /// What checkpoints have.
    pub(crate) const DEFAULT: Self = Self(Block::B128);
}

impl FromPyObject<'_, '_> for BlockSize {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        // Numbers of any size: what is too large for Rust is no block either.
        let block = Block::ALL.into_iter().find(|block| given.eq(block.size()).unwrap_or(false));
        block.map(Self).ok_or_else(|| {
            let shown = given.repr().map_or_else(|_| "given".to_owned(), |repr| repr.to_string());
            error::value(format!("block {shown} is not 128, 256 or 512"))
        })
    }
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
