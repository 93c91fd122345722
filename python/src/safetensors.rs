//! One layer out of a safetensors file, without reading the others.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use octile::Weight;
use pyo3::{PyErr, PyResult};
use safetensors::tensor::{Metadata, TensorInfo, TensorView};

use crate::error;

/// Longest header that is read, as in the reference implementation.
const LONGEST_HEADER: u64 = 100_000_000;

/// Reads the weight of the layer `name`.
pub(crate) fn load(path: &Path, name: &str) -> PyResult<Weight> {
    // A missing file is a FileNotFoundError, and so on.
    let cannot_read = |problem: io::Error| {
        PyErr::from(io::Error::new(problem.kind(), format!("cannot read {}: {problem}", path.display())))
    };
    let invalid =
        |problem: String| error::value(format!("{} is not a safetensors file: {problem}", path.display()));
    // Opening a pipe would wait for a writer.
    if !fs::metadata(path).map_err(cannot_read)?.is_file() {
        return Err(error::value(format!(
            "{} is not a regular file: pass a safetensors file",
            path.display()
        )));
    }
    let mut file = File::open(path).map_err(cannot_read)?;
    let file_len = file.metadata().map_err(cannot_read)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| invalid("it is shorter than 8 bytes".to_owned()))?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST_HEADER.min(file_len) {
        return Err(invalid(format!("its header would have {length} bytes")));
    }
    let mut header = Vec::new();
    (&mut file).take(length).read_to_end(&mut header).map_err(cannot_read)?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|problem| invalid(problem.to_string()))?;

    let mut layer = Vec::new();
    for suffix in ["weight", "weight_scale_inv", "weight_scale"] {
        let tensor = format!("{name}.{suffix}");
        let Some(info) = metadata.info(&tensor) else { continue };
        let Some((start, len)) = place(info, 8 + length, file_len) else {
            return Err(invalid(format!("tensor {tensor} is not inside the file: fetch it again")));
        };
        let mut data = Vec::new();
        file.seek(SeekFrom::Start(start)).map_err(cannot_read)?;
        (&mut file).take(len).read_to_end(&mut data).map_err(cannot_read)?;
        layer.push((tensor, info, data));
    }
    // The library reads files: give it one with this layer alone.
    let views = layer.iter().map(|(tensor, info, data)| {
        TensorView::new(info.dtype, info.shape.clone(), data).map(|view| (tensor, view))
    });
    let views = views.collect::<Result<Vec<_>, _>>().map_err(|problem| invalid(problem.to_string()))?;
    let file = safetensors::serialize(views, None).map_err(|problem| invalid(problem.to_string()))?;
    Weight::from_safetensors(&file, name).map_err(error::from_library)
}

/// First byte and length of a tensor, if it is inside the file.
fn place(info: &TensorInfo, data_start: u64, file_len: u64) -> Option<(u64, u64)> {
    let (begin, end) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
    let (start, len) = (data_start.checked_add(begin)?, end.checked_sub(begin)?);
    (start.checked_add(len)? <= file_len).then_some((start, len))
}
