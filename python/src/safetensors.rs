//! One layer out of a safetensors file, without reading the others.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use octile::Weight;
use pyo3::PyResult;
use safetensors::{Dtype, SafeTensors, View};

use crate::error;

/// Longest header that is read, as in the reference implementation.
const LONGEST_HEADER: u64 = 100_000_000;

/// A tensor in memory.
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Reads the weight of the layer `name`.
pub(crate) fn load(path: &Path, name: &str) -> PyResult<Weight> {
    let cannot_read = |problem: io::Error| error::value(format!("cannot read {}: {problem}", path.display()));
    let invalid =
        |problem: String| error::value(format!("{} is not a safetensors file: {problem}", path.display()));
    let mut file = File::open(path).map_err(cannot_read)?;
    let file_len = file.metadata().map_err(cannot_read)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| invalid("it is shorter than 8 bytes".to_owned()))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER.min(file_len) {
        return Err(invalid(format!("its header would have {length} bytes")));
    }
    let mut header = length.to_le_bytes().to_vec();
    (&mut file).take(length).read_to_end(&mut header).map_err(cannot_read)?;
    let (_, metadata) =
        SafeTensors::read_metadata(&header).map_err(|problem| invalid(problem.to_string()))?;

    let mut tensors = Vec::new();
    for suffix in ["weight", "weight_scale_inv", "weight_scale"] {
        let tensor_name = format!("{name}.{suffix}");
        let Some(info) = metadata.info(&tensor_name) else { continue };
        let (begin, end) = info.data_offsets;
        let (begin, bytes) = (begin as u64, (end - begin) as u64);
        let start = 8 + length + begin;
        if file_len < start + bytes {
            return Err(invalid(format!("tensor {tensor_name} ends after the file: fetch the file again")));
        }
        let mut tensor = Tensor {
            dtype: info.dtype,
            shape: info.shape.clone(),
            bytes: Vec::with_capacity(end - info.data_offsets.0),
        };
        file.seek(SeekFrom::Start(start)).map_err(cannot_read)?;
        (&mut file).take(bytes).read_to_end(&mut tensor.bytes).map_err(cannot_read)?;
        tensors.push((tensor_name, tensor));
    }
    let views = tensors.iter().map(|(name, tensor)| (name, tensor));
    let layer = safetensors::serialize(views, None).map_err(|problem| invalid(problem.to_string()))?;
    drop(tensors);
    Weight::from_safetensors(&layer, name).map_err(error::from_library)
}
