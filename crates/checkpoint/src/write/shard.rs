//! One shard of the output, written by several threads.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::{block::Scratch, journal::Finished, unit::Unit};
use crate::{
    Checkpoint, OutputShard, ShardFile,
    error::{Result, WithPath},
    matrix::bytes_of,
    plan::TensorTask,
    positioned::write_all_at,
};

/// A range that was written, and its checksum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    offset: u64,
    bytes: u64,
    crc32: u32,
}

/// Bytes of input that a shard is made from.
pub(super) fn input_bytes(checkpoint: &Checkpoint, shard: &OutputShard) -> u64 {
    let of = |task: &TensorTask| match task {
        TensorTask::Copy { from, .. } | TensorTask::Scales { from, .. } => checkpoint.tensor(*from).bytes,
        TensorTask::Quantize { from, .. }
        | TensorTask::Dequantize { from, .. }
        | TensorTask::Requantize { from, .. } => (from.rows * from.cols * from.dtype.bitsize() / 8) as u64,
    };
    shard.tasks.iter().map(of).sum()
}

/// Opens the input shards that the tasks read.
fn inputs(checkpoint: &Checkpoint, shard: &OutputShard) -> Result<BTreeMap<usize, ShardFile>> {
    let mut files = BTreeMap::new();
    for task in &shard.tasks {
        let used: [Option<usize>; 2] = match task {
            TensorTask::Copy { from, .. } | TensorTask::Scales { from, .. } => [Some(from.shard), None],
            TensorTask::Quantize { from, .. } => [Some(from.shard), None],
            TensorTask::Dequantize { from, scales, .. } => [Some(from.shard), Some(scales.shard)],
            TensorTask::Requantize { from, from_scales, .. } => [Some(from.shard), Some(from_scales.shard)],
        };
        for at in used.into_iter().flatten() {
            if let Entry::Vacant(place) = files.entry(at) {
                place.insert(checkpoint.shards()[at].open()?);
            }
        }
    }
    Ok(files)
}

/// Name of an incomplete shard.
fn partial(shard: &OutputShard) -> String {
    format!("{}.part", shard.name)
}

/// Combines the checksums of pieces, which must cover the whole file.
fn checksum(mut pieces: Vec<Piece>, bytes: u64) -> u32 {
    pieces.sort_by_key(|piece| piece.offset);
    let mut whole = crc32fast::Hasher::new();
    let mut end = 0;
    for piece in pieces {
        assert_eq!(piece.offset, end, "every byte of a shard is written once");
        end += piece.bytes;
        whole.combine(&crc32fast::Hasher::new_with_initial_len(piece.crc32, piece.bytes));
    }
    assert_eq!(end, bytes, "every byte of a shard is written");
    whole.finalize()
}

/// Writes one shard, from any number of threads.
pub(super) struct Writer<'a> {
    pub checkpoint: &'a Checkpoint,
    pub shard: &'a OutputShard,
    inputs: BTreeMap<usize, ShardFile>,
    file: File,
    folder: PathBuf,
    /// Name that errors report.
    name: PathBuf,
}

impl<'a> Writer<'a> {
    /// Creates the file in `folder` and writes its header.
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        shard: &'a OutputShard,
        folder: &Path,
    ) -> Result<(Self, Piece)> {
        let name = PathBuf::from(&shard.name);
        let file = File::create(folder.join(partial(shard))).writing(&name)?;
        file.set_len(shard.bytes).writing(&name)?;
        let inputs = inputs(checkpoint, shard)?;
        let writer = Self { checkpoint, shard, inputs, file, folder: folder.to_owned(), name };
        let header = writer.put(0, &shard.header)?;
        Ok((writer, header))
    }

    /// Renames the complete file to its final name.
    pub(super) fn finish(&self, pieces: Vec<Piece>) -> Result<Finished> {
        let crc32 = checksum(pieces, self.shard.bytes);
        fs::rename(self.folder.join(partial(self.shard)), self.folder.join(&self.name))
            .writing(&self.name)?;
        Ok(Finished { shard: self.shard.name.clone(), bytes: self.shard.bytes, crc32 })
    }

    /// Executes a unit. Returns the pieces written, and the bytes read.
    pub(super) fn unit(&self, unit: &Unit, scratch: &mut Scratch) -> Result<(Vec<Piece>, usize)> {
        match unit {
            Unit::Bytes { task, range } => {
                let TensorTask::Copy { from, to } = &self.shard.tasks[*task] else {
                    unreachable!("this unit copies bytes")
                };
                let length = (range.end - range.start) as usize;
                let bytes = bytes_of(&mut scratch.input, length);
                self.input(from.shard).read_at(bytes, self.checkpoint.tensor(*from).offset + range.start)?;
                Ok((vec![self.put_in(*to, range.start, bytes)?], length))
            }
            Unit::Scales { task, range } => {
                self.copy_scales(&self.shard.tasks[*task], range.clone(), scratch)
            }
            Unit::Blocks { task, rows, cols } => {
                self.blocks(&self.shard.tasks[*task], rows.clone(), cols.clone(), scratch)
            }
        }
    }

    pub(super) fn input(&self, shard: usize) -> &ShardFile {
        &self.inputs[&shard]
    }

    /// Writes bytes at an offset within a tensor.
    pub(super) fn put_in(&self, tensor: usize, offset: u64, bytes: &[u8]) -> Result<Piece> {
        self.put(self.shard.tensors[tensor].offset + offset, bytes)
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> Result<Piece> {
        write_all_at(&self.file, bytes, offset).writing(&self.name)?;
        Ok(Piece { offset, bytes: bytes.len() as u64, crc32: crc32fast::hash(bytes) })
    }
}
