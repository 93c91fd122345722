//! The original weights that an fp8 checkpoint is compared with.

use half::{bf16, f16};
use octile_runtime::cpu::{RowConverter, StoredFloat};
use safetensors::Dtype;

use super::{
    defect::{Defect, DefectKind},
    format::Fp8Weight,
};
use crate::{
    BLOCK, Checkpoint,
    error::Result,
    matrix::{Matrix, elements},
    plan::split_experts,
    read::{LayerFormat, ShardFile},
};

/// Where the original of a weight is.
#[derive(Debug)]
pub(super) struct Original {
    pub matrix: Matrix,
    pub file: ShardFile,
    /// Its scales, if it is fp8 itself.
    scales: Option<Vec<f32>>,
}

/// Sums over a tile, in units of its scale.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Match {
    /// Squares of the differences.
    pub error: f64,
    /// Squares of the original values.
    pub power: f64,
    /// Products of codes and original values.
    pub cross: f64,
    /// Number of original values beyond the largest code.
    pub clipped: u64,
}

/// Finds the original of a weight; a defect if there is none.
pub(super) fn find(
    checkpoint: &Checkpoint,
    name: &str,
    weight: &Fp8Weight,
) -> Result<std::result::Result<Original, Defect>> {
    let missing =
        |evidence: &str| Ok(Err(Defect::of(DefectKind::MissingOriginal, name, evidence.to_owned())));
    let rows = weight.batch * weight.rows;
    let (matrix, scales) = match checkpoint.find(name) {
        Some(id) => {
            let tensor = checkpoint.tensor(id);
            let is_same = match tensor.shape[..] {
                [first, second] => weight.batch == 1 && (first, second) == (weight.rows, weight.cols),
                [batch, first, second] => (batch, first, second) == (weight.batch, weight.rows, weight.cols),
                _ => false,
            };
            if !is_same {
                return missing(&format!("the original has shape {:?}", tensor.shape));
            }
            let scales = match tensor.dtype {
                Dtype::F32 | Dtype::BF16 | Dtype::F16 => None,
                Dtype::F8_E4M3 => match checkpoint.layer(id) {
                    Ok(Some(layer)) => match layer.format {
                        LayerFormat::Fp8(scales) => Some(checkpoint.read_scales(&scales)?),
                        LayerFormat::Plain(_) => None,
                    },
                    _ => return missing("the original is fp8 without one scale per 128 x 128 block"),
                },
                other => return missing(&format!("the original has dtype {other:?}")),
            };
            (Matrix::whole(id, tensor, rows, weight.cols), scales)
        }
        None => match fused(checkpoint, name) {
            Some(matrix) if (matrix.rows, matrix.cols) == (weight.rows, weight.cols) && weight.batch == 1 => {
                (matrix, None)
            }
            Some(_) => return missing("the original has another shape"),
            None => return missing("the original does not have it"),
        },
    };
    let file = checkpoint.shards()[matrix.shard].open()?;
    Ok(Ok(Original { matrix, file, scales }))
}

/// Finds an expert inside a tensor that holds all of them.
fn fused(checkpoint: &Checkpoint, name: &str) -> Option<Matrix> {
    let (experts, part) = name.strip_suffix(".weight")?.rsplit_once('.')?;
    let (prefix, number) = experts.rsplit_once('.')?;
    let _: usize = number.parse().ok()?;
    let both = if matches!(part, "gate_proj" | "up_proj") { "gate_up_proj" } else { part };
    [both, part].iter().find_map(|fused| {
        let names = [format!("{prefix}.{fused}"), format!("{prefix}.{fused}.weight")];
        let id = names.iter().find_map(|name| checkpoint.find(name))?;
        let matrices = split_experts(checkpoint, id, None)?.ok()?;
        matrices.into_iter().find(|(split, _)| split == name).map(|(_, matrix)| matrix)
    })
}

impl Original {
    /// Widens rows that were read into `input` to f32. The first value is at row `first`, column `left`.
    pub(super) fn widen(
        &self,
        input: &[u64],
        (first, left): (usize, usize),
        width: usize,
        values: &mut [f32],
    ) {
        let count = values.len();
        match self.matrix.dtype {
            Dtype::BF16 => widen(elements::<bf16>(input, count), values),
            Dtype::F16 => widen(elements::<f16>(input, count), values),
            Dtype::F32 => values.copy_from_slice(elements(input, count)),
            _ => {
                let (codes, converter) = (elements::<u8>(input, count), RowConverter::default());
                let (all, parts) = (self.matrix.cols.div_ceil(BLOCK), width.div_ceil(BLOCK));
                let scales = self.scales.as_deref().unwrap_or_default();
                for (row, (codes, values)) in codes.chunks(width).zip(values.chunks_mut(width)).enumerate() {
                    let at = (first + row) / BLOCK * all + left / BLOCK;
                    converter.decode_rows(codes, width, BLOCK, &scales[at..at + parts], values);
                }
            }
        }
    }
}

fn widen<T: StoredFloat>(from: &[T], to: &mut [f32]) {
    from.iter().zip(to).for_each(|(from, to)| *to = from.widen());
}

/// Larger magnitudes, in units of the scale, do not round to 448, the largest code.
const BEYOND: f32 = 464.0;

/// Compares codes, decoded without their scale, with original values.
pub(super) fn compare<'a>(rows: impl Iterator<Item = (&'a [f32], &'a [f32])>, scale: f32) -> Match {
    // In units of the scale, squares can neither overflow nor vanish.
    let inverse = 1.0 / scale;
    let mut sum = Match::default();
    for (codes, values) in rows {
        let (mut error, mut power, mut cross) = ([0.0f32; 8], [0.0f32; 8], [0.0f32; 8]);
        let mut clipped = [0u32; 8];
        let mut step = |lane: usize, code: f32, value: f32| {
            let value = value * inverse;
            let difference = code - value;
            error[lane] += difference * difference;
            power[lane] += value * value;
            cross[lane] += code * value;
            clipped[lane] += u32::from(value.abs() > BEYOND);
        };
        let ((codes, code_rest), (values, value_rest)) = (codes.as_chunks::<8>(), values.as_chunks::<8>());
        for (codes, values) in codes.iter().zip(values) {
            (0..8).for_each(|lane| step(lane, codes[lane], values[lane]));
        }
        code_rest.iter().zip(value_rest).for_each(|(code, value)| step(0, *code, *value));
        let total = |lanes: [f32; 8]| lanes.into_iter().map(f64::from).sum::<f64>();
        sum.error += total(error);
        sum.power += total(power);
        sum.cross += total(cross);
        sum.clipped += clipped.into_iter().map(u64::from).sum::<u64>();
    }
    sum
}
