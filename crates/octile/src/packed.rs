//! Weights in the form that the fastest CPU kernels read, as plain bytes that the caller keeps.
//!
//! The bytes are a matrix of [`shape`]: one row for each panel of [`PANEL_ROWS`] rows of the weight. A panel
//! holds its codes, its scales, and a header with a version, K and the block size. The layout does not depend
//! on the instruction set, the number of threads, M or the type of the activations, but on the byte order of
//! the machine.
//!
//! To shard a weight along N, slice the matrix along its first axis: any panels of it are the packed weight
//! of their own rows. Shards have multiples of 32 rows, except for the last one.
//!
//! ```
//! use octile::{Block, DType, Device, MatmulOp, Scales, WeightRef, packed};
//!
//! let (codes, scales) = (vec![0x38; 64 * 128], vec![0.5]); // 0x38 is 1.0
//! let bytes = packed::pack(&codes, &scales, [64, 128], Block::B128)?;
//! assert_eq!(packed::shape([64, 128], Block::B128)?, [2, bytes.len() / 2]);
//!
//! let shard = &bytes[..bytes.len() / 2]; // the first 32 rows
//! let op = MatmulOp::builder(&Device::cpu()?, [32, 128], Block::B128)
//!     .activations(DType::F32, Scales::PerToken)
//!     .output(DType::F32)
//!     .build()?;
//! let mut out = [0.0f32; 32];
//! op.run(WeightRef::Packed(shard), &[1.0f32; 128], &mut out)?;
//! assert_eq!(out, [64.0; 32]);
//! # Ok::<(), octile::Error>(())
//! ```

use octile_core::{WeightView, plan::cpu::PANEL};
use octile_runtime::cpu::{PackedLayout, PackedView, pack_into as pack_view};

use crate::{Block, Error};

/// Rows of the weight in one panel, the granularity of sharding along N.
pub const PANEL_ROWS: usize = PANEL;

/// Rows and columns of the matrix of bytes for a weight of `[n, k]`: panels, and bytes of one panel.
pub fn shape(shape: [usize; 2], block: Block) -> Result<[usize; 2], Error> {
    let layout = PackedLayout::new(shape, block)?;
    Ok([layout.panels(), layout.panel_bytes()])
}

/// Packs a weight of `[n, k]` codes with row-major scales. Codes and scales must be finite.
pub fn pack(codes: &[u8], scales: &[f32], shape: [usize; 2], block: Block) -> Result<Vec<u8>, Error> {
    let weight = WeightView::new(codes, scales, shape, block)?;
    let mut packed = vec![0; PackedLayout::new(shape, block)?.bytes()];
    pack_view(weight, &mut packed)?;
    Ok(packed)
}

/// A packed weight in memory of its own: aligned, and in huge pages where the system has them. A weight
/// beyond the caches then streams faster than from a `Vec`, because there are fewer TLB misses.
///
/// ```
/// use octile::{Block, packed};
///
/// let (codes, scales) = (vec![0x38; 40 * 16], vec![1.0]);
/// let weight = packed::PackedWeight::new(&codes, &scales, [40, 16], Block::B128)?;
/// assert_eq!(weight.as_bytes(), packed::pack(&codes, &scales, [40, 16], Block::B128)?);
/// # Ok::<(), octile::Error>(())
/// ```
#[derive(Debug)]
pub struct PackedWeight(octile_runtime::cpu::PackedWeight);

impl PackedWeight {
    /// Packs a weight of `[n, k]` codes with row-major scales. Codes and scales must be finite.
    pub fn new(codes: &[u8], scales: &[f32], shape: [usize; 2], block: Block) -> Result<Self, Error> {
        let weight = WeightView::new(codes, scales, shape, block)?;
        Ok(Self(octile_runtime::cpu::PackedWeight::from_view(weight)?))
    }

    /// The panels, for [`WeightRef::Packed`](crate::WeightRef::Packed).
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The same as [`pack`] into memory of the caller's, as large as the two sides of [`shape`] multiplied.
///
/// ```
/// use octile::{Block, packed};
///
/// let [panels, bytes] = packed::shape([40, 16], Block::B128)?;
/// let mut out = vec![0; panels * bytes];
/// packed::pack_into(&[0x38; 40 * 16], &[1.0], [40, 16], Block::B128, &mut out)?;
/// assert!(packed::pack_into(&[0x38; 40 * 16], &[1.0], [40, 16], Block::B128, &mut out[1..]).is_err());
/// # Ok::<(), octile::Error>(())
/// ```
pub fn pack_into(
    codes: &[u8],
    scales: &[f32],
    shape: [usize; 2],
    block: Block,
    out: &mut [u8],
) -> Result<(), Error> {
    Ok(pack_view(WeightView::new(codes, scales, shape, block)?, out)?)
}

/// Returns the row-major codes and scales of a packed weight of `[n, k]`. Every panel is checked: its header,
/// and that codes and scales are finite.
///
/// ```
/// use octile::{Block, packed};
///
/// let (codes, scales) = (vec![0x38; 40 * 16], vec![1.0]);
/// let bytes = packed::pack(&codes, &scales, [40, 16], Block::B128)?;
/// assert_eq!(packed::unpack(&bytes, [40, 16], Block::B128)?, (codes, scales));
/// # Ok::<(), octile::Error>(())
/// ```
pub fn unpack(packed: &[u8], shape: [usize; 2], block: Block) -> Result<(Vec<u8>, Vec<f32>), Error> {
    let view = PackedView::new(packed, shape, block)?;
    view.check()?;
    Ok(view.unpack()?)
}
