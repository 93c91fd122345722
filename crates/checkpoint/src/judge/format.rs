//! What each tensor is, judged by names, types and shapes.

use safetensors::Dtype;
use serde::Serialize;

use super::{
    config::{Declared, Expected},
    defect::{Defect, DefectKind},
};
use crate::{
    BLOCK, Checkpoint, CheckpointError,
    read::{ScaleNaming, Tensor, TensorId},
};

/// How many values share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// All of them.
    Tensor,
    /// A row: one output channel.
    Row,
    /// A block.
    Block,
}

/// The scales of a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScaleGrid {
    pub tensor: TensorId,
    /// F8_E8M0 also where the file says U8.
    pub dtype: Dtype,
    pub granularity: Granularity,
    /// Rows and columns that share a scale.
    pub block: [usize; 2],
}

/// An fp8 weight with scales: one matrix, or a stack of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fp8Weight {
    pub tensor: TensorId,
    /// Number of matrices in the stack.
    pub batch: usize,
    pub rows: usize,
    pub cols: usize,
    pub scales: ScaleGrid,
}

/// What a tensor is.
#[derive(Debug)]
pub(super) enum Kind {
    /// Read and judged.
    Fp8(Fp8Weight),
    /// Listed only, with the reason where it is fp8.
    Described(TensorId, Option<&'static str>),
    /// Scales, vectors and scalars, which are not listed.
    NotAWeight,
}

/// Sides of a block that [`Fp8Weight::tile`] can divide.
fn is_supported_side(side: usize) -> bool {
    side > 0 && (side.is_multiple_of(BLOCK) || BLOCK.is_multiple_of(side))
}

/// Most scales of one weight that are held in memory.
const MOST_SCALES: usize = 1 << 23;

impl Fp8Weight {
    /// Rows and columns of a tile: a part of the matrix within one scale, of a block at most.
    pub(super) fn tile(&self) -> [usize; 2] {
        self.scales.block.map(|side| side.min(BLOCK))
    }

    /// Rows and columns of tiles in one matrix of the stack.
    pub(super) fn tiles(&self) -> [usize; 2] {
        let [height, width] = self.tile();
        [self.rows.div_ceil(height), self.cols.div_ceil(width)]
    }

    /// Rows and columns of scales in one matrix of the stack.
    pub(super) fn grid(&self) -> [usize; 2] {
        let [height, width] = self.scales.block;
        [self.rows.div_ceil(height), self.cols.div_ceil(width)]
    }

