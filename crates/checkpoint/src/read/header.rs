//! The header of a safetensors file: eight bytes of length, then JSON.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    fs::File,
    path::{Path, PathBuf},
};

use safetensors::Dtype;
use serde::{
    Deserialize, Deserializer,
    de::{self, IntoDeserializer, MapAccess, Visitor},
};

use crate::{
    error::{CheckpointError, Result, WithPath},
    positioned::read_exact_at,
};

/// Longest accepted header, the same limit as in the reference implementation.
pub const HEADER_LIMIT: u64 = 100_000_000;

/// The tensors of a safetensors file, which cover its data without gaps or overlaps.
#[derive(Debug, Clone)]
pub struct Header {
    /// Sorted by offset.
    pub tensors: Vec<Tensor>,
    /// The `__metadata__` of the file.
    pub metadata: Vec<(String, String)>,
    /// Bytes before the data.
    pub data_start: u64,
}

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Full name, such as `model.layers.0.mlp.up_proj.weight`.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, outermost first.
    pub shape: Vec<usize>,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Tensor {
    /// Returns rows and columns if this is a matrix.
    pub fn matrix(&self) -> Option<(usize, usize)> {
        match self.shape[..] {
            [rows, cols] => Some((rows, cols)),
            _ => None,
        }
    }
}

impl Header {
    /// Reads and checks the header of a file of `size` bytes.
    pub fn read(path: &Path, file: &File, size: u64) -> Result<Self> {
        let foreign = |why| CheckpointError::NotSafetensors { path: path.to_owned(), why };
        if size < 8 {
            return Err(foreign("it has fewer than 8 bytes"));
        }
        let mut length = [0; 8];
        read_exact_at(file, &mut length, 0).reading(path)?;
        let length = u64::from_le_bytes(length);
        let mut first = [0];
        if size > 8 {
            read_exact_at(file, &mut first, 8).reading(path)?;
        }
        if size > 8 && first != *b"{" {
            return Err(foreign("no JSON header follows its first 8 bytes"));
        }
        if length > HEADER_LIMIT {
            let path = path.to_owned();
            return Err(CheckpointError::HeaderTooLong { path, bytes: length, limit: HEADER_LIMIT });
        }
        let data_start = 8 + length;
        if data_start > size {
            return Err(CheckpointError::WrongSize { path: path.to_owned(), size, expected: data_start });
        }
        // Allocate no more than the file really holds.
        let mut text = vec![0; length as usize];
        read_exact_at(file, &mut text, 8).reading(path)?;
        Parser { path: path.to_owned(), size, data_start }.parse(&text)
    }
}

struct Parser {
    path: PathBuf,
    size: u64,
    data_start: u64,
}

impl Parser {
    fn parse(&self, text: &[u8]) -> Result<Header> {
        let entries: Entries<'_> = serde_json::from_slice(text).map_err(|error| {
            CheckpointError::DamagedHeader { path: self.path.clone(), why: error.to_string() }
        })?;
        let mut tensors = Vec::with_capacity(entries.tensors.len());
        for (name, entry) in entries.tensors {
            tensors.push(self.tensor(name, entry)?);
        }
        self.require_unique(&mut tensors)?;
        tensors.sort_by_key(|tensor: &Tensor| (tensor.offset, tensor.bytes));
        self.require_cover(&tensors)?;
        Ok(Header { tensors, metadata: entries.metadata, data_start: self.data_start })
    }

    fn tensor(&self, name: String, entry: Entry<'_>) -> Result<Tensor> {
        let known = <&str as IntoDeserializer<de::value::Error>>::into_deserializer(&entry.dtype);
        let Ok(dtype) = Dtype::deserialize(known) else {
            return Err(CheckpointError::UnknownDtype {
                path: self.path.clone(),
                tensor: name,
                dtype: entry.dtype.into_owned(),
            });
        };
        let bad = |tensor: &str, why: String| CheckpointError::BadTensor {
            path: self.path.clone(),
            tensor: tensor.to_owned(),
            why,
        };
        let [begin, end] = entry.data_offsets;
        let data = self.size - self.data_start;
        if begin > end {
            return Err(bad(&name, format!("ends at byte {end}, before its start at {begin}")));
        }
        if end > data {
            let expected = self.data_start.saturating_add(end);
            return Err(CheckpointError::WrongSize { path: self.path.clone(), size: self.size, expected });
        }
        let elements = entry.shape.iter().try_fold(1u64, |product, &side| product.checked_mul(side as u64));
        let bits = elements.and_then(|elements| elements.checked_mul(dtype.bitsize() as u64));
        if bits != Some((end - begin).saturating_mul(8)) {
            let why = format!("has shape {:?} of {}, but {} bytes", entry.shape, entry.dtype, end - begin);
            return Err(bad(&name, why));
        }
        Ok(Tensor { name, dtype, shape: entry.shape, offset: self.data_start + begin, bytes: end - begin })
    }

    /// Rejects duplicate names by sorting; a set of names would double the memory.
    fn require_unique(&self, tensors: &mut [Tensor]) -> Result<()> {
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        let double = tensors.windows(2).find(|pair| matches!(pair, [a, b] if a.name == b.name));
        match double.and_then(|pair| pair.first()) {
            None => Ok(()),
            Some(Tensor { name, .. }) => {
                let why = format!("the name {name} occurs twice");
                Err(CheckpointError::DamagedHeader { path: self.path.clone(), why })
            }
        }
    }

    /// Requires the tensors, sorted by offset, to be contiguous from the header to the end of the file.
    fn require_cover(&self, tensors: &[Tensor]) -> Result<()> {
        let mut end = self.data_start;
        for tensor in tensors {
            if tensor.offset != end {
                let problem =
                    if tensor.offset < end { "overlaps the one before it" } else { "follows a gap" };
                return Err(CheckpointError::BadTensor {
                    path: self.path.clone(),
                    tensor: tensor.name.clone(),
                    why: problem.to_owned(),
                });
            }
            end += tensor.bytes;
        }
        if end != self.size {
            return Err(CheckpointError::WrongSize {
                path: self.path.clone(),
                size: self.size,
                expected: end,
            });
        }
        Ok(())
    }
}

/// JSON entry of a tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// The JSON header.
#[derive(Default)]
struct Entries<'a> {
    tensors: Vec<(String, Entry<'a>)>,
    metadata: Vec<(String, String)>,
}

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object of tensors")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Entries<'de>, M::Error> {
                let mut entries = Entries::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        let metadata: BTreeMap<String, String> = map.next_value()?;
                        entries.metadata = metadata.into_iter().collect();
                    } else {
                        entries.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Each)
    }
}
