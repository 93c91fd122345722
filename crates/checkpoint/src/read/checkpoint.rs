//! Opening a checkpoint: the shards of a folder, or one file.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use super::{Config, HEADER_LIMIT, Index, Shard, Tensor};
use crate::error::{CheckpointError, Result, WithPath};

/// Limit on the headers of all shards together, which bounds memory.
const HEADERS_LIMIT: u64 = HEADER_LIMIT;

/// Identifies a tensor of a checkpoint by shard and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId {
    /// Index into [`Checkpoint::shards`].
    pub shard: usize,
    /// Index into the tensors of that shard.
    pub tensor: usize,
}

/// Shards with validated headers, and the config and index beside them.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    path: PathBuf,
    is_folder: bool,
    shards: Vec<Shard>,
    by_name: HashMap<String, TensorId>,
    index: Option<Index>,
    config: Option<Config>,
}

/// The readable part of a checkpoint, and every fault in its files.
#[derive(Debug)]
pub struct Survey {
    /// The readable part.
    pub checkpoint: Checkpoint,
    /// Unreadable files and contradictions.
    pub faults: Vec<CheckpointError>,
}

impl Checkpoint {
    /// Opens a folder in the Hugging Face layout, or one safetensors file. Anything wrong is an error.
    ///
    /// ```no_run
    /// let checkpoint = octile_checkpoint::Checkpoint::open("Qwen3-0.6B".as_ref())?;
    /// for (_, tensor) in checkpoint.tensors() {
    ///     println!("{} {:?} {:?}", tensor.name, tensor.dtype, tensor.shape);
    /// }
    /// # Ok::<(), octile_checkpoint::CheckpointError>(())
    /// ```
    pub fn open(path: &Path) -> Result<Self> {
        let survey = Self::survey(path)?;
        match survey.faults.into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(survey.checkpoint),
        }
    }

    /// Opens as much as can be read, and lists every fault. Fails only if there is nothing to read.
    pub fn survey(path: &Path) -> Result<Survey> {
        let kind = fs::metadata(path).reading(path)?;
        if kind.is_dir() {
            Self::survey_folder(path)
        } else if kind.is_file() {
            let mut surveyor = Surveyor::default();
            surveyor.shard(path);
            Ok(surveyor.finish(path, false, None, None))
        } else {
            Err(CheckpointError::NotACheckpoint { path: path.to_owned() })
        }
    }

    fn survey_folder(folder: &Path) -> Result<Survey> {
        let mut surveyor = Surveyor::default();
        let index = match Index::find(folder)? {
            Some(path) => surveyor.note(Index::read(&path)),
            None => None,
        };
        let config = folder.join("config.json");
        let config = match config.exists() {
            true => surveyor.note(Config::read(&config)),
            false => None,
        };
        match &index {
            Some(index) => {
                for name in index.shards() {
                    let path = folder.join(name);
                    if path.exists() {
                        surveyor.shard(&path);
                    }
                }
            }
            None => {
                let mut names: Vec<_> = fs::read_dir(folder)
                    .reading(folder)?
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"))
                    .collect();
                names.sort();
                if names.is_empty() && surveyor.faults.is_empty() {
                    return Err(CheckpointError::NoShards { path: folder.to_owned() });
                }
                names.iter().for_each(|path| surveyor.shard(path));
                surveyor.faults.extend(missing_members(folder, &names));
            }
        }
        Ok(surveyor.finish(folder, true, index, config))
    }

    /// The folder or file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is a folder rather than a single file.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// The files that hold tensors, sorted by name.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The index, if there is one.
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// The `config.json`, if there is one.
    pub fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    /// Every tensor, by shard and file offset.
    pub fn tensors(&self) -> impl Iterator<Item = (TensorId, &Tensor)> {
        self.shards.iter().enumerate().flat_map(|(shard, found)| {
            let tensors = found.header.tensors.iter().enumerate();
            tensors.map(move |(tensor, found)| (TensorId { shard, tensor }, found))
        })
    }

    /// Returns a tensor by its id.
    ///
    /// # Panics
    /// If the id belongs to another checkpoint.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.shards[id.shard].header.tensors[id.tensor]
    }

    /// Finds a tensor by name.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        self.by_name.get(name).copied()
    }
}

/// Collects shards and faults.
#[derive(Default)]
struct Surveyor {
    shards: Vec<Shard>,
    by_name: HashMap<String, TensorId>,
    header_bytes: u64,
    faults: Vec<CheckpointError>,
}

