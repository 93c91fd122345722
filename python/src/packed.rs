//! A packed weight in aligned memory.

use octile::{Block, Error, packed};

/// A cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
struct Line([u8; 64]);

/// A weight in the layout that the CPU kernels read.
pub(crate) struct Packed {
    lines: Vec<Line>,
    len: usize,
}

impl Packed {
    pub(crate) fn new(codes: &[u8], scales: &[f32], shape: [usize; 2], block: Block) -> Result<Self, Error> {
        let [panels, bytes] = packed::shape(shape, block)?;
        let len = panels * bytes;
        let mut lines = vec![Line([0; 64]); len.div_ceil(64)];
        let out = &mut bytemuck::cast_slice_mut(&mut lines)[..len];
        packed::pack_into(codes, scales, shape, block, out)?;
        Ok(Self { lines, len })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}
