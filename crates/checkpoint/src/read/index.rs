//! `model.safetensors.index.json`: which shard holds which tensor.

use std::{
    collections::{BTreeMap, HashSet},
    fmt, fs,
    path::{Component, Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::json_text;
use crate::error::{CheckpointError, Result, WithPath};

/// A parsed index.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Path of the index.
    pub path: PathBuf,
    /// Shard of every tensor, in file order.
    pub weight_map: Vec<(String, String)>,
    /// `metadata`, each value as its original text.
    pub metadata: Vec<(String, Box<RawValue>)>,
}

#[derive(Deserialize)]
struct Text {
    weight_map: WeightMap,
    metadata: Option<BTreeMap<String, Box<RawValue>>>,
}

impl Index {
    /// Finds the index of a folder, if it has one.
    pub fn find(folder: &Path) -> Result<Option<PathBuf>> {
        let mut found: Vec<String> = fs::read_dir(folder)
            .reading(folder)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".safetensors.index.json"))
            .collect();
        found.sort();
        if let Some(usual) = found.iter().find(|name| *name == "model.safetensors.index.json") {
            return Ok(Some(folder.join(usual)));
        }
        match &found[..] {
            [] => Ok(None),
            [only] => Ok(Some(folder.join(only))),
            [first, second, ..] => Err(CheckpointError::SeveralIndexes {
                path: folder.to_owned(),
                first: first.clone(),
                second: second.clone(),
            }),
        }
    }

    /// Reads an index.
    pub fn read(path: &Path) -> Result<Self> {
        let text: Text = serde_json::from_str(&json_text(path)?).map_err(|error| {
            CheckpointError::DamagedJson { path: path.to_owned(), why: error.to_string() }
        })?;
        let weight_map = text.weight_map.0;
        if let Some((_, shard)) = weight_map.iter().find(|(_, shard)| !is_plain_name(shard)) {
            return Err(CheckpointError::ShardOutside { path: path.to_owned(), shard: shard.clone() });
        }
        Ok(Self {
            path: path.to_owned(),
            weight_map,
            metadata: text.metadata.unwrap_or_default().into_iter().collect(),
        })
    }

    /// Returns each shard once, sorted by name.
    pub fn shards(&self) -> Vec<&str> {
        let mut shards: Vec<_> = self.weight_map.iter().map(|(_, shard)| shard.as_str()).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }
}

/// Whether this is a plain file name, without a path, on every operating system.
fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let is_single = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    is_single && !name.contains(['/', '\\', '\0', ':']) && name.ends_with(".safetensors")
}

/// A map that rejects duplicate names.
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = WeightMap;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of tensor names and files")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<WeightMap, M::Error> {
                let mut entries = Vec::new();
                let mut seen = HashSet::new();
                while let Some((name, shard)) = map.next_entry::<String, String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(de::Error::custom(format!("the name {name} occurs twice")));
                    }
                    entries.push((name, shard));
                }
                Ok(WeightMap(entries))
            }
        }
        deserializer.deserialize_map(Each)
    }
}