    /// Whether every tile has a scale of its own.
    pub(super) fn is_tile_per_scale(&self) -> bool {
        self.scales.granularity == Granularity::Block && self.tile() == self.scales.block
    }
}

/// Classifies a tensor, and adds what is wrong with its scales.
pub(super) fn classify(
    checkpoint: &Checkpoint,
    id: TensorId,
    declared: &Declared,
    defects: &mut Vec<Defect>,
) -> Kind {
    let tensor = checkpoint.tensor(id);
    if let Some(owner) = checkpoint.scale_owner(&tensor.name) {
        // Packed integers have their own scales.
        let is_packed = checkpoint.find(&format!("{owner}_packed")).is_some();
        if let (Err(error), false, true) =
            (checkpoint.require_owner(tensor), is_packed, declared.is_fp8_or_none())
        {
            defects.push(Defect::from(&error));
        }
        return Kind::NotAWeight;
    }
    if tensor.shape.len() < 2 {
        return Kind::NotAWeight;
    }
    match tensor.dtype {
        Dtype::F8_E4M3 => fp8(checkpoint, id, declared, defects),
        Dtype::F8_E5M2 | Dtype::F8_E8M0 => Kind::Described(id, Some("only f8e4m3fn is judged")),
        _ => Kind::Described(id, None),
    }
}

fn fp8(checkpoint: &Checkpoint, id: TensorId, declared: &Declared, defects: &mut Vec<Defect>) -> Kind {
    let weight = checkpoint.tensor(id);
    let (batch, rows, cols) = match weight.shape[..] {
        [rows, cols] => (1, rows, cols),
        [batch, rows, cols] => (batch, rows, cols),
        _ => return Kind::Described(id, Some("more than three dimensions")),
    };
    if batch == 0 || rows == 0 || cols == 0 {
        return Kind::Described(id, Some("no elements"));
    }
    let found = [ScaleNaming::ScaleInv, ScaleNaming::Scale]
        .map(|naming| checkpoint.find(&format!("{}{}", weight.name, naming.suffix())));
    let scales = match found {
        [None, None] => {
            defects.push(Defect::from(&CheckpointError::MissingScales { tensor: weight.name.clone() }));
            return Kind::Described(id, Some("no scales"));
        }
        [Some(first), Some(second)] => {
            let [first, second] = [first, second].map(|id| checkpoint.tensor(id).name.clone());
            let tensor = weight.name.clone();
            defects.push(Defect::from(&CheckpointError::TwoScales { tensor, first, second }));
            return Kind::Described(id, Some("two sets of scales"));
        }
        [Some(scales), None] | [None, Some(scales)] => scales,
    };
    let tensor = checkpoint.tensor(scales);
    let grid = match shape([batch, rows, cols], weight.shape.len(), &tensor.shape, declared.expected) {
        Some((granularity, block)) => (granularity, block),
        None => {
            defects.push(wrong_shape(weight, tensor, [batch, rows, cols], declared.expected));
            return Kind::Described(id, Some("scales of the wrong shape"));
        }
    };
    let (granularity, block) = grid;
    let dtype = match tensor.dtype {
        // Microscaling formats store exponents as bytes.
        Dtype::U8 if block == [1, 32] => Dtype::F8_E8M0,
        known @ (Dtype::F32 | Dtype::BF16 | Dtype::F16 | Dtype::F8_E8M0) => known,
        other => {
            let (scales, dtype) = (tensor.name.clone(), format!("{other:?}"));
            defects.push(Defect::from(&CheckpointError::ScaleDtype { scales, dtype }));
            return Kind::Described(id, Some("scales of the wrong dtype"));
        }
    };
    let scales = ScaleGrid { tensor: scales, dtype, granularity, block };
    let weight = Fp8Weight { tensor: id, batch, rows, cols, scales };
    let tiles = weight.tiles().into_iter().try_fold(batch, usize::checked_mul);
    if !block.into_iter().all(is_supported_side) && granularity == Granularity::Block {
        Kind::Described(id, Some("blocks of this size are not judged"))
    } else if tiles.is_none_or(|tiles| tiles > MOST_SCALES) {
        Kind::Described(id, Some("too many blocks to judge"))
    } else {
        Kind::Fp8(weight)
    }
}

/// Infers what the scales of a weight of `[batch, rows, cols]` belong to. `None` if the shape fits nothing.
fn shape(
    [batch, rows, cols]: [usize; 3],
    rank: usize,
    scales: &[usize],
    expected: Option<Expected>,
) -> Option<(Granularity, [usize; 2])> {
    let inner = match (rank, scales) {
        (3, [first, inner @ ..]) if *first == batch => inner,
        (3, _) => return None,
        (_, all) => all,
    };
    let is_grid = |[height, width]: [usize; 2]| *inner == [rows.div_ceil(height), cols.div_ceil(width)];
    let is_one = inner.iter().all(|side| *side == 1);
    let is_row = matches!(inner, [n] | [n, 1] if *n == rows);
    match expected {
        Some(Expected::Block(block)) if is_grid(block) => return Some((Granularity::Block, block)),
        Some(Expected::Tensor) if is_one => return Some((Granularity::Tensor, [rows, cols])),
        Some(Expected::Row) if is_row => return Some((Granularity::Row, [1, cols])),
        _ => {}
    }
    if is_grid([BLOCK, BLOCK]) {
        return Some((Granularity::Block, [BLOCK, BLOCK]));
    }
    // Where blocks are declared, anything else is a defect.
    if matches!(expected, Some(Expected::Block(_))) {
        return None;
    }
    let divides = |whole: usize, parts: usize| parts > 0 && whole.is_multiple_of(parts);
    match *inner {
        _ if is_one => Some((Granularity::Tensor, [rows, cols])),
        _ if is_row => Some((Granularity::Row, [1, cols])),
        [height, width] if expected.is_none() && divides(rows, height) && divides(cols, width) => {
            let block = [rows / height, cols / width];
            block.iter().all(|side| side.is_power_of_two()).then_some((Granularity::Block, block))
        }
        _ => None,
    }
}

fn wrong_shape(
    weight: &Tensor,
    scales: &Tensor,
    [batch, rows, cols]: [usize; 3],
    expected: Option<Expected>,
) -> Defect {
    let block = match expected {
        Some(Expected::Block(block)) => block,
        _ => [BLOCK, BLOCK],
    };
    let grid = [rows.div_ceil(block[0]), cols.div_ceil(block[1])];
    let (needed, turned) = match weight.shape.len() {
        2 => (grid.to_vec(), vec![grid[1], grid[0]]),
        _ => (vec![batch, grid[0], grid[1]], vec![batch, grid[1], grid[0]]),
    };
    let mut evidence = format!(
        "its scales {} have shape {:?}, but {} x {} in blocks of {} x {} needs {needed:?}",
        scales.name, scales.shape, rows, cols, block[0], block[1]
    );
    if scales.shape == turned {
        evidence += ", the transpose";
    }
    Defect::of(DefectKind::ScaleShape, &weight.name, evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_real_formats_are_known() {
        let of = |scales: &[usize], expected| shape([1, 512, 384], 2, scales, expected);
        let block = Some(Expected::Block([128, 128]));
        assert_eq!(of(&[4, 3], block), Some((Granularity::Block, [128, 128])));
        assert_eq!(of(&[4, 3], None), Some((Granularity::Block, [128, 128])));
        assert_eq!(of(&[8, 6], Some(Expected::Block([64, 64]))), Some((Granularity::Block, [64, 64])));
        assert_eq!(of(&[], None), Some((Granularity::Tensor, [512, 384])));
        assert_eq!(of(&[1], Some(Expected::Tensor)), Some((Granularity::Tensor, [512, 384])));
        assert_eq!(of(&[512, 1], Some(Expected::Row)), Some((Granularity::Row, [1, 384])));
        assert_eq!(of(&[512], None), Some((Granularity::Row, [1, 384])));
        assert_eq!(of(&[512, 12], None), Some((Granularity::Block, [1, 32])));
        for wrong in [&[3usize, 4][..], &[1], &[512, 1], &[5, 3], &[4, 3, 1]] {
            assert_eq!(of(wrong, block), None, "{wrong:?}");
        }
        assert_eq!(of(&[7, 3], None), None);
        // Partial blocks at the edges, and a stack of experts.
        assert_eq!(shape([1, 200, 300], 2, &[2, 3], block), Some((Granularity::Block, [128, 128])));
        assert_eq!(shape([8, 256, 128], 3, &[8, 2, 1], block), Some((Granularity::Block, [128, 128])));
        assert_eq!(shape([8, 256, 128], 3, &[2, 1], block), None);
    }
}
