//! Files beside the shards: config, index, tokenizer and the rest.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::{
    Checkpoint, CheckpointError, CheckpointPlan,
    error::{Result, WithPath},
};

/// A file that is copied unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Path inside the folder.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
}

impl OtherFile {
    /// Whether this looks like a second copy of the weights, which would stay unquantized.
    pub fn is_weights(&self) -> bool {
        let known = ["safetensors", "bin", "pt", "pth", "gguf", "h5", "msgpack", "onnx"];
        self.path.extension().is_some_and(|extension| known.iter().any(|known| extension == *known))
    }
}

/// Folders of version control and download tools, which are not part of a checkpoint.
const NOT_COPIED: [&str; 2] = [".git", ".cache"];

/// Deepest folder that is copied.
const DEEPEST: usize = 16;

const INDEX: &str = "model.safetensors.index.json";

/// Lists every file that is not a shard, the index or the config.
pub(super) fn others(checkpoint: &Checkpoint) -> Result<Vec<OtherFile>> {
    let mut found = Vec::new();
    if !checkpoint.is_folder() {
        return Ok(found);
    }
    let root = checkpoint.path();
    let is_rewritten = |name: &Path| {
        let index = checkpoint.index().and_then(|index| index.path.file_name());
        let shard = |shard: &crate::Shard| Path::new(&shard.name) == name;
        name == Path::new("config.json")
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

/// Writes config and index, and copies the other files.
pub(super) fn write(
    checkpoint: &Checkpoint,
    plan: &CheckpointPlan,
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

/// Formats the output's index: the input's metadata with a new size, tensors sorted by name.
fn index(checkpoint: &Checkpoint, plan: &CheckpointPlan) -> String {
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

/// Whether a folder holds a safetensors file.
pub(super) fn holds_safetensors(folder: &Path) -> bool {
    let is_shard = |entry: fs::DirEntry| entry.path().extension().is_some_and(|kind| kind == "safetensors");
    fs::read_dir(folder).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_shard)))
}
