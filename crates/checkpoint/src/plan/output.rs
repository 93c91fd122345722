//! Output shards: names, offsets and the header.

use std::collections::BTreeMap;

use safetensors::Dtype;
use serde::Serialize;

use super::TensorTask;

/// A tensor of an output shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTensor {
    /// Full name.
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

/// A file to be written.
#[derive(Debug, Clone)]
pub struct OutputShard {
    /// Name inside the folder.
    pub name: String,
    /// Its tensors, in planning order.
    pub tensors: Vec<OutputTensor>,
    /// Size of the file.
    pub bytes: u64,
    pub(crate) header: Vec<u8>,
    pub(crate) tasks: Vec<TensorTask>,
}

/// Collects the tensors of a shard.
#[derive(Debug, Default)]
pub(super) struct ShardBuilder {
    tensors: Vec<OutputTensor>,
    tasks: Vec<TensorTask>,
}

#[derive(Serialize)]
struct Entry<'a> {
    dtype: String,
    shape: &'a [usize],
    data_offsets: [u64; 2],
}

impl ShardBuilder {
    /// Adds a tensor and returns its index.
    pub(super) fn tensor(&mut self, name: String, dtype: Dtype, shape: Vec<usize>) -> usize {
        let elements: u64 = shape.iter().map(|&side| side as u64).product();
        let bytes = elements * dtype.bitsize() as u64 / 8;
        self.tensors.push(OutputTensor { name, dtype, shape, offset: 0, bytes });
        self.tensors.len() - 1
    }

    pub(super) fn task(&mut self, task: TensorTask) {
        self.tasks.push(task);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Assigns offsets. Wide types come first, as in the reference implementation, so that all are aligned.
    pub(super) fn finish(mut self, name: String, metadata: &[(String, String)]) -> OutputShard {
        let mut order: Vec<usize> = (0..self.tensors.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.tensors[a], &self.tensors[b]);
            b.dtype.bitsize().cmp(&a.dtype.bitsize()).then_with(|| a.name.cmp(&b.name))
        });
        let metadata: BTreeMap<&str, &str> = match metadata {
            // transformers requires this entry.
            [] => [("format", "pt")].into(),
            given => given.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        };
        let mut text = format!("{{\"__metadata__\":{}", json(&metadata));
        let mut end = 0;
        for &at in &order {
            let tensor = &mut self.tensors[at];
            tensor.offset = end;
            end += tensor.bytes;
            let entry = Entry {
                dtype: format!("{:?}", tensor.dtype),
                shape: &tensor.shape,
                data_offsets: [tensor.offset, end],
            };
            text.push_str(&format!(",{}:{}", json(&tensor.name), json(&entry)));
        }
        text.push('}');
        while !text.len().is_multiple_of(8) {
            text.push(' ');
        }
        let mut header = (text.len() as u64).to_le_bytes().to_vec();
        header.extend_from_slice(text.as_bytes());
        let data_start = header.len() as u64;
        self.tensors.iter_mut().for_each(|tensor| tensor.offset += data_start);
        OutputShard { name, bytes: data_start + end, tensors: self.tensors, header, tasks: self.tasks }
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers can always be written as JSON")
}
