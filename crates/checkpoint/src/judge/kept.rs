//! Tensors that were not quantized, compared with the original: they must be there, and unchanged.

use std::collections::HashSet;

use half::{bf16, f16};
use safetensors::Dtype;

use super::{
    defect::{Defect, DefectKind},
    wording::are,
};
use crate::{
    BLOCK, Checkpoint, ExpertLayout, Progress,
    error::Result,
    plan::{built_in, module, split_experts},
    read::{Tensor, TensorId},
};

/// Values that are compared at a time.
const CHUNK: usize = 1 << 20;

/// Least ratio of signal to noise of a weight that went through fp8 and back, or was rounded to another type.
const LEAST_RATIO: f64 = 100.0;

/// A tensor that is compared with its original.
#[derive(Debug, Clone, Copy)]
struct Pair {
    found: TensorId,
    original: TensorId,
    is_exact: bool,
}

/// What is compared, and what cannot be.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pairs: Vec<Pair>,
    /// Tensors that are present, but stored too differently to be compared.
    pub not_compared: HashSet<TensorId>,
}

impl Pairs {
    /// Finds every tensor of the original. Missing ones are defects where the checkpoint `is_complete`,
    /// because an unreadable file is reported by itself.
    pub(super) fn new(
        checkpoint: &Checkpoint,
        against: &Checkpoint,
        is_complete: bool,
        defects: &mut Vec<Defect>,
    ) -> Self {
        let holds_fp8 = checkpoint.tensors().any(|(_, tensor)| tensor.dtype == Dtype::F8_E4M3);
        let mut all = Self::default();
        let originals = against.tensors().filter(|(_, tensor)| against.scale_owner(&tensor.name).is_none());
        for (original, tensor) in originals {
            match checkpoint.find(&tensor.name) {
                Some(found) => all.pair(checkpoint, found, (original, tensor), holds_fp8, defects),
                None => all.absent(checkpoint, against, original, is_complete, defects),
            }
        }
        all
    }

    fn pair(
        &mut self,
        checkpoint: &Checkpoint,
        id: TensorId,
        (original, tensor): (TensorId, &Tensor),
        holds_fp8: bool,
        defects: &mut Vec<Defect>,
    ) {
        let found = checkpoint.tensor(id);
        if found.dtype == Dtype::F8_E4M3 && found.shape.len() > 1 {
            return; // Judged with its scales.
        }
        let mut changed =
            |what: String| defects.push(Defect::of(DefectKind::ChangedTensor, &found.name, what));
        let is_float = |dtype| matches!(dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16);
        if found.shape != tensor.shape {
            changed(format!("it has shape {:?}, but the original has {:?}", found.shape, tensor.shape));
        } else if found.dtype == tensor.dtype {
            // In a checkpoint without fp8, weights may have been dequantized.
            let is_weight = found.matrix().is_some_and(|(_, cols)| cols.is_multiple_of(BLOCK))
                && is_float(found.dtype)
                && built_in(module(&found.name)).is_none();
            self.pairs.push(Pair { found: id, original, is_exact: holds_fp8 || !is_weight });
        } else if is_float(found.dtype) && is_float(tensor.dtype) {
            self.pairs.push(Pair { found: id, original, is_exact: false });
        } else if is_float(found.dtype) && matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2) {
            self.not_compared.insert(id);
        } else {
            changed(format!("it has dtype {:?}, but the original has {:?}", found.dtype, tensor.dtype));
        }
    }

    fn absent(
        &mut self,
        checkpoint: &Checkpoint,
        against: &Checkpoint,
        original: TensorId,
        is_complete: bool,
        defects: &mut Vec<Defect>,
    ) {
        let name = &against.tensor(original).name;
        let mut missing = |name: &str, what: &str| {
            if is_complete {
                defects.push(Defect::of(DefectKind::MissingTensor, name, what.to_owned()));
            }
        };
        let split = |layout| split_experts(against, original, layout)?.ok();
        if let Some(parts) = split(None).or_else(|| split(Some(ExpertLayout::OutIn)))
            && parts.iter().any(|(part, _)| checkpoint.find(part).is_some())
        {
            for (part, _) in &parts {
                match checkpoint.find(part) {
                    Some(id) if checkpoint.tensor(id).dtype == Dtype::F8_E4M3 => {}
                    Some(id) => drop(self.not_compared.insert(id)),
                    None => missing(part, "the original holds it in a fused tensor, but it is missing here"),
                }
            }
            return;
        }
        // Other formats replace a weight by tensors of other names.
        let packed =
            [format!("{}.qweight", module(name)), format!("{name}_packed"), format!("{name}_blocks")];
        if let Some(id) = packed.iter().find_map(|name| checkpoint.find(name)) {
            self.not_compared.insert(id);
            return;
        }
        let is_tied = checkpoint.config().is_some_and(|config| {
            config.get("tie_word_embeddings").and_then(|tied| tied.as_bool()) == Some(true)
        });
        if !(is_tied && module(name).ends_with("lm_head")) {
            missing(name, "the original has it, but it is missing here");
        }
    }

    /// Bytes that [`Pairs::compare`] reads.
    pub(super) fn bytes(&self, checkpoint: &Checkpoint, against: &Checkpoint) -> u64 {
        let bytes = |pair: &Pair| checkpoint.tensor(pair.found).bytes + against.tensor(pair.original).bytes;
        self.pairs.iter().map(bytes).sum()
    }

    /// Compares the values of all pairs.
    pub(super) fn compare(
        &self,
        checkpoint: &Checkpoint,
        against: &Checkpoint,
        progress: &dyn Progress,
    ) -> Result<Vec<Defect>> {
        let mut defects = Vec::new();
        for pair in &self.pairs {
            let tensor = checkpoint.tensor(pair.found);
            progress.begin(&tensor.name);
            if let Some(what) = difference(checkpoint, against, *pair, progress)? {
                defects.push(Defect::of(DefectKind::ChangedTensor, &tensor.name, what));
            }
        }
        Ok(defects)
    }
}

