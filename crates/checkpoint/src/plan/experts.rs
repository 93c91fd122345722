//! Fused expert tensors: one 3-D tensor holds all experts of a layer.

use super::KeptBecause;
use crate::{
    BLOCK, Checkpoint, ExpertLayout,
    matrix::Matrix,
    read::{Tensor, TensorId},
};

/// Name of a fused tensor, and the names of the matrices it is split into.
struct Kind {
    fused: &'static str,
    parts: &'static [&'static str],
    is_down: bool,
}

const KINDS: [Kind; 7] = [
    Kind { fused: "gate_up_proj", parts: &["gate_proj", "up_proj"], is_down: false },
    Kind { fused: "gate_proj", parts: &["gate_proj"], is_down: false },
    Kind { fused: "up_proj", parts: &["up_proj"], is_down: false },
    Kind { fused: "down_proj", parts: &["down_proj"], is_down: true },
    Kind { fused: "w1", parts: &["w1"], is_down: false },
    Kind { fused: "w3", parts: &["w3"], is_down: false },
    Kind { fused: "w2", parts: &["w2"], is_down: true },
];

/// Sanity limit on experts per layer; a damaged file may claim any number.
const MOST_EXPERTS: usize = 1 << 14;

/// Splits a fused tensor into the named matrices of its experts. `None` if the tensor is not fused.
pub(crate) fn split(
    checkpoint: &Checkpoint,
    id: TensorId,
    given: Option<ExpertLayout>,
) -> Option<Result<Vec<(String, Matrix)>, KeptBecause>> {
    let tensor = checkpoint.tensor(id);
    let &[experts, first, second] = &tensor.shape[..] else { return None };
    let (prefix, kind) = kind(&tensor.name)?;
    if checkpoint.find(&format!("{prefix}{}_bias", kind.fused)).is_some() {
        return Some(Err(KeptBecause::ExpertBias));
    }
    let Some(layout) = layout(checkpoint, tensor, prefix, &kind).or(given) else {
        return Some(Err(KeptBecause::UnknownExpertLayout));
    };
    let (rows, cols) = match layout {
        ExpertLayout::OutIn => (first, second),
        ExpertLayout::InOut => (second, first),
    };
    let parts = kind.parts.len();
    if !rows.is_multiple_of(parts) || experts > MOST_EXPERTS {
        return Some(Err(KeptBecause::UnknownExpertLayout));
    }
    if !cols.is_multiple_of(BLOCK) {
        return Some(Err(KeptBecause::RaggedK(cols)));
    }
    let element = (tensor.dtype.bitsize() / 8) as u64;
    let rows = rows / parts;
    let mut matrices = Vec::with_capacity(experts * parts);
    for expert in 0..experts {
        for (part, part_name) in kind.parts.iter().enumerate() {
            let before = match layout {
                ExpertLayout::OutIn => part * rows * cols,
                ExpertLayout::InOut => part * rows,
            };
            let elements = (expert * first * second + before) as u64;
            let matrix = Matrix {
                shard: id.shard,
                dtype: tensor.dtype,
                offset: tensor.offset + elements * element,
                rows,
                cols,
                stride: second,
                is_transposed: layout == ExpertLayout::InOut,
            };
            matrices.push((format!("{prefix}{expert}.{part_name}.weight"), matrix));
        }
    }
    Some(Ok(matrices))
}

/// Splits `model.layers.0.mlp.experts.gate_up_proj` into `model.layers.0.mlp.experts.` and its kind.
fn kind(name: &str) -> Option<(&str, Kind)> {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let (prefix, last) = name.split_at(name.rfind('.')? + 1);
    let kind = KINDS.into_iter().find(|kind| kind.fused == last)?;
    prefix.ends_with("experts.").then_some((prefix, kind))
}

/// Infers the layout from the shapes of this tensor and its counterpart, or from the model's hidden size.
fn layout(checkpoint: &Checkpoint, tensor: &Tensor, prefix: &str, kind: &Kind) -> Option<ExpertLayout> {
    by_pair(checkpoint, prefix).or_else(|| {
        let hidden = checkpoint.config()?.model_number("hidden_size")?;
        let &[_, first, second] = &tensor.shape[..] else { return None };
        // Inputs of gate and up, outputs of down.
        match (first == hidden, second == hidden) {
            (true, false) if kind.is_down => Some(ExpertLayout::OutIn),
            (false, true) if kind.is_down => Some(ExpertLayout::InOut),
            (true, false) => Some(ExpertLayout::InOut),
            (false, true) => Some(ExpertLayout::OutIn),
            _ => None,
        }
    })
}

/// Infers the layout from the pair: in the right one `gate_up_proj` has twice as many outputs as `down_proj`
/// has inputs.
fn by_pair(checkpoint: &Checkpoint, prefix: &str) -> Option<ExpertLayout> {
    let shape = |last: &str| {
        let names = [format!("{prefix}{last}"), format!("{prefix}{last}.weight")];
        let id = names.iter().find_map(|name| checkpoint.find(name))?;
        match checkpoint.tensor(id).shape[..] {
            [_, first, second] => Some((first, second)),
            _ => None,
        }
    };
    let (up, down) = (shape("gate_up_proj")?, shape("down_proj")?);
    if up.1 == down.0 && Some(up.0) == down.1.checked_mul(2) {
        Some(ExpertLayout::OutIn)
    } else if up.0 == down.1 && Some(up.1) == down.0.checked_mul(2) {
        Some(ExpertLayout::InOut)
    } else {
        None
    }
}