impl Surveyor {
    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|fault| self.faults.push(fault)).ok()
    }

    fn shard(&mut self, path: &Path) {
        let Some(shard) = self.note(Shard::read(path)) else { return };
        self.header_bytes += shard.header.data_start;
        if self.header_bytes > HEADERS_LIMIT {
            let (path, bytes) = (path.to_owned(), self.header_bytes);
            self.faults.push(CheckpointError::HeaderTooLong { path, bytes, limit: HEADERS_LIMIT });
            return;
        }
        let at = self.shards.len();
        for (place, tensor) in shard.header.tensors.iter().enumerate() {
            let id = TensorId { shard: at, tensor: place };
            if let Some(first) = self.by_name.get(&tensor.name).copied() {
                self.faults.push(CheckpointError::DuplicateTensor {
                    tensor: tensor.name.clone(),
                    first: self.shards.get(first.shard).unwrap_or(&shard).name.clone(),
                    second: shard.name.clone(),
                });
            } else {
                self.by_name.insert(tensor.name.clone(), id);
            }
        }
        self.shards.push(shard);
    }

    fn holds(&self, shard: usize, tensor: &str) -> bool {
        match self.by_name.get(tensor) {
            None => false,
            Some(id) if id.shard == shard => true,
            // Also where the name occurs in another shard too, which is a fault of its own.
            Some(_) => self.shards[shard].header.tensors.iter().any(|found| found.name == tensor),
        }
    }

    /// Compares the index with the shards.
    fn compare(&mut self, index: &Index) {
        let mut missing = HashSet::new();
        let by_shard: HashMap<&str, usize> =
            self.shards.iter().enumerate().map(|(at, shard)| (shard.name.as_str(), at)).collect();
        let mut listed = HashSet::new();
        let mut faults = Vec::new();
        for (tensor, shard) in &index.weight_map {
            listed.insert(tensor.as_str());
            let (path, tensor, name) = (index.path.clone(), tensor.clone(), shard.clone());
            match by_shard.get(shard.as_str()) {
                None if index.path.with_file_name(shard).exists() => {} // Its own fault is already recorded.
                None if missing.insert(shard) => {
                    faults.push(CheckpointError::MissingShard { path, tensor, shard: name });
                }
                None => {}
                Some(at) if !self.holds(*at, &tensor) => {
                    faults.push(CheckpointError::MissingTensor { path, tensor, shard: name });
                }
                Some(_) => {}
            }
        }
        for shard in &self.shards {
            let unlisted = shard.header.tensors.iter().find(|tensor| !listed.contains(tensor.name.as_str()));
            if let Some(tensor) = unlisted {
                let (path, tensor) = (index.path.clone(), tensor.name.clone());
                faults.push(CheckpointError::UnlistedTensor { path, tensor, shard: shard.name.clone() });
            }
        }
        self.faults.append(&mut faults);
    }

    fn finish(
        mut self,
        path: &Path,
        is_folder: bool,
        index: Option<Index>,
        config: Option<Config>,
    ) -> Survey {
        if let Some(index) = &index {
            self.compare(index);
        }
        let checkpoint = Checkpoint {
            path: path.to_owned(),
            is_folder,
            shards: self.shards,
            by_name: self.by_name,
            index,
            config,
        };
        Survey { checkpoint, faults: self.faults }
    }
}

/// Finds the gaps in shards that are numbered `NAME-00001-of-00003.safetensors`, one fault per set.
fn missing_members(folder: &Path, files: &[PathBuf]) -> Vec<CheckpointError> {
    let mut sets: BTreeMap<(&str, usize), Members> = BTreeMap::new();
    for name in files.iter().filter_map(|path| path.file_name()?.to_str()) {
        if let Some((base, number, width, count)) = member(name) {
            let members =
                sets.entry((base, count)).or_insert_with(|| Members { width, found: HashSet::new() });
            members.found.insert(number);
        }
    }
    let gap = |((base, count), Members { width, found }): ((&str, usize), Members)| {
        // Numbers start at 1, rarely at 0.
        let start = usize::from(!found.contains(&0));
        let number = (start..start + count).find(|number| !found.contains(number))?;
        let shard = format!("{base}-{number:0width$}-of-{count:0width$}.safetensors");
        Some(CheckpointError::MissingMember { path: folder.to_owned(), shard, count })
    };
    sets.into_iter().filter_map(gap).collect()
}

/// Members of a set of shards.
struct Members {
    /// Digits of a number.
    width: usize,
    found: HashSet<usize>,
}

/// Parses `NAME-00001-of-00003.safetensors` into name, number, digits and count.
fn member(name: &str) -> Option<(&str, usize, usize, usize)> {
    let (rest, count) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (base, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(number) || !is_number(count) {
        return None;
    }
    Some((base, number.parse().ok()?, number.len(), count.parse().ok()?))
}
