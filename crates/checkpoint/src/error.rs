//! Errors of checkpoints and requests.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a checkpoint cannot be read, or a request carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the sentence of each variant names its fields")]
pub enum CheckpointError {
    #[error("cannot read {}: {reason}", path.display())]
    Read { path: PathBuf, reason: io::Error },
    #[error("cannot write {}: {reason}", path.display())]
    Write { path: PathBuf, reason: io::Error },
    #[error(
        "{} is not a regular file or a folder: name a checkpoint folder or a .safetensors file",
        path.display()
    )]
    NotACheckpoint { path: PathBuf },
    #[error("{} holds no .safetensors file: name a folder in the Hugging Face layout", path.display())]
    NoShards { path: PathBuf },

    #[error("{} is not a safetensors file: {why}", path.display())]
    NotSafetensors { path: PathBuf, why: &'static str },
    #[error(
        "{} has {size} bytes, but its header describes {expected}: truncated or damaged, so fetch it again",
        path.display()
    )]
    WrongSize { path: PathBuf, size: u64, expected: u64 },
    #[error("{} claims a header of {bytes} bytes, above the limit of {limit}", path.display())]
    HeaderTooLong { path: PathBuf, bytes: u64, limit: u64 },
    #[error("the header of {} is damaged: {why}", path.display())]
    DamagedHeader { path: PathBuf, why: String },
    #[error("{}: tensor {tensor} has the unknown dtype {dtype}", path.display())]
    UnknownDtype { path: PathBuf, tensor: String, dtype: String },
    #[error("{}: tensor {tensor} {why}: the file is damaged, so fetch it again", path.display())]
    BadTensor { path: PathBuf, tensor: String, why: String },
    #[error("tensor {tensor} is in both {first} and {second}: names must be unique in a checkpoint")]
    DuplicateTensor { tensor: String, first: String, second: String },
    #[error("{} changed while being read: do not modify the input before the command ends", path.display())]
    ChangedInput { path: PathBuf },

    #[error("{} is damaged: {why}", path.display())]
    DamagedJson { path: PathBuf, why: String },
    #[error("{} has {bytes} bytes, above the limit of {limit} for such a file", path.display())]
    JsonTooLong { path: PathBuf, bytes: u64, limit: u64 },
    #[error("{} names the shard '{shard}', which is not a plain file name inside the folder", path.display())]
    ShardOutside { path: PathBuf, shard: String },
    #[error("{} maps {tensor} to {shard}, which does not exist: fetch the missing shard", path.display())]
    MissingShard { path: PathBuf, tensor: String, shard: String },
    #[error("{} holds no {shard}, one of {count} shards by their names: fetch the missing shard", path.display())]
    MissingMember { path: PathBuf, shard: String, count: usize },
    #[error("{} maps {tensor} to {shard}, whose header does not list it", path.display())]
    MissingTensor { path: PathBuf, tensor: String, shard: String },
    #[error("{shard} holds {tensor}, which {} does not list", path.display())]
    UnlistedTensor { path: PathBuf, tensor: String, shard: String },
    #[error("{} holds several index files ({first} and {second}): keep one", path.display())]
    SeveralIndexes { path: PathBuf, first: String, second: String },
    #[error("{} is a symbolic link to a folder, which is not followed: copy the folder", path.display())]
    LinkedFolder { path: PathBuf },
    #[error("{} is neither a file nor a folder, so it cannot be copied", path.display())]
    SpecialFile { path: PathBuf },

    #[error("{tensor} is fp8 but has no scales: expected {tensor}_scale_inv or {tensor}_scale")]
    MissingScales { tensor: String },
    #[error("{tensor} has two sets of scales ({first} and {second}): remove one")]
    TwoScales { tensor: String, first: String, second: String },
    #[error("{scales} has shape {found:?}, but {tensor} of {rows} x {cols} needs {needed:?}")]
    ScaleShape {
        tensor: String,
        scales: String,
        rows: usize,
        cols: usize,
        needed: [usize; 2],
        found: Vec<usize>,
    },
    #[error("{scales} has dtype {dtype}: scales are read from F32, BF16, F16 or F8_E8M0")]
    ScaleDtype { scales: String, dtype: String },
    #[error("{scales} has no fp8 weight: {weight} is {found}")]
    OrphanScales { scales: String, weight: String, found: String },
    #[error("{scales} holds {value} at ({row}, {col}): scales must be finite and not negative")]
    BadScale { scales: String, value: f32, row: usize, col: usize },
    #[error(
        "{tensor} is {dtype} with scales: only 2-D F8_E4M3 with one scale per 128 x 128 block is supported"
    )]
    UnsupportedFp8 { tensor: String, dtype: String },
    #[error("config.json says weight_block_size {found}, but only [128, 128] is supported")]
    BlockSize { found: String },
    #[error("config.json says the weights are quantized with {found}: dequantize them with that tool first")]
    OtherQuantization { found: String },
    #[error(
        "{tensor} holds {value} at row {row}, column {col}, which cannot be quantized: repair it or --skip it"
    )]
    NonFinite { tensor: String, value: f32, row: usize, col: usize },
    #[error(
        "{scales} holds {value} at ({row}, {col}), which is not a power of two: \
         `octile convert --scales ue8m0 --requantize` rounds scales and codes, which loses precision"
    )]
    NotPowerOfTwo { scales: String, value: f32, row: usize, col: usize },
    #[error("{tensor} overflows {dtype:?} at row {row}, column {col}: choose another --dtype")]
    Overflow { tensor: String, row: usize, col: usize, dtype: octile_core::FloatKind },

    #[error("{module}: {why}; `octile inspect-model` checks the whole checkpoint")]
    BadWeight { module: String, why: String },
    #[error("{} holds none of the fp8 weights in their shape: name the original checkpoint", path.display())]
    NothingInCommon { path: PathBuf },

    #[error("'{glob}' is not a glob: {why}")]
    BadGlob { glob: String, why: String },
    #[error("--only '{glob}' matches no tensor: --dry-run lists the names")]
    OnlyNothing { glob: String },
    #[error("nothing to do: {} holds no tensor that can be {action}{}", path.display(), first_reason(first))]
    NothingToDo { path: PathBuf, action: &'static str, first: Option<(String, String)> },

    #[error("{} exists: name another output, or replace it with --force", path.display())]
    OutputExists { path: PathBuf },
    #[error("{} is not a checkpoint, so --force does not replace it: name another output", path.display())]
    OutputForeign { path: PathBuf },
    #[error("cannot write {}: {why}", path.display())]
    BadOutput { path: PathBuf, why: String },
    #[error("another octile process is writing {}: wait for it, or stop it", path.display())]
    OutputBusy { path: PathBuf },
    #[error(
        "{} needs {needed} bytes, but only {available} are free: make room, or write to another disk",
        path.display()
    )]
    NoSpace { path: PathBuf, needed: u64, available: u64 },
}

fn first_reason(first: &Option<(String, String)>) -> String {
    first.as_ref().map_or_else(String::new, |(tensor, why)| format!("; {tensor} is kept: {why}"))
}

/// A result whose error is a [`CheckpointError`].
pub type Result<T, E = CheckpointError> = std::result::Result<T, E>;

/// Adds the path to an I/O error.
pub(crate) trait WithPath<T> {
    fn reading(self, path: &Path) -> Result<T>;
    fn writing(self, path: &Path) -> Result<T>;
}

impl<T> WithPath<T> for io::Result<T> {
    fn reading(self, path: &Path) -> Result<T> {
        self.map_err(|reason| CheckpointError::Read { path: path.to_owned(), reason })
    }

    fn writing(self, path: &Path) -> Result<T> {
        self.map_err(|reason| CheckpointError::Write { path: path.to_owned(), reason })
    }
}
