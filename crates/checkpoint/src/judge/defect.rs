//! Defects of a checkpoint, each in one sentence with what to do.

use std::fmt;

use serde::Serialize;

use crate::CheckpointError;

/// What kind of defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefectKind {
    /// A file is shorter or longer than its header says.
    TruncatedShard,
    /// A file cannot be read for another reason.
    UnreadableFile,
    /// The index names a shard or tensor that does not exist.
    DanglingIndex,
    /// A shard holds a tensor that the index does not list.
    UnlistedTensor,
    /// `metadata.total_size` of the index is not the size of the tensors.
    WrongTotalSize,
    /// Two tensors have the same name.
    DuplicateTensor,
    /// An fp8 weight has no scales.
    MissingScales,
    /// A weight has two sets of scales.
    TwoScales,
    /// Scales without an fp8 weight.
    OrphanScales,
    /// The scales do not have the shape of the block grid.
    ScaleShape,
    /// The scales have a type that no loader reads.
    ScaleDtype,
    /// A scale is NaN, infinite, negative, or zero where the codes are not.
    BadScale,
    /// The scales are reciprocals of the multipliers.
    ReciprocalScales,
    /// The scales are stored in the order of the transposed grid.
    TransposedScales,
    /// The scales were rounded to powers of two, but the codes were not adjusted.
    RoundedScales,
    /// The scales differ from those that fit the original.
    WrongScales,
    /// The codes are not those of the original weight.
    OtherWeight,
    /// Far more codes than plausible have the largest magnitude.
    SaturatedCodes,
    /// Codes that are NaN.
    NanCodes,
    /// A tensor that is not fp8 has values that are NaN or infinite.
    NonFiniteValues,
    /// `config.json` contradicts the tensors.
    ConfigDisagrees,
    /// The original does not have the weight, or in another shape.
    MissingOriginal,
    /// The original has a tensor that the checkpoint does not have.
    MissingTensor,
    /// A tensor that is not quantized differs from the original.
    ChangedTensor,
}

/// A defect of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Defect {
    /// What kind.
    pub kind: DefectKind,
    /// The tensor, where it concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor: Option<String>,
    /// What is wrong, with the evidence.
    pub evidence: String,
    /// What to do.
    pub advice: &'static str,
}

impl Defect {
    /// A defect of one tensor.
    pub(super) fn of(kind: DefectKind, tensor: &str, evidence: String) -> Self {
        Self { kind, tensor: Some(tensor.to_owned()), evidence, advice: advice(kind) }
    }

    /// Several shards without an index, which loaders need.
    pub(super) fn without_index(shards: usize) -> Self {
        let kind = DefectKind::DanglingIndex;
        let evidence = format!("{shards} shards have no model.safetensors.index.json, which loaders need");
        Self { kind, tensor: None, evidence, advice: advice(kind) }
    }

    /// A defect of the index as a whole.
    pub(super) fn of_index(kind: DefectKind, evidence: String) -> Self {
        Self { kind, tensor: None, evidence, advice: advice(kind) }
    }

    /// A defect of the config.
    pub(super) fn of_config(tensor: Option<&str>, evidence: String) -> Self {
        let kind = DefectKind::ConfigDisagrees;
        Self { kind, tensor: tensor.map(str::to_owned), evidence, advice: advice(kind) }
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tensor) = &self.tensor {
            write!(out, "{tensor}: ")?;
        }
        write!(out, "{}; {}", self.evidence, self.advice)
    }
}

fn advice(kind: DefectKind) -> &'static str {
    match kind {
        DefectKind::TruncatedShard | DefectKind::UnreadableFile => "fetch the file again",
        DefectKind::DanglingIndex => "fetch the missing file, or the index, again",
        DefectKind::UnlistedTensor => "loaders ignore the tensor: fetch the index again, or add it",
        DefectKind::WrongTotalSize => "correct the index, or fetch it again",
        DefectKind::DuplicateTensor => "keep one of them",
        DefectKind::MissingScales => "fetch the shard with the scales, or quantize the original again",
        DefectKind::TwoScales => "remove one of them",
        DefectKind::OrphanScales => "remove the scales, or fetch the weight",
        DefectKind::ScaleShape | DefectKind::ScaleDtype => {
            "quantize the original again, or convert the scales"
        }
        DefectKind::BadScale | DefectKind::NanCodes | DefectKind::NonFiniteValues => {
            "the layer's output would be wrong or NaN: fetch it again"
        }
        DefectKind::ReciprocalScales => {
            "store 1 / scale: X.weight_scale_inv and X.weight_scale are multipliers"
        }
        DefectKind::TransposedScales => "transpose the scales: row i, column j belongs to block (i, j)",
        DefectKind::RoundedScales => {
            "quantize the original again with `octile quantize --scales ue8m0`, which adjusts the codes"
        }
        DefectKind::WrongScales => "quantize the original again",
        DefectKind::OtherWeight => {
            "check that --against is the original, and that the codes are not transposed"
        }
        DefectKind::SaturatedCodes => "the scales are too small: quantize the original again",
        DefectKind::ConfigDisagrees => "correct config.json, or loaders misread the weights",
        DefectKind::MissingTensor | DefectKind::ChangedTensor => {
            "quantize the original again, or check that --against is the original"
        }
        DefectKind::MissingOriginal => "check that --against is the original of this checkpoint",
    }
}

impl From<&CheckpointError> for Defect {
    fn from(error: &CheckpointError) -> Self {
        use CheckpointError as E;
        let (kind, tensor) = match error {
            E::WrongSize { .. } => (DefectKind::TruncatedShard, None),
            E::MissingShard { .. } | E::MissingMember { .. } => (DefectKind::DanglingIndex, None),
            E::MissingTensor { tensor, .. } => (DefectKind::DanglingIndex, Some(tensor)),
            E::UnlistedTensor { tensor, .. } => (DefectKind::UnlistedTensor, Some(tensor)),
            E::DuplicateTensor { tensor, .. } => (DefectKind::DuplicateTensor, Some(tensor)),
            E::DamagedHeader { why, .. } if why.contains("occurs twice") => {
                (DefectKind::DuplicateTensor, None)
            }
            E::MissingScales { tensor } => (DefectKind::MissingScales, Some(tensor)),
            E::TwoScales { tensor, .. } => (DefectKind::TwoScales, Some(tensor)),
            E::OrphanScales { scales, .. } => (DefectKind::OrphanScales, Some(scales)),
            E::ScaleShape { tensor, .. } => (DefectKind::ScaleShape, Some(tensor)),
            E::ScaleDtype { scales, .. } => (DefectKind::ScaleDtype, Some(scales)),
            _ => (DefectKind::UnreadableFile, None),
        };
        // The sentence names the tensor already.
        let text = error.to_string();
        let evidence = match tensor {
            Some(tensor) => text.strip_prefix(&format!("{tensor} ")).unwrap_or(&text).to_owned(),
            None => text,
        };
        Self { kind, tensor: tensor.cloned(), evidence, advice: advice(kind) }
    }
}