/// Describes how a tensor differs from its original, if it does.
fn difference(
    checkpoint: &Checkpoint,
    against: &Checkpoint,
    pair: Pair,
    progress: &dyn Progress,
) -> Result<Option<String>> {
    let sides = [(checkpoint, pair.found), (against, pair.original)];
    let tensors = sides.map(|(checkpoint, id)| checkpoint.tensor(id));
    let open = |(checkpoint, id): (&Checkpoint, TensorId)| checkpoint.shards()[id.shard].open();
    let files = [open(sides[0])?, open(sides[1])?];
    let sizes = tensors.map(|tensor| (tensor.dtype.bitsize() / 8).max(1));
    let total = tensors[0].bytes / sizes[0] as u64;
    let (mut differing, mut first, mut signal, mut noise) = (0u64, None, 0.0, 0.0);
    let mut buffers = [Vec::new(), Vec::new()];
    for start in (0..total).step_by(CHUNK) {
        let count = (total - start).min(CHUNK as u64) as usize;
        for side in 0..2 {
            buffers[side].resize(count * sizes[side], 0);
            files[side].read_at(&mut buffers[side], tensors[side].offset + start * sizes[side] as u64)?;
            progress.advance(buffers[side].len() as u64);
        }
        if pair.is_exact {
            if buffers[0] == buffers[1] {
                continue;
            }
            let [found, original] = [0, 1].map(|side| buffers[side].chunks_exact(sizes[side]));
            for (at, _) in found.zip(original).enumerate().filter(|(_, (found, original))| found != original)
            {
                first.get_or_insert(start + at as u64);
                differing += 1;
            }
        } else {
            let [found, original] = [0, 1].map(|side| widened(tensors[side].dtype, &buffers[side]));
            for (found, original) in found.zip(original).filter(|(found, original)| found != original) {
                if found.is_finite() && original.is_finite() {
                    noise += (found - original) * (found - original);
                }
                differing += u64::from(!found.is_finite() && original.is_finite());
            }
            let finite = widened(tensors[1].dtype, &buffers[1]).filter(|value| value.is_finite());
            signal += finite.map(|value| value * value).sum::<f64>();
        }
    }
    Ok(match (pair.is_exact, first) {
        (true, Some(first)) => Some(format!(
            "it is not quantized, but {differing} of {total} values differ from the original, the first at {first}"
        )),
        (false, _) if differing > 0 => Some(format!(
            "{differing} of {total} values {} not finite, but those of the original are",
            are(differing)
        )),
        (false, _) if noise * LEAST_RATIO > signal => {
            let ratio = 10.0 * (signal / noise).log10();
            Some(format!("it does not follow the original: the signal-to-noise ratio is {ratio:.1} dB"))
        }
        _ => None,
    })
}

/// Values of a float tensor.
fn widened(dtype: Dtype, bytes: &[u8]) -> impl Iterator<Item = f64> {
    let size = dtype.bitsize() / 8;
    bytes.chunks_exact(size).map(move |value| match (dtype, value) {
        (Dtype::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f64(),
        (Dtype::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
        (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
        _ => f64::NAN,
    })
}
