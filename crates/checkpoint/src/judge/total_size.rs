//! `metadata.total_size` of the index.

use super::defect::{Defect, DefectKind};
use crate::Checkpoint;

/// Compares the size that the index declares with the tensors. Some writers count whole files.
pub(super) fn compare(checkpoint: &Checkpoint) -> Option<Defect> {
    let (_, declared) = checkpoint.index()?.metadata.iter().find(|(key, _)| key == "total_size")?;
    let tensors: u64 = checkpoint.tensors().map(|(_, tensor)| tensor.bytes).sum();
    let files: u64 = checkpoint.shards().iter().map(|shard| shard.bytes).sum();
    // Some writers also store it as a float.
    let is_one_of = |size: f64| [tensors, files].iter().any(|bytes| *bytes as f64 == size);
    if serde_json::from_str(declared.get()).is_ok_and(is_one_of) {
        return None;
    }
    let declared: String = declared.get().chars().take(40).collect();
    let evidence =
        format!("the index declares a total_size of {declared}, but the tensors have {tensors} bytes");
    Some(Defect::of_index(DefectKind::WrongTotalSize, evidence))
}
