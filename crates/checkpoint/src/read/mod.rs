//! Readers of untrusted files. Every claim of a file is checked before it is used.

mod checkpoint;
mod config;
mod header;
mod index;
mod layer;
mod rows;
mod shard;

pub use checkpoint::{Checkpoint, Survey, TensorId};
pub use config::Config;
pub use header::{HEADER_LIMIT, Header, Tensor};
pub use index::Index;
pub use layer::{Layer, LayerFormat, ScaleNaming, Scales, without_numbers};
pub use rows::TensorReader;
pub(crate) use rows::append_scales;
pub use shard::{Shard, ShardFile};

use std::{fs::File, io::Read, path::Path};

use crate::error::{CheckpointError, Result, WithPath};

/// Largest accepted JSON file (index, config).
const JSON_LIMIT: u64 = 64 << 20;

/// Reads a JSON file, within the limit.
fn json_text(path: &Path) -> Result<String> {
    let metadata = std::fs::metadata(path).reading(path)?;
    if !metadata.is_file() {
        let why = "it is not a regular file".to_owned();
        return Err(CheckpointError::DamagedJson { path: path.to_owned(), why });
    }
    let file = File::open(path).reading(path)?;
    let too_long = |bytes| CheckpointError::JsonTooLong { path: path.to_owned(), bytes, limit: JSON_LIMIT };
    if metadata.len() > JSON_LIMIT {
        return Err(too_long(metadata.len()));
    }
    let mut text = String::new();
    file.take(JSON_LIMIT + 1).read_to_string(&mut text).reading(path)?;
    if text.len() as u64 > JSON_LIMIT {
        return Err(too_long(text.len() as u64));
    }
    // Some editors begin a file with a byte order mark.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}
