//! What lies beside the shards: configuration, index, tokenizer and everything else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::{
    Checkpoint, CheckpointError, Plan,
    error::{Result, WithPath},
};

/// A file that is copied as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Path inside the folder.
    pub path: PathBuf,
    /// Size.
    pub bytes: u64,
}

impl OtherFile {
    /// Whether this looks like weights, which are then in the output twice: quantized and as they were.
    pub fn is_weights(&self) -> bool {
        let known = ["safetensors", "bin", "pt", "pth", "gguf", "h5", "msgpack", "onnx"];
        self.path.extension().is_some_and(|extension| known.iter().any(|known| extension == *known))
    }
}

/// Folders of version control and downloaders, which are not part of a checkpoint.
const NOT_COPIED: [&str; 2] = [".git", ".cache"];

/// Deeper folders are taken for a mistake.
const DEEPEST: usize = 16;

const INDEX: &str = "model.safetensors.index.json";

/// Every file that is neither a shard, nor the index, nor the configuration.
pub(super) fn others(checkpoint: &Checkpoint) -> Result<Vec<OtherFile>> {
    let mut found = Vec::new();
    if !checkpoint.is_folder() {
        return Ok(found);
    }
    let root = checkpoint.path();
    let is_rewritten = |name: &Path| {
        let index = checkpoint.index().and_then(|index| index.path.file_name());
        let shard = |shard: &crate::Shard| Path::new(&shard.name) == name;
        name == "config.json"
            || index.is_some_and(|index| name == index)
            || checkpoint.shards().iter().any(shard)
    };
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let path = root.join(&folder);
        for entry in fs::read_dir(&path).reading(&path)? {
            let entry = entry.reading(&path)?;
            let relative = folder.join(entry.file_name());
            let (path, kind) = (entry.path(), entry.file_type().reading(&entry.path())?);
            let target = fs::metadata(&path).reading(&path)?;
            if target.is_dir() && kind.is_symlink() || target.is_dir() && depth == DEEPEST {
                return Err(CheckpointError::LinkedFolder { path });
            } else if target.is_dir() {
                if !NOT_COPIED.iter().any(|name| entry.file_name() == *name) {
                    folders.push((relative, depth + 1));
                }
            } else if !target.is_file() {
                return Err(CheckpointError::SpecialFile { path });
            } else if depth > 0 || !is_rewritten(&relative) {
                found.push(OtherFile { path: relative, bytes: target.len() });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Writes configuration and index, and copies the rest.
pub(super) fn write(
    checkpoint: &Checkpoint,
    plan: &Plan,
    others: &[OtherFile],
    content: &Path,
) -> Result<()> {
    if !checkpoint.is_folder() {
        return Ok(());
    }
    for file in others {
        let (from, to) = (checkpoint.path().join(&file.path), content.join(&file.path));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).writing(folder)?;
        }
        fs::copy(&from, &to).writing(&file.path)?;
    }
    if let Some(config) = checkpoint.config() {
        let path = content.join("config.json");
        let text = plan.config(config).map_err(|error| CheckpointError::DamagedJson {
            path: checkpoint.path().join("config.json"),
            why: error.to_string(),
        })?;
        fs::write(&path, text.to_text()).writing(Path::new("config.json"))?;
    }
    let index = checkpoint.index().and_then(|index| index.path.file_name()).unwrap_or(INDEX.as_ref());
    fs::write(content.join(index), self::index(checkpoint, plan)).writing(Path::new(index))
}

/// The index of the output: metadata as it was but for the size, tensors sorted by name.
fn index(checkpoint: &Checkpoint, plan: &Plan) -> String {
    let mut metadata = Map::new();
    for (key, value) in checkpoint.index().map_or(&[][..], |index| &index.metadata) {
        metadata.insert(key.clone(), serde_json::from_str(value.get()).unwrap_or(Value::Null));
    }
    metadata.insert("total_size".to_owned(), plan.output_bytes.into());
    let shards = plan.shards.iter();
    let entries = shards.flat_map(|shard| shard.tensors.iter().map(|tensor| (&tensor.name, &shard.name)));
    let weight_map: std::collections::BTreeMap<_, _> = entries.collect();
    let text =
        serde_json::to_string_pretty(&serde_json::json!({ "metadata": metadata, "weight_map": weight_map }));
    text.expect("strings and numbers can always be written as JSON") + "\n"
}

/// Whether a folder has a safetensors file in it.
pub(super) fn holds_safetensors(folder: &Path) -> bool {
    let is_shard = |entry: fs::DirEntry| entry.path().extension().is_some_and(|kind| kind == "safetensors");
    fs::read_dir(folder).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_shard)))
}
